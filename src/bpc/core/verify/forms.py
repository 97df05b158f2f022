"""The one form of each JSON object that is checked: exactly these members, each in its one spelling.

Pure. A decoder that forgives lets a changed text pass for an unchanged one, so hex, base64, ids and times are read
strictly and everything that is not listed is refused by name.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from bpc.core.canon import Json
from bpc.core.digest import NotADigest, from_hex
from bpc.core.ids import NotAnId, parse_uuid
from bpc.core.timestamps import NotATime, parse_time
from bpc.core.verify.report import Wrong

AUDIENCES: Final = ("authority", "interest", "public")
STATUSES: Final = frozenset({"PASS", "FAIL", "WARN", "NOT_APPLICABLE"})

_SALT: Final = re.compile("[0-9a-f]{32}")


class Spelling(NamedTuple):
    """How a member is written, and what to call that."""

    accepts: Callable[[Json], bool]
    called: str


def _read_by(read: Callable[[str], object], refusal: type[Exception]) -> Callable[[Json], bool]:
    def accepts(value: Json) -> bool:
        if not isinstance(value, str):
            return False
        try:
            read(value)
        except refusal:
            return False
        return True

    return accepts


def exactly(text: str) -> Spelling:
    return Spelling(lambda value: value == text, f"`{text}`")


def is_count(value: Json) -> bool:
    """Whether it is an integer from 0; `type`, because true is an integer to Python."""
    return type(value) is int and value >= 0


def is_audience_list(value: Json) -> bool:
    """Whether it is a list of audiences, sorted, none twice."""
    return isinstance(value, list) and value == [name for name in AUDIENCES if name in value]


def _is_access(value: Json) -> bool:
    return isinstance(value, dict) and all(map(is_audience_list, value.values()))


def _is_compliance(value: Json) -> bool:
    return isinstance(value, list) and all(map(_is_entry, value))


def _is_entry(value: Json) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == {"code", "field", "message", "status"}
        and all(isinstance(part, str) for part in value.values())
        and value["status"] in STATUSES
    )


def is_product(value: Json) -> bool:
    """Whether it is a battery product as payloads write it."""
    return (
        isinstance(value, dict)
        and value.keys() == {"battery_product_id", "name", "sku"}
        and all(isinstance(part, str) for part in value.values())
        and ID.accepts(value["battery_product_id"])
    )


TEXT: Final = Spelling(lambda value: isinstance(value, str), "a text")
OBJECT: Final = Spelling(lambda value: isinstance(value, dict), "an object")
LIST: Final = Spelling(lambda value: isinstance(value, list), "a list")
ID: Final = Spelling(_read_by(parse_uuid, NotAnId), "a lower-case uuid with hyphens")
HASH: Final = Spelling(_read_by(from_hex, NotADigest), "64 lower-case hex digits")
TIME: Final = Spelling(_read_by(parse_time, NotATime), "a time like `2027-02-18T00:00:00.000000Z`")
SALT: Final = Spelling(
    lambda value: isinstance(value, str) and _SALT.fullmatch(value) is not None, "32 lower-case hex digits"
)
ACCESS: Final = Spelling(_is_access, "each path's audiences in order")
COMPLIANCE: Final = Spelling(_is_compliance, "a list of entries of code, field, message and status")
PRODUCT: Final = Spelling(is_product, "a product of id, name and sku")

Form = Mapping[str, Spelling]

PAYLOAD: Final[Form] = {
    "access": ACCESS,
    "battery_product": PRODUCT,
    "compliance": COMPLIANCE,
    "fields": OBJECT,
    "issued_at": TIME,
    "passport_id": ID,
    "passport_version_id": ID,
    "payload_version": exactly("BPC-PASSPORT-1"),
    "salt": SALT,
}
SNAPSHOT: Final[Form] = {
    "facts": LIST,
    "snapshot_id": ID,
    "snapshot_version": exactly("BPC-SNAPSHOT-1"),
}
SNAPSHOT_FACT: Final[Form] = {"fact_key": TEXT, "fact_type": TEXT, "payload_hash": HASH}


def formed(where: str, value: Json, form: Form) -> Mapping[str, Any]:
    """`value` as an object of exactly this form, or `Wrong` naming the first member that is not so."""
    if not isinstance(value, dict):
        raise Wrong(f"{where} is not an object")
    for name in form:
        if name not in value:
            raise Wrong(f"{where} has no `{name}`")
    for name in value:
        if name not in form:
            raise Wrong(f"{where} has a member `{name[:80]}` that does not belong there")
    for name, spelling in form.items():
        if not spelling.accepts(value[name]):
            raise Wrong(f"{where}: `{name}` is not {spelling.called}")
    return value
