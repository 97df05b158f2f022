"""`bpc rules publish` and `bpc rules list`: rules on the server, over the API.

Diagnostics and failed tests of the server are printed with the names and positions of the local files.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from bpc.cli.support.arguments import UrlOption, make_utf8_check, require_utf8
from bpc.cli.support.list_options import ActivityOption, NameOption, parse_optional_when
from bpc.cli.support.output import (
    REFUSED,
    AsJson,
    format_optional_time,
    print_json,
    print_line,
    print_refusal,
    print_table,
)
from bpc.cli.support.progress import explain_interrupt, show_progress
from bpc.cli.support.rule_files import (
    RulesArgument,
    TestsFileOption,
    get_package_name,
    print_diagnostics,
    print_error_origin,
    print_place,
    print_simplest_case,
    read_package_texts,
)
from bpc.cli.support.times import SinceOption, UntilOption
from bpc.core.errors import Conflict
from bpc.core.formats import canonical_json
from bpc.core.language.checking.context import LocatedDiagnostic
from bpc.core.language.linking import LinkedSource, recognise_files
from bpc.core.language.package import RulesRefused
from bpc.core.language.source import Diagnostic, DiagnosticNote, Source, Span, read_source
from bpc.core.language.testing.report import format_command

if TYPE_CHECKING:
    from bpc_client import Client
    from bpc_client.models import Job, RuleTestFailure, RuleVersion, RuleVersionDetails

    from bpc.cli.online.remote_rules import AnyRuleTestRun, RemotePackage, RulesRejected

STDIN: Final = "-"
LARGEST_SEED: Final = 2**53 - 1  # larger numbers lose digits in some JSON parsers
MIN_CASES: Final = 500  # for rules to be published
TESTS_GO_ON: Final = (
    "the tests go on without this command, and nothing is published yet\n"
    "  go on with it: run the same command again; it starts nothing twice\n"
    "  look at it:    bpc rules list"
)
FINAL_STATUSES: Final = frozenset({"DEPRECATED", "RETIRED"})


class SentSources(NamedTuple):
    """The files that were sent."""

    rules: Source
    tests: Source

    def find_source(self, name: str) -> Source:
        """The local file for the name that the server uses."""
        for source in (self.rules, self.tests):
            if isinstance(source, LinkedSource) and (file := source.find_file(name)) is not None:
                return file
        return self.tests if name == "tests.bpc" else self.rules

    def find_span(self, place: Mapping[str, Any]) -> tuple[Source, Span]:
        """The local file and the part of it that the server names by lines and columns."""
        source = self.find_source(place["file"])
        start = source.get_offset(place["line"], place["column"])
        return source, Span(start, source.get_offset(place["end_line"], place["end_column"]))


class PublishResult(NamedTuple):
    """The version after the command.

    `newer` is a later published version, if these texts were already published.
    """

    package: "RemotePackage"
    version: "RuleVersionDetails"
    run: "AnyRuleTestRun | None"
    was_published: bool
    newer: "RuleVersion | None"


async def publish_rules(
    rules: RulesArgument,
    tests: TestsFileOption = None,
    package: Annotated[
        str | None,
        typer.Option(
            "--package",
            metavar="NAME",
            help="Package name or id; created if it does not exist [default: the file name without extension].",
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            "--seed",
            metavar="N",
            min=0,
            max=LARGEST_SEED,
            help="Seed for the random test cases (same seed, same cases).",
        ),
    ] = 0,
    no_publish: Annotated[bool, typer.Option("--no-publish", help="Only run the tests; publish later.")] = False,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Test rules on the server and publish them.

    Stores the texts as a version of the package, runs their tests on the server, and publishes the version if they
    pass with at least 500 cases. Otherwise the version stays a DRAFT and the exit code is 1. The same texts are always
    the same version: publishing again continues where it stopped.

    \b
    bpc rules publish battery.bpc --tests battery_tests.bpc
    bpc rules publish battery.bpc --tests battery_tests.bpc --package "Industrial batteries" --json
    """
    if rules == STDIN and package is None:
        raise typer.BadParameter("Rules from standard input have no name: use --package NAME.")
    name = require_utf8("the package's name", package or get_package_name(rules))
    texts = read_package_texts(rules, tests)
    sources = SentSources(
        _read_rule_source(texts.rules_name, texts.rules), _read_rule_source(texts.tests_name, texts.tests)
    )
    # Slow to import, and the other commands for rules do not need them.
    from bpc.cli.online.api_client import open_api  # noqa: PLC0415
    from bpc.cli.online.remote_rules import RulesRejected  # noqa: PLC0415

    try:
        async with open_api(url, as_json=as_json) as bpc:
            result = await _store_test_publish(
                bpc, name, sources, seed=seed, to_publish=not no_publish, as_json=as_json
            )
    except RulesRejected as wrong:
        _print_rejected(wrong, sources, as_json=as_json)
        raise typer.Exit(REFUSED) from None
    _print_result(result, sources, as_json=as_json)
    if result.version.status == "DRAFT":
        raise typer.Exit(REFUSED)


