"""Compile, BPC-COMPILE-1: one input, one set of bytes; whatever stands in the way is refused by name."""

import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from bpc.core import canon
from bpc.core.blinding import Salts, blinding_fact
from bpc.core.compile import CEILINGS, Compiled, Limits, TooLarge, compile_passport
from bpc.core.compile_input import CompileInput, read_input
from bpc.core.errors import Refusal
from bpc.core.facts import SnapshotFact
from bpc.core.receipt import SIGNATURE_MEMBER_BYTES, read_receipt
from bpc.core.rules.evaluating.evaluate import Machine
from bpc.core.rules.failure import RuleFailure
from bpc.core.rules.package import checked_program

FIRST = Path(__file__).parents[2] / "examples" / "first"
GIVEN = read_input(
    (FIRST / "input.json").read_bytes(),
    rules=(FIRST / "rules.bpc").read_bytes(),
    tests=(FIRST / "tests.bpc").read_bytes(),
)
BATTERY, PCF = GIVEN.facts
SECRET = blinding_fact(GIVEN.snapshot_id, bytes(range(32)))


def having(rules: str, **changes: Any) -> CompileInput:
    return replace(GIVEN, rules=rules.encode(), **changes)


def fields(compiled: Compiled) -> Any:
    return json.loads(compiled.payload)["fields"]


def refusal(given: CompileInput, **options: Any) -> Refusal:
    with pytest.raises(Refusal) as refused:
        compile_passport(given, **options)
    return refused.value


# What comes out


def test_the_first_example_says_what_it_should() -> None:
    assert fields(compile_passport(GIVEN)) == {
        "battery": {"capacity_kwh": "75.500000"},
        "sustainability": {"pcf_gco2e_per_kwh": "59602.65"},
    }


def test_the_payload_has_exactly_its_members() -> None:
    payload = json.loads(compile_passport(GIVEN).payload)
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
        "salt": Salts(None, GIVEN.passport_version_id).payload(),
    }


def test_every_artifact_is_canonical_and_the_receipt_pins_it() -> None:
    made = compile_passport(GIVEN)
    receipt = read_receipt(made.receipt)

    for artifact in (made.payload, made.proof, made.receipt, made.snapshot):
        assert canon.encode(canon.decode(artifact)) == artifact
    assert receipt.payload_hash == made.payload_hash == hashlib.sha256(made.payload).digest()
    assert receipt.snapshot_hash == made.snapshot_hash == hashlib.sha256(made.snapshot).digest()
    assert receipt.proof_root_hash == made.proof_root_hash
    assert json.loads(made.proof)["root_hash"] == made.proof_root_hash.hex()
    assert receipt.dsl_sha256 == hashlib.sha256(GIVEN.rules).digest()
    assert receipt.tests_sha256 == hashlib.sha256(GIVEN.tests).digest()
    assert receipt.hash() == made.receipt_hash == hashlib.sha256(made.receipt).digest()
    assert receipt.signature is None


def test_ids_and_names_of_the_input_are_in_the_receipt() -> None:
    receipt = read_receipt(compile_passport(GIVEN).receipt)

    for name in ("tenant_id", "passport_id", "passport_version_id", "snapshot_id", "rule_package_version_id"):
        assert getattr(receipt, name) == getattr(GIVEN, name)
    assert receipt.battery_product_id == GIVEN.product.battery_product_id
    assert (receipt.issued_at, receipt.compiler_build_id, receipt.signing_key_id) == (
        GIVEN.issued_at,
        "bpc-example",
        "example-key",
    )


def test_fields_nest_by_their_paths() -> None:
    rules = "field a.b.c : Int = 1; field a.b.d @public : Int = 2; field a.e : Int = 3; field f : Int = 4;"

    made = compile_passport(having(rules))

    assert fields(made) == {"a": {"b": {"c": 1, "d": 2}, "e": 3}, "f": 4}
    assert json.loads(made.payload)["access"] == {"a.b.c": [], "a.b.d": ["public"], "a.e": [], "f": []}


def test_audiences_are_sorted_however_they_are_written() -> None:
    made = compile_passport(having("field a @public @interest @authority : Int = 1;"))

    assert json.loads(made.payload)["access"] == {"a": ["authority", "interest", "public"]}


