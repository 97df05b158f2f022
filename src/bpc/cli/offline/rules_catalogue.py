"""`bpc rules catalogue`: what rules say to people, in other languages: make the files to fill, check and upload them.

`upload` and `list` ask a running API; the other commands need only the files.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from bpc.cli.support.arguments import UrlOption, command_group, require_utf8
from bpc.cli.support.output import (
    REFUSED,
    AsJson,
    escape_controls,
    format_optional_time,
    print_json,
    print_line,
    print_refusal,
    print_table,
    read_bytes,
    replace_file,
)
from bpc.cli.support.package_folders import SHIPPED, locate_package
from bpc.cli.support.rule_files import (
    RulesArgument,
    exit_with_diagnostics,
    get_package_name,
    read_package_files,
)
from bpc.core.catalogue.checking import CatalogueReport, check_catalogue
from bpc.core.catalogue.extraction import list_source_texts, update_catalogue
from bpc.core.catalogue.number_format import LANGUAGES
from bpc.core.catalogue.po_file import PoEntry, format_po, parse_po
from bpc.core.errors import Invalid
from bpc.printing.catalogues import FOLDER_NAME, list_shipped_keys

if TYPE_CHECKING:
    from bpc_client.models import RuleCatalogue

MAX_PROBLEMS_LISTED: Final = 20

LanguageOption = Annotated[
    list[str] | None,
    typer.Option("--language", "-l", metavar="CODE", help="A language, such as de; may be repeated [default: all]."),
]
FolderOption = Annotated[
    Path | None,
    typer.Option("--folder", metavar="FOLDER", help="Where the files are [default: `catalogue` beside the rules]."),
]
PackageOption = Annotated[
    str | None,
    typer.Option(
        "--package",
        metavar="NAME",
        help="Name or id of the package on the server [default: what the rules are called].",
    ),
]


def extract_catalogues(
    rules: RulesArgument, language: LanguageOption = None, folder: FolderOption = None, as_json: AsJson = False
) -> None:
    """Make or update the files that translators fill.

    One file a language, in gettext's PO format. New texts are added empty. A translation whose English text changed is
    marked `fuzzy`: it is not used until somebody looked at it. A text that the rules no longer have is kept as
    obsolete. What bpc ships itself, such as the names of data points, is left out.

    \b
    bpc rules catalogue extract rules/acme
    bpc rules catalogue extract rules/acme --language de --language fr
    """
    texts = _list_texts(rules, as_json=as_json)
    if folder is None and rules.startswith(SHIPPED):
        raise Invalid("a shipped package is part of the program", fix="name a folder of yours: --folder FOLDER")
    place = folder or _find_folder(rules)
    place.mkdir(parents=True, exist_ok=True)
    reports = []
    for code in _choose_languages(language, place):
        file = place / f"{code}.po"
        entries = parse_po(file.read_bytes()) if file.exists() else []
        new_entries = update_catalogue(code, get_package_name(rules), entries, texts)
        replace_file(file, format_po(new_entries))
        reports.append(check_catalogue(code, new_entries, texts))
    _print_reports(reports, as_json=as_json)
    if not as_json:
        print_line(f"wrote {escape_controls(str(place))}")


def check_catalogues(
    rules: RulesArgument,
    language: LanguageOption = None,
    folder: FolderOption = None,
    complete: Annotated[
        bool, typer.Option("--complete", help="A text that is not translated is an error, too.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say what catalogues lack, and what is wrong in them; exit 1 if something is wrong.

    Wrong is a translation that does not have the arguments of its English text, such as {stages}. What is missing,
    changed or stale is listed; with --complete it is an error.

    \b
    bpc rules catalogue check rules/acme
    bpc rules catalogue check rules/acme --language de --complete
    """
    texts = _list_texts(rules, as_json=as_json)
    files = _list_catalogues(rules, language, folder)
    reports = [check_catalogue(file.stem, parse_po(read_bytes(str(file))), texts) for file in files]
    _print_reports(reports, as_json=as_json)
    if not as_json:
        for report in reports:
            _print_problems(report, errors_only=not language and not complete)
    wrong = [report.language for report in reports if report.has_errors or (complete and report.problems)]
    if wrong:
        if not as_json:
            says = f"the catalogue is wrong or not complete for {', '.join(wrong)}"
            print_refusal("VALIDATION_ERROR", says, "correct the texts above", {}, as_json=False)
        raise typer.Exit(REFUSED)


