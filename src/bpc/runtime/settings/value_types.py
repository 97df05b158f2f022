"""The types of the settings, each with its own check and message.

A check raises `ValueError` with the end of the sentence "`BPC_…` …" and never repeats the value.
"""

import re
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Callable
from functools import partial
from hmac import compare_digest
from ipaddress import ip_network
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Final, Literal, Union, get_args, get_origin
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import AfterValidator, BeforeValidator, Field, SecretStr
from pydantic.fields import FieldInfo

DATABASE_SCHEMES: Final = ("postgresql", "postgres")
BROKER_SCHEMES: Final = ("amqp", "amqps")
SSL_MODES: Final = {"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}


def compose_database_url(*, host: str, port: int, user: str, password: str, name: str, sslmode: str) -> str:
    """The parts as a URL, percent-encoded; a host that is a path is the folder of a socket."""
    login = f"{_quote_part(user)}:{_quote_part(password)}"
    options = {"sslmode": sslmode}
    if host.startswith("/"):
        location = ""
        options = {"host": host, "port": str(port), **options}
    else:
        location = f"[{host}]:{port}" if ":" in host else f"{_quote_part(host)}:{port}"
    return f"postgresql://{login}@{location}/{_quote_part(name)}?{urlencode(options)}"


def check_url(url: str, schemes: tuple[str, ...]) -> None:
    """Raise `ValueError`, with the end of a sentence that does not repeat it, unless `url` is one."""
    try:
        parts = urlsplit(url)
        is_wrong = parts.scheme not in schemes or "://" not in url or parts.port == 0
        is_wrong |= not set(parse_qs(parts.query).get("sslmode", [])) <= SSL_MODES
    except ValueError:
        is_wrong = True
    if is_wrong or any(character.isspace() for character in url):
        example = f"`{schemes[0]}://user:password@host:port/name`"
        raise ValueError(f"must be a URL like {example}, special characters percent-encoded")


def _quote_part(part: str) -> str:
    return quote(part, safe="")


SEED_BYTES: Final = 32
MIN_PEPPER_BYTES: Final = 16


def decode_seed(text: str) -> bytes:
    """The 32 bytes an Ed25519 key grows from, given as they are or followed by their public key."""
    raw = _decode_base64(text)
    seed, public = raw[:SEED_BYTES], raw[SEED_BYTES:]
    if len(seed) != SEED_BYTES or len(public) not in (0, SEED_BYTES):
        raise ValueError(f"must hold 32 bytes (a seed) or 64 bytes (seed and public key) but holds {len(raw)}")
    if public and not compare_digest(public, _derive_public_key(seed)):
        raise ValueError("holds 64 bytes whose second half is not the public key of the first")
    return seed


def decode_pepper(text: str) -> bytes:
    """The bytes mixed into every stored hash of an API key."""
    raw = _decode_base64(text)
    if len(raw) < MIN_PEPPER_BYTES:
        raise ValueError(f"must hold at least {MIN_PEPPER_BYTES} bytes but holds {len(raw)}")
    return raw


def _derive_public_key(seed: bytes) -> bytes:
    return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()


def _decode_base64(text: str) -> bytes:
    try:
        raw = b64decode(text, validate=True)
    except (Error, ValueError):
        raw = b""
    # Several texts decode to the same bytes; only the one that encoding gives back is the key as it was made.
    if not raw or b64encode(raw).decode("ascii") != text:
        raise ValueError("must be standard base64 with its padding")
    return raw


HOST: Final = re.compile(r"[A-Za-z0-9._:%-]{1,255}|/[!-~]{1,200}")
DESTINATION: Final = re.compile(r"(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?(:[0-9]{1,5})?|/[ -~]*")
BUCKET_URL: Final = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9._-]{1,60}){0,8}")
PUBLIC_URL: Final = re.compile(r"https?://[A-Za-z0-9][A-Za-z0-9.-]{0,100}(:[0-9]{1,5})?(/[A-Za-z0-9._~-]{1,60}){0,8}")
LOG_ORIGIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,100}(:[0-9]{1,5})?(/[A-Za-z0-9._~-]{1,60}){1,8}")
SIGNER_PLACE: Final = re.compile(r"/[^\x00-\x1f]{1,106}|[^\s/:]+:[1-9][0-9]{0,4}|\[[0-9a-fA-F:]+\]:[1-9][0-9]{0,4}")
KEY_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
WORKER_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
BUILD_ID: Final = re.compile(r"[!-~]{0,128}")


def _make_pattern_check(pattern: re.Pattern[str], problem: str) -> AfterValidator:
    def check_text(value: str) -> str:
        if not pattern.fullmatch(value):
            raise ValueError(problem)
        return value

    return AfterValidator(check_text)


def _make_secret_check(check: Callable[[str], object]) -> AfterValidator:
    def check_secret(value: SecretStr) -> SecretStr:
        check(value.get_secret_value())
        return value

    return AfterValidator(check_secret)


def _check_short(value: str) -> str:
    if len(value.encode()) > 63:
        raise ValueError("must be at most 63 bytes in UTF-8")
    return value


