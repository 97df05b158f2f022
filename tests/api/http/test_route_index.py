"""Specification of the index of routes: the same route as asking all of them in their order, only sooner."""

import re

import pytest
from starlette.routing import BaseRoute, Match, Route

from bpc.api.http.app import create_app
from bpc.api.http.route_index import RouteIndex

ROUTES: list[BaseRoute] = list(create_app().router.routes)
INDEX = RouteIndex(ROUTES)
EXAMPLES = ("0a1b2c3d-0000-4000-8000-000000000001", "x", "v1", "a%2Fb", "by-ref")


def _find_first(routes: list[BaseRoute], path: str, method: str) -> BaseRoute | None:
    scope = {"type": "http", "path": path, "root_path": "", "method": method}
    return next((route for route in routes if route.matches(scope)[0] is Match.FULL), None)


def _make_paths() -> list[tuple[str, str]]:
    paths = [
        (method, re.sub(r"\{[^}]*\}", example, route.path))
        for route in ROUTES
        if isinstance(route, Route)
        for method in sorted(route.methods or {"GET"})
        for example in EXAMPLES
    ]
    return [
        *paths,
        *((method, path + "/") for method, path in paths),
        *((method, f"/{path}") for method, path in paths),
    ]


def test_every_path_leads_to_the_route_that_is_first_among_all() -> None:
    paths = _make_paths()

    for method, path in paths:
        candidates = list(INDEX.list_candidates(path))
        first_route = _find_first(candidates, path, method)
        # What the index does not find, the framework is asked for.
        assert first_route is None or first_route is _find_first(ROUTES, path, method), (method, path)
    assert len(paths) > 3_000


def test_what_is_asked_for_most_is_found_among_few() -> None:
    version = EXAMPLES[0]

    for path in ("/v1/documents", f"/v1/passport-versions/{version}/payload", "/v1/health/live", f"/v1/jobs/{version}"):
        assert _find_first(list(INDEX.list_candidates(path)), path, "GET") is not None, path
        assert len(INDEX.list_candidates(path)) <= 25, path


@pytest.mark.parametrize("path", ["", "/", "v1", "/v1", "//", "/v1/", "/nothing/of/this", "/v1/nothing"])
def test_a_path_that_nobody_has_is_left_to_the_framework(path: str) -> None:
    assert _find_first(list(INDEX.list_candidates(path)), path, "GET") is None
