"""What resolvers work with: the scalars, types made from the REST models, and reading with the caller's permissions.

All reads of one query run in the request's one transaction, one after the other: a connection runs one statement at a
time, and the fields of a query are resolved concurrently.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Generic,
    NewType,
    Self,
    TypeVar,
    TypeVarTuple,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)
from uuid import UUID

import strawberry
from pydantic import BaseModel
from service_jobs import JobNotFound
from starlette.requests import Request
from strawberry.types import Info

from bpc.api.access.auth import decide_for, note_denial
from bpc.api.graphql.query_limits import QueryBudget
from bpc.api.http import models
from bpc.api.http.models import DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE, MIN_SEARCH_CHARS, PageRequest, ResponseBody
from bpc.api.http.request_context import RequestContext
from bpc.core.errors import Invalid, NotFound, Refusal
from bpc.core.formats.cursor import CursorScope
from bpc.core.formats.hashes import Digest, to_hex
from bpc.core.formats.ids import TenantId, parse_uuid
from bpc.core.formats.timestamps import format_time, parse_sent_time_or_day
from bpc.core.policies import Resource, depends_on_sku
from bpc.storage.connection import Connection
from bpc.storage.error_mapping import DRIVER_ERRORS, map_driver_error
from bpc.storage.passports import passports

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
C = TypeVar("C", bound="ModelType")
F = TypeVar("F", bound=Callable[..., Any])
ReadOne = Callable[[Connection, TenantId, Any], Awaitable[Any]]
ReadMany = Callable[..., Awaitable[Sequence[Any]]]

# Scalars: the same texts as in REST, and JSON for values without a type of their own.

Id = NewType("Id", UUID)
Moment = NewType("Moment", datetime)
Hash = NewType("Hash", bytes)
Json = NewType("Json", object)


def _parse_id_scalar(value: Any) -> UUID:
    if not isinstance(value, str):
        raise Invalid("an id is a text")
    return parse_uuid(value)


def _parse_moment_scalar(value: Any) -> datetime:
    if not isinstance(value, str):
        raise Invalid("a time is a text")
    return parse_sent_time_or_day(value)


SCALARS: dict[object, Any] = {
    Id: strawberry.scalar(
        name="Id", description="A UUID, lower-case with hyphens.", serialize=str, parse_value=_parse_id_scalar
    ),
    Moment: strawberry.scalar(
        name="Moment",
        description="A time in UTC, such as 2027-02-18T00:00:00.000000Z. Sent to us: any time of RFC 3339, or a day.",
        serialize=format_time,
        parse_value=_parse_moment_scalar,
    ),
    Hash: strawberry.scalar(
        name="Hash", description="SHA-256, lower-case hex.", serialize=lambda value: to_hex(Digest(value))
    ),
    Json: strawberry.scalar(name="Json", description="Any JSON value."),
}


# Types: the members of a REST model, and fields that lead to other types.


class ModelType:
    """Base of the types that have the members of a REST model.

    `permission` and `resource` are those of the REST route that reads one.
    """

    model: ClassVar[type[ResponseBody]]
    permission: ClassVar[str]
    resource: ClassVar[str]

    if TYPE_CHECKING:  # the members are those of the model

        def __getattr__(self, name: str) -> Any: ...

    @property
    def _resource_id(self) -> UUID:
        resource_id: UUID = getattr(self, next(iter(self.model.model_fields)))
        return resource_id

    @classmethod
    def from_row(cls, row: Any) -> Self:
        return cls(**{member: _to_value(getattr(row, member), kind) for member, kind in cls.__annotations__.items()})


_TYPES_BY_MODEL: dict[type[BaseModel], type[ModelType]] = {}


def type_from_model(
    model: type[ResponseBody],
    description: str,
    *,
    name: str | None = None,
    permission: str = "",
    resource: str | None = None,
    omit: Sequence[str] = (),
) -> Callable[[type[C]], type[C]]:
    """Make a class a GraphQL type: the members of the model except `omit`, then the fields that the class defines.

    The type has the name of the model unless `name` says otherwise, and the resource has the name of the type.
    """

    def make_type(cls: type[C]) -> type[C]:
        hints = get_type_hints(model, include_extras=True)
        cls.__annotations__ = {
            member: _to_graphql_type(hints[member]) for member in model.model_fields if member not in omit
        }
        type_name = name or model.__name__
        cls.model, cls.permission, cls.resource = model, permission, resource or type_name
        _TYPES_BY_MODEL[model] = cls = strawberry.type(cls, name=type_name, description=description)
        return cls

    return make_type


SCALARS_BY_TYPE: dict[Any, Any] = {UUID: Id, datetime: Moment, int: int, bool: bool}


def _to_graphql_type(hint: Any) -> Any:
    """The type of a member: ids, times, hashes and JSON are scalars; texts, literals and enums are strings."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return Hash if hint == models.Hash else _to_graphql_type(args[0])
    if origin is UnionType or origin is Union:
        return _to_graphql_type(next(choice for choice in args if choice is not NoneType)) | None
    if origin is list:
        return list[_to_graphql_type(args[0])]  # type: ignore[misc]
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        return _TYPES_BY_MODEL.get(hint, Json)
    return Json if origin is dict else SCALARS_BY_TYPE.get(hint, str)


