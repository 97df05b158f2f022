# ruff: noqa: PT028 (the command called `test` is no test)
"""`bpc rules test`: run the tests of a rule file, and say what failed, how to see it again and what is untested.

Needs no database and no settings. The same files and the same seed give the same report.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from bpc.cli.files import read_bytes
from bpc.cli.output import REFUSED, AsJson, print_json, print_refusal, say
from bpc.cli.rules_diagnostics import errors, print_diagnostics
from bpc.cli.rules_failure import print_given, print_place
from bpc.core.rules.checking.findings import Found
from bpc.core.rules.package import read_package
from bpc.core.rules.source import Span
from bpc.core.rules.source import as_json as diagnostic_json
from bpc.core.rules.testing.coverage import KINDS, Coverage
from bpc.core.rules.testing.run import run_tests
from bpc.core.rules.testing.verdict import FailedCase, TestFailure, TestReport

if TYPE_CHECKING:
    from bpc.core.rules.testing.run import Progress

LISTED: Final = 20  # places without a test that a person is shown


def test(
    rules: Annotated[str, typer.Argument(metavar="RULES", help="The rule file; `-` is standard input.")],
    tests: Annotated[
        str | None, typer.Option("--tests", metavar="FILE", help="A file with more tests for these rules.")
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=0, help="Which cases of the properties are made.")
    ] = 0,
    only: Annotated[str | None, typer.Option("--only", metavar="NAME", help="Run this test alone.")] = None,
    case: Annotated[
        int | None, typer.Option("--case", metavar="I", min=0, help="Run this case of a property alone, with --only.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run the tests of a rule file.

    Examples and properties stand in the rule file or in a tests file beside it. A case that fails is made as simple as
    possible, and the report says how to run it alone. It ends with what the tests did not reach. Exits 1 if a test
    fails.

    \b
    bpc rules test battery.bpc
    bpc rules test battery.bpc --tests battery_tests.bpc --seed 7
    bpc rules test battery.bpc --only capacity_is_positive --case 17
    """
    package = read_package(
        read_bytes(rules), b"" if tests is None else read_bytes(tests), name=rules, tests_name=tests or "tests.bpc"
    )
    if package.program is None:
        _print_mistakes(package.found, for_programs=as_json)
        raise typer.Exit(REFUSED)
    with _progress(shown=sys.stderr.isatty() and not as_json) as progress:
        report = run_tests(package.program, seed=seed, only=only, case=case, progress=progress)
    if as_json:
        print_json(report.as_json())
    else:
        _print_report(report, seed)
    if report.failures:
        raise typer.Exit(REFUSED)


def _print_mistakes(found: Sequence[Found], *, for_programs: bool) -> None:
    """Rules with mistakes have no tests to run yet."""
    if for_programs:
        print_json({"diagnostics": [diagnostic_json(each.source, each.diagnostic) for each in found]})
    else:
        print_diagnostics(errors(found))


@contextmanager
def _progress(*, shown: bool) -> "Iterator[Progress | None]":
    """A bar on a terminal, gone when the tests are done; nothing anywhere else."""
    if not shown:
        yield None
        return
    from rich.console import Console  # noqa: PLC0415 (slow to import, and only a terminal needs it)
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn  # noqa: PLC0415

    columns = TextColumn("testing"), BarColumn(), MofNCompleteColumn(), TextColumn("cases")
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("")
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _print_report(report: TestReport, seed: int) -> None:
    if report.failures:
        print_refusal(
            "RULE_TESTS_FAILED", f"{report.failed:,} of {_cases(report.cases)} failed", None, {}, as_json=False
        )
        say("")
    for failure in report.failures:
        _print_failure(failure)
        say("")
    if report.cases or report.discarded:
        _print_coverage(report.coverage)
        say("")
    say(f"{report.status}  {_counts(report, seed)}", colour="red" if report.failures else "green", bold=True)


def _counts(report: TestReport, seed: int) -> str:
    if not report.cases and not report.discarded:
        return "there are no tests"
    discarded = f", {report.discarded:,} discarded" if report.discarded else ""
    return f"{_cases(report.cases)}, {report.passed:,} passed, {report.failed:,} failed{discarded}, seed {seed}"


def _cases(number: int) -> str:
    return "1 case" if number == 1 else f"{number:,} cases"


def _print_failure(failure: TestFailure) -> None:
    say(f"failed[{failure.test}]: {failure.says}", colour="red")
    print_place(failure.source, failure.span)
    error = failure.error
    if error is not None and error.span is not None and error.span != Span(0, 0):
        say("the error comes from" if error.field is None else f"the error comes from field `{error.field}`")
        print_place(error.source, error.span)
    if failure.case is not None:
        _print_case(failure.case)


def _print_case(case: FailedCase) -> None:
    say("the simplest case found that fails so")
    for fact in case.facts:
        print_given(fact.fact_type, fact.schema_version, fact.fact_key, fact.payload)
    say(f"  {case.variable}")
    say(f"run it alone: {case.command}")


def _print_coverage(coverage: Coverage) -> None:
    from bpc.cli.table import print_table  # noqa: PLC0415 (rich is slow to import)

    shares = [(plural, coverage.share(kind)) for kind, plural in KINDS.items()]
    rows = [(plural, share.reached, share.total, f"{share.percent} %") for plural, share in shares]
    print_table(("COVERAGE", "REACHED", "OF", ""), rows)
    missed = coverage.unreached()
    if missed:
        say("not reached by any test:")
    for site in missed[:LISTED]:
        place = coverage.source.place(site.span.start)
        say(f"  {site.kind} {site.label} at {coverage.source.name}:{place.line}:{place.column}")
    if len(missed) > LISTED:
        say(f"  and {len(missed) - LISTED} more; --json lists them all")
