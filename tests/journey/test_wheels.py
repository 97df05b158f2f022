"""The three packages as their users get them: built as wheels, installed into an empty environment, and used there."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from bpc.runtime.postgres.address import Address
from tests.fixtures import TestServer

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("packages/service-jobs", "packages/bpc-client", ".")

pytestmark = pytest.mark.long  # it downloads everything anew


def run(command: Sequence[str | Path], at: Path, environment: Mapping[str, str] | None = None) -> str:
    """Run `command` in the folder `at` with nothing of this environment; return what it printed."""
    foreign = ("BPC_", "COVERAGE_", "PYTEST_", "PYTHON", "VIRTUAL_ENV", "DATABASE_URL")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    done = subprocess.run(
        command,
        cwd=at,
        env=clean | dict(environment or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheels of the three packages."""
    folder = tmp_path_factory.mktemp("wheels")
    for package in PACKAGES:
        run([Path(sys.prefix) / "bin" / "hatchling", "build", "-t", "wheel", "-d", folder], ROOT / package)
    return folder


def make_environment(folder: Path, wheels: Sequence[Path]) -> Path:
    """Make an empty environment in `folder`, install `wheels` into it, and return its folder of programs."""
    run([sys.executable, "-m", "venv", folder], folder.parent)
    programs = folder / "bin"
    run([programs / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wheels], folder)
    return programs


def test_a_service_of_thirty_lines_runs_on_the_engine_alone(
    wheels: Path, server: TestServer, empty_address: Address, tmp_path: Path
) -> None:
    [wheel] = wheels.glob("service_jobs-*.whl")
    programs = make_environment(tmp_path / "environment", [wheel])
    page = (ROOT / "packages" / "service-jobs" / "README.md").read_text()
    program = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    (tmp_path / "service.py").write_text(program)

    owner = server.admin.with_database(empty_address.database)
    output = run([programs / "python", "service.py"], tmp_path, {"DATABASE_URL": str(owner)})

    assert "hello world" in output
    assert len([line for line in program.splitlines() if line.strip()]) <= 30
    assert "bpc" not in run([programs / "python", "-m", "pip", "list"], tmp_path)


def test_the_demo_runs_from_the_three_wheels(wheels: Path, tmp_path: Path, data_dir: Path) -> None:
    programs = make_environment(tmp_path / "environment", sorted(wheels.glob("*.whl")))

    output = run([programs / "bpc", "demo"], tmp_path, {"BPC_DATA_DIR": str(data_dir)})

    assert "8 replay" in output
