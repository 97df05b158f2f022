"""The inventory: every route of the application, taken from the application, and a request for each that must succeed.

    for route in ROUTES:
        call = prepare_request(route, tenant_data.ids)
        answer = await api.send(call.method, call.path, call.body, **call.options)

A route that takes a body needs a line in `CALLS` of `route_calls.py`; without one the suite fails and says so.
"""

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final, cast

from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from starlette.routing import BaseRoute

from bpc.api.console.editor_socket import EDITOR_PATH
from bpc.api.console.page_routes import PageRoute
from bpc.api.http.app import create_app
from bpc.api.http.request_context import Service
from bpc.api.http.routing import PermissionedRoute
from bpc.api.http.telemetry import HttpMetrics
from bpc.runtime import clock
from tests.api.route_calls import CALLS, Call

# What may be asked without a key, and why.
PUBLIC: Final[Mapping[tuple[str, str], str]] = {
    ("GET", "/v1/health/live"): "whoever watches the process has no key",
    ("GET", "/v1/health/ready"): "whoever watches the process has no key",
    ("GET", "/v1/health/reads"): "whoever watches the process has no key",
    ("GET", "/v1/metrics"): "whoever watches the process has no key",
    ("GET", "/.well-known/bpc-keys.json"): "whoever checks a passport has no key",
    ("GET", "/p/{passport_id}"): "whoever scans a battery has no key",
    ("OPTIONS", "/p/{passport_id}"): "the same",
    ("GET", "/p/{passport_id}/v/{passport_version_id}"): "the same, for an older version",
    ("GET", "/p/{passport_id}/v/{passport_version_id}/{file}"): "what that page is checked with",
    ("GET", "/p/{passport_id}/access"): "whoever asks to see more has no key",
    ("POST", "/p/{passport_id}/access"): "whoever was sent a code has no key; the code is in the form",
    ("POST", "/p/{passport_id}/access/requests"): "whoever asks to see more has no key",
    ("GET", "/page-assets/{name}"): "what that page is made of",
    ("GET", "/verify"): "whoever checks a passport has no key",
    ("GET", "/.well-known/gs1resolver"): "whoever resolves an address has no key",
    ("GET", "/.well-known/bpc-keys/{tenant}.json"): "whoever checks a passport has no key",
    ("GET", "/status/lists/{list_id}"): "whoever checks a passport has no key",
    ("GET", "/status/statements/{passport_version_id}"): "whoever checks a passport has no key",
    ("GET", "/log/checkpoint"): "whoever watches the log has no key",
    ("GET", "/log/tile/{path:path}"): "whoever watches the log has no key",
    ("GET", "/log/timestamp/{path:path}"): "whoever watches the log has no key",
    ("GET", "/01/{digital_link:path}"): "whoever scans the code on a battery has no key",
    ("OPTIONS", "/01/{digital_link:path}"): "the same",
    ("GET", "/v1/openapi.json"): "one reads it to learn how to get a key",
    ("GET", "/v1/docs"): "the same, for people",
    ("GET", "/v1/docs/{asset}"): "what that page is made of",
    ("GET", "/v1/schemas/{kind}"): "suppliers write documents by it, and have no key",
    ("GET", "/v1/templates/{category}"): "suppliers fill it in, and have no key",
    ("GET", "/v1/contexts/passport.jsonld"): "whoever is handed an export reads it, and has no key",
    ("GET", "/v1/schemas/passport.xsd"): "whoever is handed an export reads it, and has no key",
}
# What is no route of ours although it answers, and why.
OTHERS: Final[Mapping[str, str]] = {EDITOR_PATH: "a WebSocket: tests/api/console/test_editor_socket.py"}

PLACE: Final = re.compile(r"\{([a-z0-9_]+)(?::path)?\}")
NEW: Final = "new"
NEW_BYTES: Final = "new_bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRequest:
    """A request, ready to be sent."""

    method: str
    path: str
    body: Any
    query: Mapping[str, str]
    content: bytes | None = None

    @property
    def options(self) -> dict[str, Any]:
        """What a client is told beside the method, the path and the body."""
        return {"params": self.query} | ({} if self.content is None else {"content": self.content})


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A route, as it was declared."""

    method: str
    path: str
    kind: str
    permission: str
    resource: str | None
    secret: str | None
    four_eyes: str | None
    id_filters: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def is_public(self) -> bool:
        return (self.method, self.path) in PUBLIC

    @property
    def takes_key(self) -> bool:
        """Whether it is for callers with an API key."""
        return not self.is_public and self.kind != "granted"

    @property
    def parameters(self) -> list[str]:
        return PLACE.findall(self.path)

    @property
    def call(self) -> Call:
        call = CALLS.get((self.method, self.path))
        if call is None and (self.kind in {"write", "ask"} or (self.kind == "open" and self.method == "POST")):
            raise LookupError(
                f"nobody has said how to call {self.name}: add a line `({self.method!r}, {self.path!r}): Call(body=…)`"
                " to CALLS in tests/api/route_calls.py, with ids from tests/api/tenant_rows.py"
            )
        return call or Call()

    @property
    def places(self) -> list[str]:
        """The names of the tenant's ids that a call of it holds, in its path and in its body."""
        in_body = _list_placeholders(CALLS.get((self.method, self.path), Call()).body)
        return [*self.path_places, *(name for name in in_body if name not in {NEW, NEW_BYTES})]

    @property
    def path_places(self) -> list[str]:
        call = CALLS.get((self.method, self.path), Call())
        return [place for name in self.parameters if not (place := call.path.get(name, name)).startswith("=")]


