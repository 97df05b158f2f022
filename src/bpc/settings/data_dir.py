"""The data folder: where it is by default, and making it so that only its owner can look inside.

Nothing that exists is ever changed here: `BPC_DATA_DIR=/tmp` by mistake must not take `/tmp` from everybody.
"""

import os
import pwd
import shlex
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bpc.settings.problems import ConfigMissing

NAME: Final = "BPC_DATA_DIR"
FOR_US: Final = 0o700
# The embedded PostgreSQL refuses to run as root: its system user must pass through to its own folder inside.
FOR_US_AND_PASSING: Final = 0o711


def default_data_dir(environ: Mapping[str, str], *, root: bool) -> Path:
    """`/var/lib/bpc` for root, whose home nobody else can enter; otherwise where XDG puts a user's data."""
    if root:
        return Path("/var/lib/bpc")
    # XDG Base Directory Specification: a relative path is invalid and ignored.
    shared = Path(environ.get("XDG_DATA_HOME", ""))
    return (shared if shared.is_absolute() else home(environ) / ".local" / "share") / "bpc"


def home(environ: Mapping[str, str]) -> Path:
    """The user's home from `environ`, or from the system's list of users; some containers have neither."""
    if environ.get("HOME"):
        return Path(environ["HOME"])
    try:
        return Path(pwd.getpwuid(os.geteuid()).pw_dir)
    except KeyError:
        nowhere = "there is no home folder to keep data in"
    raise ConfigMissing.of(NAME, f"`{NAME}` is not set and {nowhere}", fix=f"set {NAME} to a folder of your own")


def prepare(path: Path) -> Path:
    """Create the data folder if it is not there, and refuse one that others own or can write to."""
    mode = FOR_US_AND_PASSING if os.geteuid() == 0 else FOR_US
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _make(path, mode)
        found = path.stat()
    except OSError as failed:
        raise _refused(
            path, f"cannot be used: {failed.strerror}", "set {name} to a folder you may write to"
        ) from failed
    _check(path, found)
    return path


def _make(path: Path, mode: int) -> None:
    try:
        path.mkdir(mode)
    except FileExistsError:
        return
    path.chmod(mode)  # mkdir's mode is cut by the umask, and root's 0711 must not become 0700


def _check(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISDIR(found.st_mode):
        raise _refused(path, "is a file, not a folder", "set {name} to a folder")
    if found.st_uid != os.geteuid():
        raise _refused(path, "belongs to another user", "run as its owner, or set {name} to a folder of your own")
    # A private group of one's own is usual for people; what root trusts, a group must not write to.
    others = stat.S_IWOTH | (stat.S_IWGRP if os.geteuid() == 0 and found.st_gid != 0 else 0)
    if found.st_mode & others:
        shared = found.st_mode & stat.S_ISVTX  # /tmp and its like are meant to be so
        chmod = "" if shared else f"chmod go-w {shlex.quote(str(path))}, or "
        raise _refused(path, "can be written to by others", f"{chmod}set {{name}} to a folder of your own")


def _refused(path: Path, why: str, fix: str) -> ConfigMissing:
    return ConfigMissing.of(NAME, f"the data folder `{path}` {why}", fix=fix.replace("{name}", NAME))
