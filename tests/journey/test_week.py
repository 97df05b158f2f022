"""A week of operation, typed from its page while a fake clock goes from Monday to Sunday.

All processes, PostgreSQL included, take their time from one file (libfaketime). A day begins by writing it there: the
clock of a running installation jumps, leases end, and what is due every night is due.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest

from tests.project.documented_pages import ROOT, Block, Terminal, follow_blocks, follow_page, open_terminal, read_blocks
from tools.packaged_postgres import find_programs, run_server

WEEK = ROOT / "docs" / "week.md"
TUTORIAL = ROOT / "docs" / "tutorial.md"
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
LIBRARY = "usr/lib/*/faketime/libfaketime.so.1"  # where Debian has it


def find_library() -> Path | None:
    """The library that fakes the clock, installed if we may."""
    if not any(Path("/").glob(LIBRARY)) and shutil.which("apt-get") and os.geteuid() == 0:
        for command in (["apt-get", "update"], ["apt-get", "install", "--yes", "faketime"]):
            subprocess.run(command, check=False, capture_output=True)
    return next(Path("/").glob(LIBRARY), None)


def read_days(page: str) -> Iterator[tuple[str, list[Block]]]:
    """Yield each day of the page with its blocks."""
    headings = [
        (number, line.removeprefix("## ").partition(":")[0])
        for number, line in enumerate(page.splitlines(), 1)
        if line.startswith("## ")
    ]
    for day, blocks in groupby(
        read_blocks(page), key=lambda block: [day for number, day in headings if number < block.line][-1]
    ):
        yield day, list(blocks)


def count_nights(shell: Terminal) -> int:
    """How many times the nightly audit has gone through all tenants."""
    listed = shell.run("bpc jobs list --tenant system --type REPLAY_AUDIT_SWEEP --status SUCCEEDED --json")
    return len(re.findall(r'"job_id"', listed))


def test_the_page_has_a_section_for_each_day() -> None:
    assert tuple(day for day, _ in read_days(WEEK.read_text())) == DAYS


@pytest.mark.long
def test_a_week_passes_as_its_page_says(run_folder: Path) -> None:
    library, programs = find_library(), find_programs(oldest=15)
    if library is None or programs is None:
        pytest.skip("it needs faketime and a PostgreSQL 15 or later of this machine's packages (apt-get install them)")
    clock = run_folder / "clock-of-the-week"
    set_days(clock, 0)
    faked = {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    with (
        run_server(programs, environment=faked) as url,
        open_terminal({**faked, "DATABASE_URL": str(url)}, forks=False) as shell,
    ):
        follow_page(TUTORIAL, shell)
        for number, (day, blocks) in enumerate(read_days(WEEK.read_text()), 1):
            set_days(clock, number)
            # A drill starts an embedded server, which takes nothing of this environment: both have the real clock.
            shell.environment["LD_PRELOAD"] = "" if day == "Friday" else str(library)
            shell.run(f"LD_PRELOAD={shell.environment['LD_PRELOAD']}")
            follow_blocks(WEEK, blocks, shell)

        nights = count_nights(shell)

        assert nights >= len(DAYS) - 1, "the nightly audit did not run every night"
        assert "dev" in shell.run("bpc audit verify")


def set_days(clock: Path, days: int) -> None:
    """Let every process believe that so many days have passed."""
    new = clock.with_suffix(".new")
    new.write_text(f"+{days}d\n")
    new.chmod(0o644)
    new.replace(clock)