def test_compliance_entries_stand_in_the_order_of_evaluation() -> None:
    rules = """
        field b : Bool = emitCompliance("C-B", "WARN", "second");
        field a : Bool = emitCompliance("C-A", "FAIL", concat("first ", productName()));
    """

    made = json.loads(compile_passport(having(rules)).payload)

    assert made["fields"] == {"a": False, "b": True}
    assert made["compliance"] == [
        {"code": "C-A", "field": "a", "message": "first Pack 75", "status": "FAIL"},
        {"code": "C-B", "field": "b", "message": "second", "status": "WARN"},
    ]


def test_rules_read_the_product_and_the_day_of_issue() -> None:
    rules = "field sku : Text = productSku(); field name : Text = productName(); field on : Date = issuedOn();"

    assert fields(compile_passport(having(rules))) == {"name": "Pack 75", "on": "2027-02-18", "sku": "SKU-123"}


def test_the_day_of_issue_is_that_of_utc() -> None:
    late = datetime(2027, 2, 18, 23, 30, tzinfo=timezone(timedelta(hours=-2)))

    made = compile_passport(having("field on : Date = issuedOn();", issued_at=late))

    assert fields(made) == {"on": "2027-02-19"}
    assert json.loads(made.payload)["issued_at"] == "2027-02-19T01:30:00.000000Z"


def test_a_package_without_fields_makes_an_empty_passport() -> None:
    made = compile_passport(having("-- nothing yet\n", facts=()))

    assert fields(made) == {}
    assert made.facts == b""
    assert len(json.loads(made.proof)["nodes"]) == 1


# What does not matter, and what does


def test_the_order_of_the_facts_does_not_matter() -> None:
    expected = compile_passport(GIVEN)

    for facts in permutations((BATTERY, PCF)):
        assert compile_passport(replace(GIVEN, facts=facts)) == expected


def test_a_machine_made_before_gives_the_same() -> None:
    machine = Machine(checked_program(GIVEN.rules))

    assert compile_passport(GIVEN, machine=machine) == compile_passport(GIVEN)


def test_a_machine_of_other_rules_is_not_used() -> None:
    machine = Machine(checked_program(GIVEN.rules + b"-- later\n"))

    with pytest.raises(ValueError, match="other rules"):
        compile_passport(GIVEN, machine=machine)


def test_tests_are_hashed_and_not_run() -> None:
    made = compile_passport(replace(GIVEN, tests=b"this is no test"))

    assert read_receipt(made.receipt).tests_sha256 == hashlib.sha256(b"this is no test").digest()
    assert made.payload == compile_passport(GIVEN).payload


def test_the_tests_of_another_package_change_only_the_receipt() -> None:
    one, other = compile_passport(GIVEN), compile_passport(replace(GIVEN, tests=b""))

    assert (one.payload, one.proof, one.snapshot) == (other.payload, other.proof, other.snapshot)
    assert one.receipt_hash != other.receipt_hash


def test_a_fact_that_no_rule_names_is_in_the_snapshot_and_in_nothing_a_rule_sees() -> None:
    odd = SnapshotFact(fact_type="Mystery", fact_key="m", schema_version=9, payload={"x": [1]})

    made, plain = compile_passport(replace(GIVEN, facts=(*GIVEN.facts, odd))), compile_passport(GIVEN)

    assert made.payload == plain.payload
    assert made.snapshot_hash != plain.snapshot_hash
    assert b'"Mystery"' in made.facts


# Blinding


def test_the_snapshots_secret_salts_the_passport() -> None:
    made = compile_passport(replace(GIVEN, facts=(*GIVEN.facts, SECRET)))
    salts = Salts(bytes(range(32)), GIVEN.passport_version_id)

    assert json.loads(made.payload)["salt"] == salts.payload()
    field_node = json.loads(made.proof)["nodes"][0]
    assert field_node["data"]["salt"] == salts.field("battery.capacity_kwh")[0]
    assert fields(made) == fields(compile_passport(GIVEN))


def test_a_malformed_secret_is_refused() -> None:
    found = refusal(replace(GIVEN, facts=(*GIVEN.facts, replace(SECRET, payload={"key": "short"}))))

    assert found.code == "VALIDATION_ERROR"
    assert SECRET.fact_key in found.says


