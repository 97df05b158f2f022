"""The three packages as their users get them: built from a commit, installed into an empty environment, used there."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from bpc.runtime.postgres.address import Address
from tests.fixtures import TestServer
from tools.release import build

ROOT = Path(__file__).resolve().parents[2]

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
        timeout=600,  # everything is downloaded
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make dist` builds: wheels and source archives of the three packages, and versions of all they need."""
    folder = tmp_path_factory.mktemp("wheels")
    build.build(ROOT, folder)
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


def install_with_uv(wheels: Path, home: Path) -> Path:
    uv = shutil.which("uv") or str(ROOT / ".uv" / "bin" / "uv")
    [wheel] = wheels.glob("bpc-*.whl")
    folders = {"HOME": str(home), "UV_TOOL_DIR": str(home / "tools"), "UV_TOOL_BIN_DIR": str(home / "bin")}
    chosen = ("--find-links", wheels, "--constraints", wheels / "constraints.txt")
    run([uv, "tool", "install", "--quiet", "--python", sys.executable, *chosen, wheel], home, folders)
    return home / "bin" / "bpc"


def install_with_pipx(wheels: Path, home: Path) -> Path:
    run([sys.executable, "-m", "venv", home / "installer"], home)
    run([home / "installer" / "bin" / "python", "-m", "pip", "install", "--quiet", "pipx"], home)
    [wheel] = wheels.glob("bpc-*.whl")
    folders = {"HOME": str(home), "PIPX_HOME": str(home / "pipx"), "PIPX_BIN_DIR": str(home / "bin")}
    chosen = f"--pip-args=--find-links {wheels} --constraint {wheels / 'constraints.txt'}"
    run([home / "installer" / "bin" / "pipx", "install", chosen, wheel], home, folders)
    return home / "bin" / "bpc"


def install_from_source(wheels: Path, home: Path) -> Path:
    """The source archives, without a wheel of ours in sight."""
    uv = shutil.which("uv") or str(ROOT / ".uv" / "bin" / "uv")
    run([uv, "venv", "--quiet", "--python", sys.executable, home / "environment"], home)
    target = ("--python", home / "environment" / "bin" / "python", "--constraints", wheels / "constraints.txt")
    run([uv, "pip", "install", "--quiet", *target, *sorted(wheels.glob("*.tar.gz"))], home)
    return home / "environment" / "bin" / "bpc"


@pytest.mark.parametrize("install", [install_with_uv, install_with_pipx, install_from_source])
def test_the_demo_and_the_service_run_from_what_is_installed(
    wheels: Path, tmp_path: Path, data_dir: Path, install: Callable[[Path, Path], Path]
) -> None:
    program = install(wheels, tmp_path)
    settings = {"BPC_DATA_DIR": str(data_dir), "BPC_WORKER_HTTP_PORT": "0"}

    output = run([program, "demo"], tmp_path, settings)

    assert "8 replay" in output
    with start_service(program, tmp_path, settings) as address, urlopen(f"{address}/v1/health/ready") as answer:
        assert answer.status == 200


@contextmanager
def start_service(program: Path, at: Path, settings: Mapping[str, str]) -> Iterator[str]:
    command = [str(program), "up", "--port", "0", "--json"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(at), **settings}
    with subprocess.Popen(command, cwd=at, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"]
        process.terminate()
