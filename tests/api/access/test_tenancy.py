"""Between tenants nothing passes: what is another's looks like what does not exist, byte for byte, on every route.

Everything is done twice: as the product does it, and with the tenant filters taken out of the SQL in this process, so
that only row-level security is left. The product has no switch for that.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from typing import Any

import asyncpg
import httpx2
import pytest
import pytest_asyncio
from graphql import get_named_type, is_leaf_type

from bpc.api.graphql.schema import SCHEMA
from bpc.core.policies import ROLES
from bpc.runtime import clock
from bpc.storage.connection import PageQuery
from bpc.storage.evidence import document_search
from bpc.storage.evidence.document_search import DocumentFilter
from tests.api.conftest import Api
from tests.api.filled_tenants import TwoTenantApp
from tests.api.route_inventory import ROUTES, PreparedRequest, Route, prepare_request
from tests.api.tenant_data import FilledTenant
from tests.measurements import choose_effort
from tests.storage.catalogue import fetch_rows, list_tenant_tables

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.every_case]

WITH_IDS = [route for route in ROUTES if route.places and route.takes_key]
READS = [route for route in ROUTES if route.method == "GET" and route.takes_key]
WITH_ID_FILTERS = [route for route in ROUTES if route.id_filters]
assert WITH_ID_FILTERS
ROOT: Any = SCHEMA._schema.query_type

FILTER = re.compile(r"\b(?:\w+\.)?tenant_id = \$1(?!\d)")
TAUTOLOGY = "($1::uuid IS NOT NULL)"
TELLING = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{64}")
STATEMENTS_AT_LEAST = 40


class UnfilteredStatements:
    """The statements whose tenant filter was taken out."""

    def __init__(self) -> None:
        self.statements: set[str] = set()

    def __call__(self, query: str) -> str:
        without = FILTER.sub(TAUTOLOGY, query)
        if without != query:
            self.statements.add(query)
        return without


@contextmanager
def drop_tenant_filters() -> Iterator[UnfilteredStatements]:
    """While inside, no statement that this process sends says which tenant it is about."""
    statements = UnfilteredStatements()
    with pytest.MonkeyPatch.context() as patched:
        for name in ("execute", "executemany", "fetch", "fetchrow", "fetchval", "fetchmany", "cursor", "prepare"):
            if hasattr(asyncpg.Connection, name):
                patched.setattr(asyncpg.Connection, name, _wrap_sending(getattr(asyncpg.Connection, name), statements))
        yield statements


def _wrap_sending(method: Any, change: UnfilteredStatements) -> Any:
    def send(self: Any, query: str, *arguments: Any, **named: Any) -> Any:
        return method(self, change(query), *arguments, **named)

    return send


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def foreign_values(two_tenants: TwoTenantApp) -> frozenset[bytes]:
    """Ids and hashes that only the other tenant has, and its mark: none of them may ever be in an answer to us."""
    values_by_tenant = {}
    for tenant_data in (two_tenants.own, two_tenants.foreign):
        rows = [
            line
            for table in await list_tenant_tables(two_tenants.superuser)
            for line in await _read_rows(two_tenants, table, tenant_data)
        ]
        values_by_tenant[tenant_data.mark] = set(TELLING.findall("\n".join(rows).encode()))
    only_theirs = values_by_tenant[two_tenants.foreign.mark] - values_by_tenant[two_tenants.own.mark]
    assert len(only_theirs) > 100
    return frozenset(only_theirs)


@pytest.fixture(scope="module", params=["filters and row-level security", "row-level security alone"])
def filters(
    request: pytest.FixtureRequest,
    foreign_values: frozenset[bytes],
) -> Iterator[UnfilteredStatements | None]:
    if request.param == "filters and row-level security":
        yield None
        return
    with drop_tenant_filters() as statements:
        yield statements


async def _read_rows(two_tenants: TwoTenantApp, table: str, tenant_data: FilledTenant) -> list[str]:
    return [line.replace("\\\\x", " ") for line in await fetch_rows(two_tenants.superuser, table, tenant_data.tenant)]


@pytest.mark.parametrize("route", WITH_IDS, ids=lambda route: route.name)
async def test_an_id_of_another_tenant_is_answered_like_one_that_nobody_has(
    two_tenants: TwoTenantApp, foreign_values: frozenset[bytes], route: Route, filters: UnfilteredStatements | None
) -> None:
    for role, place in product(_list_roles(route, filters), dict.fromkeys(route.places)):
        caller, theirs, unknown = two_tenants.own.clients[role], two_tenants.foreign.ids[place], str(clock.new_id())

        foreign = await _send_request(caller, prepare_request(route, two_tenants.own.ids, {place: theirs}))
        nowhere = await _send_request(caller, prepare_request(route, two_tenants.own.ids, {place: unknown}))

        assert _read_answer_bytes(foreign).replace(theirs.encode(), unknown.encode()) == _read_answer_bytes(nowhere), (
            role,
            place,
        )
        assert _find_leaks(foreign, two_tenants.foreign, foreign_values) <= {theirs.encode()}
        if route.permission not in ROLES[role]:
            assert foreign.status_code == 403
        elif place in route.path_places:
            assert (foreign.status_code, foreign.json()["error"]["code"]) == (404, "NOT_FOUND"), foreign.text
        elif route.kind == "write":
            assert foreign.status_code in {404, 422}, f"{place} in the body: {foreign.text}"


@pytest.mark.parametrize(
    "route", [route for route in WITH_IDS if len(route.parameters) > 1], ids=lambda route: route.name
)
@pytest.mark.usefixtures("filters")
async def test_a_path_of_foreign_ids_only_is_answered_like_one_that_leads_nowhere(
    two_tenants: TwoTenantApp, route: Route
) -> None:
    theirs = {place: two_tenants.foreign.ids[place] for place in route.path_places}
    unknown = {place: str(clock.new_id()) for place in theirs}

    foreign = await _send_request(two_tenants.own.clients["Admin"], prepare_request(route, two_tenants.own.ids, theirs))
    nowhere = await _send_request(
        two_tenants.own.clients["Admin"], prepare_request(route, two_tenants.own.ids, unknown)
    )

    answer_bytes = _read_answer_bytes(foreign)
    for place, known in theirs.items():
        answer_bytes = answer_bytes.replace(known.encode(), unknown[place].encode())
    assert answer_bytes == _read_answer_bytes(nowhere)
    assert foreign.status_code == 404


@pytest.mark.parametrize("route", WITH_ID_FILTERS, ids=lambda route: route.name)
@pytest.mark.usefixtures("filters")
async def test_a_filter_by_a_foreign_id_finds_what_a_filter_by_an_unknown_one_finds(
    two_tenants: TwoTenantApp, foreign_values: frozenset[bytes], route: Route
) -> None:
    for name in route.id_filters:
        own = prepare_request(route, two_tenants.own.ids)
        id_names = [name] if name in two_tenants.foreign.ids else ["document_id", "actor_id", "passport_version_id"]
        for theirs in (two_tenants.foreign.ids[each] for each in id_names):
            unknown = str(clock.new_id())
            foreign = await _send_request(two_tenants.own.clients["Admin"], _add_query(own, {name: theirs}))
            nowhere = await _send_request(two_tenants.own.clients["Admin"], _add_query(own, {name: unknown}))

            assert _read_answer_bytes(foreign).replace(theirs.encode(), unknown.encode()) == _read_answer_bytes(
                nowhere
            ), name
            assert _find_leaks(foreign, two_tenants.foreign, foreign_values) <= {theirs.encode()}


@pytest.mark.parametrize("route", READS, ids=lambda route: route.name)
async def test_what_a_tenant_reads_of_its_own_holds_nothing_of_another(
    two_tenants: TwoTenantApp, foreign_values: frozenset[bytes], route: Route, filters: UnfilteredStatements | None
) -> None:
    for role in _list_roles(route, filters):
        answer = await _send_request(two_tenants.own.clients[role], prepare_request(route, two_tenants.own.ids))

        assert answer.status_code == (200 if route.permission in ROLES[role] else 403), answer.text
        assert _find_leaks(answer, two_tenants.foreign, foreign_values) == set()


@pytest.mark.usefixtures("filters")
async def test_graphql_answers_a_foreign_id_like_one_that_nobody_has(
    two_tenants: TwoTenantApp, foreign_values: frozenset[bytes]
) -> None:
    id_arguments = [(name, argument) for name, field in ROOT.fields.items() for argument in _list_id_arguments(field)]
    assert len(id_arguments) >= 9

    for name, argument in id_arguments:
        one_of_theirs = re.sub("[A-Z]", lambda capital: f"_{capital[0].lower()}", f"{name}Id")
        theirs, unknown = (
            two_tenants.foreign.ids.get(one_of_theirs, two_tenants.foreign.ids["document_id"]),
            str(clock.new_id()),
        )
        query = f'{{ {name}({argument}: "%s") {{ __typename }} }}'
        foreign = await _send_request(two_tenants.own.clients["Admin"], _prepare_graphql(query % theirs))
        nowhere = await _send_request(two_tenants.own.clients["Admin"], _prepare_graphql(query % unknown))

        assert foreign.status_code == 200
        assert _read_answer_bytes(foreign).replace(theirs.encode(), unknown.encode()) == _read_answer_bytes(nowhere), (
            name
        )
        assert _find_leaks(foreign, two_tenants.foreign, foreign_values) <= {theirs.encode()}


@pytest.mark.usefixtures("filters")
async def test_graphql_lists_hold_nothing_of_another_tenant(
    two_tenants: TwoTenantApp, foreign_values: frozenset[bytes]
) -> None:
    lists = [name for name, field in ROOT.fields.items() if "first" in field.args]
    assert len(lists) >= 7

    for name in lists:
        page: Any = get_named_type(ROOT.fields[name].type)
        item: Any = get_named_type(page.fields["items"].type)
        plain = [
            each for each, field in item.fields.items() if is_leaf_type(get_named_type(field.type)) and not field.args
        ]
        answer = await _send_request(
            two_tenants.own.clients["Admin"], _prepare_graphql(f"{{ {name} {{ items {{ {' '.join(plain)} }} }} }}")
        )

        assert answer.json().get("errors") is None, answer.text
        assert answer.json()["data"][name]["items"] != [], name
        assert _find_leaks(answer, two_tenants.foreign, foreign_values) == set()


@pytest.mark.usefixtures("filters")
async def test_what_another_tenant_has_is_no_obstacle_and_no_hint(two_tenants: TwoTenantApp) -> None:
    mine, theirs = two_tenants.own.clients["Admin"], two_tenants.foreign.clients["Admin"]
    for path in ("/v1/documents/{document_id}/versions", "/v1/rule-packages", "/v1/battery-products"):
        route = next(route for route in ROUTES if (route.method, route.path) == ("POST", path))
        body = prepare_request(route, two_tenants.foreign.ids).body

        first = await theirs.post(prepare_request(route, two_tenants.foreign.ids).path, body)
        second = await mine.post(prepare_request(route, two_tenants.own.ids).path, body)
        third = await mine.post(prepare_request(route, two_tenants.own.ids).path, body)

        again = 200 if path.endswith("/versions") else 409  # the same bytes again are the version that is there
        assert (first.status_code, second.status_code, third.status_code) == (201, 201, again), path


@pytest.mark.usefixtures("filters")
async def test_a_cursor_of_another_tenant_is_no_cursor(two_tenants: TwoTenantApp) -> None:
    for each in (two_tenants.foreign, two_tenants.own):
        for _ in range(2):
            await each.clients["Admin"].post_json("/v1/documents", {"kind": "BOM"})
    page = await two_tenants.foreign.clients["Admin"].get_json("/v1/documents", params={"limit": 1})

    answer = await two_tenants.own.clients["Admin"].get("/v1/documents", params={"cursor": page["next_cursor"]})

    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "VALIDATION_ERROR")


async def test_the_filters_are_really_in_or_out(
    two_tenants: TwoTenantApp, filters: UnfilteredStatements | None
) -> None:
    """Without them and without row-level security, the other tenant's rows do come."""
    for route in READS:  # what they ask the database, whatever ran before
        await _send_request(two_tenants.own.clients["Admin"], prepare_request(route, two_tenants.own.ids))
    seen = await document_search.list_documents(
        two_tenants.superuser, two_tenants.own.tenant, DocumentFilter(), PageQuery.after_cursor(None, 200)
    )

    assert (two_tenants.foreign.ids["document_id"] in {str(row.document_id) for row in seen}) == (filters is not None)
    assert filters is None or len(filters.statements) >= STATEMENTS_AT_LEAST, sorted(filters.statements)


