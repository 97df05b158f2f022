"""`bpc rules test`: run the tests of a rule file, and show what they reach."""

from typing import Annotated, Final

import typer

from bpc.cli.support.output import (
    REFUSED,
    AsJson,
    format_count,
    print_json,
    print_line,
    print_refusal,
    print_table,
)
from bpc.cli.support.progress import show_progress
from bpc.cli.support.rule_files import (
    RulesArgument,
    TestsFileOption,
    exit_with_diagnostics,
    print_test_failure,
    read_package_files,
)
from bpc.core.language.testing.report import SITE_KINDS, Coverage, TestReport
from bpc.core.language.testing.run import run_tests

MAX_PLACES_LISTED: Final = 20


def run_rule_tests(
    rules: RulesArgument,
    tests: TestsFileOption = None,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=0, help="Seed for the random test cases (same seed, same cases).")
    ] = 0,
    only: Annotated[str | None, typer.Option("--only", metavar="NAME", help="Run only this test.")] = None,
    case: Annotated[
        int | None,
        typer.Option("--case", metavar="I", min=0, help="Run only this case of the property named by --only."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run the tests of a rule file or of a package in a folder.

    Examples and properties are in the rule file or in a second file. A failing case is simplified, and the report says
    how to run it alone. At the end it lists what no test reached. Exits 1 if a test fails.

    \b
    bpc rules test battery.bpc
    bpc rules test battery.bpc --tests battery_tests.bpc --seed 7
    bpc rules test battery.bpc --only capacity_is_positive --case 17
    """
    package = read_package_files(rules, tests)
    if package.program is None:
        exit_with_diagnostics(package.diagnostics, as_json=as_json)
    with show_progress("testing", as_json=as_json) as bar:
        progress = (lambda done, total: bar.update(done, total, "cases")) if bar.is_visible else None
        report = run_tests(package.program, seed=seed, only=only, case=case, progress=progress)
    if as_json:
        print_json(report.as_json())
    else:
        _print_report(report, seed)
    if report.failures:
        raise typer.Exit(REFUSED)


def _print_report(report: TestReport, seed: int) -> None:
    if report.failures:
        says = f"{report.failed:,} of {format_count(report.cases, 'case')} failed"
        print_refusal("RULE_TESTS_FAILED", says, None, {}, as_json=False)
        print_line("")
    for failure in report.failures:
        print_test_failure(failure)
        print_line("")
    if report.cases or report.discarded:
        _print_coverage(report.coverage)
        print_line("")
    print_line(
        f"{report.status}  {_format_counts(report, seed)}", colour="red" if report.failures else "green", bold=True
    )


def _format_counts(report: TestReport, seed: int) -> str:
    if not report.cases and not report.discarded:
        return "there are no tests"
    discarded_text = f", {report.discarded:,} discarded" if report.discarded else ""
    discarded_text += f", {report.without_field:,} without a field" if report.without_field else ""
    cases = format_count(report.cases, "case")
    return f"{cases}, {report.passed:,} passed, {report.failed:,} failed{discarded_text}, seed {seed}"


def _print_coverage(coverage: Coverage) -> None:
    shares = [(plural, coverage.compute_share(kind)) for kind, plural in SITE_KINDS.items()]
    rows = [(plural, share.reached, share.total, f"{share.percent} %") for plural, share in shares]
    print_table(("COVERAGE", "REACHED", "OF", ""), rows)
    unreached_branches = coverage.list_unreached()
    if unreached_branches:
        print_line("not reached by any test:")
    for site in unreached_branches[:MAX_PLACES_LISTED]:
        print_line(f"  {site.kind} {site.label} at {coverage.source.find_place(site.span.start)}")
    if len(unreached_branches) > MAX_PLACES_LISTED:
        print_line(f"  and {len(unreached_branches) - MAX_PLACES_LISTED} more; --json lists them all")
