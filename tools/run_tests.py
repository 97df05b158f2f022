"""Run the tests, several areas beside each other: `python -m tools.run_tests [--measure] [PYTEST ARGUMENT…]`.

    areas ─► a pytest process each, AT_ONCE of them beside each other ─► what failed, once more and alone

An area is a set of folders. One process runs all of it, so that its tests are collected once, and a database, a service
or a browser is started once for all that use it. The areas that take longest begin first; what an area printed is
printed when it ends. `--measure` measures coverage, for `coverage combine`.

At most MOST_TWICE tests that failed run once more, without others beside them. A test that passes then is named, so
that somebody looks at it: it depends on how busy the machine is. Exits 1 if tests failed twice or were too many.
"""

import json
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# Tests wait for servers and programs, so there are more areas at once than two processors.
AT_ONCE: Final = 4
MOST_TWICE: Final = 3
# Those that take longest first. What is in no other area is in the last one.
AREAS: Final[Mapping[str, Sequence[str]]] = {
    "jobs": ("packages",),
    "routes": ("tests/api/routes",),
    "commands": ("tests/cli",),
    "journeys": ("tests/journey", "tests/project", "tests/worker", "tests/upgrades", "tests/rotation"),
    "api": ("tests/api",),
    "pipeline": ("tests",),
    "language": ("tests/core/language", "tests/rules"),
    "core": ("tests/core",),
}
TESTS_FAILED: Final = 1
NO_TESTS: Final = 5
CACHE: Final = Path(".pytest_cache/areas")
SUMMARY_LINE: Final = re.compile(r"(=+ )?\d+ \w+.* in \d+\.\d+s")
SUMMARY: Final = re.compile(r"(\d+) (passed|failed|skipped|errors?)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class AreaResult:
    """How the tests of one area ended."""

    area: str
    code: int
    output: str
    seconds: float
    failed: Sequence[str]

    @property
    def counts(self) -> Mapping[str, int]:
        """Return how many tests passed, failed, …, as the last summary of pytest says; others may print after it."""
        summaries = [line for line in self.output.splitlines() if SUMMARY_LINE.match(line)]
        counts = SUMMARY.findall(summaries[-1]) if summaries else []
        return {outcome.removesuffix("s"): int(number) for number, outcome in counts}


def main(arguments: Sequence[str]) -> int:
    measure = "--measure" in arguments
    command = [sys.executable, "-m", *(["coverage", "run", "-m"] if measure else []), "pytest"]
    options = [argument for argument in arguments if argument != "--measure"]
    shutil.rmtree(CACHE, ignore_errors=True)
    results = list(run_areas(AREAS, [*command, *options]))
    print(describe_results(results), flush=True)
    return judge_results(results, [sys.executable, "-m", "pytest", *options])


def run_areas(areas: Mapping[str, Sequence[str]], command: Sequence[str]) -> Iterator[AreaResult]:
    """Run `command` for each area, and print what it printed as soon as it ends."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        runs = [pool.submit(run_area, area, command, list_arguments(area, areas)) for area in areas]
        for run in as_completed(runs):
            result = run.result()
            print(f"== {result.area}: {result.seconds:.0f} s\n{result.output}", flush=True)
            yield result


def list_arguments(area: str, areas: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the folders of an area, without the folders in them that another area has."""
    inner = [
        folder
        for other, folders in areas.items()
        for folder in folders
        if other != area and any(Path(outer) in Path(folder).parents for outer in areas[area])
    ]
    return [*areas[area], *(f"--ignore={folder}" for folder in inner)]


def run_area(area: str, command: Sequence[str], folders: Sequence[str]) -> AreaResult:
    cache = CACHE / area
    print(f"== {area} begins: {' '.join(folders)}", flush=True)
    began = time.monotonic()
    run = subprocess.run(
        [*command, "-o", f"cache_dir={cache}", *folders],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return AreaResult(
        area=area,
        code=0 if run.returncode == NO_TESTS else run.returncode,
        output=run.stdout,
        seconds=time.monotonic() - began,
        failed=read_failed(cache),
    )


def read_failed(cache: Path) -> Sequence[str]:
    """Return the names of the tests that failed, which pytest keeps in its cache."""
    file = cache / "v" / "cache" / "lastfailed"
    return sorted(json.loads(file.read_text())) if file.exists() else []


def describe_results(results: Sequence[AreaResult]) -> str:
    counts = sum((Counter(result.counts) for result in results), Counter[str]())
    failed = counts["failed"] + counts["error"]
    return f"{counts['passed']} passed, {failed} failed, {counts['skipped']} skipped"


def judge_results(results: Sequence[AreaResult], command: Sequence[str]) -> int:
    """Return what the run ends with; run what failed once more, alone, if that is little."""
    codes = {result.code for result in results} - {0}
    failed = [test for result in results for test in result.failed]
    if not codes:
        return 0
    if codes != {TESTS_FAILED} or not 0 < len(failed) <= MOST_TWICE:
        print("== failed in", *(result.area for result in results if result.code), *failed, sep="\n     ")
        return TESTS_FAILED
    print(f"== {len(failed)} failed; once more, alone", flush=True)
    second = subprocess.run([*command, *failed], check=False).returncode
    if second == 0:
        print("== passed only in a second try, alone; find out why:", *failed, sep="\n     ")
    return second


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
