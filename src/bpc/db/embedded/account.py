"""Whose processes and files the server's are.

PostgreSQL refuses to run as root. Started by root, it runs as the system user `bpc`, which we create;
started by anybody else, it runs as that user.
"""

import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bpc.core.errors import DatabaseUnavailable

SYSTEM_USER: Final = "bpc"
STATE_ROOT: Final = Path("/var/lib/bpc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The user the server runs as. `switch` says whether that is somebody else than ourselves."""

    name: str
    uid: int
    gid: int
    switch: bool

    def popen_arguments(self) -> dict[str, object]:
        """What `subprocess` needs to start a program as this user."""
        if not self.switch:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def may(self, test: str, path: Path) -> bool:
        """Whether this user passes `test -x`, `-r`, `-w` … on `path`, asked of the system, not guessed."""
        done = subprocess.run(
            ["test", f"-{test}", str(path)],  # noqa: S607 (coreutils, wherever the system keeps them)
            check=False,
            cwd="/",
            **self.popen_arguments(),  # type: ignore[call-overload]
        )
        return bool(done.returncode == 0)

    def own(self, path: Path) -> None:
        """Make `path` this user's, private to it."""
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.switch:
            os.chown(path, self.uid, self.gid)
        path.chmod(0o700)


def passable_folder(path: Path) -> Path:
    """A folder of ours that others may pass through but not list; an existing one stays as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.mkdir()
    except FileExistsError:
        return path
    path.chmod(0o711)  # not `mkdir`'s mode, which the umask cuts
    return path


def server_account() -> Account:
    """The account for a server started by this process; as root, created on first use."""
    if os.geteuid() != 0:
        return Account(name=_name_of(os.geteuid()), uid=os.geteuid(), gid=os.getegid(), switch=False)
    try:
        entry = pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        _create_system_user()
        entry = pwd.getpwnam(SYSTEM_USER)
    return Account(name=entry.pw_name, uid=entry.pw_uid, gid=entry.pw_gid, switch=True)


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        raise DatabaseUnavailable(
            f"user id `{uid}` has no name on this machine, and PostgreSQL insists on one",
            fix="add the user to /etc/passwd, or set DATABASE_URL to a PostgreSQL of your own",
        ) from None


def _create_system_user() -> None:
    where = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"  # `su` and cron leave those out
    useradd, adduser = shutil.which("useradd", path=where), shutil.which("adduser", path=where)
    if useradd:
        command = [useradd, "--system", "--user-group", "--home-dir", str(STATE_ROOT), "--no-create-home"]
        command += ["--shell", "/usr/sbin/nologin", SYSTEM_USER]
    elif adduser:  # busybox
        command = [adduser, "-S", "-D", "-H", "-h", str(STATE_ROOT), "-s", "/sbin/nologin", SYSTEM_USER]
    else:
        command = []
    done = subprocess.run(command, check=False, capture_output=True, text=True) if command else None
    try:
        pwd.getpwnam(SYSTEM_USER)  # two processes may have tried at once: what counts is that it is there
    except KeyError:
        reason = done.stderr.strip() if done else "there is neither `useradd` nor `adduser`"
        raise DatabaseUnavailable(
            f"PostgreSQL does not run as root, and the system user `{SYSTEM_USER}` cannot be created: {reason}",
            fix=f"create the user `{SYSTEM_USER}`, run bpc as a normal user, or set DATABASE_URL",
        ) from None
