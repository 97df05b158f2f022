"""Documents made to take all the memory or all the time: refused at once, with a sentence, and nobody else notices."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bpc.core.documents import Read
from bpc.jobs import Processes
from bpc.pipeline.facts import READING, _read
from tests.core.documents.rendered import as_csv, as_xlsx
from tests.measuring import Measured, allowed, effort
from tests.pipeline.bombs import BOMBS

SECONDS = 2.0
MEGABYTES = 256

# In a process of its own, so that the largest of its children is the largest of these. What it holds itself counts as
# theirs for a moment, when they begin; so the bombs are made by another.
SCRIPT = """
import asyncio, json, resource, sys, time
from pathlib import Path
from bpc.core.documents import Rejected
from bpc.jobs import Processes
from bpc.pipeline.facts import READING, _read

async def main():
    reading = Processes(1, limits=READING)
    found = {}
    for name, mime_type in json.loads(sys.argv[2]).items():
        await reading.run(Path, ())  # one that is ready
        began = time.monotonic()
        outcome = await _read(reading, "PCF", mime_type, Path(sys.argv[1], name).read_bytes())
        seconds = time.monotonic() - began
        [first, *_] = outcome.problems.first if isinstance(outcome, Rejected) else [None]
        found[name] = {"seconds": round(seconds, 3), "says": first}
    await reading.close()
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    print(json.dumps({"found": found, "peak": peak}))

if __name__ == "__main__":
    asyncio.run(main())
"""


def test_every_bomb_is_refused_in_two_seconds_and_256_megabytes(tmp_path: Path, measured: Measured) -> None:
    script = tmp_path / "read.py"
    script.write_text(SCRIPT)
    for name, (_, make) in BOMBS.items():
        (tmp_path / name).write_bytes(make())
    types = json.dumps({name: mime_type for name, (mime_type, _) in BOMBS.items()})

    ran = subprocess.run([sys.executable, str(script), str(tmp_path), types], stdout=subprocess.PIPE, check=True)

    told = json.loads(ran.stdout)
    for name, found in told["found"].items():
        assert found["says"] is not None, f"{name} was accepted"
        assert found["seconds"] < allowed(SECONDS), (name, found)
    assert told["peak"] < MEGABYTES * 1_000_000
    measured(
        "document-bombs",
        bombs=len(told["found"]),
        slowest_seconds=max(found["seconds"] for found in told["found"].values()),
        peak_megabytes=told["peak"] // 1_000_000,
    )


PARTS = effort(test=3_000, shown=50_000, campaign=50_000)
HEADER = [
    "sku",
    "part",
    "name",
    "mass_g",
    "cobalt_g",
    "lithium_g",
    "nickel_g",
    "recycled_pre_pct",
    "supplier",
    "critical",
]


def _components() -> list[dict[str, str | bool]]:
    return [
        dict(
            zip(HEADER, ["A", f"p{n}", f"part {n}", f"{n}.5", "1.25", "2.5", "3.5", "12.5", "X Ltd", True], strict=True)
        )
        for n in range(PARTS)
    ]


@pytest.mark.parametrize("form", ["json", "csv", "xlsx"])
async def test_the_largest_documents_we_accept_stay_within_the_limits(form: str) -> None:
    facts = [("Component", members) for members in _components()]
    content = {
        "json": lambda: json.dumps({"components": [members for _, members in facts]}).encode(),
        "csv": lambda: as_csv(facts),
        "xlsx": lambda: as_xlsx(facts),
    }[form]()
    reading = Processes(1, limits=READING)

    outcome = await _read(reading, "BOM", "application/octet-stream", content)
    await reading.close()

    assert isinstance(outcome, Read)
    assert len(outcome.facts) == PARTS
