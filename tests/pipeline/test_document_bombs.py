"""Specification of harmful documents: refused quickly with a reason, without harm to other jobs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from service_jobs import ProcessPool

from bpc.core.documents.read_options import ReadOptions
from bpc.core.documents.reader import DocumentFacts
from bpc.pipeline.facts import READ_LIMITS, _read_content
from tests.core.documents.render_facts import render_csv, render_xlsx
from tests.measurements import RecordMeasurement, allow_seconds, choose_effort
from tests.pipeline.document_bombs import BOMBS

SECONDS = 2.0
MEGABYTES = 256

# This runs in a process of its own, so that the peak of its children is the peak of these readers. A child starts as a
# copy of this process and counts its memory for a moment, so another process makes the bombs.
SCRIPT = """
import asyncio, json, resource, sys, time
from pathlib import Path
from service_jobs import ProcessPool
from bpc.core.documents.reader import DEFAULT_OPTIONS, DocumentProblems
from bpc.pipeline.facts import READ_LIMITS, _read_content

async def main():
    reader_pool = ProcessPool(1, limits=READ_LIMITS)
    results = {}
    for name, mime_type in json.loads(sys.argv[2]).items():
        await reader_pool.run(Path, ())  # start a child
        started = time.monotonic()
        content = Path(sys.argv[1], name).read_bytes()
        outcome = await _read_content(reader_pool, "PCF", mime_type, content, DEFAULT_OPTIONS)
        seconds = time.monotonic() - started
        [first, *_] = outcome.problems.first if isinstance(outcome, DocumentProblems) else [None]
        results[name] = {"seconds": round(seconds, 3), "says": first}
    await reader_pool.close()
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    print(json.dumps({"found": results, "peak": peak}))

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.mark.slow
def test_every_document_bomb_is_refused_within_two_seconds_and_256_megabytes(
    tmp_path: Path, record_measurement: RecordMeasurement
) -> None:
    script = tmp_path / "read.py"
    script.write_text(SCRIPT)
    for name, (_, make) in BOMBS.items():
        (tmp_path / name).write_bytes(make())
    types = json.dumps({name: mime_type for name, (mime_type, _) in BOMBS.items()})

    ran = subprocess.run([sys.executable, str(script), str(tmp_path), types], stdout=subprocess.PIPE, check=True)

    report = json.loads(ran.stdout)
    for name, result in report["found"].items():
        assert result["says"] is not None, f"{name} was accepted"
        assert result["seconds"] < allow_seconds(SECONDS), (name, result)
    assert report["peak"] < MEGABYTES * 1_000_000
    record_measurement(
        "document-bombs",
        bombs=len(report["found"]),
        slowest_seconds=max(result["seconds"] for result in report["found"].values()),
        peak_megabytes=report["peak"] // 1_000_000,
    )


PARTS = choose_effort(test=3_000, shown=50_000, campaign=50_000)
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


def _make_components() -> list[dict[str, str | bool]]:
    return [
        dict(
            zip(HEADER, ["A", f"p{n}", f"part {n}", f"{n}.5", "1.25", "2.5", "3.5", "12.5", "X Ltd", True], strict=True)
        )
        for n in range(PARTS)
    ]


@pytest.mark.parametrize("form", ["json", "csv", "xlsx"])
async def test_the_largest_documents_we_accept_stay_within_the_limits(form: str) -> None:
    facts = [("Component", members) for members in _make_components()]
    content = {
        "json": lambda: json.dumps({"components": [members for _, members in facts]}).encode(),
        "csv": lambda: render_csv(facts),
        "xlsx": lambda: render_xlsx(facts),
    }[form]()
    reading = ProcessPool(1, limits=READ_LIMITS)

    outcome = await _read_content(reading, "BOM", "application/octet-stream", content, ReadOptions())
    await reading.close()

    assert isinstance(outcome, DocumentFacts)
    assert len(outcome.facts) == PARTS
