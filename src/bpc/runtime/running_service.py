"""Where the service of a data folder runs: `bpc up` writes it down, and other commands find it.

<data folder>/running/<number of the process>.json   address and API key; only its owner can read it

The process that wrote a file holds a lock on it and deletes it when it ends. A file without a lock is from a process
that is gone: it is ignored, and the next service deletes it. In prod nothing is written: the file holds a key.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

FOLDER_NAME: Final = "running"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningService:
    """The address of an API, and a key for it if there is one."""

    url: str
    api_key: str | None


@contextmanager
def announce_service(data_dir: Path, service: RunningService) -> Iterator[None]:
    """Write down where the service runs, until the block ends or the process dies.

    The service runs even if it cannot write to the folder: commands are told the address then.
    """
    file = data_dir / FOLDER_NAME / f"{os.getpid()}.json"
    try:
        descriptor = _write_locked(file, json.dumps(asdict(service)).encode())
    except OSError:
        yield
        return
    try:
        yield
    finally:
        file.unlink(missing_ok=True)
        os.close(descriptor)


def _write_locked(file: Path, data: bytes) -> int:
    """Write a file that others see only when it is complete and locked; return the descriptor that holds the lock."""
    file.parent.mkdir(mode=0o700, exist_ok=True)
    _remove_abandoned(file.parent)
    temporary_file = file.with_name(f".{file.name}")
    descriptor = os.open(temporary_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(descriptor, data)
        temporary_file.rename(file)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def find_service(data_dir: Path) -> RunningService | None:
    """The service that was started last and still runs; None if there is none that this user may use."""
    with suppress(OSError):
        files = sorted((data_dir / FOLDER_NAME).glob("[0-9]*.json"), key=_read_change_time, reverse=True)
        for file in files:
            if (service := _read_service(file)) is not None:
                return service
    return None


def _read_change_time(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:  # it ended just now
        return 0.0


def _read_service(file: Path) -> RunningService | None:
    try:
        with file.open("rb") as stream:
            if not _is_locked(stream.fileno()):
                return None
            return RunningService(**json.load(stream))
    except (OSError, ValueError, TypeError):
        return None


def _remove_abandoned(folder: Path) -> None:
    for file in folder.glob("*.json"):
        with suppress(OSError), file.open("rb") as stream:
            if not _is_locked(stream.fileno()):
                file.unlink(missing_ok=True)


def _is_locked(descriptor: int) -> bool:
    """Whether another process holds the lock. The lock that this takes to look is gone when the file is closed."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
