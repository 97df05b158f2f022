"""Where the server's files are, and whether it is running.

<data dir>/
  postgres/          the cluster, owned by the server's user
  postgres.log       what the server and its keeper say
  postgres.hba       who is let in, and as whom (postgres.ident)
  postgres.users     shared lock of every user; exclusively the keeper's when nobody is left
  postgres.keeper    exclusive lock of the keeper
  postgres.location  only where the cluster had to go elsewhere (see `cluster_folder`)
"""

import fcntl
import hashlib
import os
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from bpc.core.errors import DatabaseUnavailable
from bpc.db.embedded.account import STATE_ROOT, Account, passable_folder

PORT: Final = 5432  # only a part of the socket's name: nothing listens on a network
LONGEST_SOCKET_PATH: Final = 103  # sun_path ends at 104 bytes on macOS, 108 on Linux


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of one data directory."""

    data_dir: Path

    @property
    def log(self) -> Path:
        return self.data_dir / "postgres.log"

    @property
    def users_lock(self) -> Path:
        return self.data_dir / "postgres.users"

    @property
    def keeper_lock(self) -> Path:
        return self.data_dir / "postgres.keeper"

    @property
    def location(self) -> Path:
        return self.data_dir / "postgres.location"

    def known_cluster(self) -> Path:
        """The cluster's folder, as far as it has been decided."""
        if not self.location.exists():
            return self.data_dir / "postgres"
        folder = Path(os.fsdecode(self.location.read_bytes().strip()) or ".")
        if not folder.is_absolute() or not folder.parent.is_dir():
            # Starting anew would look as if everything were lost; more likely a disk is not mounted.
            raise DatabaseUnavailable(
                f"the tables should be in `{folder}`, says {self.location}, and that is not there",
                fix="mount or restore it; only to begin with nothing, remove that file",
            )
        return folder

    def cluster_folder(self, account: Account) -> Path:
        """Decide where the cluster goes: in the data directory, if the server's user can get there.

        A data directory inside root's closed home is beyond the system user's reach; the cluster then lies
        below /var/lib/bpc, and `postgres.location` in the data directory says where.
        """
        known = self.known_cluster()
        if self.location.exists() or (known / "PG_VERSION").exists() or self._passable(account):
            return known
        passable_folder(STATE_ROOT)
        clusters = passable_folder(STATE_ROOT / "clusters")
        folder = Path(tempfile.mkdtemp(prefix="cluster-", dir=clusters)) / "postgres"
        folder.parent.chmod(0o711)
        self.location.write_bytes(os.fsencode(folder) + b"\n")
        return folder

    def _passable(self, account: Account) -> bool:
        """Whether `account` can pass through; a folder with nothing in it but ours is opened for that."""
        if account.may("x", self.data_dir):
            return True
        names = [entry.name for entry in self.data_dir.iterdir()]
        if all(name == "keys" or name.startswith("postgres") for name in names):
            before = stat.S_IMODE(self.data_dir.stat().st_mode)
            self.data_dir.chmod(before | 0o011)
            if account.may("x", self.data_dir):
                return True
            self.data_dir.chmod(before)
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Postmaster:
    """What `postmaster.pid` says of a server, once it is known to be true."""

    pid: int
    socket_folder: Path
    ready: bool


def running_postmaster(cluster: Path) -> Postmaster | None:
    """The server that runs on `cluster`, or None: neither a corpse nor a stranger with its number counts."""
    lines = _pid_file_lines(cluster)
    if len(lines) < 5 or not lines[0].isdecimal():
        return None
    pid = int(lines[0])
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE or Path(process.cwd()) != cluster.resolve():
            return None
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return None
    ready = len(lines) >= 8 and lines[7].strip() == "ready"
    return Postmaster(pid=pid, socket_folder=Path(lines[4]), ready=ready)


def _pid_file_lines(cluster: Path) -> list[str]:
    """The lines of `postmaster.pid`, which may be half-written or from a server long dead."""
    try:
        return os.fsdecode((cluster / "postmaster.pid").read_bytes()).split("\n")
    except OSError:
        return []


def is_locked(path: Path) -> bool:
    """Whether somebody holds `path` exclusively. Asking does not create the file."""
    try:
        handle = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def await_release(path: Path) -> None:
    """Wait until nobody holds `path` exclusively any more."""
    with path.open("rb") as handle:
        fcntl.flock(handle, fcntl.LOCK_SH)


def socket_folder(data_dir: Path, account: Account) -> Path:
    """A short private folder for the socket, the same for a data directory while it can be.

    Its name may be guessed and taken by somebody else in a shared /tmp: then another is made.
    """
    name = f"bpc-{account.uid}-{hashlib.sha256(os.fsencode(data_dir.resolve())).hexdigest()[:12]}"
    for root in _socket_roots(account):
        folder = root / name
        if set(str(folder)) & {",", '"'}:  # PostgreSQL would take it for a list
            continue
        if len(os.fsencode(folder)) + len(f"/.s.PGSQL.{PORT}") > LONGEST_SOCKET_PATH:
            continue
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            if not _is_private(folder, account):
                continue
        except OSError:
            continue
        account.own(folder)
        return folder
    folder = Path(tempfile.mkdtemp(prefix=f"bpc-{account.uid}-"))
    account.own(folder)
    return folder


def _socket_roots(account: Account) -> list[Path]:
    roots = []
    if account.switch:
        with suppress(OSError):
            roots.append(passable_folder(Path("/run/bpc")))
    elif runtime := os.environ.get("XDG_RUNTIME_DIR"):
        roots.append(Path(runtime))
    with suppress(FileNotFoundError):  # there may be no writable one at all
        roots.append(Path(tempfile.gettempdir()))
    return [*roots, Path("/tmp")]  # noqa: S108 (a private folder inside it)


def _is_private(folder: Path, account: Account) -> bool:
    found = folder.lstat()
    ours = found.st_uid in {account.uid, os.geteuid()}
    return stat.S_ISDIR(found.st_mode) and ours and stat.S_IMODE(found.st_mode) == 0o700
