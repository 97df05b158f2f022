"""The first promise: a clone, Python, git and make are enough, whoever you are and wherever your home is."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.measurements import RecordMeasurement, choose_effort

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Newcomer:
    """Somebody with a clone in a home of their own, and a data path that is long."""

    clone: Path
    home: Path
    data_dir: Path
    user: str | None

    def make(self, target: str, *, seconds: int) -> "subprocess.CompletedProcess[str]":
        as_user = {} if self.user is None else {"user": self.user, "group": "nogroup", "extra_groups": []}
        done: subprocess.CompletedProcess[str] = subprocess.run(
            ["make", target],
            cwd=self.clone,
            env=self._environment(),
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            **as_user,  # type: ignore[call-overload]
        )
        return done

    def _environment(self) -> dict[str, str]:
        own_prefixes = (
            "BPC_",
            "COVERAGE_",
            "PYTEST_",
            "UV_",
            "VIRTUAL_ENV",
            "XDG_",
            "MAKE",
            "MFLAGS",
            "PYTHON",
            "DATABASE_URL",
        )
        foreign = {name: value for name, value in os.environ.items() if not name.startswith(own_prefixes)}
        return {**foreign, "HOME": str(self.home), "PATH": self._path(), "BPC_DATA_DIR": str(self.data_dir)}

    def _path(self) -> str:
        """The system's programs without uv, and for us the Python that runs this test."""
        system = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
        entries = [entry for entry in system.split(":") if not (Path(entry) / "uv").exists()]
        if self.user is None:
            entries.insert(0, str(Path(sys.base_prefix) / "bin"))
        return ":".join(entries)


def make_newcomer(folder: Path, user: str | None) -> Newcomer:
    """A folder of mode 0700 with a home, a clone of what would be committed, and a data path of 200 characters."""
    closed = folder / (user or "ourselves")
    clone, home = closed / "clone", closed / "home"
    home.mkdir(parents=True)
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in filter(None, tracked.stdout.split("\0")):
        # Measurements are being written while this runs, by ourselves.
        if (ROOT / name).exists() and not name.startswith("docs/measurements/"):
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, clone / name, follow_symlinks=False)
    subprocess.run(["git", "init", "--quiet"], cwd=clone, check=True)
    subprocess.run(["git", "add", "--all"], cwd=clone, check=True)
    data_dir = closed
    while len(str(data_dir)) < 200:
        data_dir /= "d" * min(60, max(1, 199 - len(str(data_dir))))
    closed.chmod(0o700)
    if user is not None:
        subprocess.run(["chown", "-R", f"{user}:nogroup", str(closed)], check=True)
    return Newcomer(clone=clone, home=home, data_dir=data_dir, user=user)


@pytest.fixture
def newcomer_folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="bpc-newcomers-", dir="/tmp"))  # on a disk, where programs may be started
    path.chmod(0o711)
    yield path
    for location in path.rglob("postgres.location"):
        shutil.rmtree(Path(location.read_text().strip()).parent, ignore_errors=True)
    shutil.rmtree(path, ignore_errors=True)


at_full_effort = pytest.mark.skipif(
    choose_effort(test=True, shown=False, campaign=False), reason="`make shown` runs it"
)
in_ci = pytest.mark.skipif(
    choose_effort(test=True, shown=False, campaign=False) and not os.environ.get("CI"),
    reason="downloads everything anew; CI and `make shown` run it",
)
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")

USERS = [
    pytest.param(None, id="as-ourselves", marks=in_ci),
    pytest.param("nobody", id="as-another-user", marks=[pytest.mark.root, as_root, at_full_effort]),
]


@pytest.mark.parametrize("user", USERS)
def test_make_demo_works_in_a_closed_home_with_a_long_data_path_and_without_uv(
    newcomer_folder: Path, user: str | None, record_measurement: RecordMeasurement
) -> None:
    somebody = make_newcomer(newcomer_folder, user)
    started = time.monotonic()

    done = somebody.make("demo", seconds=300)

    assert done.returncode == 0, done.stdout
    assert "uv is not on this machine" in done.stdout
    assert "Done in" in done.stdout
    assert len(str(somebody.data_dir)) >= 200
    assert not list(somebody.home.glob("*/lib/python*")), "nothing is installed outside the clone"
    record_measurement(
        f"fresh-clone-demo-{user or 'ourselves'}", make_demo_seconds=round(time.monotonic() - started, 1)
    )


@at_full_effort
def test_make_test_works_in_a_fresh_clone(newcomer_folder: Path, record_measurement: RecordMeasurement) -> None:
    somebody = make_newcomer(newcomer_folder, None)
    started = time.monotonic()

    done = somebody.make("test", seconds=1500)

    assert done.returncode == 0, done.stdout[-5000:]
    record_measurement("fresh-clone-test", make_test_seconds=round(time.monotonic() - started, 1))