def _to_value(value: Any, kind: Any) -> Any:
    if value is None:
        return None
    for choice in (kind, *get_args(kind)):
        if isinstance(choice, type) and issubclass(choice, ModelType):
            return choice.from_row(value)
    if isinstance(value, Enum):
        return value.value
    return list(value) if isinstance(value, tuple) else value


@strawberry.type(name="Page", description="A part of a list, newest first.")
class PageType(Generic[T]):
    items: list[T]
    next_cursor: str | None = strawberry.field(description="Give it as `after` to get what follows; null at the end.")


@dataclass(slots=True)
class QueryContext:
    """One query of one caller."""

    ctx: RequestContext
    request: Request
    _budget: QueryBudget = field(default_factory=QueryBudget)
    _denied: dict[tuple[str, str, UUID | None], Refusal] = field(default_factory=dict)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _answers: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    async def read(self, function: Callable[[Connection, TenantId, *Ts], Awaitable[T]], *args: *Ts) -> T:
        """Return what `function` reads. The same call is made only once in a query."""
        question = (function, args)
        async with self._lock:
            if question not in self._answers:
                try:
                    self._answers[question] = await function(self.ctx.conn, self.ctx.tenant, *args)
                except DRIVER_ERRORS as error:
                    if refusal := map_driver_error(error):
                        raise refusal from error
                    raise
            answer: T = self._answers[question]
            return answer

    async def charge(self, count: int) -> None:
        """Count objects that the query gives, before it goes on with them. Raises `QueryTooExpensive`.

        Here a query that has used more than its tenant's share of the event loop waits.
        """
        self._budget.charge(count)
        await self.ctx.service.admission.shares.wait_for_share(self.ctx.tenant)

    async def read_one(self, kind: type[C], function: ReadOne, resource_id: UUID) -> C | None:
        """Return one resource, if the caller may read it; None if it does not exist."""
        await self.charge(1)
        await self.require_allowed(kind.permission, kind.resource, resource_id)
        try:
            return kind.from_row(await self.read(function, resource_id))
        except (NotFound, JobNotFound):
            return None

    async def read_page(
        self,
        kind: type[C],
        name: str,
        first: int,
        after: str | None,
        function: ReadMany,
        *args: Any,
        filters: Mapping[str, str] | None = None,
    ) -> PageType[C]:
        """Return a page of the list that `function` reads with `args` and a PageQuery. Cursors are bound to `name`."""
        if not 1 <= first <= MAX_PAGE_SIZE:
            raise Invalid(f"`first` is 1 to {MAX_PAGE_SIZE}, not {first}")
        listing = CursorScope(tenant=self.ctx.tenant, route=f"graphql:{name}", filters=filters or {})
        page = PageRequest.read(self.ctx.service, listing, first, after)
        rows: Sequence[Any] = await self.read(function, *args, page.query)  # type: ignore[arg-type]
        items, cursor = page.cut_page(rows, kind.model.get_position)
        await self.charge(1 + len(items))
        return PageType(items=[kind.from_row(row) for row in items], next_cursor=cursor)

    async def require_kind(self, kind: type[ModelType]) -> None:
        """Raise `Forbidden` unless the caller may read resources of this kind in general."""
        await self.require_allowed(kind.permission, kind.resource)

    async def require_readable(self, item: ModelType) -> None:
        """Raise `Forbidden` unless the caller may read this resource."""
        await self.require_allowed(item.permission, item.resource, item._resource_id)

    async def require_allowed(self, permission: str, kind: str, resource_id: UUID | None = None) -> None:
        """Raise `Forbidden` unless the caller may do this. The denial will be recorded."""
        caller = self.ctx.caller
        sku = None
        if resource_id is not None and depends_on_sku(caller.policies):
            sku = await self.read(passports.find_sku, kind, resource_id)
        decision = decide_for(caller, permission, Resource(type=kind, id=resource_id, sku=sku), self.ctx.act.at)
        if not decision.allowed:
            denial_key = permission, kind, resource_id
            if denial_key not in self._denied:  # one event, however many fields ask
                self._denied[denial_key] = note_denial(caller, self.request, permission, decision)
            raise self._denied[denial_key]


