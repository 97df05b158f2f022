"""Run a command at the figures we show, then write the table of what it measured: `tools/shown.py COMMAND…`.

Tests leave one JSON file per measurement in docs/measurements (or in BPC_MEASUREMENTS, if that is set);
README.md beside them is made from those files and nothing else. Exits as the command does.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

MEASUREMENTS = Path(__file__).resolve().parent.parent / "docs" / "measurements"

HEAD = """\
# Measurements

What our own tests measured at the figures we show, and where. `make shown` renews this page; the numbers
are those of one machine on one day, and worth comparing only with others from the same one.

| what | figures | machine | date |
|---|---|---|---|
"""


def main(command: Sequence[str]) -> int:
    if not command:
        print("usage: tools/shown.py COMMAND…", file=sys.stderr)
        return 2
    folder = Path(os.environ.get("BPC_MEASUREMENTS") or MEASUREMENTS).absolute()
    folder.mkdir(parents=True, exist_ok=True)

    environment = os.environ | {"BPC_EFFORT": "shown", "BPC_MEASUREMENTS": str(folder)}
    outcome = subprocess.run(command, env=environment, check=False).returncode

    measurements = [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]
    (folder / "README.md").write_text(format_page(measurements))
    print(f"{len(measurements)} measurements in {folder / 'README.md'}")
    return outcome


def format_page(measurements: Iterable[Mapping[str, Any]]) -> str:
    """Return the page: one row for each of `measurements`."""
    return HEAD + "".join(_format_row(measurement) for measurement in measurements)


def _format_row(measurement: Mapping[str, Any]) -> str:
    cells = (
        measurement["name"],
        _format_values(measurement["figures"]),
        _format_values(measurement["machine"]),
        measurement["date"],
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _format_values(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in values.items() if value is not None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
