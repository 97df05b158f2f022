"""Mistakes in rule files, for people: the code of the first error, then every diagnostic at its place."""

from collections.abc import Sequence

import typer

from bpc.cli.output import CONTROL_IN_LINES, print_refusal
from bpc.core.rules.checking.findings import Found
from bpc.core.rules.source import rendered


def errors(found: Sequence[Found]) -> list[Found]:
    return [each for each in found if each.diagnostic.is_error]


def print_diagnostics(found: Sequence[Found]) -> None:
    """To standard error, as compilers do; a command that fails says its code first."""
    wrong = errors(found)
    if wrong:
        files = list(dict.fromkeys(each.source.name for each in wrong))
        where = f"`{files[0]}`" if len(files) == 1 else f"{len(files)} files"
        print_refusal(wrong[0].diagnostic.code, f"{_counted(len(wrong), 'error')} in {where}", None, {}, as_json=False)
    for each in found:
        # The rule's own text is shown, never obeyed.
        typer.echo(f"\n{rendered(each.source, each.diagnostic)}".translate(CONTROL_IN_LINES), err=True, nl=False)


def counts(found: Sequence[Found]) -> str:
    """`2 errors, 1 warning`"""
    wrong = len(errors(found))
    return ", ".join(
        _counted(number, noun) for number, noun in ((wrong, "error"), (len(found) - wrong, "warning")) if number
    )


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
