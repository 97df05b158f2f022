"""The address of a database: for the driver, for PostgreSQL's programs, and, without the password, for people."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self
from urllib.parse import parse_qs, quote, unquote, urlsplit

CONNECT_TIMEOUT_SECONDS: Final = 10
DEFAULT_PORT: Final = 5432
# The environment variables of libpq, by the name of the option in a URL.
LIBPQ_VARIABLES: Final[Mapping[str, str]] = {
    "sslmode": "PGSSLMODE",
    "sslrootcert": "PGSSLROOTCERT",
    "sslcert": "PGSSLCERT",
    "sslkey": "PGSSLKEY",
    "application_name": "PGAPPNAME",
    "options": "PGOPTIONS",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A server, a login and a database. Its texts never contain the password."""

    host: str
    port: int
    user: str
    database: str
    url: str | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, url: str) -> Self:
        """The address in `url` (postgresql://…); the driver reads the whole URL itself, with all its options."""
        parts = urlsplit(url)
        options = _parse_options(url)
        login, _, host_and_port = parts.netloc.rpartition("@")
        host, _, port = (
            host_and_port.rpartition(":") if host_and_port.rpartition(":")[2].isdecimal() else (host_and_port, "", "")
        )
        user = unquote(login.partition(":")[0]) or options.get("user", "postgres")
        return cls(
            host=options.get("host") or unquote(host).strip("[]") or "localhost",
            port=int(port or options.get("port") or DEFAULT_PORT),
            user=user,
            database=unquote(parts.path.removeprefix("/")) or options.get("dbname") or user,
            url=url,
        )

    def with_database(self, database: str) -> Self:
        """The same server and login, another database."""
        return replace(self, database=database)

    def connect_arguments(self) -> dict[str, Any]:
        """Keyword arguments of `asyncpg.connect`."""
        if self.url is not None:
            return {"dsn": self.url, "database": self.database, "timeout": CONNECT_TIMEOUT_SECONDS}
        arguments = {"host": self.host, "port": self.port, "user": self.user, "database": self.database}
        return {**arguments, "ssl": "disable", "timeout": CONNECT_TIMEOUT_SECONDS}

    def login_environment(self) -> dict[str, str]:
        """Environment variables for PostgreSQL's programs: others can see a command line, but not these."""
        environment = {
            "PGHOST": self.host,
            "PGPORT": str(self.port),
            "PGUSER": self.user,
            "PGDATABASE": self.database,
            "PGCONNECT_TIMEOUT": str(CONNECT_TIMEOUT_SECONDS),
        }
        if self.url is None:
            return environment
        options = _parse_options(self.url)
        password = unquote(urlsplit(self.url).netloc.rpartition("@")[0].partition(":")[2]) or options.get("password")
        environment |= {"PGPASSWORD": password} if password else {}
        return environment | {LIBPQ_VARIABLES[name]: options[name] for name in options.keys() & LIBPQ_VARIABLES.keys()}

    def __str__(self) -> str:
        """A URL without the password, for people and for psql."""
        user, database = quote(self.user, safe=""), quote(self.database, safe="")
        if self.host.startswith("/"):
            port = "" if self.port == DEFAULT_PORT else f"&port={self.port}"
            return f"postgresql://{user}@/{database}?host={quote(self.host)}{port}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"postgresql://{user}@{host}:{self.port}/{database}"


def _parse_options(url: str) -> dict[str, str]:
    return {name: values[-1] for name, values in parse_qs(urlsplit(url).query).items()}