async def upload_catalogues(
    rules: RulesArgument,
    language: LanguageOption = None,
    folder: FolderOption = None,
    package: PackageOption = None,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Store catalogues beside a package on the server, in place of earlier ones.

    From then on prints of all its passports use them; no passport changes. A file in which something is wrong is
    refused before any is stored. What is not translated yet stays English. The package has to be on the server:
    `bpc rules publish` puts it there.

    \b
    bpc rules catalogue upload rules/acme
    bpc rules catalogue upload rules/acme --language de --package "Acme batteries"
    """
    texts = _list_texts(rules, as_json=as_json)
    files = {file.stem: read_bytes(str(file)) for file in _list_catalogues(rules, language, folder)}
    reports = [check_catalogue(code, parse_po(content), texts) for code, content in files.items()]
    wrong = [report for report in reports if report.has_errors]
    if wrong:
        if not as_json:
            for report in wrong:
                _print_problems(report, errors_only=True)
        codes = ", ".join(report.language for report in wrong)
        fix = f"correct the texts, then look at them with `bpc rules catalogue check {rules}`"
        raise Invalid(f"the catalogue is wrong for {codes}; nothing was stored", fix=fix)
    # Slow to import, and the other commands do not need them.
    from bpc.cli.online.api_client import open_api  # noqa: PLC0415
    from bpc.cli.online.remote_rules import require_package  # noqa: PLC0415

    name = require_utf8("the package's name", package or get_package_name(rules))
    async with open_api(url, as_json=as_json) as bpc:
        remote_package = await require_package(bpc, name)
        stored_catalogues = [
            await bpc.store_rule_catalogue(remote_package.rule_package_id, code, content=content.decode())
            for code, content in files.items()
        ]
    _print_stored(stored_catalogues, as_json=as_json)


async def list_catalogues(
    package: Annotated[
        str, typer.Argument(metavar="PACKAGE", help="Name or id of a package on the server.", show_default=False)
    ],
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """List the languages that a package on the server has texts in.

    Catalogues that come with bpc are not among them.

    \b
    bpc rules catalogue list "Acme batteries"
    """
    from bpc.cli.online.api_client import open_api  # noqa: PLC0415 (slow to import)
    from bpc.cli.online.remote_rules import require_package  # noqa: PLC0415

    async with open_api(url, as_json=as_json) as bpc:
        remote_package = await require_package(bpc, require_utf8("the package's name", package))
        stored_catalogues = (await bpc.list_rule_catalogues(remote_package.rule_package_id)).catalogues
    _print_stored(stored_catalogues, as_json=as_json)


def _print_stored(catalogues: "Sequence[RuleCatalogue]", *, as_json: bool) -> None:
    if as_json:
        print_json({"catalogues": [catalogue.model_dump(mode="json") for catalogue in catalogues]})
        return
    rows = [
        (catalogue.language, catalogue.texts, catalogue.size, format_optional_time(catalogue.stored_at))
        for catalogue in catalogues
    ]
    print_table(("LANGUAGE", "TRANSLATED", "BYTES", "STORED"), rows)


def _list_catalogues(rules: str, languages: Sequence[str] | None, folder: Path | None) -> list[Path]:
    place = folder or _find_folder(rules)
    files = [place / f"{code}.po" for code in languages] if languages else sorted(place.glob("*.po"))
    if not files:
        fix = f"make it with `bpc rules catalogue extract {rules}`"
        raise Invalid(f"there is no catalogue in `{place}`", fix=fix)
    return files


def _list_texts(rules: str, *, as_json: bool) -> list[PoEntry]:
    """What the rules say and no shipped catalogue has."""
    package = read_package_files(rules)
    if package.program is None:
        exit_with_diagnostics(package.diagnostics, as_json=as_json)
    shipped_keys = list_shipped_keys(but=locate_package(rules))
    return [text for text in list_source_texts(package.program) if text.key not in shipped_keys]


def _find_folder(rules: str) -> Path:
    return (locate_package(rules) or Path(rules).parent) / FOLDER_NAME


def _choose_languages(languages: Sequence[str] | None, folder: Path) -> list[str]:
    """Those that are named; else those that are there; else all official languages."""
    unknown = [code for code in languages or () if code not in LANGUAGES]
    if unknown:
        raise Invalid(f"`{unknown[0]}` is not an official language of the EU", fix=f"use one of {', '.join(LANGUAGES)}")
    return list(languages or [file.stem for file in sorted(folder.glob("*.po"))] or LANGUAGES)


def _print_reports(reports: Sequence[CatalogueReport], *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "catalogues": [
                    {
                        "language": report.language,
                        "texts": report.total,
                        "translated": report.filled_count,
                        "problems": [
                            {**problem._asdict(), "is_error": problem.is_error} for problem in report.problems
                        ],
                    }
                    for report in reports
                ]
            }
        )
        return
    rows = [
        (
            report.language,
            report.filled_count,
            report.total,
            sum(problem.is_error for problem in report.problems),
        )
        for report in reports
    ]
    print_table(("LANGUAGE", "TRANSLATED", "OF", "WRONG"), rows)


def _print_problems(report: CatalogueReport, *, errors_only: bool) -> None:
    problems = [problem for problem in report.problems if problem.is_error or not errors_only]
    for problem in problems[:MAX_PROBLEMS_LISTED]:
        name = f"{problem.context}: " if problem.context else ""
        print_line(escape_controls(f"  {report.language} {name}`{problem.source[:60]}` {problem.says}"))
    if len(problems) > MAX_PROBLEMS_LISTED:
        print_line(f"  {report.language}: and {len(problems) - MAX_PROBLEMS_LISTED} more; --json lists them all")


catalogue_app = command_group(
    "Translate what rules say to people.\n\n"
    "A catalogue is a file for each language, outside the rules and every hash; docs/rules/catalogues.md explains it. "
    "`upload` and `list` need an API; the other commands need only the files."
)
catalogue_app.command("extract")(extract_catalogues)
catalogue_app.command("check")(check_catalogues)
catalogue_app.command("upload")(upload_catalogues)
catalogue_app.command("list")(list_catalogues)
