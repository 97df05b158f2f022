"""`bpc rules mutate`: what a person and what a program is told about changes that no test notices."""

import json
from pathlib import Path

import pytest

from tests.cli.program import Program

RULES = """\
field half: Dec(2) = 0.50;
field size: Text = if (field("half") > 1) then "large" else "small";
example halved: {} => expect(half, == 0.5); expect(size, == "small"); ;
"""


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    file = tmp_path / "rules.bpc"
    file.write_text(RULES)
    return file


def test_each_change_that_no_test_notices_has_its_place_and_the_score_comes_last(bpc: Program, rules: Path) -> None:
    lines = bpc.run_ok("rules", "mutate", rules, "--jobs", "1").out.splitlines()

    assert lines[0] == "no test notices:"
    assert f"  {rules}:2:38 in size: `>` becomes `>=`" in lines
    assert f'  {rules}:2:24 in size: the condition `field("half") > 1` becomes `false`' in lines
    assert not any("in half" in line for line in lines)
    assert lines[-1].startswith("SCORE 55 %  5 of 9 changes noticed, 9 of 9 tried, seed 0")


def test_processes_give_the_same_report_as_one(bpc: Program, rules: Path) -> None:
    reports = [bpc.run_ok("rules", "mutate", rules, "--jobs", jobs, "--json").out for jobs in ("1", "2")]

    assert reports[0] == reports[1]
    assert json.loads(reports[0])["tried"] == 9


def test_a_limit_tries_a_sample_that_the_seed_chooses(bpc: Program, rules: Path) -> None:
    report = json.loads(bpc.run_ok("rules", "mutate", rules, "--sample", "3", "--seed", "5", "--json").out)

    assert (report["mutants"], report["tried"]) == (9, 3)


def test_a_score_below_the_required_one_is_refused(bpc: Program, rules: Path) -> None:
    ended = bpc.run("rules", "mutate", rules, "--min", "90", "--jobs", "1")

    assert ended.code == 1
    assert "the score is 55 %, and 90 % is required" in ended.err
    assert bpc.run("rules", "mutate", rules, "--min", "40", "--jobs", "1").code == 0


def test_tests_in_a_second_file_count(bpc: Program, rules: Path, tmp_path: Path) -> None:
    tests = tmp_path / "more.bpc"
    tests.write_text('example on_the_edge: {} => expect(edge, == "small"); ;')
    rules.write_text('field edge: Text = if (1 > 1) then "large" else "small";')

    assert "`>` becomes `>=`" in bpc.run_ok("rules", "mutate", rules).out
    assert "`>` becomes `>=`" not in bpc.run_ok("rules", "mutate", rules, "--tests", tests).out


def test_failing_tests_and_mistakes_are_refused_first(bpc: Program, rules: Path) -> None:
    rules.write_text(RULES.replace("== 0.5", "== 0.6"))
    ended = bpc.run("rules", "mutate", rules)
    assert (ended.code, ended.err.split(":")[0]) == (1, "RULE_TESTS_FAILED")
    assert "`halved`" in ended.err

    rules.write_text("field half: Dec(2) = ;")
    assert bpc.run("rules", "mutate", rules).err.startswith("RULE_PARSE_ERROR")
