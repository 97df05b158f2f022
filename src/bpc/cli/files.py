"""Files a person names: read whole, or written so that nobody finds half of one."""

import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from bpc.core.errors import Conflict, Invalid

# What moves the cursor, changes colours or does worse; line ends and tabs are text.
OBEYED: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


class NotForTerminals(Invalid):
    """It is a file for programs, and nobody is there to take it."""

    def __init__(self) -> None:
        super().__init__(
            "this is not text, and a terminal would obey what it cannot show",
            fix="write it to a file, with `--out FILE` where the command has it, else with `> FILE`",
        )


def read_bytes(file: str) -> bytes:
    """The bytes of a file, or of standard input for `-`."""
    try:
        if file != "-":
            return Path(file).read_bytes()
        if sys.stdin is None:  # closed by whoever started us
            raise Invalid("there is no standard input", fix="name a file")
        return sys.stdin.buffer.read()
    except OSError as failed:
        name = "standard input" if file == "-" else f"`{file}`"
        raise Invalid(f"{name} cannot be read: {failed.strerror}", fix="check the path and its rights") from failed


def print_bytes(data: bytes) -> None:
    """Put bytes onto standard output as they are; a terminal, which would obey some of them, gets text only."""
    if sys.stdout is None:  # closed by whoever started us
        raise Invalid("there is no standard output", fix="leave it open, or name a file")
    if sys.stdout.isatty() and not _is_text(data):
        raise NotForTerminals
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _is_text(data: bytes) -> bool:
    try:
        return OBEYED.search(data.decode()) is None
    except UnicodeDecodeError:
        return False


def write_secret(path: Path, text: str) -> None:
    """A new file that only its owner can read; an existing one is never overwritten."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise Conflict(f"`{path}` exists already", fix="choose another name, or move it away first") from None
    except OSError as failed:
        raise _not_written(path, failed) from failed
    try:
        with os.fdopen(handle, "w") as file:
            file.write(f"{text}\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as failed:
        path.unlink(missing_ok=True)
        raise _not_written(path, failed) from failed


def replace_file(path: Path, data: bytes) -> None:
    """Have `data` in `path`, all of it or, where that fails, what was there before."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with aside.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError as failed:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        raise _not_written(path, failed) from failed


def _not_written(path: Path, failed: OSError) -> Invalid:
    return Invalid(f"`{path}` cannot be written: {failed.strerror}", fix="choose a folder that exists and is yours")
