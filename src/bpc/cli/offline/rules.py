"""`bpc rules`: its commands, and two of them: check and format. Nothing here is slow to import: editors check often."""

import gc
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from bpc.cli.offline.rules_fields import list_fields_as_json
from bpc.cli.offline.rules_layers import list_layer_rows, print_layers
from bpc.cli.support.arguments import QuickCommand, imported_group, single_command
from bpc.cli.support.checked_tests import check_texts
from bpc.cli.support.output import (
    REFUSED,
    AsJson,
    escape_controls,
    format_count,
    print_bytes,
    print_json,
    print_line,
    read_bytes,
    replace_file,
)
from bpc.cli.support.package_folders import list_package_files, locate_package
from bpc.cli.support.rule_files import (
    TestsFileOption,
    count_diagnostics,
    diagnostics_to_json,
    print_diagnostics,
    read_package_texts,
    select_errors,
)
from bpc.core.errors import Invalid
from bpc.core.language.checking.context import LocatedDiagnostic
from bpc.core.language.formatting import format_tree
from bpc.core.language.linking import LinkedSource
from bpc.core.language.package import CheckedPackage
from bpc.core.language.parsing.parse import parse
from bpc.core.language.source import Source, has_errors, read_source
from bpc.core.language.typed import Program

STDIN: Final = "-"

RuleFilesArgument = Annotated[
    list[str],
    typer.Argument(metavar="FILE", help="Rule files, folders of packages, or `shipped:NAME`; `-` is standard input."),
]


def check_files(
    files: RuleFilesArgument,
    tests: TestsFileOption = None,
    layers: Annotated[
        bool, typer.Option("--layers", help="Also list the layer of every rule (model, batch or item), and why.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Find the errors in rule files.

    Each file is one package, and so is a folder with a file package.bpc. All errors are shown at once; warnings do
    not fail the check. With --tests, which needs exactly one FILE, the tests in a second file are checked too. Exits 1
    if there is an error.

    \b
    bpc rules check battery.bpc
    bpc rules check battery.bpc --tests battery-tests.bpc
    bpc rules check shipped:eu-battery --layers
    """
    if tests is not None and len(files) != 1:
        raise typer.BadParameter("--tests needs exactly one rule file.")
    gc.disable()  # what is read is needed until the command ends
    packages = {file: check_texts(read_package_texts(file, tests)) for file in files}
    diagnostics = [diagnostic for package in packages.values() for diagnostic in package.diagnostics]
    if as_json:
        programs = [package.program for package in packages.values() if package.program]
        imports = [each._asdict() for program in programs for each in _list_imports(program)]
        overrides = [override.as_json() for program in programs for override in program.overrides]
        fields = [field for program in programs for field in program.fields if field.about is not None]
        print_json(
            {
                "diagnostics": diagnostics_to_json(diagnostics),
                **({"imports": imports} if imports else {}),
                **({"overrides": overrides} if overrides else {}),
                **({"fields": list_fields_as_json(fields)} if fields else {}),
                **({"layers": [row for program in programs for row in list_layer_rows(program)]} if layers else {}),
            }
        )
    else:
        print_diagnostics(diagnostics)
        for file, package in packages.items():
            _print_summary(file, package)
            if layers and package.program is not None:
                print_layers(package.program)
    if select_errors(diagnostics):
        raise typer.Exit(REFUSED)


def _print_summary(file: str, package: CheckedPackage) -> None:
    if package.program is None:
        return
    remarks = f" ({count_diagnostics(package.diagnostics)})" if package.diagnostics else ""
    print_line(f"{escape_controls(file)}: {count_contents(package.program)}{remarks}")
    for each in _list_imports(package.program):
        print_line(f"  imports {each.package} {each.release}")
    for override in package.program.overrides:
        verb = "weakens" if override.weakens else "overrides"
        place = override.source.find_place(override.span.start)
        print_line(escape_controls(f"  {verb} {override.kind} {override.name} at {place}: {override.reason}"))
        if override.before is not None:
            print_line(escape_controls(f"    was: {override.before or 'nothing'}"))
            print_line(escape_controls(f"    is:  {override.after or 'nothing'}"))


class ImportedPackage(NamedTuple):
    package: str
    release: str


def _list_imports(program: Program) -> list[ImportedPackage]:
    """The packages that the rules import, by name."""
    source = program.source
    if not isinstance(source, LinkedSource):
        return []
    return sorted({ImportedPackage(*file[:2]) for file in source.files if file.package in source.imported_names})


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


check_app = single_command(check_files, cls=QuickCommand)
rules_app = imported_group(
    "Check, format, test, try out and publish rules.\n\n"
    "Rules compute a passport's fields from facts; docs/rules/language.md explains them. `publish` and `list` need an "
    "API; the other commands need only the files.",
    {
        "check": "offline.rules:check_app",
        "fmt": "offline.rules:format_files",
        "test": "offline.rules_testing:run_rule_tests",
        "mutate": "offline.rules_mutate:mutate_rules",
        "eval": "offline.rules_eval:evaluate_rules",
        "fields": "offline.rules_fields:print_fields",
        "catalogue": "offline.rules_catalogue:catalogue_app",
        "link": "offline.rules_link:link_rules",
        "publish": "online.rules_publish:publish_rules",
        "list": "online.rules_publish:list_rules",
        "lsp": "language_server.command:serve_language",
        "shipped": "offline.rules_shipped:list_shipped_packages",
    },
)
