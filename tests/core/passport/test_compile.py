"""Compile, BPC-COMPILE-1: one input, one set of bytes; whatever stands in the way is refused by name."""

import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from bpc.core.errors import Refusal
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.formats import canonical_json
from bpc.core.language.evaluating.machine import Machine
from bpc.core.language.evaluation import RuleFailure
from bpc.core.language.package import read_program
from bpc.core.passport.compile import MAX_LIMITS, ArtifactLimits, ArtifactTooLarge, CompiledPassport, compile_passport
from bpc.core.passport.compile_input import CompileInput, read_input
from bpc.core.passport.payload import Salts, make_blinding_fact
from bpc.core.passport.receipt import SIGNATURE_MEMBER_BYTES, read_receipt

FIRST = Path(__file__).parents[3] / "examples" / "first"
FIRST_INPUT = read_input(
    (FIRST / "input.json").read_bytes(),
    rules=(FIRST / "rules.bpc").read_bytes(),
    tests=(FIRST / "tests.bpc").read_bytes(),
)
BATTERY, PCF = FIRST_INPUT.facts
SECRET = make_blinding_fact(FIRST_INPUT.snapshot_id, bytes(range(32)))


def make_input(rules: str, **changes: Any) -> CompileInput:
    return replace(FIRST_INPUT, rules=rules.encode(), **changes)


def read_fields(compiled: CompiledPassport) -> Any:
    return json.loads(compiled.payload)["fields"]


def expect_refusal(compile_input: CompileInput, **options: Any) -> Refusal:
    with pytest.raises(Refusal) as error:
        compile_passport(compile_input, **options)
    return error.value


# What comes out


def test_the_first_example_says_what_it_should() -> None:
    assert read_fields(compile_passport(FIRST_INPUT)) == {
        "battery": {"capacity_kwh": "75.500000"},
        "sustainability": {"pcf_gco2e_per_kwh": "59602.65"},
    }


def test_the_payload_has_exactly_its_members() -> None:
    payload = json.loads(compile_passport(FIRST_INPUT).payload)
    del payload["fields"]

    assert payload == {
        "access": {"battery.capacity_kwh": ["public"], "sustainability.pcf_gco2e_per_kwh": ["public"]},
        "battery_product": {
            "battery_product_id": "16fd2706-8baf-433b-82eb-8c7fada847da",
            "name": "Pack 75",
            "sku": "SKU-123",
        },
        "compliance": [],
        "issued_at": "2027-02-18T00:00:00.000000Z",
        "passport_id": "1b4e28ba-2fa1-41d2-883f-0016d3cca427",
        "passport_version_id": "6fa459ea-ee8a-4ca4-894e-db77e160355e",
        "payload_version": "BPC-PASSPORT-1",
        "salt": Salts(None, FIRST_INPUT.passport_version_id).derive_payload_salt(),
    }


def test_every_artifact_is_canonical_and_the_receipt_pins_it() -> None:
    compiled = compile_passport(FIRST_INPUT)
    receipt = read_receipt(compiled.receipt)

    for artifact in (compiled.payload, compiled.proof, compiled.receipt, compiled.snapshot):
        assert canonical_json.encode(canonical_json.decode(artifact)) == artifact
    assert receipt.payload_hash == compiled.payload_hash == hashlib.sha256(compiled.payload).digest()
    assert receipt.snapshot_hash == compiled.snapshot_hash == hashlib.sha256(compiled.snapshot).digest()
    assert receipt.proof_root_hash == compiled.proof_root_hash
    assert json.loads(compiled.proof)["root_hash"] == compiled.proof_root_hash.hex()
    assert receipt.dsl_sha256 == hashlib.sha256(FIRST_INPUT.rules).digest()
    assert receipt.tests_sha256 == hashlib.sha256(FIRST_INPUT.tests).digest()
    assert receipt.hash() == compiled.receipt_hash == hashlib.sha256(compiled.receipt).digest()
    assert receipt.signature is None


