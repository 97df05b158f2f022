"""Times that are sent to us: every route that takes one takes every form of RFC 3339.

Which routes those are is read from the OpenAPI document, so that a route that is added later is held to the same.
"""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

import httpx2
import pytest

from bpc.api.http.models import DAY_FORMS, FILTER_FORMS, TIME_FORMS
from tests.api.filled_tenants import TwoTenantApp
from tests.api.route_inventory import ROUTES, PreparedRequest, prepare_request

pytestmark = pytest.mark.asyncio(loop_scope="module")

GOOD: Final = (
    "2999-02-18T12:00:00.000000Z",
    "2999-02-18T12:00:00Z",
    "2999-02-18T12:00:00.000Z",  # JavaScript: toISOString()
    "2999-02-18T12:00:00+00:00",  # Python: isoformat()
    "2999-02-18T17:30:00.000000+05:30",
    "2999-02-18T12:00:00.0000000Z",  # .NET: "o"
    "2999-02-18T11:00:00.0000000-01:00",
    "2999-02-18t12:00:00z",
)
BAD: Final = {
    "2999-02-18T12:00:00": "has no time zone; add Z if it is UTC, or an offset like +01:00",  # a naive isoformat()
    "2999-02-18T12:00:00.0000001Z": "is more precise than a microsecond",
    "2999-02-30T12:00:00Z": "is not in the calendar",
    "noon": "is not a ",
}
NOT_A_DAY: Final = "is not a day of the calendar"
NOT_A_TIME: Final = "is a day, and a time is needed"
# Some things happen once, or not in the future: such a time is read, and then refused for what it says.
ONCE: Final = (
    "/v1/batches",
    "/v1/batteries",
    "/v1/signing-keys/{key_id}:report-compromise",
    "/v1/transfers",
    "/v1/view-grants",
    "/v1/view-requests",
)


@dataclass(frozen=True, slots=True)
class TimeInput:
    """A place of a request that takes a time: a parameter of the query, or a member of the body by its path."""

    method: str
    path: str
    where: str
    members: tuple[str, ...]
    schema: dict[str, Any]

    @property
    def takes_days(self) -> bool:
        return self.where == "query" or "format" not in self.schema


