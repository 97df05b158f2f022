"""`make` on a machine whose Python is too old says which one is needed, and changes nothing."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OLD_PYTHON = '#!/bin/sh\nif [ "$1" = -V ]; then echo "Python 3.9.2"; exit 0; fi\nexit 1\n'


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A working copy in which nothing is set up; only its names count here."""
    folder = tmp_path / "copy"
    (folder / "requirements").mkdir(parents=True)
    shutil.copy(ROOT / "Makefile", folder)
    packages = [f"packages/{name}/pyproject.toml" for name in ("service-jobs", "bpc-client")]
    client = [f"packages/bpc-client/{name}" for name in ("openapi.json", "client_generator.py", "hatch_build.py")]
    for name in ("pyproject.toml", "requirements/uv.txt", "requirements/dev.txt", *packages, *client):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    (folder / ".venv").mkdir()
    return folder


@pytest.fixture
def old_pythons(tmp_path: Path) -> Path:
    folder = tmp_path / "old"
    folder.mkdir()
    for name in ("python3", *(f"python3.{number}" for number in (11, 12, 13, 14))):
        (folder / name).write_text(OLD_PYTHON)
        (folder / name).chmod(0o755)
    return folder


def run_make(copy: Path, path: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {"PATH": f"{path}:{os.environ['PATH']}", "HOME": str(copy)}
    return subprocess.run(
        ["make", *arguments], cwd=copy, env=environment, capture_output=True, text=True, check=False, timeout=60
    )


def test_an_old_python_is_named_beside_the_one_that_is_needed(copy: Path, old_pythons: Path) -> None:
    ended = run_make(copy, old_pythons, "demo")

    assert ended.returncode != 0
    assert ended.stdout == ""
    assert ended.stderr.startswith(
        "bpc needs Python 3.11 or later; python3: Python 3.9.2\n"
        "  install a newer one, or name one that you have: make PYTHON=python3.12 demo\n"
    )


def test_an_old_python_that_is_chosen_removes_no_environment(copy: Path, old_pythons: Path) -> None:
    ended = run_make(copy, old_pythons, f"PYTHON={old_pythons}/python3.11", "setup")

    assert f"bpc needs Python 3.11 or later; {old_pythons}/python3.11: Python 3.9.2\n" in ended.stderr
    assert (copy / ".venv").is_dir()


def test_an_old_python_first_on_the_path_does_not_matter_if_there_is_a_newer_one(copy: Path, old_pythons: Path) -> None:
    (old_pythons / "python3.12").write_text('#!/bin/sh\n[ "$1" = -m ] && echo "it was used: $*"\nexit 0\n')

    ended = run_make(copy, old_pythons, "--dry-run", "setup")

    assert ended.returncode == 0
    assert "python3.12" in ended.stdout
