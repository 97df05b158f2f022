"""`bpc rules eval`: values over facts, and why a field has none."""

from pathlib import Path

import pytest

from tests.cli.offline.rule_texts import BATTERY, GOOD, WRONG, write
from tests.cli.program import Program

INPUT = {
    "battery_product": {"sku": "SKU-9", "name": "Nine"},
    "issued_at": "2027-01-31T23:59:59.999999Z",
    "facts": [
        {
            "fact_type": "Battery",
            "fact_key": "battery:SKU-9",
            "schema_version": 1,
            "payload": {"capacity_kwh": "75.5"},
        }
    ],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def test_every_field_is_shown_with_its_value_in_the_order_it_is_written(bpc: Program, folder: Path) -> None:
    rules, input_file = write(folder, "rules.bpc", BATTERY), write(folder, "input.json", INPUT)

    output = bpc.run_ok("rules", "eval", rules, input_file).out

    assert output == (
        "battery.capacity_kwh  75.500000\n"
        "battery.double        151.000000\n"
        'product               "Nine"\n'
        "checks.day            true\n"
        "WARN  C1  day  (field checks.day)\n"
    )


def test_programs_get_values_as_a_passport_writes_them(bpc: Program, folder: Path) -> None:
    rules, input_file = write(folder, "rules.bpc", BATTERY), write(folder, "input.json", INPUT)

    report = bpc.run_ok("rules", "eval", rules, input_file, "--json").json()

    assert report == {
        "fields": {
            "battery.capacity_kwh": "75.500000",
            "battery.double": "151.000000",
            "product": "Nine",
            "checks.day": True,
        },
        "compliance": [
            {"code": "C1", "field": "checks.day", "message": "day", "status": "WARN", "verdict": "assessed", "args": {}}
        ],
        "failures": [],
    }


def test_fields_can_be_picked(bpc: Program, folder: Path) -> None:
    rules = write(folder, "rules.bpc", BATTERY)

    assert bpc.run_ok("rules", "eval", rules, "--field", "product").out == 'product  "Product"\n'


def test_a_field_that_is_not_there_is_refused_with_the_nearest(bpc: Program, folder: Path) -> None:
    ended = bpc.run("rules", "eval", write(folder, "rules.bpc", BATTERY), "--field", "battery.duoble")

    assert ended.code == 1
    assert ended.err == ("VALIDATION_ERROR: there is no field `battery.duoble`\n  did you mean `battery.double`?\n")


def test_a_field_without_value_is_shown_at_its_place_and_the_others_are_computed(bpc: Program, folder: Path) -> None:
    rules = write(folder, "rules.bpc", BATTERY)

    ended = bpc.run("rules", "eval", rules)

    assert ended.code == 1
    assert 'product     "Product"\n' in ended.out
    assert ended.err.startswith(
        f"RULE_ASSERTION_FAILED: E001: no data sheet\n  at {rules}:2:17, field `battery.capacity_kwh`\n  2 | "
    )
    assert ended.err.endswith("therefore these fields have no value either: `battery.double`\n")


def test_programs_get_failures_with_the_rules_own_code(bpc: Program, folder: Path) -> None:
    ended = bpc.run("rules", "eval", write(folder, "rules.bpc", BATTERY), "--json")

    first, second = ended.json()["failures"]
    assert ended.code == 1
    assert (first["of"], first["field"], first["code"], first["rule_code"], first["line"]) == (
        "battery.capacity_kwh",
        "battery.capacity_kwh",
        "RULE_ASSERTION_FAILED",
        "E001",
        2,
    )
    assert (second["of"], second["field"]) == ("battery.double", "battery.capacity_kwh")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("1 + 2", "3"),
        ("toDec(2, 1 / 3)", "0.33"),
        ('concat("a", productSku())', '"aSKU-9"'),
        ('field("battery.capacity_kwh") > 75.4', "true"),
        ("qty(1500, Wh) + qty(0.5, Wh)", "qty(1500.5, Wh)"),
        ('isSome(getFact("PCF", "pcf:SKU-9"))', "false"),
        ('getFact("Battery", "battery:SKU-9")', 'some(Battery@1 "battery:SKU-9")'),
        ('map(["x"], fn(t) => { text: t, size: 1 })', '[{size: 1, text: "x"}]'),
    ],
)
def test_an_expression_may_read_fields_and_facts(bpc: Program, folder: Path, expression: str, expected: str) -> None:
    rules, input_file = write(folder, "rules.bpc", BATTERY), write(folder, "input.json", INPUT)

    assert bpc.run_ok("rules", "eval", rules, input_file, "--expr", expression).out == f"{expected}\n"


