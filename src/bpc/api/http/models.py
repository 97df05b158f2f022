"""What all request and answer models share: ids, times, hashes, texts, and pages of lists.

A request with an unknown member or parameter is refused: one that is misspelt must not look like a success.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, ClassVar, Final, Generic, Literal, Self, TypeVar
from uuid import UUID

from fastapi import Depends, Query
from fastapi.routing import APIRoute
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, StringConstraints
from starlette.datastructures import QueryParams
from starlette.requests import Request

from bpc.api.http.request_context import Context, Service
from bpc.core.errors import Invalid
from bpc.core.formats.cursor import CursorPosition, CursorScope, read_cursor, write_cursor
from bpc.core.formats.hashes import to_hex
from bpc.core.formats.ids import parse_uuid
from bpc.core.formats.timestamps import (
    EXAMPLE,
    NotASentTime,
    format_time,
    parse_sent_day,
    parse_sent_time,
    parse_sent_time_or_day,
)
from bpc.storage.connection import PageQuery

T = TypeVar("T")


def list_members(row: Any) -> dict[str, Any]:
    """The members of a dataclass by name, as they are: `asdict` would copy each of them, however deep."""
    return {name: getattr(row, name) for name in row.__dataclass_fields__}


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


def _parse_moment_with(parse: Callable[[str], datetime]) -> BeforeValidator:
    def parse_moment(value: object) -> object:
        if isinstance(value, str):
            try:
                return parse(value)
            except NotASentTime as wrong:
                raise ValueError(f"it {wrong.problem}") from None
        if isinstance(value, int | float):  # would be taken for seconds since 1970
            raise ValueError(f"it is not a text; write it like {EXAMPLE}")  # noqa: TRY004 (pydantic's way to refuse)
        return value

    return BeforeValidator(parse_moment)


def _parse_day_text(text: str) -> str:
    try:
        moment = parse_sent_day(text) if len(text) <= len("2027-02-18") else parse_sent_time(text)
    except NotASentTime as wrong:
        raise ValueError(f"it {wrong.problem}") from None
    return format_time(moment)[: len("2027-02-18")]


# What we answer: one form. What is sent to us: any form of RFC 3339; in a filter also a day.
TIME_FORMS: Final = (
    "Any time of RFC 3339: `Z` or an offset, any fraction. More than six digits of a fraction only if the rest is zero."
)
FILTER_FORMS: Final = f"{TIME_FORMS} A day, like 2027-02-18, is its first moment in UTC."
DAY_FORMS: Final = "A day, like 2027-02-18. Any time of RFC 3339 is its day in UTC."
Moment = Annotated[
    datetime,
    _parse_moment_with(parse_sent_time),
    PlainSerializer(format_time, return_type=str, when_used="json"),
    Field(examples=[EXAMPLE], json_schema_extra={"format": "date-time"}),
]
SentMoment = Annotated[Moment, Field(description=TIME_FORMS)]
FilterMoment = Annotated[
    datetime,
    _parse_moment_with(parse_sent_time_or_day),
    Field(examples=[EXAMPLE], description=FILTER_FORMS, json_schema_extra={"format": "date-time"}),
]
Day = Annotated[str, AfterValidator(_parse_day_text), Field(examples=["2027-02-18"], description=DAY_FORMS)]
# 32 raw bytes in the database, lower-case hex in JSON.
Hash = Annotated[
    str,
    BeforeValidator(lambda value: to_hex(value) if isinstance(value, bytes) else value),
    StringConstraints(pattern="^[0-9a-f]{64}$"),
    Field(examples=["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"]),
]
Text = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(_require_storable)]
LongText = Annotated[str, StringConstraints(min_length=1, max_length=4000), AfterValidator(_require_storable)]


# What filters share.
MIN_SEARCH_CHARS: Final = 2
SearchText = Annotated[
    str, StringConstraints(min_length=MIN_SEARCH_CHARS, max_length=200), AfterValidator(_require_storable)
]
ProductText = Annotated[
    SearchText | None,
    Query(
        description="Only of products whose SKU or name contains this, in upper or lower case. At most twenty products "
        "may match.",
        examples=["traction"],
    ),
]
SkuFilter = Annotated[Text | None, Query(description="Only of the product with this SKU.", examples=["SKU-123"])]
SupplierFilter = Annotated[
    Text | None, Query(description="Only what documents of this supplier are about.", examples=["Example Cells GmbH"])
]
CreatedAfter = Annotated[FilterMoment | None, Query(description="From this time on, inclusive.")]
CreatedBefore = Annotated[FilterMoment | None, Query(description="Before this time, exclusive.")]
Activity = Literal["ACTIVE", "INACTIVE"]
ActivityFilter = Annotated[Activity | None, Query(description="INACTIVE: only those that are deactivated.")]


class RequestBody(BaseModel):
    """A body that is sent to us."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=False)


