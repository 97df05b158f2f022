"""Areas of tests run beside each other; what fails there gets a second try, alone, and is named."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project.documented_pages import ROOT
from tools import run_tests

PASSES_THE_SECOND_TIME = """
from pathlib import Path

def test_once():
    flag = Path(__file__).with_name("was-here")
    was_here = flag.exists()
    flag.touch()
    assert was_here

def test_other():
    with Path(__file__).with_name("runs").open("a") as runs:
        runs.write("x")
"""
RUN = """
import sys
from tools import run_tests
run_tests.AREAS = {"outer": ("tests",), "inner": ("tests/inner",)}
sys.exit(run_tests.main(["-q", "-c", "/dev/null", "--rootdir", "."]))
"""


def run_areas(folder: Path, outer: str, inner: str = "def test_right(): pass") -> tuple[int, str]:
    (folder / "tests" / "inner").mkdir(parents=True)
    (folder / "tests" / "test_outer.py").write_text(outer)
    (folder / "tests" / "inner" / "test_inner.py").write_text(inner)
    run = subprocess.run(
        [sys.executable, "-c", RUN],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": os.defpath, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        check=False,
        capture_output=True,
        text=True,
    )
    return run.returncode, run.stdout


def test_a_test_that_passes_alone_is_named_and_the_check_goes_on(tmp_path: Path) -> None:
    code, output = run_areas(tmp_path, PASSES_THE_SECOND_TIME)

    assert code == 0
    assert "passed only in a second try, alone; find out why:\n     tests/test_outer.py::test_once" in output
    assert (tmp_path / "tests" / "runs").read_text() == "x", "what passed is not run again"
    assert "2 passed, 1 failed, 0 skipped" in output, "each test runs in one area"


@pytest.mark.parametrize("count", [1, 4])
def test_a_test_that_is_wrong_ends_the_check(tmp_path: Path, count: int) -> None:
    code, output = run_areas(tmp_path, "\n".join(f"def test_{number}(): assert False" for number in range(count)))

    assert code == 1
    assert ("once more, alone" in output) == (count == 1), "many failures are no accident"


def test_what_is_no_failure_of_a_test_ends_the_check(tmp_path: Path) -> None:
    code, output = run_areas(tmp_path, "this is no Python")

    assert code == 1
    assert "failed in\n     outer" in output


def test_every_test_of_the_project_is_in_one_area() -> None:
    places = {folder: area for area, folders in run_tests.AREAS.items() for folder in folders}

    assert len(places) == sum(map(len, run_tests.AREAS.values()))
    assert {"tests", "packages"} <= set(places)
    assert all((ROOT / folder).is_dir() for folder in places)


def test_the_counts_of_an_area_are_found_whatever_is_printed_after_them() -> None:
    summary = "===== 5 passed, 2 skipped, 1 error in 2.00s (0:00:02) ====="
    output = f"1 passed in a line of a test\n{summary}\nCoverageWarning: x\n"

    result = run_tests.AreaResult(area="core", code=1, output=output, seconds=2, failed=())

    assert run_tests.describe_results([result]) == "5 passed, 1 failed, 2 skipped"