def list_routes(app: FastAPI) -> list[Route]:
    """Every route; one that was not declared as the others are is a finding."""
    routes_found: list[Route] = []
    for each in _flatten_routes(app.routes):
        if isinstance(each, PageRoute):  # a page has no data but what these routes answer: tests/api/console
            continue
        if not isinstance(each, PermissionedRoute):
            path = getattr(each, "path", repr(each))
            assert path in OTHERS, f"{path} is not an Endpoint: declare it with bpc.api.http.routing.Routes"
            continue
        routes_found += [_describe_route(each, method) for method in sorted(each.methods or ())]
    return routes_found


def _describe_route(declared: PermissionedRoute, method: str) -> Route:
    return Route(
        method=method,
        path=declared.path,
        kind=declared.kind,
        permission=declared.permission,
        resource=declared.resource,
        secret=declared.secret,
        four_eyes=declared.four_eyes,
        id_filters=_list_id_filters(declared),
    )


def prepare_request(route: Route, ids: Mapping[str, str], others: Mapping[str, str] | None = None) -> PreparedRequest:
    """A request with the ids of a stage; `others` replaces some of them by name."""
    call, known = route.call, {**ids, **(others or {})}
    path = PLACE.sub(lambda place: _resolve_id(route, call.path.get(place[1], place[1]), known), route.path)
    file = None if call.file is None else _fill_template(route, call.file, known)
    return PreparedRequest(
        content=None if file is None else file.encode(),
        method=route.method,
        path=path,
        body=_fill_template(route, call.body, known),
        query={name: _fill_template(route, value, known) for name, value in call.query.items()},
    )


def _flatten_routes(routes: Sequence[BaseRoute]) -> Iterator[BaseRoute]:
    # FastAPI keeps an included router as one entry.
    for route in routes:
        included = getattr(route, "original_router", None)
        if included is None:
            yield route
        else:
            yield from _flatten_routes(included.routes)


def _list_id_filters(route: APIRoute) -> tuple[str, ...]:
    """Names of query parameters that take an id."""
    names, todo = set(), [route.dependant]
    while todo:
        dependant = todo.pop()
        names |= {param.alias for param in dependant.query_params if _takes_id(param.field_info.annotation)}
        todo += dependant.dependencies
    return tuple(sorted(names))


def _takes_id(annotation: Any) -> bool:
    return "'format': 'uuid'" in str(TypeAdapter(annotation).json_schema())


def _resolve_id(route: Route, name: str, ids: Mapping[str, str]) -> str:
    if name.startswith("="):
        return name[1:]
    assert name in ids, f"{route.name} wants `{name}`: insert one (tests/api/tenant_rows.py)"
    return ids[name]


def _fill_template(route: Route, template: Any, ids: Mapping[str, str]) -> Any:
    if isinstance(template, Mapping):
        return {name: _fill_template(route, value, ids) for name, value in template.items()}
    if isinstance(template, list):
        return [_fill_template(route, value, ids) for value in template]
    if not isinstance(template, str):
        return template
    fresh_ones = {
        NEW: str(clock.new_id()),
        NEW_BYTES: b64encode(b'{"new":"%s"}' % str(clock.new_id()).encode()).decode(),
    }
    # Only a text that is nothing but a place, or has {new} in it: rules are full of braces.
    if (match := PLACE.fullmatch(template)) is not None:
        return fresh_ones.get(match[1]) or _resolve_id(route, match[1], ids)
    return template.replace("{new}", fresh_ones[NEW])


def _list_placeholders(template: Any) -> Iterator[str]:
    if isinstance(template, Mapping):
        for value in template.values():
            yield from _list_placeholders(value)
    elif isinstance(template, list):
        for value in template:
            yield from _list_placeholders(value)
    elif isinstance(template, str) and (match := PLACE.fullmatch(template)) is not None:
        yield match[1]


# An application that serves nobody, for its list of routes alone.
_PARTS: Final[dict[str, object]] = {
    "metrics": HttpMetrics(),
    "admission": SimpleNamespace(shares=None),
    "database": None,
    "settings": SimpleNamespace(env="test", public_url=None, trusted_proxies=()),
}
ROUTES: Final = list_routes(create_app(cast("Service", SimpleNamespace(**_PARTS))))