def iterate_time_schemas(
    document: dict[str, Any], schema: dict[str, Any], members: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if schema.get("format") in {"date-time", "date"} or schema.get("examples") == ["2027-02-18"]:
        yield members, schema
    for choice in (*schema.get("anyOf", ()), *schema.get("allOf", ())):
        yield from iterate_time_schemas(document, choice, members)
    for name, member in schema.get("properties", {}).items():
        yield from iterate_time_schemas(document, member, (*members, name))
    if "items" in schema:
        yield from iterate_time_schemas(document, schema["items"], (*members, "[]"))


def list_time_inputs(document: dict[str, Any]) -> list[TimeInput]:
    inputs = []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            parameters = [each for each in operation.get("parameters", ()) if "$ref" not in each]  # shared: no times
            places = [("query", (each["name"],), each["schema"]) for each in parameters]
            body = operation.get("requestBody", {}).get("content", {}).get("application/json")
            for where, members, schema in (*places, *([] if body is None else [("body", (), body["schema"])])):
                inputs += [
                    TimeInput(method.upper(), path, where, found_members, found_schema)
                    for found_members, found_schema in iterate_time_schemas(document, schema, members)
                ]
    return inputs


def place_time(request: PreparedRequest, sent: TimeInput, text: str) -> tuple[Any, dict[str, str]]:
    """The body and the query of a request that sends this time."""
    if sent.where == "query":
        return request.body, {**request.query, sent.members[0]: text}
    body = deepcopy(request.body) or {}
    member = body
    for name in sent.members[:-1]:
        if name == "[]":
            member = member[0]
        elif isinstance(member.get(name), list):
            member = member[name]
        else:
            member[name] = member = {}  # a time that stands beside it might contradict it
    member[sent.members[-1]] = text
    return body, dict(request.query)


def is_taken(sent: TimeInput, answer: httpx2.Response) -> bool:
    """Whether the form of the time was understood."""
    if not sent.path.startswith(ONCE) or answer.status_code not in {409, 422}:
        return answer.status_code < 300
    return not any(problem in answer.text for problem in (*BAD.values(), NOT_A_DAY, NOT_A_TIME))


async def test_every_time_that_a_route_takes_is_taken_in_every_form(two_tenants: TwoTenantApp) -> None:
    admin = two_tenants.own.clients["Admin"]
    inputs = list_time_inputs(await admin.get_json("/v1/openapi.json"))
    routes = {(route.method, route.path): route for route in ROUTES}
    problems = []
    for sent in inputs:
        if sent.path.startswith("/v1/granted"):
            continue  # no key opens these routes, only the code of a grant; their time has the type of all others
        expected = dict.fromkeys(GOOD) | BAD
        if sent.takes_days:
            expected |= {"2999-02-18": None, "2999-02-30": NOT_A_DAY}
        else:
            expected["2999-02-18"] = NOT_A_TIME
        if sent.where == "query":
            expected["2999-02-18T13:00:00 01:00"] = None  # what a server sees of a `+` that was not escaped
        for text, problem in expected.items():
            request = prepare_request(routes[sent.method, sent.path], two_tenants.own.ids)
            body, query = place_time(request, sent, text)
            answer = await admin.send(sent.method, request.path, body, params=query)
            if not (is_taken(sent, answer) if problem is None else problem in answer.text):
                problems.append((sent.method, sent.path, sent.members, text, answer.status_code, answer.text[:200]))

    assert problems == [], problems
    # The list is not empty by accident, and a filter, a body and a day are in it.
    assert {(sent.path, sent.members[-1]) for sent in inputs} >= {
        ("/v1/jobs", "created_after"),
        ("/v1/audit/events", "occurred_before"),
        ("/v1/api-keys", "expires_at"),
        ("/v1/policies", "not_after"),
        ("/v1/policies:dry-run", "at"),
        ("/v1/passports:check", "issued_on"),
    }


async def test_the_openapi_document_says_which_forms_are_taken(two_tenants: TwoTenantApp) -> None:
    inputs = list_time_inputs(await two_tenants.own.clients["Admin"].get_json("/v1/openapi.json"))

    for sent in inputs:
        forms = (FILTER_FORMS if sent.where == "query" else TIME_FORMS) if "format" in sent.schema else DAY_FORMS
        assert str(sent.schema.get("description")).endswith(forms), (sent.method, sent.path, sent.members)


async def test_times_are_answered_and_stored_in_one_form(two_tenants: TwoTenantApp) -> None:
    own = two_tenants.own
    admin, actor = own.clients["Admin"], own.ids["actor_id"]
    policy = {"effect": "DENY", "target": "docs:read", "priority": 100, "name": "times"}

    key = await admin.post_json("/v1/api-keys", {"actor_id": actor, "expires_at": "2999-02-18T17:30:00+05:30"})
    stored = await admin.post_json(
        "/v1/policies", {**policy, "policy_json": {"not_before": "2999-02-18t11:00:00.0000000-01:00"}}
    )

    assert key["expires_at"] == "2999-02-18T12:00:00.000000Z"
    shown = await admin.get_json(f"/v1/policies/{stored['policy_id']}/versions")
    assert shown["items"][0]["policy_json"] == {"not_before": "2999-02-18T12:00:00.000000Z"}


async def test_a_filter_means_the_same_moment_in_every_form(two_tenants: TwoTenantApp) -> None:
    admin = two_tenants.own.clients["Admin"]
    newest = (await admin.get_json("/v1/audit/events", params={"limit": "1"}))["items"][0]["occurred_at"]
    as_python, as_dotnet = newest.replace("Z", "+00:00"), newest.replace("Z", "0Z")

    for text in (newest, as_python, as_dotnet):
        listed = await admin.get_json("/v1/audit/events", params={"occurred_after": text})
        assert listed["items"]
        assert all(item["occurred_at"] >= newest for item in listed["items"])


async def test_graphql_takes_the_same_forms(two_tenants: TwoTenantApp) -> None:
    admin = two_tenants.own.clients["Admin"]
    query = "query($from: Moment) { jobs(createdAfter: $from) { items { jobId } } }"

    for text in (*GOOD, "2999-02-18"):
        answer = (await admin.post("/v1/graphql", {"query": query, "variables": {"from": text}})).json()
        assert answer == {"data": {"jobs": {"items": []}}}, text
    refused = await admin.post("/v1/graphql", {"query": query, "variables": {"from": "2999-02-18T12:00:00"}})
    assert "has no time zone" in refused.text
