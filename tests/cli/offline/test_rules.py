"""`bpc rules check`, `fmt` and `eval`: mistakes at their place, files in standard form, values over facts."""

import json
from pathlib import Path

import pytest

from bpc.core.rules.package import read_package
from tests.cli.program import Program

GOOD = """\
field price.net: Dec(2) = 12.50;

field price.gross: Dec(2) = toDec(2, field("price.net") * 1.19);

example gross: {} => expect(price.gross, == 14.88);;
"""
WRONG = 'field a: Int = "one";\nfield b: Qty(kWh) = qty(5, Wh);\n'
BATTERY = """\
field battery.capacity_kwh: Dec(6) =
  let battery = requireSome(getFact("Battery", concat("battery:", productSku())), "E001", "no data sheet");
  requireSome(recordGet(battery, "capacity_kwh"), "E002", "no capacity");

field battery.double: Dec(6) = field("battery.capacity_kwh") * 2;

field product: Text = productName();

field checks.day: Bool = emitCompliance("C1", if (issuedOn() < date("2027-02-18")) then "WARN" else "PASS", "day");
"""
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


def write(folder: Path, name: str, content: object) -> Path:
    file = folder / name
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return file


# check


def test_files_without_mistakes_are_summed_up_in_a_line_each(bpc: Program, folder: Path) -> None:
    one, other = write(folder, "one.bpc", GOOD), write(folder, "other.bpc", "field a: Int = 1;")

    shown = bpc.ok("rules", "check", one, other).out

    assert shown == f"{one}: 2 fields, 1 test\n{other}: 1 field, 0 tests\n"


def test_mistakes_are_shown_at_their_place_the_code_first(bpc: Program, folder: Path) -> None:
    file = write(folder, "wrong.bpc", WRONG)

    ended = bpc.run("rules", "check", file)

    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith(f"RULE_TYPE_ERROR: 2 errors in `{file}`\n\nerror[wrong-type]: ")
    assert f'  at {file}:1:16\n  1 | field a: Int = "one";\n    |                ^^^^^\n' in ended.err
    assert 'help: convert it: `convert("Wh", "kWh", qty(5, Wh))`' in ended.err


def test_programs_get_the_diagnostics_as_json(bpc: Program, folder: Path) -> None:
    file = write(folder, "wrong.bpc", WRONG)

    ended = bpc.run("rules", "check", file, "--json")

    first, second = ended.json()["diagnostics"]
    assert (ended.code, ended.err) == (1, "")
    assert {name: first[name] for name in first if name not in {"message", "help", "notes"}} == {
        "severity": "error",
        "code": "RULE_TYPE_ERROR",
        "kind": "wrong-type",
        "file": str(file),
        "line": 1,
        "column": 16,
        "end_line": 1,
        "end_column": 21,
    }
    assert (second["code"], second["kind"]) == ("UNIT_MISMATCH", "unit-mismatch")


def test_nothing_found_is_an_empty_list(bpc: Program, folder: Path) -> None:
    assert bpc.ok("rules", "check", write(folder, "good.bpc", GOOD), "--json").json() == {"diagnostics": []}


def test_every_file_is_a_package_of_its_own(bpc: Program, folder: Path) -> None:
    good, wrong = write(folder, "good.bpc", GOOD), write(folder, "wrong.bpc", 'field a: Dec(2) = field("price.net");')

    ended = bpc.run("rules", "check", good, wrong)

    assert ended.code == 1
    assert ended.out == f"{good}: 2 fields, 1 test\n"
    assert "error[unknown-field]: there is no field `price.net`" in ended.err


def test_warnings_are_shown_and_are_no_mistakes(bpc: Program, folder: Path) -> None:
    file = write(folder, "doubt.bpc", "field a: Int = let spare = 1; 2;")

    ended = bpc.run("rules", "check", file)

    assert ended.code == 0
    assert ended.out == f"{file}: 1 field, 0 tests (1 warning)\n"
    assert "warning[unused-let]" in ended.err
    assert [found["severity"] for found in bpc.ok("rules", "check", file, "--json").json()["diagnostics"]] == [
        "warning"
    ]


def test_tests_in_a_second_file_are_checked_against_the_fields(bpc: Program, folder: Path) -> None:
    rules = write(folder, "rules.bpc", GOOD)
    tests = write(folder, "tests.bpc", "example e: {} => expect(price.nte, == 1);;")

    ended = bpc.run("rules", "check", rules, "--tests", tests)

    assert ended.code == 1
    assert f"at {tests}:1:25" in ended.err
    assert "did you mean `price.net`?" in ended.err


def test_tests_go_with_one_file_of_rules(bpc: Program, folder: Path) -> None:
    file = write(folder, "good.bpc", GOOD)

    ended = bpc.run("rules", "check", file, file, "--tests", file)

    assert ended.code == 2
    assert ended.err.startswith("VALIDATION_ERROR: --tests goes with one file of rules")


