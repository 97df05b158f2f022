"""The cluster: made once by initdb, opened to nobody but its user, started with our settings.

Authentication is by `peer`: the operating system says who is at the other end of the socket, so there is no
password to keep and no other local user gets in, even if the socket's folder were open.
"""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from bpc.core.errors import DatabaseUnavailable
from bpc.db.embedded.account import Account
from bpc.db.embedded.binaries import Binaries

SUPERUSER: Final = "postgres"
LOGIN: Final = "bpc"
SERVER_ENVIRONMENT: Final = {"LC_ALL": "C", "TZ": "UTC", "PATH": "/usr/local/bin:/usr/bin:/bin"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One PostgreSQL data folder and what is needed to run it."""

    folder: Path
    account: Account
    binaries: Binaries

    def ensure(self) -> None:
        """Make the cluster if it is not there. An interrupted attempt leaves nothing that looks finished."""
        if not (self.folder / "PG_VERSION").exists():
            self._initialise()
        self._write_access_rules()

    def start(self, socket_folder: Path, log: IO[bytes]) -> subprocess.Popen[bytes]:
        """Start the server as our child; it is ready when `postmaster.pid` says so."""
        settings = {
            "hba_file": str(self._access("hba")),
            "ident_file": str(self._access("ident")),
            "listen_addresses": "",
            "unix_socket_directories": str(socket_folder),
            "unix_socket_permissions": "0700",
            "max_connections": "200",
            "max_wal_size": "256MB",
            "timezone": "UTC",
            "log_timezone": "UTC",
            "log_checkpoints": "off",
        }
        command = [str(self.binaries.path("postgres")), "-D", str(self.folder)]
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
        self.account.own(aside)
        command = [str(self.binaries.path("initdb")), "-D", str(aside), "-U", SUPERUSER]
        command += ["--encoding=UTF8", "--no-locale", "--auth-local=peer", "--auth-host=reject"]
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            cwd="/",
            env=SERVER_ENVIRONMENT,
            umask=0o077,
            **self.account.popen_arguments(),  # type: ignore[call-overload]
        )
        if done.returncode != 0:
            shutil.rmtree(aside, ignore_errors=True)
            raise DatabaseUnavailable(
                f"the embedded PostgreSQL could not create its data folder: {done.stderr.strip()}",
                fix="make room on the disk, or choose another folder with BPC_DATA_DIR",
            )
        aside.rename(self.folder)

    def _write_access_rules(self) -> None:
        """Only the server's user, and root where it started the server, may be `postgres` or `bpc`."""
        people = [self.account.name, *(["root"] if self.account.switch else [])]
        allowed = [f'bpc "{person}" {role}' for person in people for role in (SUPERUSER, LOGIN)]
        self._write("ident", allowed)
        self._write("hba", ["local all all peer map=bpc", "local replication all peer map=bpc"])

    def _access(self, kind: str) -> Path:
        # Beside the cluster, not in it: a folder of the server's user is no place for root to write into.
        return self.folder.with_name(f"{self.folder.name}.{kind}")

    def _write(self, kind: str, lines: list[str]) -> None:
        path = self._access(kind)
        path.write_text("".join(f"{line}\n" for line in lines))
        path.chmod(0o644)