async def _store_test_publish(
    bpc: "Client", name: str, sources: SentSources, *, seed: int, to_publish: bool, as_json: bool
) -> PublishResult:
    from bpc.cli.online.remote_rules import (  # noqa: PLC0415
        RuleAndTestTexts,
        find_newest_published,
        publish_version,
        run_tests_remotely,
        store_rules,
    )

    package, version = await store_rules(bpc, name, RuleAndTestTexts(sources.rules.text, sources.tests.text))
    if name not in {package.name, str(package.rule_package_id)}:
        raise _other_package_error(package, version)
    if version.status in FINAL_STATUSES:
        raise Conflict(
            f"these texts are version {version.version} of `{package.name}`, which is {version.status}",
            fix="change the rules or their tests: a changed text becomes a new version",
            details={"rule_package_version_id": version.rule_package_version_id, "status": version.status},
        )
    if version.status == "PUBLISHED":
        newest = await find_newest_published(bpc, package)
        newer = newest if newest is not None and newest.version > version.version else None
        return PublishResult(package, version, version.newest_run, was_published=True, newer=newer)
    with (
        explain_interrupt(lambda: TESTS_GO_ON),
        show_progress("testing", as_json=as_json, unit="percent") as bar,
    ):

        def show(job: "Job") -> None:
            if job.progress is not None:
                bar.update(job.progress.percent or 0, 100, job.progress.message or "")

        version, run = await run_tests_remotely(bpc, version, seed=seed, show=show)
    if version.status != "DRAFT" and to_publish:
        version = await publish_version(bpc, version)
    return PublishResult(package, version, run, was_published=False, newer=None)


def _other_package_error(package: "RemotePackage", version: "RuleVersionDetails") -> Conflict:
    return Conflict(
        f"these texts are version {version.version} of another package already, `{package.name}` ({version.status})",
        fix="use that package with --package, or change a text: it then becomes a new version",
        details={
            "rule_package_id": package.rule_package_id,
            "rule_package_version_id": version.rule_package_version_id,
            "status": version.status,
        },
    )


def _read_rule_source(file: str, data: bytes) -> Source:
    """The text of a file. A file that is not text is refused here, as the server would refuse it."""
    source = read_source(file, data)
    if isinstance(source, Source):
        return recognise_files(source)
    raise RulesRefused((LocatedDiagnostic(Source(file, ""), source),))


def _print_rejected(rejection: "RulesRejected", sources: SentSources, *, as_json: bool) -> None:
    if as_json:
        first = next(diagnostic for diagnostic in rejection.diagnostics if diagnostic["severity"] == "error")
        details = {"diagnostics": rejection.diagnostics}
        print_refusal(first["code"], "the rules have errors; no version was created", None, details, as_json=True)
        return
    print_remote_diagnostics(rejection.diagnostics, sources)
    print_line("\nno version was created")


def _print_result(result: PublishResult, sources: SentSources, *, as_json: bool) -> None:
    refusal = _explain_draft(result)
    if as_json:
        if refusal is None:
            print_json(_result_to_json(result))
        else:
            print_refusal("RULE_TESTS_FAILED", *refusal, _result_to_json(result), as_json=True)
        return
    if refusal is not None:
        print_refusal("RULE_TESTS_FAILED", *refusal, {}, as_json=False)
        if result.run is not None and result.run.failure is not None:
            print_line("")
            print_remote_failure(result.run.failure, sources, result.run.seed)
            print_line("")
    _print_version(result)


def _explain_draft(result: PublishResult) -> tuple[str, str] | None:
    """Why the version is still a DRAFT, and what to do."""
    run = result.run
    if result.version.status != "DRAFT" or run is None:
        return None
    if run.failed:
        says = f"{run.failed:,} of {run.cases:,} cases failed"
        fix = "correct them: a changed text becomes a new version"
    else:
        counted_cases = run.cases - (run.cases_without_field or 0)
        note = f" ({run.cases_without_field:,} more evaluate no field)" if run.cases_without_field else ""
        says = f"the tests passed with {counted_cases:,} of the {MIN_CASES} required cases{note}"
        fix = f"write a property with cases({MIN_CASES}) over a field: a changed text becomes a new version"
    return f"{says}; version {result.version.version} stays a DRAFT", fix


def _print_version(result: PublishResult) -> None:
    version, run = result.version, result.run
    print_line(f"package   {result.package.name} ({result.package.rule_package_id})")
    print_line(f"version   {version.rule_package_version_id} ({version.status})")
    print_line(f"number    {version.version}")
    if run is not None:
        print_line(f"tests     {run.passed:,} of {run.cases:,} cases passed, seed {run.seed}")
        _print_coverage(run)
    if result.was_published:
        print_line("these texts are already published; nothing to do")
    if result.newer is not None:
        newer = result.newer
        print_line(f"version {newer.version} is newer; the package name refers to it: {newer.rule_package_version_id}")


def _print_coverage(run: "AnyRuleTestRun") -> None:
    if run.coverage is None:
        return
    print_line(f"branches  {run.coverage.branches.percent} % reached")
    if run.coverage.untested_fields:
        print_line(f"untested  {', '.join(run.coverage.untested_fields)}", colour="yellow")