def test_rules_are_read_from_standard_input_too(bpc: Program) -> None:
    ended = bpc.run("rules", "check", "-", stdin=GOOD.encode())

    assert (ended.code, ended.out) == (0, "-: 2 fields, 1 test\n")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\xef\xbb\xbf", "error[byte-order-mark]"),
        (b"-- \xff", "error[not-utf8]"),
        (b" " * ((1 << 20) + 1), "error[source-too-large]"),
    ],
)
def test_bytes_that_are_no_text_are_a_diagnostic_too(bpc: Program, data: bytes, says: str) -> None:
    ended = bpc.run("rules", "check", "-", stdin=data)

    assert ended.code == 1
    assert ended.err.startswith("RULE_PARSE_ERROR: 1 error in `-`\n")
    assert says in ended.err


def test_a_file_that_is_not_there_is_refused(bpc: Program, folder: Path) -> None:
    ended = bpc.run("rules", "check", folder / "missing.bpc")

    assert ended.code == 1
    assert ended.err.startswith("VALIDATION_ERROR: `")


def test_control_characters_in_rules_are_shown_and_not_obeyed(bpc: Program, folder: Path) -> None:
    ended = bpc.run("rules", "check", write(folder, "a.bpc", 'field a: Int = "\x1b[31mred";'))

    assert ended.code == 1
    assert "\x1b" not in ended.err


@pytest.mark.parametrize("text", ["\\u001b[2J", "\\u009b2J", "\x9b2J", "\u202e", "\u2028", "\\r\\u0007"])
def test_what_texts_hold_never_steers_the_terminal(bpc: Program, folder: Path, text: str) -> None:
    rules = write(
        folder, "a.bpc", f'field a: Bool = assert(false, "E1", "{text}"); emitCompliance("C", "PASS", "{text}");'
    )
    rules_of_text = write(folder, "b.bpc", f'field b: Text = "{text}";')

    for asked in (("rules", "eval", rules), ("rules", "eval", rules_of_text)):
        for option in ((), ("--json",)):
            ended = bpc.run(*asked, *option)
            assert not set(ended.out + ended.err) & set("\x1b\x9b\x07\r\u202e\u2028"), ended


# fmt


def test_a_file_is_rewritten_in_standard_form_and_named(bpc: Program, folder: Path) -> None:
    file = write(folder, "a.bpc", "field   a:Int=1   +2 ; -- three\n")

    assert bpc.ok("rules", "fmt", file).out == f"{file}\n"
    assert file.read_text() == "field a: Int = 1 + 2; -- three\n"
    assert bpc.ok("rules", "fmt", file).out == ""


def test_with_check_nothing_is_written_and_the_files_are_listed(bpc: Program, folder: Path) -> None:
    file, good = write(folder, "a.bpc", "field a:Int=1;"), write(folder, "good.bpc", "field a: Int = 1;\n")

    ended = bpc.run("rules", "fmt", "--check", file, good)

    assert (ended.code, ended.out) == (1, f"{file}\n")
    assert ended.err.startswith("VALIDATION_ERROR: 1 of 2 files is not in standard form\n")
    assert file.read_text() == "field a:Int=1;"
    assert bpc.ok("rules", "fmt", "--check", good).out == ""


def test_a_dash_formats_standard_input_to_standard_output(bpc: Program) -> None:
    ended = bpc.run("rules", "fmt", "-", stdin=b"field a:Int=1;")

    assert (ended.code, ended.out, ended.err) == (0, "field a: Int = 1;\n", "")


def test_a_file_that_cannot_be_read_is_left_as_it_is_and_the_others_are_formatted(bpc: Program, folder: Path) -> None:
    broken, other = write(folder, "broken.bpc", "field a:Int=;"), write(folder, "other.bpc", "field a:Int=1;")

    ended = bpc.run("rules", "fmt", broken, other)

    assert (ended.code, ended.out) == (1, f"{other}\n")
    assert ended.err.startswith(f"RULE_PARSE_ERROR: 1 error in `{broken}`")
    assert broken.read_text() == "field a:Int=;"
    assert other.read_text() == "field a: Int = 1;\n"


def test_formatting_keeps_a_files_mode_and_follows_links(bpc: Program, folder: Path) -> None:
    file, link = write(folder, "a.bpc", "field a:Int=1;"), folder / "link.bpc"
    file.chmod(0o640)
    link.symlink_to(file)

    bpc.ok("rules", "fmt", link)

    assert link.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o640
    assert file.read_text() == "field a: Int = 1;\n"
    assert sorted(found.name for found in folder.iterdir()) == ["a.bpc", "link.bpc"]


def test_formatting_never_changes_what_a_file_means(bpc: Program, folder: Path) -> None:
    file = write(folder, "a.bpc", BATTERY.replace("\n", " ").replace("  ", " "))
    before = read_package(file.read_bytes()).program

    bpc.ok("rules", "fmt", file)

    after = read_package(file.read_bytes()).program
    assert before is not None
    assert after is not None
    assert [field.path for field in before.fields] == [field.path for field in after.fields]