class NothingToChange(Invalid):
    """None of the members of a change was sent."""

    def __init__(self, body: RequestBody) -> None:
        *names, last = (f"`{name}`" for name in type(body).model_fields)
        super().__init__("there is nothing to change", fix=f"send {', '.join(names)} or {last}")


class ActivityChange(RequestBody):
    """Why something is deactivated or reactivated."""

    reason: LongText | None = Field(None, description="The reason; it is recorded.", examples=["no longer sold"])


async def _read_reason(body: ActivityChange | None = None) -> str | None:
    return None if body is None else body.reason


ActivityReason = Annotated[str | None, Depends(_read_reason)]


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

    @classmethod
    def model_parametrized_name(cls, params: tuple[Any, ...]) -> str:
        """The name in the API's document: `Page[ListedDocument]` is a `DocumentPage`."""
        return f"{params[0].__name__.removeprefix('Listed')}Page"


class ErrorBody(ResponseBody):
    code: str = Field(description="Stable; for programs.", examples=["VALIDATION_ERROR"])
    message: str = Field(description="A sentence for people, with the next step if there is one.")
    correlation_id: Id = Field(description="Identifies this request in our logs.")
    details: dict[str, Any] = Field(default_factory=dict, description="Details for programs.")


class ErrorEnvelope(ResponseBody):
    """The form of every answer that is not a success."""

    error: ErrorBody


# Pages: `limit` and `cursor` in, part of a list and the next cursor out.


PARAMETER_NAME: Final = re.compile("[a-z]{1,20}([_-][a-z]{1,20}){0,3}")
DEFAULT_PAGE_SIZE = 50
MAX_PAGE_SIZE = 200

A = TypeVar("A", bound=ResponseBody)


def _require_digits(value: object) -> object:
    if isinstance(value, str) and not (value.isascii() and value.isdecimal()):
        raise ValueError("it is not a whole number written in digits")
    return value


MAX_WAIT_SECONDS = 25
WaitSeconds = Annotated[
    int,
    Field(ge=0, le=MAX_WAIT_SECONDS),  # before the validator: after it, the document would not say `minimum`
    BeforeValidator(_require_digits),
    Query(
        description="Wait for the end, for at most this number of seconds, instead of asking again and again. If it "
        "has not ended by then, the answer shows the present state.",
    ),
]
Limit = Annotated[
    int,
    Field(ge=1, le=MAX_PAGE_SIZE),
    BeforeValidator(_require_digits),
    Query(description="The largest number of items on the page."),
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


# Query parameters: those that the route has, each once.


def check_query(route: APIRoute, params: QueryParams) -> None:
    """Refuse unknown parameters: a misspelt filter must not silently return everything."""
    names = _list_query_names(route)
    for name in params:
        if name not in names:
            # It may be a secret in the wrong place, so only a plain name is repeated.
            fix = f"the parameters are {', '.join(sorted(names))}" if names else "this route takes none"
            label = f" `{name}`" if PARAMETER_NAME.fullmatch(name) else " of that name"
            raise Invalid(f"there is no query parameter{label}", fix=fix)
        if len(params.getlist(name)) > 1:
            raise Invalid(f"the query parameter `{name}` is sent twice", fix="send it once")


def _list_query_names(route: APIRoute) -> set[str]:
    names: set[str] = set()
    todo = [route.dependant]
    while todo:
        dependant = todo.pop()
        names |= {field.alias for field in dependant.query_params}
        todo += dependant.dependencies
    return names