QueryInfo = Info[QueryContext, None]


def require_searchable(text: str | None) -> str | None:
    """Return a text that can be searched for; refuse one that is too short."""
    if text is not None and (len(text) < MIN_SEARCH_CHARS or "\0" in text):
        raise Invalid(f"a text to search for has {MIN_SEARCH_CHARS} or more characters, and no U+0000")
    return text


def require_one_of(value: str | None, *options: str) -> str | None:
    """Return a value that a filter knows; refuse another one."""
    if value is not None and value not in options:
        raise Invalid(f"`{value}` is not known here", fix=f"use one of {', '.join(options)}")
    return value


def name_filters(**filters: object) -> dict[str, str]:
    """What a cursor is bound to: the filters that are set."""
    return {
        name: format_time(value) if isinstance(value, datetime) else str(value)
        for name, value in filters.items()
        if value is not None
    }


# Fields: a method with `describe_field`, or one of the declarations below.


def describe_field(text: str) -> Callable[[F], F]:
    """Make a method a field of its type, with this description."""

    def make_field(resolver: F) -> F:
        return cast("F", strawberry.field(resolver, description=text))

    return make_field


def declare_lookup(kind: type[ModelType], function: ReadOne, description: str) -> Any:
    """Declare a field of the root: the resource with an id."""

    async def look_up(info: QueryInfo, id: Id) -> kind | None:  # type: ignore[valid-type]  # noqa: A002
        return await info.context.read_one(kind, function, id)

    return strawberry.field(look_up, description=description)


def declare_link(member: str, kind: type[ModelType], function: ReadOne, description: str) -> Any:
    """Declare a field: the resource whose id is in a member."""

    async def follow_link(root: ModelType, info: QueryInfo) -> kind | None:  # type: ignore[valid-type]
        resource_id: UUID | None = getattr(root, member)
        return None if resource_id is None else await info.context.read_one(kind, function, resource_id)

    return strawberry.field(follow_link, description=description)


def declare_list(kind: type[ModelType], name: str, function: ReadMany, description: str) -> Any:
    """Declare a field of the root: a page of all resources of a kind."""

    async def list_all(info: QueryInfo, first: int = DEFAULT_PAGE_SIZE, after: str | None = None) -> PageType[kind]:  # type: ignore[valid-type]
        await info.context.require_kind(kind)
        return await info.context.read_page(kind, name, first, after, function)

    return strawberry.field(list_all, description=description)


def declare_list_of(
    owner: str, kind: type[ModelType], name: str, function: ReadMany, description: str, *, require_kind: bool = False
) -> Any:
    """Declare a field: a page of what belongs to a resource that the caller may read.

    With `require_kind`, the caller must also be allowed to read resources of the kind in general.
    """

    async def list_owned(
        root: ModelType, info: QueryInfo, first: int = DEFAULT_PAGE_SIZE, after: str | None = None
    ) -> PageType[kind]:  # type: ignore[valid-type]
        await info.context.require_readable(root)
        if require_kind:
            await info.context.require_kind(kind)
        owner_id = root._resource_id
        filters = {owner: str(owner_id)}
        return await info.context.read_page(kind, name, first, after, function, owner_id, filters=filters)

    return strawberry.field(list_owned, description=description)
