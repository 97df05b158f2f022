"""How good the tests of the shipped package are: how many cases, what they reach, and which changes they notice."""

import pytest

from bpc.cli.support.rule_files import read_package_files, read_package_texts
from bpc.core.language.testing.mutation import MutationReport, select_mutants
from bpc.core.language.testing.mutation_run import MutationRun
from bpc.core.language.testing.run import run_tests
from tests.measurements import RecordMeasurement, choose_effort
from tests.rules.shipped_package import FOLDER


@pytest.mark.slow
def test_the_cases_are_many_not_vacuous_and_reach_the_branches(record_measurement: RecordMeasurement) -> None:
    package = read_package_files(str(FOLDER), None)
    assert package.program is not None

    report = run_tests(package.program, seed=0)

    branches = report.coverage.compute_share("branch")
    record_measurement("eu-battery-tests", cases=report.cases, branches=branches.total, percent=branches.percent)
    assert (report.failed, report.discarded, report.without_field) == (0, 0, 0)
    assert report.cases >= 2_000
    assert branches.percent >= 95


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.repeats
def test_at_least_nine_changes_in_ten_are_noticed(record_measurement: RecordMeasurement) -> None:
    """Of all changes where figures are shown; of a few, the same each time, where tests run."""
    run = MutationRun(read_package_texts(str(FOLDER), None), seed=0)
    baseline = run.run_baseline()
    mutants = select_mutants(run.mutants, choose_effort(test=40, shown=None, campaign=None), 0)

    verdicts = tuple((mutant, run.judge(mutant, baseline)) for mutant in mutants)

    report = MutationReport(run.source, len(run.mutants), verdicts)
    record_measurement(
        "eu-battery-changes",
        tried=len(verdicts),
        noticed=report.count("noticed"),
        not_noticed=report.count("survived"),
        not_rules=report.count("invalid"),
        percent=report.score,
    )
    assert report.score >= choose_effort(test=80, shown=90, campaign=90), report.list_survivors()
