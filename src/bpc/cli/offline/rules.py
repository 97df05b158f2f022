"""`bpc rules`: check, format, test and evaluate rule files offline; publish and list them over the API."""

from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from bpc.cli.offline.rules_eval import evaluate_rules
from bpc.cli.offline.rules_fields import list_fields_as_json, print_fields
from bpc.cli.offline.rules_mutate import mutate_rules
from bpc.cli.offline.rules_shipped import list_shipped_packages
from bpc.cli.online.rules_publish import list_rules, publish_rules
from bpc.cli.support.arguments import command_group
from bpc.cli.support.output import (
    REFUSED,
    AsJson,
    escape_controls,
    format_count,
    print_bytes,
    print_json,
    print_line,
    print_refusal,
    print_table,
    read_bytes,
    replace_file,
)
from bpc.cli.support.package_folders import list_package_files, locate_package
from bpc.cli.support.progress import show_progress
from bpc.cli.support.rule_files import (
    RulesArgument,
    TestsFileOption,
    count_diagnostics,
    diagnostics_to_json,
    exit_with_diagnostics,
    print_diagnostics,
    print_test_failure,
    read_package_files,
    select_errors,
)
from bpc.core.errors import Invalid
from bpc.core.language.checking.context import LocatedDiagnostic
from bpc.core.language.formatting import format_tree
from bpc.core.language.package import CheckedPackage
from bpc.core.language.parsing.parse import parse
from bpc.core.language.source import Source, has_errors, read_source
from bpc.core.language.testing.report import SITE_KINDS, Coverage, TestReport
from bpc.core.language.testing.run import run_tests
from bpc.core.language.typed import Program

STDIN: Final = "-"
MAX_PLACES_LISTED: Final = 20

RuleFilesArgument = Annotated[
    list[str],
    typer.Argument(metavar="FILE", help="Rule files, folders of packages, or `shipped:NAME`; `-` is standard input."),
]


def check_files(files: RuleFilesArgument, tests: TestsFileOption = None, as_json: AsJson = False) -> None:
    """Find the errors in rule files.

    Each file is one package, and so is a folder with a file package.bpc. All errors are shown at once; warnings do
    not fail the check. With --tests, which needs exactly one FILE, the tests in a second file are checked too. Exits 1
    if there is an error.

    \b
    bpc rules check battery.bpc
    bpc rules check battery.bpc --tests battery-tests.bpc
    """
    if tests is not None and len(files) != 1:
        raise typer.BadParameter("--tests needs exactly one rule file.")
    packages = {file: read_package_files(file, tests) for file in files}
    diagnostics = [diagnostic for package in packages.values() for diagnostic in package.diagnostics]
    if as_json:
        programs = [package.program for package in packages.values() if package.program]
        overrides = [override.as_json() for program in programs for override in program.overrides]
        fields = [field for program in programs for field in program.fields if field.about is not None]
        print_json(
            {
                "diagnostics": diagnostics_to_json(diagnostics),
                **({"overrides": overrides} if overrides else {}),
                **({"fields": list_fields_as_json(fields)} if fields else {}),
            }
        )
    else:
        print_diagnostics(diagnostics)
        for file, package in packages.items():
            _print_summary(file, package)
    if select_errors(diagnostics):
        raise typer.Exit(REFUSED)


def _print_summary(file: str, package: CheckedPackage) -> None:
    if package.program is None:
        return
    remarks = f" ({count_diagnostics(package.diagnostics)})" if package.diagnostics else ""
    print_line(f"{escape_controls(file)}: {count_contents(package.program)}{remarks}")
    for override in package.program.overrides:
        verb = "weakens" if override.weakens else "overrides"
        place = override.source.find_place(override.span.start)
        print_line(escape_controls(f"  {verb} {override.kind} {override.name} at {place}: {override.reason}"))
        if override.before is not None:
            print_line(escape_controls(f"    was: {override.before or 'nothing'}"))
            print_line(escape_controls(f"    is:  {override.after or 'nothing'}"))


