"""What a command reads and writes: sentences for people, JSON for programs, refusals, tables, and files.

Files are read whole, and written so that nobody ever sees half of one. Colours only on a terminal that wants them.
Control characters in text from outside are escaped: an escape sequence in a tenant's name must not repaint the
terminal, a line break must not add a line, and a direction mark must not change the order in which the line is read.
"""

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final, Protocol, runtime_checkable
from uuid import UUID

import typer

from bpc.core.errors import CODES, CONFIGURATION_CODES, Conflict, Invalid, find_next_step
from bpc.core.formats.timestamps import format_time
from bpc.runtime.next_steps import OPERATOR_STEPS

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]

USAGE: Final = "USAGE"

REFUSED: Final = 1
WRONG_USAGE: Final = 2
UNAVAILABLE: Final = 69
INTERNAL_ERROR: Final = 70
CONFIGURATION: Final = 78
INTERRUPTED: Final = 130

# What to do next, by the hint of a refusal (`find_next_step`).
COMMAND_STEPS: Final[Mapping[str, str]] = {
    **OPERATOR_STEPS,
    "issue the batch": "issue it with `bpc batteries batch issue`",
    "issue the battery": "issue it with `bpc batteries issue`",
    "list API key": "`bpc apikeys list` shows them",
    "list signing key": "`bpc keys list` shows them",
    "list tenant": "`bpc tenants list` shows them",
    "replicate a tenant": "write one with `bpc tenants replicate`",
    "restore an installation": "restore it with `bpc restore`",
}
# Line and paragraph separators, and marks that change the direction of the text after them (UAX #9).
DIRECTION_MARKS: Final = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
CONTROL_ESCAPES: Final = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))} | {
    code: f"\\u{code:04x}" for code in DIRECTION_MARKS
}
CONTROL_ESCAPES_IN_LINES: Final = {code: escape for code, escape in CONTROL_ESCAPES.items() if code != ord("\n")}
# JSON allows these characters unescaped; escaped, they mean the same and do nothing on a terminal.
CONTROL_ESCAPES_IN_JSON: Final = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), *DIRECTION_MARKS)}

# These move the cursor or change colours; line ends and tabs are text.
CONTROL_CHARACTER: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")

UNWRAPPED_COLUMNS: Final = {"ID", "PREFIX", "SLUG"}  # never folded, so that they can be copied
PIPE_WIDTH: Final = 10_000  # for `… | grep`, where a row is a line


@runtime_checkable
class RefusalLike(Protocol):
    """What every refusal carries, also those of settings and of child processes, which share no class."""

    code: str
    says: str
    fix: str | None
    details: Mapping[str, object]


def find_fix(refusal: Exception) -> str | None:
    """What a person at the command line can do about a refusal."""
    return find_next_step(refusal, COMMAND_STEPS)


def choose_exit_code(code: str) -> int:
    """The exit code for a refusal with `code`."""
    if code in CONFIGURATION_CODES:
        return CONFIGURATION
    if code == USAGE:
        return WRONG_USAGE
    if code == "INTERNAL_ERROR":
        return INTERNAL_ERROR
    return UNAVAILABLE if CODES[code].http in {502, 503, 504} else REFUSED


def escape_controls(text: str) -> str:
    """`text` in one line, with control characters escaped."""
    return text.translate(CONTROL_ESCAPES)


def print_line(
    sentence: str, *, colour: str | None = None, bold: bool = False, dim: bool = False, end: str = "\n"
) -> None:
    typer.secho(
        sentence.translate(CONTROL_ESCAPES_IN_LINES),
        nl=False,
        fg=colour,
        bold=bold or None,
        dim=dim or None,
        color=_choose_colours(),
    )
    typer.echo(end, nl=False)


def print_progress(sentence: str) -> None:
    """Say on standard error what is being done."""
    typer.secho(f"{escape_controls(sentence)} …", err=True, dim=True, color=_choose_colours())


def print_nothing(sentence: str) -> None:
    """With --json, progress is not printed."""


def print_json(value: Mapping[str, object] | Sequence[object]) -> None:
    """Print one line, so that a program can read it at once; ids and paths as texts, times in UTC."""
    text = json.dumps(value, default=_to_json_value, ensure_ascii=False, separators=(",", ":"))
    typer.echo(text.translate(CONTROL_ESCAPES_IN_JSON))


def _to_json_value(value: object) -> str:
    match value:
        case datetime():
            return format_time(value)
        case UUID() | Path():
            return str(value)
        case _:
            raise TypeError(f"{type(value).__name__} is not a JSON value")


