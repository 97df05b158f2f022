"""What all request and answer models share: ids, times, hashes, texts, and pages of lists.

A request with an unknown member is refused: a misspelt member must not look like a success.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, ClassVar, Generic, Self, TypeVar
from uuid import UUID

from fastapi import Depends, Query
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, StringConstraints
from starlette.requests import Request

from bpc.api.http.request_context import Context, Service
from bpc.core.errors import Invalid
from bpc.core.formats.cursor import CursorPosition, CursorScope, read_cursor, write_cursor
from bpc.core.formats.hashes import to_hex
from bpc.core.formats.ids import parse_uuid
from bpc.core.formats.timestamps import format_time, parse_time
from bpc.storage.connection import PageQuery

T = TypeVar("T")
AnyId = TypeVar("AnyId", bound=UUID)


def _parse_text_with(parse: Callable[[str], object], problem: str) -> BeforeValidator:
    def parse_text(value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            return parse(value)
        except Invalid:
            raise ValueError(problem) from None

    return BeforeValidator(parse_text)


def _require_storable(text: str) -> str:
    if "\0" in text:
        raise ValueError("it must not contain U+0000")
    return text


# An id is accepted in one spelling only. `IdOf[DocumentId]` is typed for the steps and queries that take it.
IdOf = Annotated[AnyId, _parse_text_with(parse_uuid, "it is not an id; write it as a lower-case uuid with hyphens")]
Id = IdOf[UUID]
Moment = Annotated[
    datetime,
    _parse_text_with(parse_time, "it is not a time written like 2027-02-18T00:00:00.000000Z"),
    PlainSerializer(format_time, return_type=str, when_used="json"),
    Field(examples=["2027-02-18T00:00:00.000000Z"], json_schema_extra={"format": "date-time"}),
]
# 32 raw bytes in the database, lower-case hex in JSON.
Hash = Annotated[
    str,
    BeforeValidator(lambda value: to_hex(value) if isinstance(value, bytes) else value),
    StringConstraints(pattern="^[0-9a-f]{64}$"),
    Field(examples=["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"]),
]
Text = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(_require_storable)]
LongText = Annotated[str, StringConstraints(min_length=1, max_length=4000), AfterValidator(_require_storable)]


class RequestBody(BaseModel):
    """A body that is sent to us."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=False)


class ResponseBody(BaseModel):
    """A body that we send. It is built from a dataclass by attribute."""

    model_config = ConfigDict(frozen=True, from_attributes=True)
    # Lists are ordered by this member, then by the first member of the model, which is its id.
    ordered_by: ClassVar[str] = "created_at"

    @classmethod
    def get_position(cls, row: Any) -> CursorPosition:
        """Return the position of a row in the list of these models."""
        return CursorPosition(getattr(row, cls.ordered_by), getattr(row, next(iter(cls.model_fields))))


class Page(ResponseBody, Generic[T]):
    """A part of a list, newest first unless the route says otherwise. `next_cursor` is null on the last page."""

    items: list[T]
    next_cursor: str | None = Field(description="Send it as `cursor` to get the next page.")


class ErrorBody(ResponseBody):
    code: str = Field(description="Stable; for programs.", examples=["VALIDATION_ERROR"])
    message: str = Field(description="A sentence for people, with the next step if there is one.")
    correlation_id: Id = Field(description="Identifies this request in our logs.")
    details: dict[str, Any] = Field(default_factory=dict, description="Details for programs.")


class ErrorEnvelope(ResponseBody):
    """The form of every answer that is not a success."""

    error: ErrorBody


# Pages: `limit` and `cursor` in, part of a list and the next cursor out.


DEFAULT_PAGE_SIZE = 50
MAX_PAGE_SIZE = 200

A = TypeVar("A", bound=ResponseBody)


def _require_digits(value: object) -> object:
    if isinstance(value, str) and not (value.isascii() and value.isdecimal()):
        raise ValueError("it is not a whole number written in digits")
    return value


Limit = Annotated[
    int,
    BeforeValidator(_require_digits),
    Query(ge=1, le=MAX_PAGE_SIZE, description="The largest number of items on the page."),
]
Cursor = Annotated[
    str | None, Query(min_length=1, max_length=512, description="`next_cursor` of the previous page, unchanged.")
]


@dataclass(frozen=True, slots=True)
class PageRequest:
    """The requested part of a list. One row more than the page is read, to know whether there are more."""

    limit: int
    list: CursorScope
    key: bytes
    after: CursorPosition | None

    @classmethod
    def read(cls, service: Service, listing: CursorScope, limit: int, cursor: str | None) -> Self:
        """Read the cursor, which must be one of this list."""
        after = None if cursor is None else read_cursor(service.cursor_keys, listing, cursor)
        return cls(limit, listing, service.cursor_key, after)

    @property
    def query(self) -> PageQuery:
        return PageQuery.after_cursor(self.after, self.limit + 1)

    def cut_page(self, rows: Sequence[T], position_of: Callable[[T], CursorPosition]) -> tuple[Sequence[T], str | None]:
        """Return the rows of the page, and the cursor of the next page if there are more rows."""
        items = rows[: self.limit]
        more = len(rows) > self.limit
        return items, write_cursor(self.key, self.list, position_of(items[-1])) if more else None

    def build_page(self, rows: Sequence[object], model: type[A]) -> Page[A]:
        """Return the page that answers a list, each row as this model."""
        items, cursor = self.cut_page(rows, model.get_position)
        return Page(items=[model.model_validate(row) for row in items], next_cursor=cursor)


async def _read_page_request(
    request: Request, ctx: Context, limit: Limit = DEFAULT_PAGE_SIZE, cursor: Cursor = None
) -> PageRequest:
    filters = {name: value for name, value in request.query_params.items() if name not in {"limit", "cursor"}}
    parts = {f"path:{name}": str(value) for name, value in request.path_params.items()}
    listing = CursorScope(tenant=ctx.tenant, route=request.scope["route"].path, filters=filters | parts)
    return PageRequest.read(ctx.service, listing, limit, cursor)


Paging = Annotated[PageRequest, Depends(_read_page_request)]
