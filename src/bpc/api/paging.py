"""Pages: `limit` and `cursor` in, part of a list and the next cursor out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeVar

from fastapi import Depends, Query
from pydantic import BeforeValidator
from starlette.requests import Request

from bpc.api.models import Answer, Page
from bpc.api.work import Work
from bpc.core.cursor import List, Place, read_cursor, write_cursor
from bpc.db.pages import Ask

DEFAULT = 50
MOST = 200

T = TypeVar("T")
A = TypeVar("A", bound=Answer)


def _plain(given: object) -> object:
    if isinstance(given, str) and not (given.isascii() and given.isdecimal()):
        raise ValueError("it is not a whole number written in digits")
    return given


Limit = Annotated[int, BeforeValidator(_plain), Query(ge=1, le=MOST, description="How many items a page has at most.")]
Cursor = Annotated[
    str | None, Query(min_length=1, max_length=512, description="`next_cursor` of the page before, as it was answered.")
]


@dataclass(frozen=True, slots=True)
class Paging:
    """Which part of a list is asked for. One row more than a page has is read, to know whether it ends."""

    limit: int
    list: List
    key: bytes
    after: Place | None

    @property
    def ask(self) -> Ask:
        return Ask.of(self.after, self.limit + 1)

    def cut(self, rows: Sequence[T], place: Callable[[T], Place]) -> tuple[Sequence[T], str | None]:
        """The rows of the page, of what `ask` gave, and the cursor to what follows; `place` is where a row stands."""
        items = rows[: self.limit]
        more = len(rows) > self.limit
        return items, write_cursor(self.key, self.list, place(items[-1])) if more else None

    def page(self, rows: Sequence[T], place: Callable[[T], Place], shown: Callable[[T], A]) -> Page[A]:
        """The answer."""
        items, cursor = self.cut(rows, place)
        return Page(items=[shown(row) for row in items], next_cursor=cursor)


async def _paging(request: Request, work: Work, limit: Limit = DEFAULT, cursor: Cursor = None) -> Paging:
    filters = {name: value for name, value in request.query_params.items() if name not in {"limit", "cursor"}}
    parts = {f"path:{name}": str(value) for name, value in request.path_params.items()}
    of = List(tenant=work.tenant, route=request.scope["route"].path, filters=filters | parts)
    service = work.service
    after = None if cursor is None else read_cursor(service.cursor_keys, of, cursor)
    return Paging(limit, of, service.cursor_key, after)


Paged = Annotated[Paging, Depends(_paging)]