def test_ids_and_names_of_the_input_are_in_the_receipt() -> None:
    receipt = read_receipt(compile_passport(FIRST_INPUT).receipt)

    for name in ("tenant_id", "passport_id", "passport_version_id", "snapshot_id", "rule_package_version_id"):
        assert getattr(receipt, name) == getattr(FIRST_INPUT, name)
    assert receipt.battery_product_id == FIRST_INPUT.product.battery_product_id
    assert (receipt.issued_at, receipt.compiler_build_id, receipt.signing_key_id) == (
        FIRST_INPUT.issued_at,
        "bpc-example",
        "example-key",
    )


def test_fields_nest_by_their_paths() -> None:
    rules = "field a.b.c : Int = 1; field a.b.d @public : Int = 2; field a.e : Int = 3; field f : Int = 4;"

    compiled = compile_passport(make_input(rules))

    assert read_fields(compiled) == {"a": {"b": {"c": 1, "d": 2}, "e": 3}, "f": 4}
    assert json.loads(compiled.payload)["access"] == {"a.b.c": [], "a.b.d": ["public"], "a.e": [], "f": []}


def test_audiences_are_sorted_however_they_are_written() -> None:
    compiled = compile_passport(make_input("field a @public @interest @authority : Int = 1;"))

    assert json.loads(compiled.payload)["access"] == {"a": ["authority", "interest", "public"]}


def test_compliance_entries_stand_in_the_order_of_evaluation() -> None:
    rules = """
        field b : Bool = emitCompliance("C-B", "WARN", "second");
        field a : Bool = emitCompliance("C-A", "FAIL", concat("first ", productName()));
    """

    payload = json.loads(compile_passport(make_input(rules)).payload)

    assert payload["fields"] == {"a": False, "b": True}
    assert payload["compliance"] == [
        {"code": "C-A", "field": "a", "message": "first Pack 75", "status": "FAIL"},
        {"code": "C-B", "field": "b", "message": "second", "status": "WARN"},
    ]


def test_rules_read_the_product_and_the_day_of_issue() -> None:
    rules = "field sku : Text = productSku(); field name : Text = productName(); field on : Date = issuedOn();"

    assert read_fields(compile_passport(make_input(rules))) == {"name": "Pack 75", "on": "2027-02-18", "sku": "SKU-123"}


def test_the_day_of_issue_is_that_of_utc() -> None:
    late = datetime(2027, 2, 18, 23, 30, tzinfo=timezone(timedelta(hours=-2)))

    compiled = compile_passport(make_input("field on : Date = issuedOn();", issued_at=late))

    assert read_fields(compiled) == {"on": "2027-02-19"}
    assert json.loads(compiled.payload)["issued_at"] == "2027-02-19T01:30:00.000000Z"


def test_a_package_without_fields_makes_an_empty_passport() -> None:
    compiled = compile_passport(make_input("-- nothing yet\n", facts=()))

    assert read_fields(compiled) == {}
    assert compiled.facts == b""
    assert len(json.loads(compiled.proof)["nodes"]) == 1


# What does not matter, and what does


def test_the_order_of_the_facts_does_not_matter() -> None:
    expected = compile_passport(FIRST_INPUT)

    for facts in permutations((BATTERY, PCF)):
        assert compile_passport(replace(FIRST_INPUT, facts=facts)) == expected


def test_a_machine_made_before_gives_the_same() -> None:
    machine = Machine(read_program(FIRST_INPUT.rules))

    assert compile_passport(FIRST_INPUT, machine=machine) == compile_passport(FIRST_INPUT)


def test_a_machine_of_other_rules_is_not_used() -> None:
    machine = Machine(read_program(FIRST_INPUT.rules + b"-- later\n"))

    with pytest.raises(ValueError, match="other rules"):
        compile_passport(FIRST_INPUT, machine=machine)


def test_tests_are_hashed_and_not_run() -> None:
    compiled = compile_passport(replace(FIRST_INPUT, tests=b"this is no test"))

    assert read_receipt(compiled.receipt).tests_sha256 == hashlib.sha256(b"this is no test").digest()
    assert compiled.payload == compile_passport(FIRST_INPUT).payload


def test_the_tests_of_another_package_change_only_the_receipt() -> None:
    one, other = compile_passport(FIRST_INPUT), compile_passport(replace(FIRST_INPUT, tests=b""))

    assert (one.payload, one.proof, one.snapshot) == (other.payload, other.proof, other.snapshot)
    assert one.receipt_hash != other.receipt_hash