def count_contents(program: Program) -> str:
    """`2 fields, 1 test`"""
    fields, tests = len(program.fields), len(program.examples) + len(program.properties)
    return f"{format_count(fields, 'field')}, {format_count(tests, 'test')}"


class FormatResult(NamedTuple):
    """A file, its standard form (None if it has syntax errors) and its diagnostics."""

    file: str
    before: bytes
    after: bytes | None
    diagnostics: tuple[LocatedDiagnostic, ...]

    @property
    def changes(self) -> bool:
        return self.after is not None and self.after != self.before


def format_files(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE", help="Files or folders to rewrite; `-` reads standard input and writes standard output."
        ),
    ],
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit 1 and list the files that would change.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Put rule files into their standard form.

    Prints the files that changed. A file with syntax errors is not changed. The meaning of a file never
    changes: comments stay, and only blanks, line breaks and superfluous parentheses differ.

    \b
    bpc rules fmt rules/*.bpc
    bpc rules fmt --check rules/*.bpc
    """
    results = [result for file in files for result in _format_path(file)]
    if not check:
        for result in results:
            _write_formatted(result)
    _report_formatted(results, check=check, as_json=as_json)


def _format_path(path: str) -> list[FormatResult]:
    """A file, or each file of a folder, which is a package of level 2."""
    folder = locate_package(path)
    if folder is None:
        return [_format_file(path)]
    return [_format_file(str(folder / file), language=2) for file in list_package_files(folder)]


def _format_file(file: str, *, language: int = 1) -> FormatResult:
    data = read_bytes(file)
    source = read_source(file, data)
    if not isinstance(source, Source):
        return FormatResult(file, data, None, (LocatedDiagnostic(Source(file, ""), source),))
    result = parse(source, language=language)
    if has_errors(result.diagnostics):
        return FormatResult(
            file, data, None, tuple(LocatedDiagnostic(source, diagnostic) for diagnostic in result.diagnostics)
        )
    return FormatResult(file, data, format_tree(result.tree, source).encode(), ())


def _write_formatted(result: FormatResult) -> None:
    if result.file == STDIN and result.after is not None:
        print_bytes(result.after)
    elif result.after is not None and result.changes:
        path = Path(result.file).resolve()  # follow a link instead of replacing it
        mode = path.stat().st_mode
        replace_file(path, result.after)
        path.chmod(mode)


def _report_formatted(results: list[FormatResult], *, check: bool, as_json: bool) -> None:
    changed_files = [result.file for result in results if result.changes and (check or result.file != STDIN)]
    diagnostics = [diagnostic for result in results for diagnostic in result.diagnostics]
    if as_json:
        print_json({"changed": changed_files, "diagnostics": diagnostics_to_json(diagnostics)})
    else:
        for file in changed_files:
            print_line(escape_controls(file))
        print_diagnostics(diagnostics)
    if select_errors(diagnostics) or (check and changed_files and as_json):
        raise typer.Exit(REFUSED)
    if check and changed_files:
        verb = "is" if len(changed_files) == 1 else "are"
        raise Invalid(
            f"{len(changed_files)} of {len(results)} files {verb} not in standard form",
            fix="`bpc rules fmt` rewrites them",
        )


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


rules_app = command_group(
    "Check, format, test, try out and publish rules.\n\n"
    "Rules compute a passport's fields from facts; docs/rules/language.md explains them. `publish` and `list` need an "
    "API; the other commands need only the files."
)
rules_app.command("check")(check_files)
rules_app.command("fmt")(format_files)
rules_app.command("test")(run_rule_tests)
rules_app.command("mutate")(mutate_rules)
rules_app.command("eval")(evaluate_rules)
rules_app.command("fields")(print_fields)
rules_app.command("publish")(publish_rules)
rules_app.command("list")(list_rules)
rules_app.command("shipped")(list_shipped_packages)
