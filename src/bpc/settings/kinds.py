"""Kinds of values: the types of the settings, each with its own check and its own words.

A check raises `ValueError` with the end of the sentence "`BPC_…` …" and never repeats the value.
"""

import re
from ipaddress import ip_network
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Final, Literal, Union, get_args, get_origin

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr
from pydantic.fields import FieldInfo

from bpc.settings import dsn, material

HOST: Final = re.compile(r"[A-Za-z0-9._:%-]{1,255}|/[!-~]{1,200}")
DESTINATION: Final = re.compile(r"(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?(:[0-9]{1,5})?|/[ -~]*")
KEY_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
WORKER_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
BUILD_ID: Final = re.compile(r"[!-~]{0,128}")


def _short(value: str) -> str:
    if len(value.encode()) > 63:
        raise ValueError("must be at most 63 bytes in UTF-8")
    return value


def _host(value: str) -> str:
    # A whole URL is the likely mistake here, and it may hold a password.
    if not HOST.fullmatch(value):
        raise ValueError("must be a host name or an address, without scheme, user or port")
    return value


def _key_id(value: str) -> str:
    # It is also the name of a file in BPC_SIGNING_KEYS_DIR.
    if not KEY_ID.fullmatch(value):
        raise ValueError("must be at most 64 letters, digits, `.`, `_` or `-`, and not start with a sign")
    return value


def _worker_id(value: str) -> str:
    # The owner of a lease is `<id>:<pid>:<random>`.
    if not WORKER_ID.fullmatch(value):
        raise ValueError("must be at most 100 letters, digits, `.`, `_` or `-`")
    return value


def _build_id(value: str) -> str:
    if not BUILD_ID.fullmatch(value):
        raise ValueError("must be at most 128 visible ASCII characters")
    return value


def _destinations(value: object) -> object:
    items = [item.strip() for item in value.split(",")] if isinstance(value, str) else value
    if not isinstance(items, list | tuple) or not all(
        isinstance(item, str) and _is_destination(item) for item in items
    ):
        raise ValueError("must list hosts, addresses, networks or absolute folders")
    return tuple(items)


def _is_destination(item: str) -> bool:
    try:
        ip_network(item, strict=False)
    except ValueError:
        return DESTINATION.fullmatch(item) is not None
    return True


def _database_url(value: SecretStr) -> SecretStr:
    dsn.check_url(value.get_secret_value(), dsn.DATABASE_SCHEMES)
    return value


def _broker_url(value: SecretStr) -> SecretStr:
    dsn.check_url(value.get_secret_value(), dsn.BROKER_SCHEMES)
    return value


def _signing_key(value: SecretStr) -> SecretStr:
    material.seed_from(value.get_secret_value())
    return value


def _pepper(value: SecretStr) -> SecretStr:
    material.pepper_from(value.get_secret_value())
    return value


AnyPort = Annotated[int, Field(ge=0, le=65535)]
Port = Annotated[int, Field(ge=1, le=65535)]
Days = Annotated[int, Field(ge=1, le=36500)]
Count = Annotated[int, Field(ge=1, le=1000)]
Seconds = Annotated[float, Field(ge=0.1, le=86400, allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1, max_length=63), AfterValidator(_short)]  # PostgreSQL cuts longer ones
Host = Annotated[str, AfterValidator(_host)]
KeyId = Annotated[str, AfterValidator(_key_id)]
WorkerId = Annotated[str, AfterValidator(_worker_id)]
BuildId = Annotated[str, AfterValidator(_build_id)]
Destinations = Annotated[tuple[str, ...], BeforeValidator(_destinations)]
DatabaseUrl = Annotated[SecretStr, AfterValidator(_database_url)]
BrokerUrl = Annotated[SecretStr, AfterValidator(_broker_url)]
SigningKey = Annotated[SecretStr, AfterValidator(_signing_key)]
Pepper = Annotated[SecretStr, AfterValidator(_pepper)]


_WORDS: Final[dict[object, str]] = {
    bool: "`true` or `false`",
    Path: "a path",
    SecretStr: "a secret",
    str: "a text",
}


def expected(field: FieldInfo) -> str:
    """What a value of this setting is, in words: `a whole number from 1 to 65535`."""
    kind = _plain(field.annotation)
    if get_origin(kind) is Literal:
        return _choice([f"`{value}`" for value in get_args(kind)])
    if kind in (int, float):
        number = "whole number" if kind is int else "number"
        return f"a {number} from {_bound(field, 'ge')} to {_bound(field, 'le')}"
    if get_origin(kind) is tuple:
        return "a list, separated by commas"
    most = _bound(field, "max_length")
    return _WORDS[kind] if most is None else f"a text of 1 to {most} characters"


def _plain(annotation: object) -> object:
    """The type without its checks and without `| None`."""
    if get_origin(annotation) is Annotated:
        return _plain(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return next(_plain(part) for part in get_args(annotation) if part is not NoneType)
    return annotation


def _bound(field: FieldInfo, name: str) -> object:
    return next((getattr(check, name) for check in field.metadata if hasattr(check, name)), None)


def _choice(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"
