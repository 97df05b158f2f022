"""Rules of level 1 for all data points tell the truth: what nobody said is absent, nothing passes without evidence.

Each piece of evidence is taken away in turn. A value may then be as before, or absent, or hold less; it is never
another one. A requirement that passed without that piece passed before as well.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from bpc.core.audit.signing import Signer
from bpc.core.documents.reader import DocumentFacts, read_document
from bpc.core.errors import Refusal
from bpc.core.exports.data_points import POINTS
from bpc.core.exports.disclosure import open_for_export
from bpc.core.exports.point_filling import export_data_points
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.language.evaluating.machine import Machine
from bpc.core.language.package import read_program
from bpc.core.passport.compile import compile_passport, issue_passport
from bpc.core.passport.compile_input import CompileInput, read_input
from tools import golden, reference_input

FOLDER = golden.EXAMPLES / "reference"
RULES = golden.GOLDEN / "reference-2"
DOCUMENTS = golden.EXAMPLES / "documents"
KINDS = {"bom.json": "BOM", "pcf.json": "PCF", "due-diligence.json": "DUE_DILIGENCE"}
HASH_OF_FILE = ("Attachment", "sha256")  # without it there is no passport
# Two parts of each place: what holds for them holds for three hundred.
PARTS_OF_A_PLACE = 2


@cache
def load_example() -> CompileInput:
    source, rules, tests = ((RULES / name).read_bytes() for name in golden.INPUTS)
    return read_input(source, rules=rules, tests=tests)


@cache
def make_machine() -> Machine:
    return Machine(read_program(load_example().rules))


def select_facts() -> list[SnapshotFact]:
    """The facts of the example, with a few of its parts."""
    counts: dict[str, int] = {}
    selected = []
    for fact in load_example().facts:
        if fact.fact_type == "Component":
            place = str(fact.payload["location"])
            counts[place] = counts.get(place, 0) + 1
            if counts[place] > PARTS_OF_A_PLACE:
                continue
        selected.append(fact)
    return selected


def compile_facts(facts: Sequence[SnapshotFact]) -> dict[str, Any]:
    compiled = compile_passport(replace(load_example(), facts=tuple(facts)), machine=make_machine())
    payload: dict[str, Any] = json.loads(compiled.payload)
    return payload


def list_members() -> list[tuple[str, str]]:
    """Every member of every type of fact that the example has evidence of."""
    pairs = {
        (fact.fact_type, member)
        for fact in load_example().facts
        if fact.fact_type != "Blinding"
        for member in fact.payload
    }
    return sorted(pairs - {HASH_OF_FILE})


def remove_member(
    facts: Sequence[SnapshotFact], fact_type: str, member: str, *, of_first_only: bool = False
) -> list[SnapshotFact]:
    """The facts without a member, of all facts of the type or of the first that has it."""
    holding = [fact for fact in facts if fact.fact_type == fact_type and member in fact.payload]
    silenced = holding[:1] if of_first_only else holding
    return [
        replace(fact, payload={name: value for name, value in fact.payload.items() if name != member})
        if fact in silenced
        else fact
        for fact in facts
    ]


def list_fields(payload: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for path in payload["access"]:
        value = payload["fields"]
        for name in path.split("."):
            value = value[name]
        yield path, value


def is_less(after: Any, before: Any) -> bool:
    """Whether a value is as before, or absent, or holds less and nothing else."""
    if after is None or after == before:
        return True
    if isinstance(after, dict) and isinstance(before, dict):
        return all(name in before and is_less(value, before[name]) for name, value in after.items())
    if isinstance(after, list) and isinstance(before, list):
        rest = iter(before)
        return all(any(is_less(item, candidate) for candidate in rest) for item in after)
    return False


def list_statuses(payload: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    return {(entry["code"], entry["field"]): entry["status"] for entry in payload["compliance"]}


def find_untruths(after: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[str]:
    """What a passport with less evidence says, and the one with all of it does not."""
    values = dict(list_fields(before))
    for path, value in list_fields(after):
        if not is_less(value, values[path]):
            yield f"{path} is {value}, and was {values[path]}"
    statuses = list_statuses(before)
    for what, status in list_statuses(after).items():
        if status in {"PASS", "NOT_APPLICABLE"} and statuses.get(what) != status:
            yield f"{what} is {status}, and was {statuses.get(what)}"


def test_the_complete_example_fails_nothing_and_leaves_nothing_unchecked() -> None:
    statuses = set(list_statuses(compile_facts(load_example().facts)).values())

    assert statuses == {"PASS", "NOT_APPLICABLE"}


@pytest.mark.slow
@pytest.mark.parametrize("of_first_only", [False, True], ids=["of every fact", "of one fact"])
def test_evidence_taken_away_never_makes_a_value_or_lets_anything_pass(of_first_only: bool) -> None:
    facts = select_facts()
    before = compile_facts(facts)
    untruths, changed = [], 0

    for fact_type, member in list_members():
        after = compile_facts(remove_member(facts, fact_type, member, of_first_only=of_first_only))
        untruths += [f"without {fact_type}.{member}: {untruth}" for untruth in find_untruths(after, before)]
        changed += after != before

    assert untruths == []
    assert changed >= 100


@pytest.mark.slow
def test_a_requirement_without_its_evidence_does_not_pass() -> None:
    facts = select_facts()
    before = compile_facts(facts)
    evidence: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for fact_type, member in list_members():
        after = list_statuses(compile_facts(remove_member(facts, fact_type, member)))
        for what, status in list_statuses(before).items():
            if status == "PASS" and after.get(what) != "PASS":
                evidence.setdefault(what, []).append((fact_type, member))

    # Each requirement that passes has a piece of evidence without which it does not.
    assert sorted(evidence) == sorted(what for what, status in list_statuses(before).items() if status == "PASS")


@pytest.mark.parametrize("fact_type", ["Component", "PCF", "DueDiligence", "Attachment"])
def test_all_facts_of_a_type_taken_away_make_no_value(fact_type: str) -> None:
    before = compile_facts(select_facts())

    after = compile_facts([fact for fact in select_facts() if fact.fact_type != fact_type])

    assert list(find_untruths(after, before)) == []


def test_a_battery_that_nobody_describes_has_no_values_and_passes_nothing() -> None:
    """A battery with a key and nothing else: no mercury, no recycled cobalt, no check that holds."""
    described = [replace(fact, payload={}) for fact in select_facts() if fact.fact_type == "Battery"]
    blinding = [fact for fact in select_facts() if fact.fact_type == "Blinding"]

    payload = compile_facts([*described, *blinding])

    known = {"general.issued_on", "general.name", "general.sku", "findings.errors", "findings.warnings"}
    assert {path for path, value in list_fields(payload) if value not in (None, [])} == known
    assert set(list_statuses(payload).values()) == {"FAIL", "WARN"}
    codes = {code for code, _ in list_statuses(payload)}
    mandatory = {f"DP{point.number:02d}" for point in POINTS if point.get_status("ev") == "M"}
    # Points 51 and 59 repeat 11 and 31.
    assert mandatory - codes == {"DP51", "DP59"}


def test_without_a_battery_there_is_no_passport() -> None:
    with pytest.raises(Refusal) as refusal:
        compile_facts([fact for fact in select_facts() if fact.fact_type != "Battery"])

    assert refusal.value.details["rule_code"] == "B000"


def test_a_file_without_a_hash_gives_no_passport() -> None:
    with pytest.raises(Refusal) as refusal:
        compile_facts(remove_member(select_facts(), *HASH_OF_FILE))

    assert refusal.value.details["rule_code"] == "F000"


def test_what_was_found_implausible_is_in_the_compliance() -> None:
    sku = load_example().product.sku
    findings = [
        SnapshotFact(
            fact_type="Finding",
            fact_key=f"finding:{sku}:{code}:1",
            schema_version=1,
            payload={"sku": sku, "code": code, "severity": severity, "message": message},
        )
        for code, severity, message in (
            ("RECYCLED_SUM", "error", "cobalt 0 + 6 is not 10"),
            ("VOLTAGE_ORDER", "error", "the voltages are not in order"),
            ("OLD_STUDY", "warning", "the study is old"),
            ("ROUNDED", "note", "a number was rounded"),
        )
    ]

    payload = compile_facts([*select_facts(), *findings])

    entries = {entry["code"]: entry for entry in payload["compliance"] if entry["code"].startswith("FINDING")}
    assert {code: (entry["status"], entry["message"]) for code, entry in entries.items()} == {
        "FINDING-ERROR": ("FAIL", "cobalt 0 + 6 is not 10; the voltages are not in order"),
        "FINDING-WARNING": ("WARN", "the study is old"),
    }


# The documents that are shipped


def read_facts(folder: Path) -> list[SnapshotFact]:
    facts = []
    for name, kind in KINDS.items():
        document = read_document(kind, "application/json", (folder / name).read_bytes())
        assert isinstance(document, DocumentFacts), document
        facts += [
            SnapshotFact(
                fact_type=fact.fact_type,
                fact_key=fact.fact_key,
                schema_version=fact.schema_version,
                payload=json.loads(fact.payload_canonical),
            )
            for fact in document.facts
        ]
    return facts


def test_the_documents_of_the_example_say_what_its_input_says() -> None:
    attached = ("Attachment", "Blinding")
    expected = compile_facts(load_example().facts)

    documents = read_facts(FOLDER / "documents")
    rest = [fact for fact in load_example().facts if fact.fact_type in attached]

    assert compile_facts([*documents, *rest])["fields"] == expected["fields"]


def test_the_documents_of_the_example_fill_every_mandatory_point() -> None:
    rest = [fact for fact in load_example().facts if fact.fact_type == "Blinding"]
    compile_input = replace(load_example(), facts=(*read_facts(FOLDER / "documents"), *rest))

    bundle = issue_passport(compile_input, compile_passport(compile_input), Signer(golden.SEED))
    points = json.loads(export_data_points(open_for_export(bundle), "tenant"))

    assert points["category"] == "ev"
    assert points["missing"] == []
    assert points["counts"]["M"] == {"filled": 51, "says": "mandatory", "total": 51}


def test_documents_that_say_little_compile_and_what_is_missing_fails() -> None:
    """The documents of the small battery are far from complete: their passport says so, point by point."""
    facts = read_facts(DOCUMENTS)
    product = replace(load_example().product, sku="SKU-1")

    compiled = compile_passport(replace(load_example(), product=product, facts=tuple(facts)), machine=make_machine())

    payload = json.loads(compiled.payload)
    fields = dict(list_fields(payload))
    assert fields["general.mass"] == {"unit": "kg", "value": "450.25"}
    assert fields["circularity.recycled.cobalt.total"] is None
    assert fields["materials.critical_declared"] == ["cobalt", "lithium", "natural graphite"]
    assert list_statuses(payload)["DP20", "circularity.recycled.cobalt.total"] == "FAIL"
    assert list_statuses(payload)["CHK-MERCURY", "checks.mercury"] == "WARN"


def test_every_file_of_the_example_is_what_its_generator_writes() -> None:
    for path, content in reference_input.list_files().items():
        assert path.read_bytes() == content, path


def test_each_attached_file_is_in_the_passport_by_its_hash() -> None:
    fields = dict(list_fields(compile_facts(load_example().facts)))
    entries = [entry for path, value in fields.items() if path.endswith("files") for entry in value]

    assert {entry["file_name"]: entry["sha256"] for entry in entries} == {
        str(payload["file_name"]): payload["sha256"] for _, payload in reference_input.generate_attachments()
    }
