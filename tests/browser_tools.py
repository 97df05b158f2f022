"""Node.js, a browser and what drives them, for tests; a test without them is skipped and says what is missing."""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
NODE_FOLDER = ROOT / ".node" / "browser"
LOCK_FILE = ROOT / "tools" / "browser" / "package-lock.json"
INSTALL_SECONDS = 300


@cache
def require_node() -> str:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not on this machine")
    return node


@cache
def require_node_tools() -> Path:
    """The folder of installed packages: what `tools/browser` names, installed once with its lock file."""
    require_node()
    modules = NODE_FOLDER / "node_modules"
    ready = NODE_FOLDER / ".ready"
    with _hold_lock("node"):
        if not ready.exists() or ready.stat().st_mtime < LOCK_FILE.stat().st_mtime:
            if shutil.which("npm") is None:
                pytest.skip("npm is not on this machine")
            NODE_FOLDER.mkdir(parents=True, exist_ok=True)
            for name in ("package.json", "package-lock.json"):
                shutil.copy(LOCK_FILE.parent / name, NODE_FOLDER / name)
            command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--silent"]
            if subprocess.run(command, cwd=NODE_FOLDER, check=False, timeout=INSTALL_SECONDS).returncode != 0:
                pytest.skip("the packages of tools/browser cannot be installed here")
            ready.touch()
    return modules


@cache
def require_chromium() -> str:
    """Chromium of the system; root installs Debian's package if there is none."""
    browser = shutil.which("chromium")
    if browser is None and shutil.which("apt-get") is not None and os.geteuid() == 0:
        with _hold_lock("chromium"):
            for command in (["update"], ["install", "-y", "--no-install-recommends", "chromium"]):
                subprocess.run(["apt-get", "-qq", *command], check=False, timeout=INSTALL_SECONDS, capture_output=True)
        browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("chromium is not on this machine")
    return browser


def run_node(script: Path, *arguments: str, timeout: float = 120, modules: Path | None = None) -> str:
    """What a script prints; its errors fail the test."""
    environment = {**os.environ, **({} if modules is None else {"BPC_NODE_MODULES": str(modules)})}
    done = subprocess.run(
        [require_node(), str(script), *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


@contextmanager
def _hold_lock(name: str) -> Iterator[None]:
    """Only one worker installs; the others wait."""
    folder = ROOT / ".node"
    folder.mkdir(exist_ok=True)
    with (folder / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
