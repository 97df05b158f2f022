"""What all request and answer models have in common.

A request with a member that nobody knows is refused: a typing mistake must not look like a success.
"""

from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar
from uuid import UUID

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, StringConstraints

from bpc.core.digest import to_hex
from bpc.core.errors import Invalid
from bpc.core.ids import parse_uuid
from bpc.core.timestamps import format_time, parse_time

T = TypeVar("T")


def _id(given: object) -> object:
    if not isinstance(given, str):
        return given
    try:
        return parse_uuid(given)
    except Invalid:
        raise ValueError("it is not an id; write it as a lower-case uuid with hyphens") from None


def _moment(given: object) -> object:
    if not isinstance(given, str):
        return given
    try:
        return parse_time(given)
    except Invalid:
        raise ValueError("it is not a time written like 2027-02-18T00:00:00.000000Z") from None


def _storable(text: str) -> str:
    if "\0" in text:
        raise ValueError("it must not contain U+0000")
    return text


# An id that was sent: one spelling only. `Id` in answers as well.
Id = Annotated[UUID, BeforeValidator(_id)]
Moment = Annotated[
    datetime,
    BeforeValidator(_moment),
    PlainSerializer(format_time, return_type=str, when_used="json"),
    Field(examples=["2027-02-18T00:00:00.000000Z"], json_schema_extra={"format": "date-time"}),
]
# 32 raw bytes in the database, lower-case hex in JSON.
Hash = Annotated[
    str,
    BeforeValidator(lambda given: to_hex(given) if isinstance(given, bytes) else given),
    StringConstraints(pattern="^[0-9a-f]{64}$"),
    Field(examples=["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"]),
]
Text = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(_storable)]
LongText = Annotated[str, StringConstraints(min_length=1, max_length=4000), AfterValidator(_storable)]


class Request(BaseModel):
    """A body that is sent to us."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=False)


class Answer(BaseModel):
    """A body that we send. Built from dataclasses by attribute."""

    model_config = ConfigDict(frozen=True, from_attributes=True)


class Page(Answer, Generic[T]):
    """A part of a list, newest first unless its route says otherwise. `next_cursor` is null where it ends."""

    items: list[T]
    next_cursor: str | None = Field(description="Send it as `cursor` to get what follows.")


class ErrorBody(Answer):
    code: str = Field(description="Stable; what a program decides by.", examples=["VALIDATION_ERROR"])
    message: str = Field(description="A sentence for people, with the next step where there is one.")
    correlation_id: Id = Field(description="Names this request in our logs.")
    details: dict[str, Any] = Field(default_factory=dict, description="What a program may want to read.")


class ErrorEnvelope(Answer):
    """What every answer that is not a success looks like."""

    error: ErrorBody