def test_an_expression_as_json_is_its_value(bpc: Program, folder: Path) -> None:
    rules = write(folder, "rules.bpc", GOOD)

    report = bpc.run_ok("rules", "eval", rules, "--expr", "qty(1.50, kWh)", "--json").json()

    assert report == {"value": {"unit": "kWh", "value": "1.5"}, "compliance": [], "failures": []}


def test_a_mistake_in_an_expression_is_shown_in_it(bpc: Program, folder: Path) -> None:
    ended = bpc.run("rules", "eval", write(folder, "rules.bpc", GOOD), "--expr", "1 + nothing")

    assert ended.code == 1
    assert ended.err.startswith("RULE_TYPE_ERROR: 1 error in `--expr`\n")
    assert "  at --expr:1:5\n  1 | 1 + nothing\n" in ended.err


def test_an_expression_that_fails_is_shown_in_it_or_in_the_rules(bpc: Program, folder: Path) -> None:
    rules = write(folder, "rules.bpc", BATTERY)

    own = bpc.run("rules", "eval", rules, "--expr", "1 / 0")
    in_rules = bpc.run("rules", "eval", rules, "--expr", 'field("battery.double")')

    assert own.err == "DIVISION_BY_ZERO: division by zero\n  at --expr:1:3\n  1 | 1 / 0\n    |   ^\n"
    assert in_rules.err.startswith(f"RULE_ASSERTION_FAILED: E001: no data sheet\n  at {rules}:2:17")
    assert (own.code, in_rules.code) == (1, 1)


def test_rules_with_mistakes_are_not_evaluated(bpc: Program, folder: Path) -> None:
    rules = write(folder, "wrong.bpc", WRONG)

    assert bpc.run("rules", "eval", rules).err.startswith(f"RULE_TYPE_ERROR: 2 errors in `{rules}`")
    assert len(bpc.run("rules", "eval", rules, "--json").json()["diagnostics"]) == 2


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ([], "the input is not an object"),
        ({"battery_product": 1}, "`battery_product` is not an object"),
        ({"battery_product": {"sku": 1}}, "`sku` is not a text"),
        ({"issued_at": "soon"}, "`issued_at`: "),
        ({"facts": {}}, "`facts` is not a list"),
        ({"facts": [{"fact_type": "Battery"}]}, "`facts[0]`: the fact has no `fact_key`"),
        ({"facts": [INPUT["facts"][0], INPUT["facts"][0]]}, "there are two facts `battery:SKU-9`"),  # type: ignore[index]
        (
            {"facts": [{"fact_type": "Battery", "fact_key": "k", "payload": {"capacity_kwh": "much"}}]},
            "fact `k` (Battery): `capacity_kwh` is `much`, not a plain decimal number",
        ),
    ],
)
def test_an_invalid_input_is_refused_and_the_member_is_named(
    bpc: Program, folder: Path, document: object, says: str
) -> None:
    rules = write(folder, "rules.bpc", BATTERY)

    ended = bpc.run("rules", "eval", rules, write(folder, "input.json", document))

    assert ended.code == 1
    assert ended.err.startswith(f"VALIDATION_ERROR: {says}")


def test_a_day_is_enough_as_time_of_issue(bpc: Program, folder: Path) -> None:
    rules, input_file = write(folder, "rules.bpc", GOOD), write(folder, "input.json", {"issued_at": "2030-06-01"})

    assert bpc.run_ok("rules", "eval", rules, input_file, "--expr", "issuedOn()").out == 'date("2030-06-01")\n'


def test_a_field_and_an_expression_do_not_go_together(bpc: Program, folder: Path) -> None:
    ended = bpc.run("rules", "eval", write(folder, "rules.bpc", GOOD), "--field", "price.net", "--expr", "1")

    assert ended.code == 2
