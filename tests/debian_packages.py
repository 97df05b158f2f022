"""Programs from packages of Debian, unpacked into the folder of a test run: installing them would start servers."""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest


def fetch_program(run_folder: Path, package: str, program: str) -> str:
    """The path of `program` (`usr/bin/promtool`) here or from `package`; without both, the test is skipped."""
    if path := shutil.which(Path(program).name):
        return path
    folder = run_folder / package
    with (run_folder / f"{package}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            folder.mkdir()
            _unpack(package, folder)
    unpacked = folder / program
    if not unpacked.exists():
        pytest.skip(f"no {unpacked.name} on this machine, and {(folder / 'lacking').read_text()}")
    return str(unpacked)


def _unpack(package: str, folder: Path) -> None:
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        (folder / "lacking").write_text("no apt-get to fetch it with")
        return
    fetch = ["apt-get", "download", "-q", package]
    is_fetched = _run(fetch, folder) or (
        os.geteuid() == 0 and _run(["apt-get", "update", "-q"], folder) and _run(fetch, folder)
    )
    packages = [str(file) for file in folder.glob("*.deb")]
    if not is_fetched or not _run(["dpkg-deb", "-x", *packages, "."], folder):
        (folder / "lacking").write_text(f"apt-get could not fetch the package {package}")


def _run(command: list[str], folder: Path) -> bool:
    return subprocess.run(command, cwd=folder, capture_output=True, timeout=300, check=False).returncode == 0