def test_a_fact_that_no_rule_names_is_in_the_snapshot_and_in_nothing_a_rule_sees() -> None:
    odd = SnapshotFact(fact_type="Mystery", fact_key="m", schema_version=9, payload={"x": [1]})

    compiled, plain = (
        compile_passport(replace(FIRST_INPUT, facts=(*FIRST_INPUT.facts, odd))),
        compile_passport(FIRST_INPUT),
    )

    assert compiled.payload == plain.payload
    assert compiled.snapshot_hash != plain.snapshot_hash
    assert b'"Mystery"' in compiled.facts


# Blinding


def test_the_snapshots_secret_salts_the_passport() -> None:
    compiled = compile_passport(replace(FIRST_INPUT, facts=(*FIRST_INPUT.facts, SECRET)))
    salts = Salts(bytes(range(32)), FIRST_INPUT.passport_version_id)

    assert json.loads(compiled.payload)["salt"] == salts.derive_payload_salt()
    field_node = json.loads(compiled.proof)["nodes"][0]
    assert field_node["data"]["salt"] == salts.derive_field_salts("battery.capacity_kwh")[0]
    assert read_fields(compiled) == read_fields(compile_passport(FIRST_INPUT))


def test_a_malformed_secret_is_refused() -> None:
    error = expect_refusal(replace(FIRST_INPUT, facts=(*FIRST_INPUT.facts, replace(SECRET, payload={"key": "short"}))))

    assert error.code == "VALIDATION_ERROR"
    assert SECRET.fact_key in error.says


def test_rules_cannot_name_the_secret() -> None:
    error = expect_refusal(make_input('field a : Bool = isSome(getFact("Blinding", "x"));'))

    assert error.code == "RULE_TYPE_ERROR"


# What is refused


def test_two_facts_of_one_type_and_key_are_refused() -> None:
    error = expect_refusal(replace(FIRST_INPUT, facts=(BATTERY, PCF, replace(BATTERY, payload={"capacity_kwh": "80"}))))

    assert error.code == "VALIDATION_ERROR"
    assert error.details == {"fact_type": "Battery", "fact_key": "battery:SKU-123"}


def test_a_fact_that_does_not_fit_its_schema_is_named() -> None:
    error = expect_refusal(replace(FIRST_INPUT, facts=(replace(BATTERY, payload={"capacity_kwh": "much"}), PCF)))

    assert error.code == "VALIDATION_ERROR"
    assert error.details == {"fact_type": "Battery", "fact_key": "battery:SKU-123", "member": "capacity_kwh"}


def test_every_problem_of_the_input_is_reported_at_once() -> None:
    wrong_battery = replace(BATTERY, payload={"capacity_kwh": "much"})
    wrong_pcf = replace(PCF, payload={next(iter(PCF.payload)): []})

    error = expect_refusal(replace(FIRST_INPUT, facts=(wrong_pcf, BATTERY, wrong_battery)))

    assert error.code == "VALIDATION_ERROR"
    assert error.says == "there are two facts `battery:SKU-123` of type Battery"
    problems: Any = error.details["problems"]
    assert [(problem["code"], problem["fact_key"]) for problem in problems] == [
        ("VALIDATION_ERROR", "battery:SKU-123"),
        ("VALIDATION_ERROR", PCF.fact_key),
    ]
    assert [problem["member"] for problem in problems] == ["capacity_kwh", next(iter(PCF.payload))]
    assert problems[0]["message"].startswith("fact `battery:SKU-123` (Battery): `capacity_kwh` ")


def test_wrong_rules_and_wrong_facts_are_reported_together() -> None:
    error = expect_refusal(make_input("field a : Int = ;", facts=(BATTERY, BATTERY)))

    assert error.code == "VALIDATION_ERROR"
    problems: Any = error.details["problems"]
    assert [problem["code"] for problem in problems] == ["RULE_PARSE_ERROR"]


def test_every_artifact_above_its_limit_is_reported() -> None:
    error = expect_refusal(FIRST_INPUT, limits=ArtifactLimits(payload=1, proof=1, receipt=1))

    assert error.code == "PAYLOAD_TOO_LARGE"
    problems: Any = error.details["problems"]
    assert [(problem["code"], problem["limit"]) for problem in problems] == [
        ("PROOF_TOO_LARGE", 1),
        ("RECEIPT_TOO_LARGE", 1),
    ]


