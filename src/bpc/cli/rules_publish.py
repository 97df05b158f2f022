"""`bpc rules publish`: rule files become a version that compiles passports, over the API, in one command."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from bpc.cli.files import read_bytes
from bpc.cli.output import REFUSED, AsJson, print_json, print_refusal, say
from bpc.cli.rules_said import Sources, print_failed, print_mistakes
from bpc.cli.text import checked_text
from bpc.cli.url import Url
from bpc.core.errors import Conflict
from bpc.core.rules.checking.findings import Found
from bpc.core.rules.package import RulesRefused
from bpc.core.rules.source import Source, read_source

if TYPE_CHECKING:
    from bpc.cli.rules_publishing import Mistakes, Package, Run
    from bpc.client import Client
    from bpc.client.models import Job, RuleVersion, RuleVersionDetails

STDIN: Final = "-"
LARGEST_SEED: Final = 2**53 - 1  # what every JSON parser reads as it was written
LEAST_CASES: Final = 500  # that count, for rules to be published
FINAL: Final = frozenset({"DEPRECATED", "RETIRED"})


class Outcome(NamedTuple):
    """Where the version stands, and how it came there.

    `newer` is a version that is published as well and came later, if the texts were published already.
    """

    package: "Package"
    version: "RuleVersionDetails"
    run: "Run | None"
    was_published: bool
    newer: "RuleVersion | None"


def publish(
    rules: Annotated[str, typer.Argument(metavar="RULES", help="The rule file; `-` is standard input.")],
    tests: Annotated[
        str | None, typer.Option("--tests", metavar="FILE", help="A file with more tests for these rules.")
    ] = None,
    package: Annotated[
        str | None,
        typer.Option(
            "--package",
            metavar="NAME",
            help="The package, by name or id, created if there is none of this name. "
            "The file's name without its ending if left out.",
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option("--seed", metavar="N", min=0, max=LARGEST_SEED, help="Which cases of the properties are made."),
    ] = 0,
    no_publish: Annotated[
        bool, typer.Option("--no-publish", help="Have it tested only; the version may be published later.")
    ] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Publish rules over the API, once their tests have passed there.

    Makes the texts a version of the package, has the service run their tests, and publishes the version if they pass,
    with at least 500 cases. If they do not, the version stays a DRAFT, and the exit code is 1. The same texts are one
    version: publishing them again goes on where it was, or says that it is done.

    \b
    bpc rules publish battery.bpc --tests battery_tests.bpc
    bpc rules publish battery.bpc --tests battery_tests.bpc --package "Industrial batteries" --json
    """
    if rules == STDIN and package is None:
        raise typer.BadParameter("Rules from standard input have no name: say --package NAME.")
    name = checked_text("the package's name", package or Path(rules).stem)
    sources = Sources(_read(rules), Source("tests.bpc", "") if tests is None else _read(tests))
    # Slow to import, and the other commands for rules ask nobody.
    from bpc.cli.online import ask  # noqa: PLC0415
    from bpc.cli.rules_publishing import Mistakes  # noqa: PLC0415

    async def work(bpc: "Client") -> Outcome:
        return await _outcome(bpc, name, sources, seed=seed, to_publish=not no_publish, as_json=as_json)

    try:
        outcome = ask(url, work, as_json=as_json)
    except Mistakes as wrong:
        _print_mistakes(wrong, sources, as_json=as_json)
        raise typer.Exit(REFUSED) from None
    _print(outcome, sources, as_json=as_json)
    if outcome.version.status == "DRAFT":
        raise typer.Exit(REFUSED)


async def _outcome(
    bpc: "Client", name: str, sources: Sources, *, seed: int, to_publish: bool, as_json: bool
) -> Outcome:
    from bpc.cli.rules_publishing import Texts, after_tests, newest_published, published, stored  # noqa: PLC0415

    package, version = await stored(bpc, name, Texts(sources.rules.text, sources.tests.text))
    if name not in {package.name, str(package.rule_package_id)}:
        raise _elsewhere(package, version)
    if version.status in FINAL:
        raise Conflict(
            f"these texts are version {version.version} of `{package.name}`, which is {version.status}",
            fix="change the rules or their tests: other texts are another version",
            details={"rule_package_version_id": str(version.rule_package_version_id), "status": version.status},
        )
    if version.status == "PUBLISHED":
        newest = await newest_published(bpc, package)
        newer = newest if newest is not None and newest.version > version.version else None
        return Outcome(package, version, version.newest_run, was_published=True, newer=newer)
    with _progress(shown=not as_json and sys.stderr.isatty()) as show:
        version, run = await after_tests(bpc, version, seed=seed, show=show)
    if version.status != "DRAFT" and to_publish:
        version = await published(bpc, version)
    return Outcome(package, version, run, was_published=False, newer=None)


