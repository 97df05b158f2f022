"""The inventory: every route of the application, taken from the application, and a request for each that must succeed.

    for route in ROUTES:
        sent = request_for(route, stage.ids)
        answer = await stage.calls["Admin"].send(sent.method, sent.path, sent.body, **sent.options)

A route that takes a body needs a line in CALLS; without one the suite fails and says so. In a line, a text `{name}` is
the id that the stage knows by that name, and `{new}` something that was not there before.
"""

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final, cast

from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from starlette.routing import BaseRoute

from bpc.api.http.app import create_app
from bpc.api.http.request_context import Service
from bpc.api.http.routing import PermissionedRoute
from bpc.api.http.telemetry import HttpMetrics
from bpc.core.formats.hashes import sha256, to_hex
from bpc.runtime import clock
from tests.api.evidence_rows import ATTACHED_FILE, DISPUTED_SKU

# What may be asked without a key, and why.
PUBLIC: Final[Mapping[tuple[str, str], str]] = {
    ("GET", "/v1/health/live"): "whoever watches the process has no key",
    ("GET", "/v1/health/ready"): "whoever watches the process has no key",
    ("GET", "/v1/metrics"): "whoever watches the process has no key",
    ("GET", "/.well-known/bpc-keys.json"): "whoever checks a passport has no key",
    ("GET", "/v1/openapi.json"): "one reads it to learn how to get a key",
    ("GET", "/v1/docs"): "the same, for people",
    ("GET", "/v1/docs/{asset}"): "what that page is made of",
    ("GET", "/v1/schemas/{kind}"): "suppliers write documents by it, and have no key",
    ("GET", "/v1/templates/{category}"): "suppliers fill it in, and have no key",
    ("GET", "/v1/contexts/passport.jsonld"): "whoever is handed an export reads it, and has no key",
    ("GET", "/v1/schemas/passport.xsd"): "whoever is handed an export reads it, and has no key",
}
# What is no route of ours although it answers, and why.
OTHERS: Final[Mapping[str, str]] = {}

PLACE: Final = re.compile(r"\{([a-z0-9_]+)(?::path)?\}")
NEW: Final = "new"
NEW_BYTES: Final = "new_bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """How to call a route so that it succeeds: its body, and which of the stage's ids stand in its path.

    In `path`, what begins with `=` is no id's name and stands there as it is. A `file` is sent instead of a body.
    """

    body: Any = None
    file: str | None = None
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)


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
    id_filters: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def is_public(self) -> bool:
        return (self.method, self.path) in PUBLIC

    @property
    def parameters(self) -> list[str]:
        return PLACE.findall(self.path)

    @property
    def call(self) -> Call:
        call = CALLS.get((self.method, self.path))
        if call is None and self.kind in {"write", "ask"}:
            raise LookupError(
                f"nobody has said how to call {self.name}: add a line `({self.method!r}, {self.path!r}): Call(body=…)`"
                " to CALLS in tests/api/route_inventory.py, with ids from tests/api/tenant_rows.py"
            )
        return call or Call()

    @property
    def places(self) -> list[str]:
        """The names of the stage's ids that a call of it holds, in its path and in its body."""
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


RULES: Final = 'field battery.chemistry @public: Text = "{new}";\n'
LONG_AGO: Final = "2020-01-01T00:00:00.000000Z"
POLICY: Final = {"effect": "DENY", "target": "docs:read", "priority": 100, "policy_json": {"not_after": LONG_AGO}}