def test_rules_cannot_name_the_secret() -> None:
    found = refusal(having('field a : Bool = isSome(getFact("Blinding", "x"));'))

    assert found.code == "RULE_TYPE_ERROR"


# What is refused


def test_two_facts_of_one_type_and_key_are_refused() -> None:
    found = refusal(replace(GIVEN, facts=(BATTERY, PCF, replace(BATTERY, payload={"capacity_kwh": "80"}))))

    assert found.code == "VALIDATION_ERROR"
    assert found.details == {"fact_type": "Battery", "fact_key": "battery:SKU-123"}


def test_a_fact_that_does_not_fit_its_schema_is_named() -> None:
    found = refusal(replace(GIVEN, facts=(replace(BATTERY, payload={"capacity_kwh": "much"}), PCF)))

    assert found.code == "VALIDATION_ERROR"
    assert found.details == {"fact_type": "Battery", "fact_key": "battery:SKU-123", "member": "capacity_kwh"}


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
    found = refusal(having(rules))

    assert found.code == code
    assert found.details["diagnostics"]


def test_a_rule_that_fails_says_which_field_where_and_why() -> None:
    found = refusal(replace(GIVEN, facts=(BATTERY,)))

    assert isinstance(found, RuleFailure)
    assert found.code == "RULE_ASSERTION_FAILED"
    assert found.says == "E010: pcf missing"
    assert found.details == {
        "rule_code": "E010",
        "message": "pcf missing",
        "field": "sustainability.pcf_gco2e_per_kwh",
        "line": 15,
        "column": 15,
    }
    assert "rules.bpc:15:15" in str(found.fix)


@pytest.mark.parametrize(
    ("rules", "code"),
    [
        ("field a : Dec(18) = 1 / 0;", "DIVISION_BY_ZERO"),
        ("field a : Int = 999999999999999999999999999999999999 + 1;", "RULE_LIMIT_EXCEEDED"),
        ('field a : Int = assert(false, "E1", "no"); 1;', "RULE_ASSERTION_FAILED"),
    ],
)
def test_every_way_a_rule_can_fail_names_field_and_place(rules: str, code: str) -> None:
    found = refusal(having(rules))

    assert found.code == code
    assert found.details["field"] == "a"
    assert (found.details["line"], type(found.details["column"])) == (1, int)


@pytest.mark.parametrize(
    ("artifact", "code"),
    [("payload", "PAYLOAD_TOO_LARGE"), ("proof", "PROOF_TOO_LARGE"), ("receipt", "RECEIPT_TOO_LARGE")],
)
def test_an_artifact_above_its_limit_is_refused_with_both_sizes(artifact: str, code: str) -> None:
    size = len(getattr(compile_passport(GIVEN), artifact)) + (SIGNATURE_MEMBER_BYTES if artifact == "receipt" else 0)

    found = refusal(GIVEN, limits=replace(CEILINGS, **{artifact: size - 1}))

    assert isinstance(found, TooLarge)
    assert found.code == code
    assert found.details == {"artifact": artifact, "size": size, "limit": size - 1}
    assert found.says == f"the {artifact} has {size:,} bytes, and at most {size - 1:,} are allowed"
    assert f"BPC_{artifact.upper()}_MAX_BYTES" in str(found.fix)
    compile_passport(GIVEN, limits=replace(CEILINGS, **{artifact: size}))


def test_the_limits_are_those_of_the_specification() -> None:
    assert Limits() == Limits(payload=131_072, proof=262_144, receipt=16_384)
    assert Limits(payload=5_000_000, proof=20_000_000, receipt=500_000, steps=1_000_000) == CEILINGS


def test_a_payload_of_many_texts_is_refused_by_default() -> None:
    text = "x" * 1000
    rules = "".join(f'field f{number} : Text = "{text}";\n' for number in range(140))

    assert refusal(having(rules)).code == "PAYLOAD_TOO_LARGE"


def test_issued_at_is_a_moment() -> None:
    with pytest.raises(Refusal):
        replace(GIVEN, issued_at=datetime(2027, 2, 18))
    assert replace(GIVEN, issued_at=datetime(2027, 2, 18, tzinfo=UTC)) == GIVEN
