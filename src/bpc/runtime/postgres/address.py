"""Where a database is: as the driver takes it, and as a person may read it."""

from dataclasses import dataclass, field, replace
from typing import Any, Final, Self
from urllib.parse import parse_qs, quote, unquote, urlsplit

CONNECT_SECONDS: Final = 10
PORT: Final = 5432


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A server, a login and a database. What is secret in it is not part of any text made of it."""

    host: str
    port: int
    user: str
    database: str
    url: str | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, url: str) -> Self:
        """The address that `url` (postgresql://…) names; the driver reads the URL itself, with all its options."""
        parts = urlsplit(url)
        asked = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        login, _, place = parts.netloc.rpartition("@")
        host, _, port = place.rpartition(":") if place.rpartition(":")[2].isdecimal() else (place, "", "")
        user = unquote(login.partition(":")[0]) or asked.get("user", "postgres")
        return cls(
            host=asked.get("host") or unquote(host).strip("[]") or "localhost",
            port=int(port or asked.get("port") or PORT),
            user=user,
            database=unquote(parts.path.removeprefix("/")) or asked.get("dbname") or user,
            url=url,
        )

    def at(self, database: str) -> Self:
        """The same server and login, another database."""
        return replace(self, database=database)

    def connect_arguments(self) -> dict[str, Any]:
        """Keyword arguments of `asyncpg.connect`."""
        if self.url is not None:
            return {"dsn": self.url, "database": self.database, "timeout": CONNECT_SECONDS}
        place = {"host": self.host, "port": self.port, "user": self.user, "database": self.database}
        return {**place, "ssl": "disable", "timeout": CONNECT_SECONDS}

    def __str__(self) -> str:
        """A URL without the password, for people and for psql."""
        user, database = quote(self.user, safe=""), quote(self.database, safe="")
        if self.host.startswith("/"):
            port = "" if self.port == PORT else f"&port={self.port}"
            return f"postgresql://{user}@/{database}?host={quote(self.host)}{port}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"postgresql://{user}@{host}:{self.port}/{database}"