def _elsewhere(package: "Package", version: "RuleVersionDetails") -> Conflict:
    return Conflict(
        f"these texts are version {version.version} of another package already, `{package.name}` ({version.status})",
        fix="name that one with --package, or change the texts: two texts are one version",
        details={
            "rule_package_id": str(package.rule_package_id),
            "rule_package_version_id": str(version.rule_package_version_id),
            "status": version.status,
        },
    )


def _read(file: str) -> Source:
    """A file as it will be sent; one that is no text is refused here, as the service would."""
    source = read_source(file, read_bytes(file))
    if isinstance(source, Source):
        return source
    raise RulesRefused((Found(Source(file, ""), source),))


@contextmanager
def _progress(*, shown: bool) -> "Iterator[Callable[[Job], None]]":
    """A bar on a terminal, gone when the tests are over; nothing anywhere else."""
    if not shown:
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415 (slow to import, and only a terminal needs it)
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn  # noqa: PLC0415

    columns = TextColumn("testing"), BarColumn(), TaskProgressColumn(), TextColumn("{task.description}")
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("waiting for a worker", total=100)

        def show(job: "Job") -> None:
            if job.progress is not None:
                bar.update(task, completed=job.progress.percent or 0, description=job.progress.message or "")

        yield show


def _print_mistakes(wrong: "Mistakes", sources: Sources, *, as_json: bool) -> None:
    if as_json:
        first = next(each for each in wrong.diagnostics if each["severity"] == "error")
        details = {"diagnostics": wrong.diagnostics}
        print_refusal(first["code"], "the rules have mistakes; no version was made", None, details, as_json=True)
        return
    print_mistakes(wrong.diagnostics, sources)
    say("\nno version was made")


def _print(outcome: Outcome, sources: Sources, *, as_json: bool) -> None:
    refused = _refused(outcome)
    if as_json:
        if refused is None:
            print_json(_shown(outcome))
        else:
            print_refusal("RULE_TESTS_FAILED", *refused, _shown(outcome), as_json=True)
        return
    if refused is not None:
        print_refusal("RULE_TESTS_FAILED", *refused, {}, as_json=False)
        if outcome.run is not None and outcome.run.failure is not None:
            say("")
            print_failed(outcome.run.failure, sources, outcome.run.seed)
            say("")
    _tell(outcome)


def _refused(outcome: Outcome) -> tuple[str, str] | None:
    """Why the version is not more than a DRAFT, and what to do."""
    run = outcome.run
    if outcome.version.status != "DRAFT" or run is None:
        return None
    if run.failed:
        says, fix = f"{run.failed:,} of {run.cases:,} cases failed", "correct them: other texts are another version"
    else:
        says = f"the tests passed with {run.cases:,} of the {LEAST_CASES} cases that are needed"
        fix = f"write a property with cases({LEAST_CASES}): other texts are another version"
    return f"{says}; version {outcome.version.version} stays a DRAFT", fix


def _tell(outcome: Outcome) -> None:
    version, run = outcome.version, outcome.run
    say(f"package   {outcome.package.name} ({outcome.package.rule_package_id})")
    say(f"version   {version.rule_package_version_id} ({version.status})")
    say(f"number    {version.version}")
    if run is not None:
        say(f"tests     {run.passed:,} of {run.cases:,} cases passed, seed {run.seed}")
    if outcome.was_published:
        say("these texts were published already; nothing was done")
    if outcome.newer is not None:
        newer = outcome.newer
        say(f"version {newer.version} is newer, and is what the package's name means: {newer.rule_package_version_id}")


def _shown(outcome: Outcome) -> dict[str, object]:
    version, run = outcome.version, outcome.run
    return {
        "rule_package_id": str(outcome.package.rule_package_id),
        "name": outcome.package.name,
        "rule_package_version_id": str(version.rule_package_version_id),
        "version": version.version,
        "status": version.status,
        "dsl_sha256": version.dsl_sha256,
        "tests_sha256": version.tests_sha256,
        "was_published": outcome.was_published,
        "newer_version_id": None if outcome.newer is None else str(outcome.newer.rule_package_version_id),
        "run": None if run is None else run.model_dump(mode="json", exclude={"coverage", "rule_package_version_id"}),
    }