def _result_to_json(result: PublishResult) -> dict[str, object]:
    version, run = result.version, result.run
    return {
        "rule_package_id": result.package.rule_package_id,
        "name": result.package.name,
        "rule_package_version_id": version.rule_package_version_id,
        "version": version.version,
        "status": version.status,
        "dsl_sha256": version.dsl_sha256,
        "tests_sha256": version.tests_sha256,
        "was_published": result.was_published,
        "newer_version_id": None if result.newer is None else result.newer.rule_package_version_id,
        "run": None if run is None else run.model_dump(mode="json", exclude={"coverage", "rule_package_version_id"}),
    }


async def list_rules(
    package: Annotated[
        str | None, typer.Argument(metavar="PACKAGE", help="Name or id of one package.", show_default=False)
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(
            "--text",
            metavar="TEXT",
            help="Only packages whose name or description contains this, in upper or lower case.",
            callback=make_utf8_check("the text"),
        ),
    ] = None,
    name: NameOption = None,
    status: ActivityOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """List rule packages and their versions over the API.

    The newest are first. Only PUBLISHED versions compile passports.

    \b
    bpc rules list
    bpc rules list --text industrial --status active
    bpc rules list "Industrial batteries" --json
    """
    from bpc.cli.online.api_client import open_api  # noqa: PLC0415 (slow to import)
    from bpc.cli.online.remote_rules import list_packages, list_versions, require_package  # noqa: PLC0415

    filters = {
        "q": text,
        "name": name,
        "status": status,
        "created_after": parse_optional_when(since),
        "created_before": parse_optional_when(until),
    }
    if package is not None and any(filters.values()):
        raise typer.BadParameter("Use either PACKAGE or filters.")
    async with open_api(url, as_json=as_json) as bpc:
        if package is None:
            packages = await list_packages(bpc, **filters)
        else:
            packages = [await require_package(bpc, require_utf8("the package's name", package))]
        packages_with_versions = [(one, [version async for version in list_versions(bpc, one)]) for one in packages]
    if as_json:
        print_json([_package_to_json(*entry) for entry in packages_with_versions])
        return
    rows: list[Sequence[object]] = []
    for one, versions in packages_with_versions:
        rows += [
            (one.name, each.version, each.status, format_optional_time(each.published_at), each.rule_package_version_id)
            for each in versions
        ] or [(one.name, None, None, None, None)]
    print_table(("PACKAGE", "VERSION", "STATUS", "PUBLISHED", "ID"), rows)


def _package_to_json(package: "RemotePackage", versions: "Sequence[RuleVersion]") -> dict[str, object]:
    names = ("rule_package_version_id", "version", "status", "created_at", "published_at")
    return {
        "rule_package_id": package.rule_package_id,
        "name": package.name,
        "versions": [{name: getattr(version, name) for name in names} for version in versions],
    }


def print_remote_diagnostics(diagnostics: Sequence[Mapping[str, Any]], sources: SentSources) -> None:
    try:
        diagnostics_here = [_parse_diagnostic(diagnostic, sources) for diagnostic in diagnostics]
    except (LookupError, TypeError, ValueError):  # a newer server may report kinds that we do not know
        first = next(diagnostic for diagnostic in diagnostics if diagnostic["severity"] == "error")
        source = sources.find_source(first["file"])
        says = f"{source.name}:{first['line']}:{first['column']}: {first['message']}"
        print_refusal(first["code"], says, first["help"], {}, as_json=False)
    else:
        print_diagnostics(diagnostics_here)


def print_remote_failure(failure: "RuleTestFailure", sources: SentSources, seed: int) -> None:
    print_line(f"failed[{failure.test}]: {failure.message}", colour="red")
    source, span = sources.find_span(failure.model_dump())
    print_place(source, span)
    error = failure.error
    if error and error.line is not None and error.column is not None and (error.line, error.column) != (1, 1):
        error_source = sources.find_source(error.file)
        at = error_source.get_offset(error.line, error.column)
        print_error_origin(error.field, error_source, Span(at, at + 1))
    if failure.case is not None:
        variables = [
            f"{name} = {canonical_json.encode(value).decode()}" for name, value in failure.case.variables.items()
        ]
        tests = sources.rules if isinstance(sources.rules, LinkedSource) else source
        command = format_command(sources.rules, tests, seed=seed, test=failure.test, case=failure.case.number)
        print_simplest_case(failure.case.facts, variables, command)


def _parse_diagnostic(document: Mapping[str, Any], sources: SentSources) -> LocatedDiagnostic:
    source, span = sources.find_span(document)
    notes = tuple(_parse_note(note, source) for note in document["notes"])
    kind, message, fix = document["kind"], document["message"], document["help"]
    return LocatedDiagnostic(source, Diagnostic(kind=kind, message=message, span=span, help=fix, notes=notes))


def _parse_note(document: Mapping[str, Any], source: Source) -> DiagnosticNote:
    at = source.get_offset(document["line"], document["column"])
    return DiagnosticNote(Span(at, at + 1), document["message"])