def test_programs_learn_what_changed(bpc: Program, folder: Path) -> None:
    file, broken = write(folder, "a.bpc", "field a:Int=1;"), write(folder, "broken.bpc", "field")

    found = bpc.run("rules", "fmt", "--check", file, "--json")
    wrong = bpc.run("rules", "fmt", broken, "--json")

    assert (found.code, found.json()) == (1, {"changed": [str(file)], "diagnostics": []})
    assert (wrong.code, wrong.json()["changed"]) == (1, [])
    assert wrong.json()["diagnostics"][0]["kind"] == "unexpected-token"


# eval


def test_every_field_is_shown_with_its_value_in_the_order_it_is_written(bpc: Program, folder: Path) -> None:
    rules, given = write(folder, "rules.bpc", BATTERY), write(folder, "input.json", INPUT)

    shown = bpc.ok("rules", "eval", rules, given).out

    assert shown == (
        "battery.capacity_kwh  75.500000\n"
        "battery.double        151.000000\n"
        'product               "Nine"\n'
        "checks.day            true\n"
        "WARN  C1  day  (field checks.day)\n"
    )


def test_programs_get_values_as_a_passport_writes_them(bpc: Program, folder: Path) -> None:
    rules, given = write(folder, "rules.bpc", BATTERY), write(folder, "input.json", INPUT)

    found = bpc.ok("rules", "eval", rules, given, "--json").json()

    assert found == {
        "fields": {
            "battery.capacity_kwh": "75.500000",
            "battery.double": "151.000000",
            "product": "Nine",
            "checks.day": True,
        },
        "compliance": [{"code": "C1", "field": "checks.day", "message": "day", "status": "WARN"}],
        "failures": [],
    }


def test_fields_can_be_picked(bpc: Program, folder: Path) -> None:
    rules = write(folder, "rules.bpc", BATTERY)

    assert bpc.ok("rules", "eval", rules, "--field", "product").out == 'product  "Product"\n'


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
    assert ended.err.endswith("so there is no `battery.double` either\n")


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
    ("expression", "shown"),
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
def test_an_expression_may_read_fields_and_facts(bpc: Program, folder: Path, expression: str, shown: str) -> None:
    rules, given = write(folder, "rules.bpc", BATTERY), write(folder, "input.json", INPUT)

    assert bpc.ok("rules", "eval", rules, given, "--expr", expression).out == f"{shown}\n"


def test_an_expression_as_json_is_its_value(bpc: Program, folder: Path) -> None:
    rules = write(folder, "rules.bpc", GOOD)

    found = bpc.ok("rules", "eval", rules, "--expr", "qty(1.50, kWh)", "--json").json()

    assert found == {"value": {"unit": "kWh", "value": "1.5"}, "compliance": [], "failures": []}


def test_a_mistake_in_an_expression_is_shown_in_it(bpc: Program, folder: Path) -> None:
    ended = bpc.run("rules", "eval", write(folder, "rules.bpc", GOOD), "--expr", "1 + nothing")

    assert ended.code == 1
    assert ended.err.startswith("RULE_TYPE_ERROR: 1 error in `--expr`\n")
    assert "  at --expr:1:5\n  1 | 1 + nothing\n" in ended.err


def test_an_expression_that_fails_is_shown_in_it_or_in_the_rules(bpc: Program, folder: Path) -> None:
    rules = write(folder, "rules.bpc", BATTERY)

    own = bpc.run("rules", "eval", rules, "--expr", "1 / 0")
    theirs = bpc.run("rules", "eval", rules, "--expr", 'field("battery.double")')

    assert own.err == "DIVISION_BY_ZERO: division by zero\n  at --expr:1:3\n  1 | 1 / 0\n    |   ^\n"
    assert theirs.err.startswith(f"RULE_ASSERTION_FAILED: E001: no data sheet\n  at {rules}:2:17")
    assert (own.code, theirs.code) == (1, 1)


def test_rules_with_mistakes_are_not_evaluated(bpc: Program, folder: Path) -> None:
    rules = write(folder, "wrong.bpc", WRONG)

    assert bpc.run("rules", "eval", rules).err.startswith(f"RULE_TYPE_ERROR: 2 errors in `{rules}`")
    assert len(bpc.run("rules", "eval", rules, "--json").json()["diagnostics"]) == 2


@pytest.mark.parametrize(
    ("given", "says"),
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
def test_an_input_that_is_wrong_is_refused_with_its_member(
    bpc: Program, folder: Path, given: object, says: str
) -> None:
    rules = write(folder, "rules.bpc", BATTERY)

    ended = bpc.run("rules", "eval", rules, write(folder, "input.json", given))

    assert ended.code == 1
    assert ended.err.startswith(f"VALIDATION_ERROR: {says}")


def test_a_day_is_enough_as_time_of_issue(bpc: Program, folder: Path) -> None:
    rules, given = write(folder, "rules.bpc", GOOD), write(folder, "input.json", {"issued_at": "2030-06-01"})

    assert bpc.ok("rules", "eval", rules, given, "--expr", "issuedOn()").out == 'date("2030-06-01")\n'


def test_a_field_and_an_expression_do_not_go_together(bpc: Program, folder: Path) -> None:
    ended = bpc.run("rules", "eval", write(folder, "rules.bpc", GOOD), "--field", "price.net", "--expr", "1")

    assert ended.code == 2
