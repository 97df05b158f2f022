"""Which route a path belongs to, found without asking each of them.

    /v1/passport-versions/{id}/payload  ─►  ("v1", "passport-versions", 4 parts)  ─►  the few routes that can match

The framework asks all routes one after the other, more than a hundred before some of ours. The index gives those that
can match, in their order, and the first that does is taken. Whatever none of them answers, such as an unknown path or a
method that a route does not take, is left to the framework.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send


class PathKey(NamedTuple):
    """The first two parts of a path and how many parts it has; None where the path of a route does not tell."""

    first: str | None
    second: str | None
    length: int | None

    def admits(self, path: "PathKey") -> bool:
        """Whether a route with this key can match a path with that one."""
        return all(mine is None or mine == other for mine, other in zip(self, path, strict=True))


class RouteIndex:
    """The routes of an application, by how their paths begin and how many parts they have."""

    def __init__(self, routes: Sequence[BaseRoute]) -> None:
        self._keyed = [(_find_key(route), route) for route in routes]
        self._known = frozenset(key for key, _ in self._keyed if None not in key)
        self._candidates: dict[PathKey, tuple[BaseRoute, ...]] = {}  # filled as paths are asked for

    def list_candidates(self, path: str) -> Sequence[BaseRoute]:
        """The routes that can match `path`, in their order; none if the index does not know its beginning."""
        _, first, second, *_ = f"{path}//".split("/", 3)
        key = PathKey(first, second, path.count("/"))
        candidates = self._candidates.get(key)
        if candidates is None:
            if key not in self._known:
                return ()
            candidates = tuple(route for route_key, route in self._keyed if route_key.admits(key))
            self._candidates[key] = candidates
        return candidates


def _find_key(route: BaseRoute) -> PathKey:
    if not isinstance(route, Route):
        return PathKey(None, None, None)
    parts = f"{route.path}//".split("/", 3)
    first, second = (None if "{" in part or not part else part for part in parts[1:3])
    return PathKey(first, second, None if ":path}" in route.path else route.path.count("/"))


class IndexedRouter:
    """In front of the framework's router: hands a request to its route, or leaves it to the router."""

    def __init__(self, router: Any, otherwise: ASGIApp) -> None:
        self._router = router
        self._otherwise = otherwise
        self._index = RouteIndex(router.routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not scope.get("root_path"):
            scope.setdefault("router", self._router)
            for route in self._index.list_candidates(scope["path"]):
                match, child_scope = route.matches(scope)
                if match is Match.FULL:
                    scope.update(child_scope)
                    await route.handle(scope, receive, send)
                    return
        await self._otherwise(scope, receive, send)
