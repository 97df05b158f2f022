"""The gates of `make check`: each fails on what it is there to catch, and names it.

The static ones run on a copy of the project with one violation in it, with the tools of this environment.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.measurements import choose_effort, write_measurement
from tools import external, packaged_postgres

ROOT = Path(__file__).resolve().parents[2]
VENV = Path(sys.prefix)
SOURCES = ("src", "packages/service-jobs/src", "packages/bpc-client/src")
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text())


def run(command: Sequence[str | Path], at: Path, **environment: str) -> tuple[int, str]:
    """Run `command` in the folder `at`; return how it exited and all it said."""
    # Not ours to pass on: the flags of a make we run under, coverage of the tools, servers of the machine.
    foreign = ("MAKE", "MFLAGS", "COVERAGE_", "COV_CORE_", "PYTEST_", "BPC_", "DATABASE_URL")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    done = subprocess.run(
        command,
        cwd=at,
        env=clean | {"NO_COLOR": "1", "COLUMNS": "200"} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def run_make(target: str, project: Path, *options: str) -> tuple[int, str]:
    """Make `target` in the copy `project`, with this environment's tools on the copy's sources."""
    # READY is newer than what it is made from, so make builds no environment; if it tried, UV would fail.
    ready = project / ".ready"
    ready.touch()
    return run(
        ["make", *options, target, f"VENV={VENV}", f"READY={ready}", "UV=false"],
        project,
        # The editable install points at the original; this comes before it.
        PYTHONPATH=os.pathsep.join(str(project / sources) for sources in SOURCES),
    )


@pytest.fixture(scope="module")
def project_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the static gates look at, with mypy's cache warmed so that each copy is checked quickly."""
    project = tmp_path_factory.mktemp("gates") / "original"
    if (ROOT / ".mypy_cache").is_dir():  # `make check` has just filled it, with much of what is wanted here
        shutil.copytree(ROOT / ".mypy_cache", project / ".mypy_cache")
    for sources in SOURCES:
        shutil.copytree(ROOT / sources, project / sources, ignore=shutil.ignore_patterns("__pycache__"))
    for package in ("packages/service-jobs", "packages/bpc-client"):
        for file in (ROOT / package).iterdir():
            if file.is_file():
                shutil.copy2(file, project / package / file.name)
    shutil.copytree(ROOT / "requirements", project / "requirements")
    for name in ("pyproject.toml", "Makefile"):
        shutil.copy2(ROOT / name, project / name)
    for folder in CONFIG["tool"]["mypy"]["files"]:
        if folder not in {"src", "packages"}:
            (project / folder).mkdir()
            (project / folder / f"{folder}_stand_in.py").write_text('"""Stands for the rest."""\n')
    run_make("types", project)
    return project


@pytest.fixture
def project(project_copy: Path, tmp_path: Path) -> Path:
    return shutil.copytree(project_copy, tmp_path / "project")


def inject(project: Path, path: str, code: str) -> None:
    """Append `code` to the file `path`, which may be new."""
    file = project / "src" / "bpc" / path
    before = file.read_text() if file.exists() else '"""New."""\n'
    file.write_text(before + textwrap.dedent(code))


@pytest.mark.long  # `make check` runs them itself before any test, which the next test promises
def test_the_project_as_it_is_passes_all_static_gates(project: Path) -> None:
    code, output = run_make("static", project)

    assert code == 0, output


def test_check_runs_all_static_gates_the_tests_and_the_coverage_gates(project: Path) -> None:
    code, output = run_make("check", project, "--dry-run")

    assert code == 0, output
    expected = [
        "ruff format --check",
        "ruff check",
        "mypy",
        "lint-imports",
        "pytest",
        "coverage_gates.py",
        "tools.external",
    ]
    assert [tool for tool in expected if tool not in output] == []


def test_badly_formatted_code_fails(project: Path) -> None:
    inject(project, "core/strange.py", "x  =  1\n")

    code, output = run_make("format-check", project)

    assert code != 0
    assert "src/bpc/core/strange.py" in output


def test_an_unused_import_fails(project: Path) -> None:
    inject(project, "core/strange.py", "\nimport json\n")

    code, output = run_make("lint", project)

    assert code != 0
    assert "F401" in output
    assert "src/bpc/core/strange.py" in output


def test_looking_at_the_clock_in_the_core_fails(project: Path) -> None:
    inject(project, "core/strange.py", "\nimport datetime\n\nNOW = datetime.datetime.now(datetime.UTC)\n")

    code, output = run_make("lint", project)

    assert code != 0
    assert "take the time as an argument" in output
    assert "src/bpc/core/strange.py" in output


def test_a_type_error_fails(project: Path) -> None:
    inject(project, "core/strange.py", '\nCOUNT: int = "three"\n')

    code, output = run_make("types", project)

    assert code != 0
    assert "src/bpc/core/strange.py:3: error: Incompatible types in assignment" in output


