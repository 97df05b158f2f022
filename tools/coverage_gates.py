"""Coverage gates: the combined `.coverage` and `[tool.bpc.coverage]` in, one line per layer out.

Run at the root of the project, after `coverage combine`. A layer is a folder, named by its path. Exits 1 if a layer is
below its gate; a layer that does not exist has none. Lines and branches count alike, as in coverage's own total.
"""

import json
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coverage import Coverage
from coverage.exceptions import CoverageException


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerCoverage:
    """How much of one layer the tests went through. A layer without code is covered."""

    layer: str
    covered: int
    countable: int
    gate: float

    @property
    def percent(self) -> float:
        return 100 * self.covered / self.countable if self.countable else 100.0

    @property
    def ok(self) -> bool:
        return self.percent >= self.gate

    def __str__(self) -> str:
        # Rounded down: 89.96 % below a gate of 90 % must not read as 90.0 %.
        rounded = int(self.percent * 10) / 10
        return f"{self.layer} {rounded:.1f} % (gate {self.gate:g} %) {'ok' if self.ok else 'TOO LOW'}"


def main() -> int:
    gates: dict[str, float] = tomllib.loads(Path("pyproject.toml").read_text())["tool"]["bpc"]["coverage"]
    try:
        summaries = _load_summaries()
    except CoverageException as problem:
        print(f"coverage gates: {problem}")
        return 1
    layers = [_measure_layer(layer, gate, summaries) for layer, gate in gates.items() if Path(layer).is_dir()]
    for layer in layers:
        print(layer)
    low = [layer.layer for layer in layers if not layer.ok]
    if low:
        print(f"coverage is below the gate in: {', '.join(low)}")
    return 1 if low else 0


def _load_summaries() -> Mapping[Path, Mapping[str, int]]:
    """Return what coverage's own report says of each file, by its path from here."""
    coverage = Coverage()
    coverage.load()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "coverage.json")
        coverage.json_report(outfile=str(report))
        files: dict[str, Any] = json.loads(report.read_text())["files"]
    return {Path(path): file["summary"] for path, file in files.items()}


def _measure_layer(layer: str, gate: float, summaries: Mapping[Path, Mapping[str, int]]) -> LayerCoverage:
    layer_summaries = [summary for path, summary in summaries.items() if path.is_relative_to(layer)]
    # A layer that exists but was never measured is a broken run, not a covered one.
    if not layer_summaries:
        return LayerCoverage(layer=layer, covered=0, countable=1, gate=gate)
    return LayerCoverage(
        layer=layer,
        covered=sum(counts["covered_lines"] + counts.get("covered_branches", 0) for counts in layer_summaries),
        countable=sum(counts["num_statements"] + counts.get("num_branches", 0) for counts in layer_summaries),
        gate=gate,
    )


if __name__ == "__main__":
    sys.exit(main())