def print_result(value: Mapping[str, object] | Sequence[object], *sentences: str, as_json: bool) -> None:
    """Print the value as JSON for programs, or the sentences for people."""
    if as_json:
        print_json(value)
        return
    for sentence in sentences:
        print_line(sentence)


def print_refusal(code: str, says: str, fix: str | None, details: Mapping[str, object], *, as_json: bool) -> None:
    """Print the code first, then the sentence, then what to do."""
    if as_json:
        print_json({"error": {"code": code, "message": says, "fix": fix, "details": details}})
        return
    typer.secho(f"{code}: {escape_controls(says)}", err=True, fg="red", color=_choose_colours())
    if fix:
        typer.echo(f"  {fix.translate(CONTROL_ESCAPES_IN_LINES)}", err=True)


def _choose_colours() -> bool | None:
    """None leaves it to the stream: a terminal gets colours, a file or a pipe does not."""
    return False if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else None


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print aligned columns: folded on a narrow terminal, one line per row anywhere else."""
    from rich.console import Console  # noqa: PLC0415 (slow to import)
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column in UNWRAPPED_COLUMNS)
    for row in rows:
        table.add_row(*("" if cell is None else escape_controls(str(cell)) for cell in row))
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    console = Console(highlight=False, markup=False, emoji=False, width=width)
    with console.capture() as capture:
        console.print(table)
    for line in capture.get().rstrip("\n").split("\n"):
        typer.echo(line.rstrip())


def name_program() -> str:
    """`bpc` as this shell can run it: by its name, if it was found on the path, else by its file."""
    program = sys.argv[0]
    if os.sep not in program:
        return "bpc"
    if Path(program).name != "bpc":  # `python -m bpc`
        return f"{shlex.quote(sys.executable)} -m bpc"
    on_path = shutil.which("bpc")
    if on_path is not None and Path(on_path).samefile(program):
        return "bpc"
    file = Path(program).absolute()
    return shlex.quote(str(file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file))


def format_count(number: int, noun: str) -> str:
    """`1 job`, `2,000 jobs`"""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_yes_no(is_true: bool) -> str:
    return "yes" if is_true else "no"


def format_optional_time(moment: datetime | None) -> str | None:
    return None if moment is None else format_time(moment)


def format_day(moment: datetime | None) -> str | None:
    return None if moment is None else format_time(moment)[:10]


def read_bytes(file: str) -> bytes:
    """The bytes of a file, or of standard input for `-`."""
    try:
        if file != "-":
            return Path(file).read_bytes()
        if sys.stdin is None:  # closed by the parent process
            raise Invalid("there is no standard input", fix="name a file")
        return sys.stdin.buffer.read()
    except OSError as error:
        name = "standard input" if file == "-" else f"`{file}`"
        raise Invalid(f"{name} cannot be read: {error.strerror}", fix="check the path and its permissions") from error


def print_bytes(data: bytes) -> None:
    """Write bytes to standard output; a terminal gets text only."""
    if sys.stdout is None:  # closed by the parent process
        raise Invalid("there is no standard output", fix="leave it open, or name a file")
    if sys.stdout.isatty() and not _is_text(data):
        raise Invalid(
            "this output is binary and cannot be shown on a terminal",
            fix="write it to a file, with `--out FILE` where the command has it, else with `> FILE`",
        )
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _is_text(data: bytes) -> bool:
    try:
        return CONTROL_CHARACTER.search(data.decode()) is None
    except UnicodeDecodeError:
        return False


def write_secret(path: Path, text: str) -> None:
    """Write a new file that only its owner can read; never overwrite one."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise _make_exists_error(path) from None
    except OSError as error:
        raise _make_write_error(path, error) from error
    try:
        with os.fdopen(handle, "w") as file:
            file.write(f"{text}\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        path.unlink(missing_ok=True)
        raise _make_write_error(path, error) from error


def require_new_file(path: Path) -> None:
    """`Conflict` if there is such a file."""
    if path.exists():
        raise _make_exists_error(path)


def replace_file(path: Path, data: bytes) -> None:
    """Write `data` to `path`; if that fails, the old file stays as it was."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise _make_write_error(path, error) from error


def _make_exists_error(path: Path) -> Conflict:
    return Conflict(f"`{path}` already exists", fix="choose another name, or move it away first")


def _make_write_error(path: Path, error: OSError) -> Invalid:
    return Invalid(
        f"`{path}` cannot be written: {error.strerror}", fix="choose a folder that exists and that you can write to"
    )
