"""`bpc rules check` and `fmt`: mistakes at their place, files in standard form."""

from pathlib import Path

import pytest

from bpc.core.language.package import read_package
from tests.cli.offline.rule_texts import BATTERY, GOOD, WRONG, write
from tests.cli.program import Program


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


# check


def test_files_without_mistakes_are_summed_up_in_a_line_each(bpc: Program, folder: Path) -> None:
    one, other = write(folder, "one.bpc", GOOD), write(folder, "other.bpc", "field a: Int = 1;")

    output = bpc.run_ok("rules", "check", one, other).out

    assert output == f"{one}: 2 fields, 1 test\n{other}: 1 field, 0 tests\n"


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
    assert bpc.run_ok("rules", "check", write(folder, "good.bpc", GOOD), "--json").json() == {"diagnostics": []}


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
    assert [
        diagnostic["severity"] for diagnostic in bpc.run_ok("rules", "check", file, "--json").json()["diagnostics"]
    ] == ["warning"]


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
    assert ended.err.startswith("USAGE: --tests needs exactly one rule file")


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

    for arguments in (("rules", "eval", rules), ("rules", "eval", rules_of_text)):
        for option in ((), ("--json",)):
            ended = bpc.run(*arguments, *option)
            assert not set(ended.out + ended.err) & set("\x1b\x9b\x07\r\u202e\u2028"), ended


# fmt


def test_a_file_is_rewritten_in_standard_form_and_named(bpc: Program, folder: Path) -> None:
    file = write(folder, "a.bpc", "field   a:Int=1   +2 ; -- three\n")

    assert bpc.run_ok("rules", "fmt", file).out == f"{file}\n"
    assert file.read_text() == "field a: Int = 1 + 2; -- three\n"
    assert bpc.run_ok("rules", "fmt", file).out == ""


def test_with_check_nothing_is_written_and_the_files_are_listed(bpc: Program, folder: Path) -> None:
    file, good = write(folder, "a.bpc", "field a:Int=1;"), write(folder, "good.bpc", "field a: Int = 1;\n")

    ended = bpc.run("rules", "fmt", "--check", file, good)

    assert (ended.code, ended.out) == (1, f"{file}\n")
    assert ended.err.startswith("VALIDATION_ERROR: 1 of 2 files is not in standard form\n")
    assert file.read_text() == "field a:Int=1;"
    assert bpc.run_ok("rules", "fmt", "--check", good).out == ""


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

    bpc.run_ok("rules", "fmt", link)

    assert link.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o640
    assert file.read_text() == "field a: Int = 1;\n"
    assert sorted(file_there.name for file_there in folder.iterdir()) == ["a.bpc", "link.bpc"]


def test_formatting_never_changes_what_a_file_means(bpc: Program, folder: Path) -> None:
    file = write(folder, "a.bpc", BATTERY.replace("\n", " ").replace("  ", " "))
    before = read_package(file.read_bytes()).program

    bpc.run_ok("rules", "fmt", file)

    after = read_package(file.read_bytes()).program
    assert before is not None
    assert after is not None
    assert [field.path for field in before.fields] == [field.path for field in after.fields]


def test_programs_learn_what_changed(bpc: Program, folder: Path) -> None:
    file, broken = write(folder, "a.bpc", "field a:Int=1;"), write(folder, "broken.bpc", "field")

    result = bpc.run("rules", "fmt", "--check", file, "--json")
    wrong = bpc.run("rules", "fmt", broken, "--json")

    assert (result.code, result.json()) == (1, {"changed": [str(file)], "diagnostics": []})
    assert (wrong.code, wrong.json()["changed"]) == (1, [])
    assert wrong.json()["diagnostics"][0]["kind"] == "unexpected-token"
