"""What a command prints: sentences for people, one JSON object for programs, refusals for both.

Colours only on a terminal that wants them. What comes from outside is shown, never obeyed: an escape sequence in
a tenant's name must not repaint the terminal, nor a line break in it make a second line, nor a mark of direction
have the line read in another order than it is written in.
"""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Protocol, runtime_checkable

import typer

from bpc.core.errors import CODES

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]

DONE: Final = 0
REFUSED: Final = 1
WRONG_USAGE: Final = 2
UNAVAILABLE: Final = 69
OUR_BUG: Final = 70
CONFIGURATION: Final = 78
INTERRUPTED: Final = 130

CONFIGURATION_CODES: Final = frozenset({"CONFIG_MISSING", "SCHEMA_MISMATCH", "SIGNING_KEY_MISSING"})
# Line and paragraph separators, and the marks that turn the direction of what follows (UAX #9).
TURNING: Final = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
CONTROL: Final = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))} | {
    code: f"\\u{code:04x}" for code in TURNING
}
CONTROL_IN_LINES: Final = {code: shown for code, shown in CONTROL.items() if code != ord("\n")}
# JSON may hold these as they are; its own escapes say the same and leave a terminal alone.
CONTROL_IN_JSON: Final = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), *TURNING)}


@runtime_checkable
class Refusing(Protocol):
    """What every refusal of ours carries, also those of the settings, which share no class with the others."""

    code: str
    says: str
    fix: str | None
    details: Mapping[str, object]


def exit_code(code: str) -> int:
    """How a command ends that was refused with `code`."""
    if code in CONFIGURATION_CODES:
        return CONFIGURATION
    if code == "INTERNAL_ERROR":
        return OUR_BUG
    return UNAVAILABLE if CODES[code].http in {502, 503, 504} else REFUSED


def visible(text: str) -> str:
    """`text` in one line, control characters shown instead of obeyed."""
    return text.translate(CONTROL)


def say(sentence: str, *, colour: str | None = None, bold: bool = False, dim: bool = False, end: str = "\n") -> None:
    typer.secho(
        sentence.translate(CONTROL_IN_LINES), nl=False, fg=colour, bold=bold or None, dim=dim or None, color=_colours()
    )
    typer.echo(end, nl=False)


def progress(sentence: str) -> None:
    """What is being done, for whoever waits; not part of what a command prints."""
    typer.secho(f"{visible(sentence)} …", err=True, dim=True, color=_colours())


def nothing_said(sentence: str) -> None:
    """For programs, which do not wait to be told."""


def print_json(value: Mapping[str, object] | Sequence[object]) -> None:
    """One line, so that a program can read it as soon as it is there."""
    typer.echo(json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(CONTROL_IN_JSON))


def print_refusal(code: str, says: str, fix: str | None, details: Mapping[str, object], *, as_json: bool) -> None:
    """The code first, then the sentence, then what to do about it."""
    if as_json:
        print_json({"error": {"code": code, "message": says, "fix": fix, "details": details}})
        return
    typer.secho(f"{code}: {visible(says)}", err=True, fg="red", color=_colours())
    if fix:
        typer.echo(f"  {fix.translate(CONTROL_IN_LINES)}", err=True)


def _colours() -> bool | None:
    """None leaves it to the stream: a terminal gets colours, a file or a pipe does not."""
    return False if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else None
