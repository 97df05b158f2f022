"""Values as GraphQL writes them: the same texts as REST, and JSON for what has no type of its own."""

from datetime import datetime
from typing import Any, NewType
from uuid import UUID

import strawberry

from bpc.core.digest import Digest, to_hex
from bpc.core.errors import Invalid
from bpc.core.ids import parse_uuid
from bpc.core.timestamps import format_time, parse_time

Id = NewType("Id", UUID)
Moment = NewType("Moment", datetime)
Hash = NewType("Hash", bytes)
Json = NewType("Json", object)


def _read_id(given: Any) -> UUID:
    if not isinstance(given, str):
        raise Invalid("an id is a text")
    return parse_uuid(given)


def _read_moment(given: Any) -> datetime:
    if not isinstance(given, str):
        raise Invalid("a time is a text")
    return parse_time(given)


def _write_hash(value: bytes) -> str:
    return to_hex(Digest(value))


def _same(value: Any) -> Any:
    return value


SCALARS: dict[object, Any] = {
    Id: strawberry.scalar(
        name="Id", description="A UUID, lower-case with hyphens.", serialize=str, parse_value=_read_id
    ),
    Moment: strawberry.scalar(
        name="Moment",
        description="A time in UTC, such as 2027-02-18T00:00:00.000000Z.",
        serialize=format_time,
        parse_value=_read_moment,
    ),
    Hash: strawberry.scalar(
        name="Hash", description="SHA-256, lower-case hex.", serialize=_write_hash, parse_value=_same
    ),
    Json: strawberry.scalar(name="Json", description="Any JSON value.", serialize=_same, parse_value=_same),
}