def _list_roles(route: Route, filters: UnfilteredStatements | None) -> list[str]:
    """All roles; where only the filters are different, those that get as far as a filter.

    Beside other tests, one of those that may and one of those that may not: the tests of permissions go over all.
    """
    allowed = [role for role in ROLES if route.permission in ROLES[role]]
    denied = [role for role in ROLES if role not in allowed] if filters is None else []
    count = choose_effort(test=1, shown=len(ROLES), campaign=len(ROLES))
    return [*allowed[:count], *denied[:count]]


def _list_id_arguments(field: Any) -> list[str]:
    return [name for name, argument in field.args.items() if "Id" in str(argument.type)]


def _prepare_graphql(query: str) -> PreparedRequest:
    return PreparedRequest(method="POST", path="/v1/graphql", body={"query": query}, query={})


def _add_query(sent: PreparedRequest, more: Mapping[str, str]) -> PreparedRequest:
    return replace(sent, query={**sent.query, **more})


async def _send_request(caller: Api, sent: PreparedRequest) -> httpx2.Response:
    headers = {"X-Correlation-Id": "11111111-1111-4111-8111-111111111111"}
    return await caller.send(sent.method, sent.path, sent.body, headers=headers, **sent.options)


def _read_answer_bytes(answer: httpx2.Response) -> bytes:
    """Everything the other side gets."""
    lines = [b"%s: %s" % pair for pair in sorted(answer.headers.raw)]
    return b"\n".join([str(answer.status_code).encode(), *lines, b"", answer.content])


def _find_leaks(answer: httpx2.Response, theirs: FilledTenant, foreign_values: frozenset[bytes]) -> set[bytes]:
    answer_bytes = _read_answer_bytes(answer)
    return {leaked for leaked in TELLING.findall(answer_bytes) if leaked in foreign_values} | (
        {theirs.mark.encode()} if theirs.mark.encode() in answer_bytes else set()
    )