def test_an_untyped_function_fails(project: Path) -> None:
    inject(project, "core/strange.py", "\n\ndef double(x):\n    return x + x\n")

    code, output = run_make("types", project)

    assert code != 0
    assert "src/bpc/core/strange.py:4: error: Function is missing a type annotation" in output


def test_an_import_that_points_up_the_map_fails(project: Path) -> None:
    inject(project, "core/strange.py", "\nimport bpc.storage\n")

    code, output = run_make("layers", project)

    assert code != 0
    assert "imports point down the map, and every module is on it BROKEN" in output
    assert "bpc.core.strange -> bpc.storage" in output


def test_a_module_that_is_not_on_the_map_fails(project: Path) -> None:
    inject(project, "utils.py", "")

    code, output = run_make("layers", project)

    assert code != 0
    assert "bpc.utils" in output


def test_a_core_that_could_look_outside_fails(project: Path) -> None:
    outside = ["time", "random", "os", "socket", "asyncpg"]
    inject(project, "core/strange.py", "".join(f"\nimport {module}\n" for module in outside))

    code, output = run_make("layers", project)

    assert code != 0
    assert "the core has no clock, randomness, disk, network or database BROKEN" in output
    assert [module for module in outside if f"bpc.core.strange -> {module}" not in output] == []


# Coverage


@pytest.fixture
def half_covered(tmp_path: Path) -> Path:
    """A project whose core is covered half, whose runtime fully, and which has no other layer."""
    package = tmp_path / "src" / "bpc"
    for layer in ("core", "runtime"):
        (package / layer).mkdir(parents=True)
        (package / layer / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "core" / "half.py").write_text("def run():\n    return 1\n\ndef unrun():\n    return 2\n")
    (package / "runtime" / "clock.py").write_text("X = 1\n")
    (tmp_path / "go.py").write_text("import bpc.runtime.clock\nfrom bpc.core import half\nhalf.run()\n")
    command = [sys.executable, "-m", "coverage", "run", "--rcfile=/dev/null", "--source=src/bpc", "go.py"]
    code, output = run(command, tmp_path, PYTHONPATH=str(package.parent))
    assert code == 0, output
    return tmp_path


def run_coverage_gates(project: Path, core: float) -> tuple[int, list[str]]:
    gates = f'"src/bpc/core" = {core}\n"src/bpc/runtime" = 90\n"src/bpc/storage" = 80\n'
    (project / "pyproject.toml").write_text(f"[tool.bpc.coverage]\n{gates}")
    code, output = run([sys.executable, ROOT / "tools" / "coverage_gates.py"], project)
    return code, output.splitlines()


def test_a_layer_below_its_coverage_gate_fails_and_is_named(half_covered: Path) -> None:
    code, lines = run_coverage_gates(half_covered, core=90)

    assert code == 1
    assert lines == [
        "src/bpc/core 75.0 % (gate 90 %) TOO LOW",
        "src/bpc/runtime 100.0 % (gate 90 %) ok",
        "coverage is below the gate in: src/bpc/core",
    ]


def test_layers_at_their_coverage_gates_pass(half_covered: Path) -> None:
    code, lines = run_coverage_gates(half_covered, core=75)

    assert code == 0
    assert lines == ["src/bpc/core 75.0 % (gate 75 %) ok", "src/bpc/runtime 100.0 % (gate 90 %) ok"]


def test_a_layer_that_was_not_measured_is_not_covered(half_covered: Path) -> None:
    (half_covered / "src" / "bpc" / "storage").mkdir()

    code, lines = run_coverage_gates(half_covered, core=75)

    assert code == 1
    assert "src/bpc/storage 0.0 % (gate 80 %) TOO LOW" in lines


def test_every_layer_and_every_package_has_a_coverage_gate() -> None:
    layers = {f"src/bpc/{folder.parent.name}" for folder in (ROOT / "src" / "bpc").glob("*/__init__.py")}
    packages = {f"packages/{file.parent.name}/src" for file in (ROOT / "packages").glob("*/pyproject.toml")}

    assert set(CONFIG["tool"]["bpc"]["coverage"]) == layers | packages


def test_no_measurement_at_all_fails(half_covered: Path) -> None:
    (half_covered / ".coverage").unlink()

    code, output = run_coverage_gates(half_covered, core=75)

    assert code == 1
    assert output == ["coverage gates: No data to report."]


# Tests


def test_a_warning_in_a_test_is_an_error(tmp_path: Path) -> None:
    test = tmp_path / "test_warns.py"
    test.write_text(
        textwrap.dedent("""
            import warnings
            from pathlib import Path

            def test_it_is_careless() -> None:
                warnings.warn('careless', stacklevel=1)

            def test_it_is_old() -> None:
                warnings.warn('old', DeprecationWarning, stacklevel=1)

            def test_it_leaves_a_file_open() -> None:
                Path(__file__).open()
        """)
    )

    options = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), "-p", "no:cacheprovider"]
    code, output = run([sys.executable, "-m", "pytest", *options, test], tmp_path)

    assert code == 1
    assert "3 failed" in output
    warnings = ["UserWarning: careless", "DeprecationWarning: old", "ResourceWarning"]
    assert [warning for warning in warnings if warning not in output] == []


