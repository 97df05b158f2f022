"""`bpc rules fmt`: rule files in their standard form, rewritten so that nobody finds half of one."""

from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from bpc.cli.files import print_bytes, read_bytes, replace_file
from bpc.cli.output import REFUSED, AsJson, print_json, say, visible
from bpc.cli.rules_diagnostics import errors, print_diagnostics
from bpc.core.errors import Invalid
from bpc.core.rules.checking.findings import Found
from bpc.core.rules.formatting.format import formatted
from bpc.core.rules.parsing.parse import parse
from bpc.core.rules.source import Source, has_errors, read_source
from bpc.core.rules.source import as_json as diagnostic_json

STDIN = "-"


class Formatted(NamedTuple):
    """A file, its standard form (None if it cannot be read) and what is wrong with it."""

    file: str
    before: bytes
    after: bytes | None
    found: tuple[Found, ...]

    @property
    def changes(self) -> bool:
        return self.after is not None and self.after != self.before


def fmt(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE", help="Files to rewrite; `-` is standard input to output.")
    ],
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit 1 and list the files that would change.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Put rule files into their standard form.

    Prints the files that changed. A file that cannot be read as rules is left as it is. What a file means never
    changes: comments stay, and only blanks, line breaks and superfluous parentheses differ.

    \b
    bpc rules fmt rules/*.bpc
    bpc rules fmt --check rules/*.bpc
    """
    results = [_formatted(file) for file in files]
    if not check:
        for result in results:
            _write(result)
    _report(results, check=check, as_json=as_json)


def _formatted(file: str) -> Formatted:
    data = read_bytes(file)
    source = read_source(file, data)
    if not isinstance(source, Source):
        return Formatted(file, data, None, (Found(Source(file, ""), source),))
    parsed = parse(source)
    if has_errors(parsed.diagnostics):
        return Formatted(file, data, None, tuple(Found(source, found) for found in parsed.diagnostics))
    return Formatted(file, data, formatted(parsed.tree, source).encode(), ())


def _write(result: Formatted) -> None:
    if result.file == STDIN and result.after is not None:
        print_bytes(result.after)
    elif result.after is not None and result.changes:
        path = Path(result.file).resolve()  # a link goes on pointing where it pointed
        mode = path.stat().st_mode
        replace_file(path, result.after)
        path.chmod(mode)


def _report(results: list[Formatted], *, check: bool, as_json: bool) -> None:
    changed = [result.file for result in results if result.changes and (check or result.file != STDIN)]
    found = [each for result in results for each in result.found]
    if as_json:
        diagnostics = [diagnostic_json(each.source, each.diagnostic) for each in found]
        print_json({"changed": changed, "diagnostics": diagnostics})
    else:
        for file in changed:
            say(visible(file))
        print_diagnostics(found)
    if errors(found) or (check and changed and as_json):
        raise typer.Exit(REFUSED)
    if check and changed:
        raise Invalid(
            f"{len(changed)} of {len(results)} files {'is' if len(changed) == 1 else 'are'} not in standard form",
            fix="`bpc rules fmt` rewrites them",
        )
