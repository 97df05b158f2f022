"""`bpc rules catalogue`: what rules say to people, in other languages: make the files to fill, and check them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from bpc.cli.support.arguments import command_group
from bpc.cli.support.output import (
    REFUSED,
    AsJson,
    escape_controls,
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

MAX_PROBLEMS_LISTED: Final = 20

LanguageOption = Annotated[
    list[str] | None,
    typer.Option("--language", "-l", metavar="CODE", help="A language, such as de; may be repeated [default: all]."),
]
FolderOption = Annotated[
    Path | None,
    typer.Option("--folder", metavar="FOLDER", help="Where the files are [default: `catalogue` beside the rules]."),
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
    place = folder or _find_folder(rules)
    files = [place / f"{code}.po" for code in language] if language else sorted(place.glob("*.po"))
    if not files:
        fix = f"make it with `bpc rules catalogue extract {rules}`"
        raise Invalid(f"there is no catalogue in `{place}`", fix=fix)
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
    "A catalogue is a file for each language, outside the rules and every hash; docs/rules/catalogues.md explains it."
)
catalogue_app.command("extract")(extract_catalogues)
catalogue_app.command("check")(check_catalogues)