# The external server

EXTERNAL = [sys.executable, "-m", "tools.external"]
NOWHERE = "postgresql://bpc:not-to-be-shown@127.0.0.1:1/bpc"


def test_without_an_external_server_check_says_what_it_did_not_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(external, "USUAL_URLS", (NOWHERE,))
    monkeypatch.setattr(packaged_postgres, "PACKAGES", tmp_path)
    monkeypatch.delenv("BPC_TEST_DATABASE_URL", raising=False)

    code = external.main(["--if-present", "echo", "ran"])

    assert code == 0
    why = "set DATABASE_URL; on localhost:5432: nothing listens there"
    assert capsys.readouterr().out == f"not run on an external PostgreSQL: echo ran ({why})\n"


def test_a_named_server_that_is_not_there_fails_check_too() -> None:
    code, output = run([*EXTERNAL, "--if-present", "echo", "ran"], ROOT, DATABASE_URL=NOWHERE)

    assert code == 69
    assert output == "not run on an external PostgreSQL: echo ran (DATABASE_URL: nothing listens there)\n"


def test_an_external_server_that_was_asked_for_and_is_not_there_is_a_failure() -> None:
    code, output = run([*EXTERNAL, "echo", "ran"], ROOT, BPC_TEST_DATABASE_URL=NOWHERE)

    assert code == 69
    assert output == "not run on an external PostgreSQL: echo ran (BPC_TEST_DATABASE_URL: nothing listens there)\n"


@pytest.mark.parametrize("url", ["mysql://bpc:not-to-be-shown@db/bpc", "postgresql://bpc:not-to/be-shown@db/bpc"])
def test_a_url_that_cannot_be_read_is_not_repeated(url: str) -> None:
    code, output = run([*EXTERNAL, "echo", "ran"], ROOT, DATABASE_URL=url)

    assert code == 69
    assert "DATABASE_URL: this is not the URL of a PostgreSQL database" in output
    assert "not-to" not in output


@pytest.mark.skipif(
    packaged_postgres.find_programs(oldest=15) is None, reason="no PostgreSQL of this machine's packages to start"
)
def test_a_server_of_this_machines_packages_is_there_as_long_as_the_command_runs() -> None:
    show = "import os; print(os.environ['BPC_TEST_DATABASE_URL'].rpartition('@')[2])"

    code, output = run([*EXTERNAL, sys.executable, "-c", show], ROOT)

    assert code == 0, output
    begun, place = output.splitlines()
    assert re.fullmatch(rf"on PostgreSQL 1[5-9].* at {place.removesuffix('/postgres')}: .*", begun)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("localhost", int(place.removesuffix("/postgres").split(":")[1])))


# Figures


def test_a_figure_is_small_unless_effort_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BPC_EFFORT", raising=False)
    assert choose_effort(1, 2, 3) == 1

    for name, figure in (("test", 1), ("shown", 2), ("campaign", 3)):
        monkeypatch.setenv("BPC_EFFORT", name)
        assert choose_effort(test=1, shown=2, campaign=3) == figure


def test_an_unknown_effort_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BPC_EFFORT", "heroic")

    with pytest.raises(pytest.UsageError, match="BPC_EFFORT is `heroic`; it can be `test`, `shown` or `campaign`"):
        choose_effort(1, 2, 3)


def test_what_is_measured_ends_up_in_the_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BPC_MEASUREMENTS", str(tmp_path))
    write_measurement("events-appended", postgres="16.1", events=10_000, per_second=812.5)
    write_measurement("a-first", seconds=3)

    command = [sys.executable, str(ROOT / "tools" / "shown.py"), "sh", "-c", "echo $BPC_EFFORT; exit 3"]
    code, output = run(command, tmp_path, BPC_MEASUREMENTS=str(tmp_path))

    rows = (tmp_path / "README.md").read_text().splitlines()[-2:]
    assert (code, output.splitlines()[0]) == (3, "shown")
    assert rows[0].startswith("| a-first | seconds 3 | cpus ")
    assert rows[1].startswith("| events-appended | events 10000, per second 812.5 | cpus ")
    assert "postgres 16.1" in rows[1]


def test_nothing_is_kept_of_a_measurement_unless_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("BPC_MEASUREMENTS", raising=False)
    monkeypatch.chdir(tmp_path)

    write_measurement("events-appended", events=1)

    assert list(tmp_path.iterdir()) == []


def test_a_measurement_is_named_like_a_file() -> None:
    with pytest.raises(ValueError, match="lowercase words joined by hyphens"):
        write_measurement("../elsewhere", events=1)
