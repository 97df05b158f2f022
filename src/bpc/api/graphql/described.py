"""A field with a description and a resolver, typed."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import strawberry

F = TypeVar("F", bound=Callable[..., Any])


def described(text: str) -> Callable[[F], F]:
    """`@described("…")` makes a method a field of its type."""

    def field(resolver: F) -> F:
        return cast("F", strawberry.field(resolver, description=text))

    return field
