"""Where the database and the broker are: URLs composed and checked, never repeated in an error."""

from typing import Final
from urllib.parse import parse_qs, quote, urlencode, urlsplit

DATABASE_SCHEMES: Final = ("postgresql", "postgres")
BROKER_SCHEMES: Final = ("amqp", "amqps")
SSL_MODES: Final = {"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}


def composed(*, host: str, port: int, user: str, password: str, name: str, sslmode: str) -> str:
    """The parts as a URL, percent-encoded; a host that is a path is the folder of a socket."""
    who = f"{_quoted(user)}:{_quoted(password)}"
    options = {"sslmode": sslmode}
    if host.startswith("/"):
        where = ""
        options = {"host": host, "port": str(port), **options}
    else:
        where = f"[{host}]:{port}" if ":" in host else f"{_quoted(host)}:{port}"
    return f"postgresql://{who}@{where}/{_quoted(name)}?{urlencode(options)}"


def check_url(url: str, schemes: tuple[str, ...]) -> None:
    """Raise `ValueError`, with the end of a sentence that does not repeat it, unless `url` is one."""
    try:
        parts = urlsplit(url)
        wrong = parts.scheme not in schemes or "://" not in url or parts.port == 0
        wrong |= not set(parse_qs(parts.query).get("sslmode", [])) <= SSL_MODES
    except ValueError:
        wrong = True
    if wrong or any(character.isspace() for character in url):
        example = f"`{schemes[0]}://user:password@host:port/name`"
        raise ValueError(f"must be a URL like {example}, special characters percent-encoded")


def _quoted(part: str) -> str:
    return quote(part, safe="")
