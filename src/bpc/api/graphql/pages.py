"""Lists in GraphQL: `first` and `after` in, items and the next cursor out."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import strawberry

from bpc.api.paging import Paging
from bpc.core.cursor import Place

T = TypeVar("T")
R = TypeVar("R")


@strawberry.type(description="A part of a list, newest first.")
class Page(Generic[T]):
    items: list[T]
    next_cursor: str | None = strawberry.field(description="Give it as `after` to get what follows; null at the end.")


def page_of(part: Paging, rows: Sequence[R], place: Callable[[R], Place], shown: Callable[[R], T]) -> Page[T]:
    items, cursor = part.cut(rows, place)
    return Page(items=[shown(row) for row in items], next_cursor=cursor)
