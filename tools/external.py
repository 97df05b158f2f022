"""Run a command on a PostgreSQL that is not ours: `python -m tools.external [--if-present] COMMAND…`.

The server is DATABASE_URL, else BPC_TEST_DATABASE_URL, else one of this machine's packages, which is started and
stopped again, else one that answers on localhost to the usual credentials. The command finds it in
BPC_TEST_DATABASE_URL. The server must be PostgreSQL 15 or later and the login must be allowed to create databases and
roles, because each test makes its own.

Exits as the command does; 69 if there is no such server, or, with `--if-present` and none named, 0 saying what
was not run. Passwords are never printed.
"""

import asyncio
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

import asyncpg

from tools import packaged_postgres

OLDEST = 150000
NAMES = ("DATABASE_URL", "BPC_TEST_DATABASE_URL")
USUAL_URLS = (
    "postgresql://postgres@localhost:5432/postgres",
    "postgresql://postgres:postgres@localhost:5432/postgres",
    "postgresql://bpc:bpc@localhost:5432/postgres",
)
UNAVAILABLE = 69
START_SECONDS = 20

# The two attributes are what CREATE DATABASE and CREATE ROLE ask for; a superuser needs neither.
SERVER_QUERY = """
    SELECT current_setting('server_version_num')::int AS number,
           current_setting('server_version')          AS version,
           rolsuper OR (rolcreatedb AND rolcreaterole) AS may_create
      FROM pg_roles
     WHERE rolname = current_user
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usable:
    """A server the tests can run on."""

    url: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unusable:
    """Why a server is not one the tests can run on, without naming any secret; and whether somebody named it."""

    why: str
    is_named: bool = False


def main(arguments: Sequence[str]) -> int:
    if_present = arguments[:1] == ["--if-present"]
    command = arguments[1:] if if_present else arguments
    if not command:
        print("usage: python -m tools.external [--if-present] COMMAND…", file=sys.stderr)
        return 2

    with provide_server(os.environ) as environment:
        server = asyncio.run(find_server(environment))
        if isinstance(server, Unusable):
            print(f"not run on an external PostgreSQL: {shlex.join(command)} ({server.why})", flush=True)
            return 0 if if_present and not server.is_named else UNAVAILABLE
        print(f"on PostgreSQL {server.version} at {format_address(server.url)}: {shlex.join(command)}", flush=True)
        return subprocess.run(command, env=os.environ | {NAMES[-1]: server.url}, check=False).returncode


@contextmanager
def provide_server(environment: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
    """`environment`, with a server of this machine's packages in it if it names none."""
    programs = packaged_postgres.find_programs(oldest=OLDEST // 10_000)
    if programs is None or any(environment.get(name) for name in NAMES):
        yield environment
        return
    with packaged_postgres.run_server(programs) as url:
        yield environment if url is None else {**environment, NAMES[-1]: url}


async def find_server(environment: Mapping[str, str]) -> Usable | Unusable:
    """Return the server that is named, else the first on localhost that will do.

    A server that is named and will not do is not replaced by another that happens to be there.
    """
    for name in NAMES:
        if environment.get(name):
            looked = await check_server(environment[name])
            return looked if isinstance(looked, Usable) else Unusable(why=f"{name}: {looked.why}", is_named=True)

    reasons: list[str] = []
    for url in USUAL_URLS:
        looked = await check_server(url)
        if isinstance(looked, Usable):
            return looked
        if looked.why not in reasons:
            reasons.append(looked.why)
    return Unusable(why=f"set DATABASE_URL; on localhost:5432: {'; '.join(reasons)}")


async def check_server(url: str) -> Usable | Unusable:
    """Return whether the tests can run on the server at `url`."""
    try:
        conn = await connect_when_started(url)
    except (ValueError, asyncpg.InterfaceError):
        # The parser's own sentence may quote the URL, and with it the password.
        return Unusable(why="this is not the URL of a PostgreSQL database")
    except (OSError, asyncpg.PostgresError) as problem:
        return Unusable(why=_explain_problem(problem))
    try:
        row = await conn.fetchrow(SERVER_QUERY)
    finally:
        await conn.close()

    if row is None or row["number"] < OLDEST:
        return Unusable(why=f"PostgreSQL 15 or later is needed, this is {row['version'] if row else 'unknown'}")
    if not row["may_create"]:
        return Unusable(why="the login may not create databases and roles")
    return Usable(url=url, version=row["version"])


async def connect_when_started(url: str) -> "asyncpg.Connection[asyncpg.Record]":
    """Connect to the server at `url`; wait while it says that it is starting."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            return await asyncpg.connect(url, timeout=2)
        except asyncpg.CannotConnectNowError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.1)


def format_address(url: str) -> str:
    """Return the host and port of `url` and nothing else of it."""
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    host = parts.hostname or query.get("host", ["localhost"])[0]
    return f"{host}:{parts.port or query.get('port', ['5432'])[0]}"


def _explain_problem(problem: Exception) -> str:
    if isinstance(problem, TimeoutError):
        return "no answer within 2 s"
    # Refused at every address of a name comes without a reason of its own.
    if isinstance(problem, ConnectionRefusedError) or (isinstance(problem, OSError) and not problem.strerror):
        return "nothing listens there"
    if isinstance(problem, OSError):
        return str(problem.strerror)
    return str(problem)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