def _parse_destinations(value: object) -> object:
    items = [item.strip() for item in value.split(",")] if isinstance(value, str) else value
    if not isinstance(items, list | tuple) or not all(
        isinstance(item, str) and _is_destination(item) for item in items
    ):
        raise ValueError("must list hosts, addresses, networks or absolute folders")
    return tuple(items)


def _parse_networks(value: object) -> object:
    items = [item.strip() for item in value.split(",") if item.strip()] if isinstance(value, str) else value
    if not isinstance(items, list | tuple) or not all(isinstance(item, str) and _is_network(item) for item in items):
        raise ValueError("must list addresses or networks like `10.0.0.0/8`")
    return tuple(items)


def _is_network(item: str) -> bool:
    try:
        ip_network(item, strict=False)
    except ValueError:
        return False
    return True


def _is_destination(item: str) -> bool:
    return _is_network(item) or DESTINATION.fullmatch(item) is not None


def _split_words(value: object) -> object:
    return tuple(word.strip() for word in value.split(",") if word.strip()) if isinstance(value, str) else value


ProdWord = Literal["embedded-database", "plaintext-database", "superuser-database"]
ProdWords = Annotated[tuple[ProdWord, ...], BeforeValidator(_split_words)]
AnyPort = Annotated[int, Field(ge=0, le=65535)]
Port = Annotated[int, Field(ge=1, le=65535)]
Days = Annotated[int, Field(ge=1, le=36500)]
Count = Annotated[int, Field(ge=1, le=1000)]
Seconds = Annotated[float, Field(ge=0.1, le=86400, allow_inf_nan=False)]
# PostgreSQL cuts longer names.
DatabaseName = Annotated[str, Field(min_length=1, max_length=63), AfterValidator(_check_short)]
# A whole URL is the likely mistake here, and it may hold a password.
Host = Annotated[str, _make_pattern_check(HOST, "must be a host name or an address, without scheme, user or port")]
SignerPlace = Annotated[
    str,
    _make_pattern_check(
        SIGNER_PLACE, "must be the absolute path of a socket, or a host and a port like `signer.internal:7400`"
    ),
]
# It is also the name of a file in BPC_SIGNING_KEYS_DIR.
KeyId = Annotated[
    str,
    _make_pattern_check(
        KEY_ID, "must be at most 64 letters, digits, `.`, `_` or `-`, and must start with a letter or digit"
    ),
]
# The owner of a lease is `<id>:<pid>:<random>`.
LogOrigin = Annotated[
    str, _make_pattern_check(LOG_ORIGIN, "must be a host and a path like `passports.example/log`, without `https://`")
]
PublicUrl = Annotated[
    str, _make_pattern_check(PUBLIC_URL, "must be an address like `https://passports.example`, without `/` at its end")
]
BucketUrl = Annotated[
    str, _make_pattern_check(BUCKET_URL, "must be a bucket like `s3://passports/packs`, without `/` at its end")
]
WorkerId = Annotated[str, _make_pattern_check(WORKER_ID, "must be at most 100 letters, digits, `.`, `_` or `-`")]
BuildId = Annotated[str, _make_pattern_check(BUILD_ID, "must be at most 128 visible ASCII characters")]
Destinations = Annotated[tuple[str, ...], BeforeValidator(_parse_destinations)]
Networks = Annotated[tuple[str, ...], BeforeValidator(_parse_networks)]
DatabaseUrl = Annotated[SecretStr, _make_secret_check(partial(check_url, schemes=DATABASE_SCHEMES))]
BrokerUrl = Annotated[SecretStr, _make_secret_check(partial(check_url, schemes=BROKER_SCHEMES))]
SigningKeyText = Annotated[SecretStr, _make_secret_check(decode_seed)]
StoredSecretsKey = Annotated[SecretStr, _make_secret_check(decode_pepper)]
PepperText = Annotated[SecretStr, _make_secret_check(decode_pepper)]


_TYPE_WORDS: Final[dict[object, str]] = {
    bool: "`true` or `false`",
    Path: "a path",
    SecretStr: "a secret",
    str: "a text",
}


def describe_type(field: FieldInfo) -> str:
    """What a value of this setting is, in words: `a whole number from 1 to 65535`."""
    value_type = _strip_annotations(field.annotation)
    if get_origin(value_type) is Literal:
        return _join_choices([f"`{value}`" for value in get_args(value_type)])
    if value_type in (int, float):
        number = "whole number" if value_type is int else "number"
        return f"a {number} from {_find_bound(field, 'ge')} to {_find_bound(field, 'le')}"
    if get_origin(value_type) is tuple:
        return "a list, separated by commas"
    longest = _find_bound(field, "max_length")
    return _TYPE_WORDS[value_type] if longest is None else f"a text of 1 to {longest} characters"


def _strip_annotations(annotation: object) -> object:
    """The type without its checks and without `| None`."""
    if get_origin(annotation) is Annotated:
        return _strip_annotations(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return next(_strip_annotations(part) for part in get_args(annotation) if part is not NoneType)
    return annotation


def _find_bound(field: FieldInfo, name: str) -> object:
    return next((getattr(check, name) for check in field.metadata if hasattr(check, name)), None)


def _join_choices(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"