@pytest.mark.parametrize(
    ("rules", "code"),
    [
        ("field a : Int = ;", "RULE_PARSE_ERROR"),
        ("field a : Int = true;", "RULE_TYPE_ERROR"),
        ("field a : Qty(kg) = qty(1, g);", "UNIT_MISMATCH"),
        ('field a : Int = field("b"); field b : Int = field("a");', "RULE_CYCLE_DETECTED"),
    ],
)
def test_wrong_rules_are_refused_with_their_diagnostics(rules: str, code: str) -> None:
    error = expect_refusal(make_input(rules))

    assert error.code == code
    assert error.details["diagnostics"]


def test_a_rule_that_fails_says_which_field_where_and_why() -> None:
    error = expect_refusal(replace(FIRST_INPUT, facts=(BATTERY,)))

    assert isinstance(error, RuleFailure)
    assert error.code == "RULE_ASSERTION_FAILED"
    assert error.says == "E010: pcf missing"
    assert error.details == {
        "rule_code": "E010",
        "message": "pcf missing",
        "field": "sustainability.pcf_gco2e_per_kwh",
        "line": 15,
        "column": 15,
    }
    assert "rules.bpc:15:15" in str(error.fix)


@pytest.mark.parametrize(
    ("rules", "code"),
    [
        ("field a : Dec(18) = 1 / 0;", "DIVISION_BY_ZERO"),
        ("field a : Int = 999999999999999999999999999999999999 + 1;", "RULE_LIMIT_EXCEEDED"),
        ('field a : Int = assert(false, "E1", "no"); 1;', "RULE_ASSERTION_FAILED"),
    ],
)
def test_every_way_a_rule_can_fail_names_field_and_place(rules: str, code: str) -> None:
    error = expect_refusal(make_input(rules))

    assert error.code == code
    assert error.details["field"] == "a"
    assert (error.details["line"], type(error.details["column"])) == (1, int)


@pytest.mark.parametrize(
    ("artifact", "code"),
    [("payload", "PAYLOAD_TOO_LARGE"), ("proof", "PROOF_TOO_LARGE"), ("receipt", "RECEIPT_TOO_LARGE")],
)
def test_an_artifact_above_its_limit_is_refused_with_both_sizes(artifact: str, code: str) -> None:
    size = len(getattr(compile_passport(FIRST_INPUT), artifact)) + (
        SIGNATURE_MEMBER_BYTES if artifact == "receipt" else 0
    )

    error = expect_refusal(FIRST_INPUT, limits=replace(MAX_LIMITS, **{artifact: size - 1}))

    assert isinstance(error, ArtifactTooLarge)
    assert error.code == code
    assert error.details == {"artifact": artifact, "size": size, "limit": size - 1}
    assert error.says == f"the {artifact} has {size:,} bytes, and at most {size - 1:,} are allowed"
    assert (error.fix, error.hint) == ("make fewer or smaller fields", f"raise the {artifact} limit")
    compile_passport(FIRST_INPUT, limits=replace(MAX_LIMITS, **{artifact: size}))


def test_the_limits_are_those_of_the_specification() -> None:
    assert ArtifactLimits() == ArtifactLimits(payload=131_072, proof=262_144, receipt=16_384)
    assert ArtifactLimits(payload=5_000_000, proof=20_000_000, receipt=500_000, steps=1_000_000) == MAX_LIMITS


def test_a_payload_of_many_texts_is_refused_by_default() -> None:
    text = "x" * 1000
    rules = "".join(f'field f{number} : Text = "{text}";\n' for number in range(140))

    assert expect_refusal(make_input(rules)).code == "PAYLOAD_TOO_LARGE"


def test_issued_at_is_a_moment() -> None:
    with pytest.raises(Refusal):
        replace(FIRST_INPUT, issued_at=datetime(2027, 2, 18))
    assert replace(FIRST_INPUT, issued_at=datetime(2027, 2, 18, tzinfo=UTC)) == FIRST_INPUT
