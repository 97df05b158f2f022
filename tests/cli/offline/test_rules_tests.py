"""`bpc rules test`: what a person and what a program is told about the tests of a rule file."""

import os
import pty
import subprocess
from pathlib import Path

import pytest

from tests.cli.program import Program

GOOD = """\
field half: Dec(2) = 0.50;
example halved: {} => expect(half, == 0.5); ;
property halves: cases(200) seed(1) => forall x: Dec(2) . implies(x > 0, x * field("half") < x); ;
"""
BAD = GOOD.replace("x > 0", "true")
UNTESTED = GOOD + 'field size: Text = if (field("half") > 1) then "large" else "small";\n'


@pytest.fixture
def write(tmp_path: Path) -> "RuleFileWriter":
    return RuleFileWriter(tmp_path)


class RuleFileWriter:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, text: str, name: str = "rules.bpc") -> Path:
        file = self.folder / name
        file.write_text(text)
        return file


def test_tests_that_hold_end_in_one_line_that_says_so(bpc: Program, write: RuleFileWriter) -> None:
    output = bpc.run_ok("rules", "test", write(GOOD)).out

    assert output.split("\n")[-2].startswith("PASSED  201 cases, 201 passed, 0 failed, ")
    assert output.endswith(" discarded, seed 0\n")
    assert "fields      1        1   100 %\n" in output


def test_a_failing_case_is_shown_with_its_line_its_simplest_form_and_how_to_run_it_alone(
    bpc: Program, write: RuleFileWriter
) -> None:
    file = write(BAD)
    ended = bpc.run("rules", "test", file, "--seed", "3")

    assert ended.code == 1
    assert ended.err.startswith("RULE_TESTS_FAILED: 1 of ")
    lines = ended.out.split("\n")
    start = next(at for at, line in enumerate(lines) if line.startswith("failed[halves]: case "))
    assert lines[start].endswith(": the conclusion is false")
    assert lines[start + 1] == f"  at {file}:3:40"
    assert lines[start + 2].startswith("  3 | property halves: cases(200) seed(1) => forall x")
    assert lines[start + 3].startswith("    | " + " " * 39 + "^^^^^")
    assert lines[start + 4 : start + 6] == ["the simplest failing case", "  x = 0.00"]
    command = lines[start + 6].removeprefix("run it alone: bpc ").split()

    again = bpc.run(*command)
    assert again.code == 1
    assert lines[start : start + 7] == again.out.split("\n")[1:8]


def test_the_error_behind_a_failure_is_shown_with_its_own_line(bpc: Program, write: RuleFileWriter) -> None:
    rules = 'field a: Dec(18) = 1 / count(getFactsByPrefix("Battery", ""));\nexample e: {} => expect(a, == 1); ;\n'
    ended = bpc.run("rules", "test", write(rules))

    assert "failed[e]: `a` has no value: division by zero\n" in ended.out
    assert "the error comes from field `a`\n" in ended.out
    assert "  1 | field a: Dec(18) = 1 / count(" in ended.out


def test_facts_of_a_failing_case_are_shown_as_a_test_writes_them(bpc: Program, write: RuleFileWriter) -> None:
    rules = """\
field mass: Dec(6) =
  requireSome(recordGet(requireSome(getFact("Battery", "b"), "E1", "none"), "mass_kg"), "E2", "none");
property light: cases(50) seed(1) given { fact b("Battery", "b") = any; fact p("PCF", "p") = {"year": 1}; } =>
  forall x: Text . implies(field("mass") > 0, field("mass") < 50); ;
"""
    ended = bpc.run("rules", "test", write(rules))

    assert '  fact given("Battery", "b") = {"mass_kg":"50.000000"};\n' in ended.out
    assert '  fact given("PCF", "p") = {"year":1};\n' in ended.out
    assert '  x = ""\n' in ended.out


