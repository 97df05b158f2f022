"""`bpc why` as it is used: on a bundle, on an input, for a value and for a missing one."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from bpc.core.passport.bundle import Bundle, read_bundle, write_bundle
from tests.cli.program import Program

FIRST = Path(__file__).parents[3] / "examples" / "first"
FIELD = "battery.capacity_kwh"


@pytest.fixture
def bundle(bpc: Program, tmp_path: Path) -> Path:
    bpc.run_ok("keygen", "--out", tmp_path / "k.key")
    arguments = ("compile", FIRST / "input.json", "--rules", FIRST / "rules.bpc", "--out", tmp_path / "out")
    bpc.run_ok(*arguments, "--key", tmp_path / "k.key")
    return tmp_path / "out" / "bundle.zip"


def test_a_bundle_tells_how_a_field_came_to_its_value(bpc: Program, bundle: Path) -> None:
    explanation = bpc.run_ok("why", bundle, FIELD).out

    assert explanation.startswith(f"{FIELD} is 75.500000 (Dec(6))   rules.bpc:")
    assert "the Battery fact battery:SKU-123, line 1 of the facts" in explanation


def test_the_steps_are_drawn(bpc: Program, bundle: Path, tmp_path: Path) -> None:
    ended = bpc.run_ok("why", bundle, FIELD, "--picture", tmp_path / "proof.svg")

    picture = ET.parse(tmp_path / "proof.svg")
    words = [element.text or "" for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert (
        ended.out == f"wrote {tmp_path / 'proof.svg'}: {len(bpc.run_ok('why', bundle, FIELD).out.splitlines())} steps\n"
    )
    assert f"{FIELD} is 75.500000 (Dec(6))" in words
    assert "the Battery fact battery:SKU-123, line 1 of the facts" in words


def test_programs_get_a_tree(bpc: Program, bundle: Path) -> None:
    assert set(bpc.run_ok("why", bundle, FIELD, "--json").json()) == {"says", "place", "because"}


def test_an_input_that_fails_tells_why_not_and_exits_1(bpc: Program, tmp_path: Path) -> None:
    document = json.loads((FIRST / "input.json").read_text())
    document["facts"] = [fact for fact in document["facts"] if fact["fact_type"] != "PCF"]
    (tmp_path / "input.json").write_text(json.dumps(document))

    arguments = ("why", tmp_path / "input.json", "sustainability.pcf_gco2e_per_kwh", "--rules", FIRST / "rules.bpc")
    ended = bpc.run(*arguments)

    assert ended.code == 1
    assert "has no value: E010: pcf missing" in ended.out
    assert "there is no PCF fact pcf:SKU-123" in ended.out


def test_an_input_as_small_as_for_eval_is_enough_and_its_facts_are_counted_as_written(
    bpc: Program, tmp_path: Path
) -> None:
    facts = [
        {"fact_type": "PCF", "fact_key": "pcf:SKU-123", "payload": {}},
        {"fact_type": "Battery", "fact_key": "battery:SKU-123", "payload": {"capacity_kwh": 2}},
    ]
    (tmp_path / "input.json").write_text(json.dumps({"facts": facts}))

    explanation = bpc.run_ok("why", tmp_path / "input.json", FIELD, "--rules", FIRST / "rules.bpc").out

    assert "the Battery fact battery:SKU-123, fact 2 of the input" in explanation


def test_a_mistyped_field_is_suggested(bpc: Program, bundle: Path) -> None:
    ended = bpc.run("why", bundle, "battery.capacity_kw")

    assert (ended.code, ended.err.split(":")[0]) == (1, "NOT_FOUND")
    assert f"did you mean `{FIELD}`?" in ended.err


def test_a_bundle_that_says_something_else_than_its_rules_is_not_explained(bpc: Program, bundle: Path) -> None:
    entries = dict(read_bundle(bundle.read_bytes()).entries)
    entries["payload.json"] = entries["payload.json"].replace(b"75.500000", b"95.500000")
    bundle.write_bytes(write_bundle(Bundle(entries)))

    ended = bpc.run("why", bundle, FIELD)

    assert (ended.code, ended.err.split(":")[0]) == (1, "CONFLICT")
    assert "bpc verify" in ended.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("{first}/input.json", FIELD), "is not a bundle"),
        (("{bundle}", FIELD, "--rules", "{first}/rules.bpc"), "a bundle already contains its rules"),
        (("/no/such/file", FIELD), "cannot be read"),
    ],
)
def test_mistakes_say_what_to_do(bpc: Program, bundle: Path, arguments: tuple[str, ...], says: str) -> None:
    ended = bpc.run("why", *(argument.format(first=FIRST, bundle=bundle) for argument in arguments))

    assert ended.code == 1
    assert ended.err.startswith("VALIDATION_ERROR: ")
    assert says in ended.err


def test_a_finding_of_a_bundle_is_explained_by_its_code(bpc: Program, tmp_path: Path) -> None:
    document = json.loads((FIRST / "input.json").read_text())
    members = {"sku": "SKU-123", "code": "MASS", "severity": "error", "message": "the mass is 0", "points": [10]}
    about = {"fact_type": "Battery", "fact_key": "battery:SKU-123", "members": ["capacity_kwh"]}
    document["facts"].append(
        {
            "fact_type": "Finding",
            "fact_key": "finding:SKU-123:MASS:0001",
            "schema_version": 1,
            "payload": {**members, **about},
        }
    )
    (tmp_path / "input.json").write_text(json.dumps(document))
    bpc.run_ok("keygen", "--out", tmp_path / "k.key")
    arguments = ("compile", tmp_path / "input.json", "--rules", FIRST / "rules.bpc", "--out", tmp_path / "out")
    bpc.run_ok(*arguments, "--key", tmp_path / "k.key")

    explanation = bpc.run_ok("why", tmp_path / "out" / "bundle.zip", "MASS").out
    tree = bpc.run_ok("why", tmp_path / "out" / "bundle.zip", "MASS", "--json").json()

    assert explanation.startswith("MASS (error): the mass is 0")
    assert "capacity_kwh of battery:SKU-123 is 75.5 kWh" in explanation
    assert [reason["says"] for reason in tree["findings"]] == ["MASS (error): the mass is 0"]
