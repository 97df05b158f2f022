"""The server's files: where they are, who has locked them, and how the cluster is created and started.

<data dir>/
  postgres/          the cluster, owned by the server's user
  postgres.log       the log of the server and its keeper
  postgres.hba       who may log in, and as whom (postgres.ident)
  postgres.conf      whether the server takes writes; all else is in the cluster's postgresql.conf
  postgres.reserve   zeros that are given up when the disk is full (see disk_guard.py)
  postgres.users     shared lock of every user; the keeper locks it exclusively when nobody is left
  postgres.keeper    exclusive lock of the keeper
  postgres.location  only if the cluster is elsewhere (see `choose_cluster_folder`)
"""

import fcntl
import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import psutil

from bpc.core.errors import DatabaseUnavailable
from bpc.runtime.postgres.programs import STATE_ROOT, Account, create_passable_folder

SOCKET_PORT: Final = 5432  # only a part of the socket's name: nothing listens on a network
MAX_SOCKET_PATH: Final = 103  # sun_path ends at 104 bytes on macOS, 108 on Linux


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

    def find_cluster_folder(self) -> Path:
        """The folder of the cluster; the default if none was chosen yet."""
        if not self.location.exists():
            return self.data_dir / "postgres"
        folder = Path(os.fsdecode(self.location.read_bytes().strip()) or ".")
        if not folder.is_absolute() or not folder.parent.is_dir():
            # An empty new cluster would look like data loss; more likely a disk is not mounted.
            raise DatabaseUnavailable(
                f"{self.location} says that the data is in `{folder}`, but that does not exist",
                fix="mount or restore it; to start with an empty database, remove that file",
            )
        return folder

    def choose_cluster_folder(self, account: Account) -> Path:
        """Choose the folder of the cluster: in the data directory, if the server's user can reach it.

        The system user cannot reach a data directory inside root's closed home; then the cluster is below
        /var/lib/bpc, and `postgres.location` in the data directory says where.
        """
        current = self.find_cluster_folder()
        if self.location.exists() or (current / "PG_VERSION").exists() or self._make_passable(account):
            return current
        create_passable_folder(STATE_ROOT)
        clusters = create_passable_folder(STATE_ROOT / "clusters")
        folder = Path(tempfile.mkdtemp(prefix="cluster-", dir=clusters)) / "postgres"
        folder.parent.chmod(0o711)
        self.location.write_bytes(os.fsencode(folder) + b"\n")
        return folder

    def _make_passable(self, account: Account) -> bool:
        """Whether `account` can pass through; a folder that has only our files is opened for that."""
        if account.can_access("x", self.data_dir):
            return True
        names = [entry.name for entry in self.data_dir.iterdir()]
        if all(name == "keys" or name.startswith("postgres") for name in names):
            before = stat.S_IMODE(self.data_dir.stat().st_mode)
            self.data_dir.chmod(before | 0o011)
            if account.can_access("x", self.data_dir):
                return True
            self.data_dir.chmod(before)
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Postmaster:
    """A running server, as `postmaster.pid` describes it."""

    pid: int
    socket_folder: Path
    ready: bool


def find_running_postmaster(cluster: Path) -> Postmaster | None:
    """The server that runs on `cluster`, or None. Ignores zombies and other processes with the same pid."""
    lines = _read_pid_file(cluster)
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


def _read_pid_file(cluster: Path) -> list[str]:
    """The lines of `postmaster.pid`, which may be incomplete or from a server that has ended."""
    try:
        return os.fsdecode((cluster / "postmaster.pid").read_bytes()).split("\n")
    except OSError:
        return []


def is_locked(path: Path) -> bool:
    """Whether a process holds `path` exclusively. Does not create the file."""
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
    """Wait until no process holds `path` exclusively."""
    with path.open("rb") as handle:
        fcntl.flock(handle, fcntl.LOCK_SH)


def create_socket_folder(data_dir: Path, account: Account) -> Path:
    """A private folder with a short path for the socket; if possible always the same for a data directory.

    Another user can guess the name and take it in a shared /tmp: then the folder gets another name.
    """
    name = f"bpc-{account.uid}-{hashlib.sha256(os.fsencode(data_dir.resolve())).hexdigest()[:12]}"
    for root in _list_socket_roots(account):
        folder = root / name
        if set(str(folder)) & {",", '"'}:  # PostgreSQL would read it as a list
            continue
        if len(os.fsencode(folder)) + len(f"/.s.PGSQL.{SOCKET_PORT}") > MAX_SOCKET_PATH:
            continue
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            if not _is_private(folder, account):
                continue
        except OSError:
            continue
        account.take_folder(folder)
        return folder
    folder = Path(tempfile.mkdtemp(prefix=f"bpc-{account.uid}-"))
    account.take_folder(folder)
    return folder