def test_what_no_test_reaches_is_listed(bpc: Program, write: RuleFileWriter) -> None:
    file = write(UNTESTED)
    output = bpc.run_ok("rules", "test", file).out

    assert "fields      1        2   50 %\n" in output
    assert "not reached by any test:\n" in output
    assert f"  field size at {file}:4:7\n" in output


def test_a_program_gets_one_object(bpc: Program, write: RuleFileWriter) -> None:
    good = bpc.run_ok("rules", "test", write(GOOD), "--seed", "1", "--json").json()
    bad = bpc.run("rules", "test", write(BAD), "--seed", "1", "--json")

    assert list(good) == [
        "status",
        "cases",
        "passed",
        "failed",
        "discarded",
        "cases_without_field",
        "failures",
        "coverage",
    ]
    assert (good["status"], good["cases"], good["failures"]) == ("PASSED", 201, [])
    assert bad.code == 1
    assert bad.err == ""
    assert bad.json()["status"] == "FAILED"
    assert bad.json()["failures"][0]["case"]["variables"] == {"x": "0.00"}


def test_two_runs_with_one_seed_print_the_same(bpc: Program, write: RuleFileWriter) -> None:
    file = write(BAD)

    assert bpc.run("rules", "test", file, "--json") == bpc.run("rules", "test", file, "--seed", "0", "--json")


def test_tests_may_stand_in_a_file_of_their_own(bpc: Program, write: RuleFileWriter) -> None:
    rules, tests = write("field half: Dec(2) = 0.50;"), write("example e: {} => expect(half, > 1); ;", "tests.bpc")

    ended = bpc.run("rules", "test", rules, "--tests", tests)

    assert ended.code == 1
    assert f"  at {tests}:1:18\n" in ended.out
    assert bpc.run_ok("rules", "test", rules).out == "PASSED  there are no tests\n"


def test_rules_with_mistakes_are_not_tested_and_the_mistakes_shown(bpc: Program, write: RuleFileWriter) -> None:
    file = write("field a: Int = b;")
    ended = bpc.run("rules", "test", file)
    for_programs = bpc.run("rules", "test", file, "--json")

    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("RULE_TYPE_ERROR: 1 error in ")
    assert "error[unknown-variable]: " in ended.err
    assert for_programs.code == 1
    assert [diagnostic["kind"] for diagnostic in for_programs.json()["diagnostics"]] == ["unknown-variable"]


def test_a_test_that_is_not_there_is_refused_with_a_suggestion(bpc: Program, write: RuleFileWriter) -> None:
    ended = bpc.run("rules", "test", write(GOOD), "--only", "halvs")

    assert ended.code == 1
    assert ended.err == "VALIDATION_ERROR: there is no test called `halvs`\n  did you mean `halves`?\n"


@pytest.mark.parametrize("arguments", [["--seed", "-1"], ["--seed", "x"], ["--case", "-1"]])
def test_an_invalid_number_is_wrong_usage(bpc: Program, write: RuleFileWriter, arguments: list[str]) -> None:
    assert bpc.run("rules", "test", write(GOOD), *arguments).code == 2


def test_a_terminal_sees_progress_and_nothing_of_it_afterwards(bpc: Program, write: RuleFileWriter) -> None:
    terminal, child_end = pty.openpty()
    environment = {**bpc.environment(), "TERM": "xterm"}
    process = subprocess.Popen(
        bpc.command("rules", "test", write(GOOD)), stdout=subprocess.PIPE, stderr=child_end, env=environment
    )
    os.close(child_end)
    terminal_text = b""
    while True:
        try:
            part = os.read(terminal, 1000)
        except OSError:  # Linux says so when the other side is closed
            break
        if not part:
            break
        terminal_text += part
    os.close(terminal)
    output, _ = process.communicate(timeout=60)

    assert process.returncode == 0
    assert b"testing" in terminal_text
    assert b"201/201" in terminal_text
    assert b"testing" not in output