CALLS: Final[Mapping[tuple[str, str], Call]] = {
    # Documents, snapshots
    ("POST", "/v1/documents"): Call(body={"kind": "BOM", "external_ref": "{new}"}),
    ("POST", "/v1/documents/{document_id}/versions"): Call(
        body={"mime_type": "application/json", "content_base64": "{new_bytes}"}
    ),
    ("PATCH", "/v1/documents/{document_id}"): Call(body={"supplier": "{new}"}),
    ("PUT", "/v1/documents/by-ref/{external_ref:path}"): Call(
        path={"external_ref": "=ERP/4711"}, query={"kind": "BOM"}, file='{"battery":{"sku":"{new}"}}'
    ),
    ("POST", "/v1/suppliers"): Call(body={"name": "{new}"}),
    ("PATCH", "/v1/suppliers/{supplier_id}"): Call(body={"locale": "comma"}),
    ("POST", "/v1/suppliers/{supplier_id}:rank"): Call(body={"rank": 1}),
    ("POST", "/v1/suppliers/{supplier_id}/column-mappings"): Call(
        body={
            "kind": "BOM",
            "mapping": {
                "sheets": [
                    {
                        "name": "",
                        "fact_types": ["Battery"],
                        "header_row": 1,
                        "columns": [{"header": "{new}", "member": "sku"}],
                    }
                ]
            },
        }
    ),
    ("POST", "/v1/documents:propose-mapping"): Call(query={"kind": "BOM"}, file="sku,Gewicht\nA-1,1\n"),
    ("POST", "/v1/documents/{document_id}/ingest"): Call(body={"file_url": "https://supplier.example/{new}"}),
    ("POST", "/v1/documents/{document_id}:withdraw"): Call(
        path={"document_id": "withdrawn_document_id"}, body={"reason": "it was withdrawn"}
    ),
    ("POST", "/v1/attachments"): Call(
        body={"sku": "{new}", "data_point": 42, "document_version_id": "{attached_version_id}"}
    ),
    ("POST", "/v1/attachments/{attachment_id}:withdraw"): Call(
        path={"attachment_id": "withdrawn_attachment_id"}, body={"reason": "it was withdrawn"}
    ),
    ("GET", "/v1/passport-versions/{passport_version_id}/attachments/{sha256}"): Call(
        path={"sha256": f"={to_hex(sha256(ATTACHED_FILE))}"}
    ),
    ("GET", "/v1/conflicts"): Call(query={"sku": DISPUTED_SKU}),
    ("POST", "/v1/conflicts:resolve"): Call(
        body={
            "sku": DISPUTED_SKU,
            "fact_type": "Battery",
            "fact_key": f"battery:{DISPUTED_SKU}",
            "member": "mass_kg",
            "document_id": "{believed_document_id}",
            "reason": "it was weighed",
        }
    ),
    ("POST", "/v1/snapshots"): Call(body={"label": "{new}"}),
    ("POST", "/v1/snapshots/{snapshot_id}/items"): Call(body={"fact_id": "{added_fact_id}"}),
    ("DELETE", "/v1/snapshots/{snapshot_id}/items/{fact_id}"): Call(path={"fact_id": "removed_fact_id"}),
    ("POST", "/v1/snapshots/{snapshot_id}/build"): Call(path={"snapshot_id": "built_snapshot_id"}),
    ("POST", "/v1/snapshots/{snapshot_id}/seal"): Call(path={"snapshot_id": "ready_snapshot_id"}),
    # Rules
    ("POST", "/v1/rule-packages"): Call(body={"name": "{new}"}),
    ("POST", "/v1/rule-packages/{rule_package_id}/versions"): Call(body={"dsl_source": RULES, "tests_source": ""}),
    ("POST", "/v1/rules:check"): Call(body={"dsl_source": RULES}),
    ("POST", "/v1/rule-package-versions/{rule_package_version_id}/tests:run"): Call(body={"seed": 7}),
    ("POST", "/v1/rule-package-versions/{rule_package_version_id}:publish"): Call(
        path={"rule_package_version_id": "validated_version_id"}
    ),
    ("POST", "/v1/rule-package-versions/{rule_package_version_id}:deprecate"): Call(
        path={"rule_package_version_id": "deprecated_version_id"}
    ),
    ("DELETE", "/v1/rule-package-versions/{rule_package_version_id}"): Call(
        path={"rule_package_version_id": "retired_version_id"}
    ),
    # Passports
    ("POST", "/v1/battery-products"): Call(body={"sku": "{new}", "name": "{new}"}),
    ("POST", "/v1/passports"): Call(body={"battery_product_id": "{bare_product_id}"}),
    ("POST", "/v1/passports/{passport_id}/compile"): Call(
        body={"snapshot_id": "{compiled_snapshot_id}", "rule_package_version_id": "{published_version_id}"}
    ),
    ("POST", "/v1/passport-versions/{passport_version_id}/activate"): Call(
        path={"passport_version_id": "activated_version_id"}
    ),
    ("POST", "/v1/passport-versions/{passport_version_id}/revoke"): Call(
        path={"passport_version_id": "revoked_version_id"}, body={"reason": "it was withdrawn"}
    ),
    ("POST", "/v1/passport-versions/{passport_version_id}:waive"): Call(
        body={"entries": [{"code": "D1", "field": "duty.parts_listed"}], "reason": "they are listed elsewhere"}
    ),
    ("POST", "/v1/passport-versions/{passport_version_id}/replay"): Call(),
    ("GET", "/v1/passport-versions/{passport_version_id}/view"): Call(query={"audience": "public"}),
    ("POST", "/v1/passport-versions/{passport_version_id}/exports"): Call(body={"format": "PDF"}),
    ("POST", "/v1/passports:bulk-compile"): Call(
        body={"rule_package_version_id": "{published_version_id}", "items": [{"sku": "{new}"}]}
    ),
    ("POST", "/v1/passports:check"): Call(
        body={"skus": [DISPUTED_SKU], "rule_package_version_id": "{published_version_id}"}
    ),
    ("POST", "/v1/passports:what-if"): Call(body={"all": True, "rule_package_version_id": "{published_version_id}"}),
    ("GET", "/v1/passport-versions/{passport_version_id}/diff/{other_version_id}"): Call(
        path={"other_version_id": "passport_version_id"}
    ),
    ("GET", "/v1/compile-runs/{run_id}"): Call(path={"run_id": "run_id_of_compiles"}),
    ("GET", "/v1/compile-runs/{run_id}/rows"): Call(path={"run_id": "run_id_of_compiles"}),
    ("POST", "/v1/compile-runs/{run_id}:cancel"): Call(path={"run_id": "run_id_of_compiles"}),
    # Jobs
    ("GET", "/v1/jobs/{job_id}/result"): Call(path={"job_id": "done_job_id"}),
    ("POST", "/v1/jobs/{job_id}:cancel"): Call(body={"reason": "no longer wanted"}),
    ("POST", "/v1/jobs/{job_id}:retry"): Call(path={"job_id": "failed_job_id"}),
    # Who may do what
    ("PUT", "/v1/tenant/settings"): Call(body={"activation_blocked_by": "FAIL_AND_WARN"}),
    ("POST", "/v1/actors"): Call(body={"type": "USER", "display_name": "{new}", "roles": ["Auditor"]}),
    ("POST", "/v1/roles"): Call(body={"name": "{new}", "permissions": ["docs:read"]}),
    ("POST", "/v1/api-keys"): Call(body={"actor_id": "{actor_id}", "label": "{new}"}),
    ("POST", "/v1/api-keys/{api_key_id}:revoke"): Call(path={"api_key_id": "idle_api_key_id"}),
    ("POST", "/v1/api-keys/{api_key_id}:rotate"): Call(body={}),
    ("POST", "/v1/policies"): Call(body={"name": "{new}", **POLICY}),
    ("POST", "/v1/policies/{policy_id}/versions"): Call(body=POLICY),
    ("PATCH", "/v1/actors/{actor_id}"): Call(path={"actor_id": "idle_actor_id"}, body={"display_name": "{new}"}),
    ("PUT", "/v1/actors/{actor_id}/roles"): Call(path={"actor_id": "idle_actor_id"}, body={"roles": ["Auditor"]}),
    ("PUT", "/v1/roles/{role_id}/permissions"): Call(body={"permissions": ["docs:read"]}),
    ("POST", "/v1/policies/{policy_id}:deactivate"): Call(path={"policy_id": "idle_policy_id"}),
    ("POST", "/v1/policies:dry-run"): Call(
        body={
            "actor_id": "{actor_id}",
            "permission": "passport:read",
            "resource": {"type": "Passport", "id": "{passport_id}"},
        }
    ),
    # Asking and reading
    ("POST", "/v1/graphql"): Call(body={"query": "{ passports(first: 10) { items { passportId } nextCursor } }"}),
    ("GET", "/v1/docs/{asset}"): Call(path={"asset": "=docs.js"}),
    ("GET", "/v1/schemas/{kind}"): Call(path={"kind": "=BOM"}),
    ("GET", "/v1/templates/{category}"): Call(path={"category": "=ev"}),
    # Webhooks
    ("POST", "/v1/webhook-endpoints"): Call(body={"url": "https://example.com/{new}"}),
    ("DELETE", "/v1/webhook-endpoints/{webhook_endpoint_id}"): Call(
        path={"webhook_endpoint_id": "idle_webhook_endpoint_id"}
    ),
    ("POST", "/v1/webhook-endpoints/{webhook_endpoint_id}:rotate"): Call(),
    ("POST", "/v1/webhook-endpoints/{webhook_endpoint_id}:test"): Call(),
    ("POST", "/v1/webhook-deliveries/{webhook_delivery_id}:redeliver"): Call(),
    ("POST", "/v1/webhook-subscriptions"): Call(
        body={"webhook_endpoint_id": "{webhook_endpoint_id}", "event_type": "passport.version.revoked"}
    ),
    ("DELETE", "/v1/webhook-subscriptions/{webhook_subscription_id}"): Call(
        path={"webhook_subscription_id": "idle_webhook_subscription_id"}
    ),
}

# An application that serves nobody, for its list of routes alone.
ROUTES: Final = list_routes(create_app(cast("Service", SimpleNamespace(metrics=HttpMetrics()))))
