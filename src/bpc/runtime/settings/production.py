"""What a service refuses to start with in prod: secrets that others know, and connections that others can read.

    signing key          one that is published: in our tests, in standards
    pepper               too short, published, or not random
    passwords            of the database and of RabbitMQ: missing, or one that everybody tries first
    remote database      without TLS, unless BPC_PROD_ALLOW says `plaintext-database`
    embedded database    unless BPC_PROD_ALLOW says `embedded-database`
    superuser            as the login of a service, which is checked when it connects, unless it says
                         `superuser-database`

No sentence repeats a value.
"""

from collections.abc import Iterator
from hashlib import sha256
from ipaddress import ip_address
from itertools import pairwise
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from bpc.runtime.settings.model import Settings, name_variable
from bpc.runtime.settings.problems import SettingProblem
from bpc.runtime.settings.value_types import decode_pepper, decode_seed

# SHA-256 of seeds that anybody can read: of our own tests and of RFC 8032, section 7.1.
PUBLISHED_SEEDS: Final = frozenset(
    {
        "630dcd2966c4336691125448bbb25b4ff412a49c732db2c8abc1b8581bd710dd",
        "ae216c2ef5247a3782c135efa279a3e4cdc61094270f5d2be58c6204b7a612c9",
        "644d50ab64864c20a12b3c4656d46b4a48f69ef7c47ecdc8415cd28316b22ef5",
        "3d2d9682cdba529682a152f678e25c6c29847bf2588ca4e1b3023c1579f9958d",
        "d8eca0cca720d33bf6d9a3e8057053ff6a4d19a62a9874fa7f7004ea662fb2f9",
        "28024a74943422cca068bb8189df16977c0cd8b322fcdf9c782f59ab6c0aa7e9",
        "918a483206abfc9207f58443b4403c208a687265175377ea43db32a0def92492",
        "1f32e4f765ce6554624b33a227ab8caa9e138724b31a33f99e730dc8cece37e3",
    }
)
MIN_PEPPER_BYTES: Final = 32
MIN_DISTINCT_BYTES: Final = 16  # 32 random bytes have fewer once in 10^13
COMMON_PASSWORDS: Final = frozenset(
    {
        *("", "postgres", "password", "passw0rd", "admin", "root", "secret", "changeme", "change-me", "change_me"),
        *("bpc", "guest", "test", "example", "default", "letmein", "qwerty", "12345678", "123456", "postgresql"),
    }
)
SAFE_MODES: Final = frozenset({"require", "verify-ca", "verify-full"})
LOCAL_NAMES: Final = frozenset({"", "localhost"})


def find_production_risks(settings: Settings) -> list[SettingProblem]:
    """What must not be so in prod; nothing elsewhere."""
    if settings.env != "prod":
        return []
    return [*_check_keys(settings), *_check_database(settings), *_check_queue(settings)]


def _check_keys(settings: Settings) -> Iterator[SettingProblem]:
    key = settings.signing_ed25519_private_key_base64
    if key is not None and _is_published(decode_seed(key.get_secret_value())):
        yield _problem("signing_ed25519_private_key_base64", "is a published test key; make one with `bpc keygen`")
    for name in ("api_key_pepper_base64", "api_key_pepper_next_base64"):
        pepper = getattr(settings, name)
        if pepper is not None and (reason := _find_weakness(decode_pepper(pepper.get_secret_value()))):
            yield _problem(name, f"{reason}; make one with `openssl rand -base64 32`")


def _check_database(settings: Settings) -> Iterator[SettingProblem]:
    if settings.database_dsn is None:
        if "embedded-database" not in settings.prod_allow:
            sentence = "must say `embedded-database` if prod is to use the embedded PostgreSQL; or set `DATABASE_URL`"
            yield _problem("prod_allow", sentence, also=("DATABASE_URL",))
        return
    name = "db_host" if settings.database_url is None else "database_url"
    parts = urlsplit(settings.database_dsn.get_secret_value())
    options = parse_qs(parts.query)
    host = options.get("host", [unquote(parts.hostname or "")])[0]
    is_safe = options.get("sslmode", [""])[0] in SAFE_MODES
    if not _is_local(host) and not is_safe and "plaintext-database" not in settings.prod_allow:
        yield _problem(name, "names a remote database without TLS; use `sslmode=verify-full`, `verify-ca` or `require`")
    password = unquote(parts.password or "")
    if not host.startswith("/") and password.casefold() in COMMON_PASSWORDS:
        where = "db_password" if settings.database_url is None else "database_url"
        yield _problem(where, "has no password, or one that everybody tries first")


def _check_queue(settings: Settings) -> Iterator[SettingProblem]:
    parts = urlsplit(settings.queue_url.get_secret_value())
    if settings.queue_enabled and unquote(parts.password or "").casefold() in COMMON_PASSWORDS:
        yield _problem("queue_url", "has no password, or one that everybody tries first")


def _is_published(seed: bytes) -> bool:
    if sha256(seed).hexdigest() in PUBLISHED_SEEDS or len(set(seed)) < MIN_DISTINCT_BYTES:
        return True
    steps = {(second - first) % 256 for first, second in pairwise(seed)}
    return len(steps) == 1 or _is_text(seed)


def _find_weakness(pepper: bytes) -> str | None:
    """Why a pepper is weak; None if it looks random."""
    if len(pepper) < MIN_PEPPER_BYTES:
        return f"has fewer than {MIN_PEPPER_BYTES} bytes"
    if len(set(pepper)) < MIN_DISTINCT_BYTES or _is_published(pepper):
        return "is not random"
    return None


def _is_text(secret: bytes) -> bool:
    """Whether it is printable text, which 32 random bytes are once in 10^13."""
    return all(0x20 <= byte < 0x7F for byte in secret)


def _is_local(host: str) -> bool:
    if host.startswith("/") or host in LOCAL_NAMES:
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _problem(field: str, end: str, *, also: tuple[str, ...] = ()) -> SettingProblem:
    name = name_variable(field)
    return SettingProblem(name=name, sentence=f"`{name}` {end}", also=also)