def _list_socket_roots(account: Account) -> list[Path]:
    roots = []
    if account.is_other_user:
        with suppress(OSError):
            roots.append(create_passable_folder(Path("/run/bpc")))
    elif runtime := os.environ.get("XDG_RUNTIME_DIR"):
        roots.append(Path(runtime))
    with suppress(FileNotFoundError):  # there may be no writable one at all
        roots.append(Path(tempfile.gettempdir()))
    return [*roots, Path("/tmp")]  # noqa: S108 (a private folder inside it)


def _is_private(folder: Path, account: Account) -> bool:
    status = folder.lstat()
    is_ours = status.st_uid in {account.uid, os.geteuid()}
    return stat.S_ISDIR(status.st_mode) and is_ours and stat.S_IMODE(status.st_mode) == 0o700


# The cluster ------------------------------------------------------------------------------------------------------

SUPERUSER: Final = "postgres"
LOGIN: Final = "bpc"
SERVER_ENVIRONMENT: Final = {"LC_ALL": "C", "TZ": "UTC", "PATH": "/usr/local/bin:/usr/bin:/bin"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A PostgreSQL data folder, the user that owns it, and the programs that run it."""

    folder: Path
    account: Account
    binaries: Path

    def ensure(self) -> None:
        """Create the cluster if it does not exist. An interrupted attempt leaves nothing that looks complete."""
        if not (self.folder / "PG_VERSION").exists():
            self._initialise()
        self._write_access_rules()
        self.set_read_only(False)

    def set_read_only(self, is_read_only: bool) -> None:
        """Say whether new transactions are read-only; a running server knows it once it has read its settings again."""
        included = str(self.folder / "postgresql.conf").replace("\\", "\\\\").replace("'", "''")
        # Always as long, and written over: on a full disk that works, too.
        value = "on " if is_read_only else "off"
        self._write_file("conf", [f"include '{included}'", f"default_transaction_read_only = {value}"])

    def start(self, socket_folder: Path, log: IO[bytes]) -> subprocess.Popen[bytes]:
        """Start the server as a child process; it is ready when `postmaster.pid` says so."""
        settings = {
            "config_file": str(self._file("conf")),
            "hba_file": str(self._file("hba")),
            "ident_file": str(self._file("ident")),
            "listen_addresses": "",
            "unix_socket_directories": str(socket_folder),
            "unix_socket_permissions": "0700",
            "max_connections": "200",
            "max_wal_size": "256MB",
            "timezone": "UTC",
            "log_timezone": "UTC",
            "log_checkpoints": "off",
        }
        command = [str(self.binaries / "postgres"), "-D", str(self.folder)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        child: subprocess.Popen[bytes] = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=SERVER_ENVIRONMENT,
            umask=0o077,
            **self.account.popen_arguments(),  # type: ignore[call-overload]
        )
        return child

    def _initialise(self) -> None:
        aside = self.folder.with_name(self.folder.name + ".new")
        shutil.rmtree(aside, ignore_errors=True)
        self.account.take_folder(aside)
        command = [str(self.binaries / "initdb"), "-D", str(aside), "-U", SUPERUSER]
        command += ["--encoding=UTF8", "--no-locale", "--auth-local=peer", "--auth-host=reject"]
        result = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            cwd="/",
            env=SERVER_ENVIRONMENT,
            umask=0o077,
            **self.account.popen_arguments(),  # type: ignore[call-overload]
        )
        if result.returncode != 0:
            shutil.rmtree(aside, ignore_errors=True)
            raise DatabaseUnavailable(
                f"the embedded PostgreSQL could not create its data folder: {result.stderr.strip()}",
                fix="make room on the disk, or choose another folder with BPC_DATA_DIR",
            )
        aside.rename(self.folder)

    def _write_access_rules(self) -> None:
        """Only the server's user, and root if it started the server, may log in as `postgres` or `bpc`."""
        people = [self.account.name, *(["root"] if self.account.is_other_user else [])]
        lines = [f'bpc "{person}" {role}' for person in people for role in (SUPERUSER, LOGIN)]
        self._write_file("ident", lines)
        self._write_file("hba", ["local all all peer map=bpc", "local replication all peer map=bpc"])

    def _file(self, kind: str) -> Path:
        # Beside the cluster, not in it: root must not write into a folder of another user.
        return self.folder.with_name(f"{self.folder.name}.{kind}")

    def _write_file(self, kind: str, lines: list[str]) -> None:
        """Write a file of the server where it differs: on a full disk a file that is emptied first stays empty."""
        path, content = self._file(kind), "".join(f"{line}\n" for line in lines).encode()
        if path.exists() and path.read_bytes() == content:
            return
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, content)
            os.ftruncate(descriptor, len(content))
        finally:
            os.close(descriptor)
        path.chmod(0o644)
