"""PostgreSQL's own programs, run on a database: whatever they need to log in is in their environment, never on the
command line, which others can see."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from bpc.core.errors import DatabaseUnavailable
from bpc.db.address import Address
from bpc.db.embedded.account import server_account
from bpc.db.embedded.binaries import find_binaries

# What libpq reads from its environment, by the name it has in a URL.
OPTIONS: Final[Mapping[str, str]] = {
    "sslmode": "PGSSLMODE",
    "sslrootcert": "PGSSLROOTCERT",
    "sslcert": "PGSSLCERT",
    "sslkey": "PGSSLKEY",
    "application_name": "PGAPPNAME",
    "options": "PGOPTIONS",
}


class ProgramFailed(DatabaseUnavailable):
    """A program of PostgreSQL's ended without having done its work."""

    def __init__(self, program: str, said: str) -> None:
        lines = [line for line in said.strip().split("\n") if line.strip()]
        lines = [line for line in lines if "error:" in line.lower()] or lines
        hidden = "row-level security" in said or "permission denied" in said
        super().__init__(
            f"`{program}` failed: {' '.join(lines[:2]) or 'it left no message'}",
            fix="use a login that is a superuser or has BYPASSRLS"
            if hidden
            else "the database's log may say more; nothing was changed",
        )


def call(program: str, arguments: Sequence[str | Path]) -> tuple[list[str], dict[str, str]]:
    """How one of PostgreSQL's programs is called: its command, and the environment that it needs."""
    command = [str(find_binaries(server_account()).path(program)), *map(str, arguments)]
    return command, {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


def run(program: str, arguments: Sequence[str | Path], address: Address) -> None:
    """Run one of PostgreSQL's programs on the database at `address`."""
    command, environment = call(program, arguments)
    environment |= _login(address)
    done = subprocess.run(command, check=False, capture_output=True, env=environment, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise ProgramFailed(program, done.stderr.decode(errors="replace"))


def _login(address: Address) -> dict[str, str]:
    found = {
        "PGHOST": address.host,
        "PGPORT": str(address.port),
        "PGUSER": address.user,
        "PGDATABASE": address.database,
        "PGCONNECT_TIMEOUT": "10",
    }
    if address.url is not None:
        parts = urlsplit(address.url)
        asked = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        password = unquote(parts.netloc.rpartition("@")[0].partition(":")[2]) or asked.get("password", "")
        found |= {"PGPASSWORD": password} if password else {}
        found |= {OPTIONS[name]: value for name, value in asked.items() if name in OPTIONS}
    return found
