"""Where a database is, in the form the driver takes."""

import re
from dataclasses import dataclass, field, replace
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from bpc.core.errors import DatabaseUnavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A server, a login and a database. The password is not part of any text made of it."""

    host: str
    port: int
    user: str
    database: str
    password: str | None = field(default=None, repr=False)
    ssl: str | None = None

    @classmethod
    def parse(cls, url: str) -> Self:
        """Read a `postgresql://…` URL; what is wrong with it is said without showing it."""
        parts = urlsplit(url)
        if parts.scheme not in {"postgresql", "postgres"} or len(parts.path) < 2:
            raise DatabaseUnavailable(
                "the database URL is not of the form postgresql://user:password@host:port/database",
                fix="correct DATABASE_URL",
            )
        query = dict(parse_qsl(parts.query))
        return cls(
            host=query.get("host") or unquote(parts.hostname or "localhost"),
            port=parts.port or 5432,
            user=unquote(parts.username or query.get("user") or "postgres"),
            database=unquote(parts.path[1:]),
            password=unquote(parts.password) if parts.password else query.get("password"),
            ssl=query.get("sslmode"),
        )

    def at(self, database: str) -> Self:
        """The same server and login, another database."""
        return replace(self, database=database)

    def connect_arguments(self) -> dict[str, Any]:
        """Keyword arguments of `asyncpg.connect`."""
        return {
            "host": self.host,
            "port": self.port,
            "user": self.user,
            "password": self.password,
            "database": self.database,
            "ssl": self.ssl or ("disable" if self.host.startswith("/") else None),
            "timeout": 10,
        }

    def __str__(self) -> str:
        """A URL without the password, for people and for psql."""
        if self.host.startswith("/"):
            return f"postgresql://{self.user}@/{self.database}?host={self.host}"
        host = f"[{self.host}]" if re.search(":", self.host) else self.host
        return f"postgresql://{self.user}@{host}:{self.port}/{self.database}"
