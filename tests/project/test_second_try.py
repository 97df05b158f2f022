"""A test that fails beside others gets a second try, alone, and is named; one that fails twice ends the check."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.project.documented_pages import ROOT

PASSES_THE_SECOND_TIME = """
from pathlib import Path

def test_once():
    flag = Path("was-here")
    was_here = flag.exists()
    flag.touch()
    assert was_here

def test_other():
    with Path("runs").open("a") as runs:
        runs.write("x")
"""
FAILS = "def test_wrong_{number}():\n    assert False\n"


def run_twice(folder: Path, tests: str) -> tuple[int, str]:
    (folder / "test_given.py").write_text(tests)
    pytest_command = [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "--rootdir", str(folder)]
    environment = {"PYTHONPATH": str(ROOT), "PATH": ""}
    first = subprocess.run(pytest_command, cwd=folder, env=environment, check=False, capture_output=True)
    second = subprocess.run(
        [sys.executable, "-m", "tools.second_try", str(first.returncode), *pytest_command],
        cwd=folder,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    return second.returncode, second.stdout


def test_a_test_that_passes_alone_is_named_and_the_check_goes_on(tmp_path: Path) -> None:
    code, output = run_twice(tmp_path, PASSES_THE_SECOND_TIME)

    assert code == 0
    assert "passed only in a second try, alone; find out why:\n     test_given.py::test_once" in output
    assert (tmp_path / "runs").read_text() == "x", "what passed is not run again"


@pytest.mark.parametrize("count", [1, 4])
def test_a_test_that_is_wrong_ends_the_check(tmp_path: Path, count: int) -> None:
    code, output = run_twice(tmp_path, "".join(FAILS.format(number=number) for number in range(count)))

    assert code == 1
    assert ("once more, alone" in output) == (count == 1), "many failures are no accident"


def test_what_is_no_failure_of_a_test_ends_the_check(tmp_path: Path) -> None:
    code, _ = run_twice(tmp_path, "this is no Python")

    assert code == 2
