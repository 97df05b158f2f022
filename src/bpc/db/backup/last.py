"""When the last backup was taken, noted in the data directory for whoever watches over it.

Who backs up from another machine, or with other tools, leaves no note here: that there is none says nothing.
"""

from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from bpc.core.timestamps import NotATime, format_time, parse_time

NAME: Final = "last-backup"


def note(data_dir: Path, at: datetime) -> None:
    """Write down that a backup was taken. That this cannot be written spoils no backup."""
    with suppress(OSError):
        (data_dir / NAME).write_text(f"{format_time(at)}\n")


def noted(data_dir: Path) -> datetime | None:
    """When the last backup was taken, as far as it is known here."""
    try:
        return parse_time((data_dir / NAME).read_text().strip())
    except (OSError, UnicodeDecodeError, NotATime):
        return None
