"""Between tenants nothing passes: what is another's looks like what does not exist, byte for byte, on every route.

Everything is done twice: as the product does it, and with the tenant filters taken out of the SQL in this process, so
that only row-level security is left. The product has no switch for that.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from typing import Any

import asyncpg
import httpx2
import pytest
import pytest_asyncio
from graphql import get_named_type, is_leaf_type

from bpc import fresh
from bpc.api.graphql.schema import SCHEMA
from bpc.core.access import ROLES
from bpc.db import documents
from bpc.db.pages import Ask
from tests.api.conftest import Api
from tests.api.inventory import ROUTES, Route, Sent, request_for
from tests.api.stage import Stage, Theatre
from tests.db.test_tenancy import rows_of, tenant_tables

pytestmark = pytest.mark.asyncio(loop_scope="module")

WITH_IDS = [route for route in ROUTES if route.places and not route.is_public]
READS = [route for route in ROUTES if route.method == "GET" and not route.is_public]
WITH_ID_FILTERS = [route for route in ROUTES if route.id_filters]
ROOT: Any = SCHEMA._schema.query_type

FILTER = re.compile(r"\b(?:\w+\.)?tenant_id = \$1(?!\d)")
TAUTOLOGY = "($1::uuid IS NOT NULL)"
TELLING = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{64}")
STATEMENTS_AT_LEAST = 40


class Unfiltered:
    """The statements whose tenant filter was taken out."""

    def __init__(self) -> None:
        self.statements: set[str] = set()

    def __call__(self, query: str) -> str:
        without = FILTER.sub(TAUTOLOGY, query)
        if without != query:
            self.statements.add(query)
        return without


@contextmanager
def unfiltered() -> Iterator[Unfiltered]:
    """While inside, no statement that this process sends says which tenant it is about."""
    found = Unfiltered()
    with pytest.MonkeyPatch.context() as patched:
        for name in ("execute", "executemany", "fetch", "fetchrow", "fetchval", "fetchmany", "cursor", "prepare"):
            if hasattr(asyncpg.Connection, name):
                patched.setattr(asyncpg.Connection, name, _sending(getattr(asyncpg.Connection, name), found))
        yield found


def _sending(method: Any, change: Unfiltered) -> Any:
    def send(self: Any, query: str, *arguments: Any, **named: Any) -> Any:
        return method(self, change(query), *arguments, **named)

    return send


@pytest.fixture(scope="module", params=["filters and row-level security", "row-level security alone"])
def filters(request: pytest.FixtureRequest) -> Iterator[Unfiltered | None]:
    if request.param == "filters and row-level security":
        yield None
        return
    with unfiltered() as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def telling(theatre: Theatre) -> frozenset[bytes]:
    """Ids and hashes that only the other tenant has, and its mark: none of them may ever be in an answer to us."""
    found = {}
    for stage in (theatre.mine, theatre.theirs):
        rows = [line for table in await tenant_tables(theatre.superuser) for line in await _rows(theatre, table, stage)]
        found[stage.mark] = set(TELLING.findall("\n".join(rows).encode()))
    only_theirs = found[theatre.theirs.mark] - found[theatre.mine.mark]
    assert len(only_theirs) > 100
    return frozenset(only_theirs)


async def _rows(theatre: Theatre, table: str, stage: Stage) -> list[str]:
    return [line.replace("\\\\x", " ") for line in await rows_of(theatre.superuser, table, stage.tenant)]


@pytest.mark.parametrize("route", WITH_IDS, ids=lambda route: route.name)
async def test_an_id_of_another_tenant_is_answered_like_one_that_nobody_has(
    theatre: Theatre, telling: frozenset[bytes], route: Route, filters: Unfiltered | None
) -> None:
    for role, place in product(_roles(route, filters), dict.fromkeys(route.places)):
        caller, theirs, unknown = theatre.mine.calls[role], theatre.theirs.ids[place], str(fresh.new_id())

        foreign = await _asked(caller, request_for(route, theatre.mine.ids, {place: theirs}))
        nowhere = await _asked(caller, request_for(route, theatre.mine.ids, {place: unknown}))

        assert _bytes_of(foreign).replace(theirs.encode(), unknown.encode()) == _bytes_of(nowhere), (role, place)
        assert _leaks(foreign, theatre.theirs, telling) <= {theirs.encode()}
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
    theatre: Theatre, route: Route
) -> None:
    theirs = {place: theatre.theirs.ids[place] for place in route.path_places}
    unknown = {place: str(fresh.new_id()) for place in theirs}

    foreign = await _asked(theatre.mine.calls["Admin"], request_for(route, theatre.mine.ids, theirs))
    nowhere = await _asked(theatre.mine.calls["Admin"], request_for(route, theatre.mine.ids, unknown))

    told = _bytes_of(foreign)
    for place, known in theirs.items():
        told = told.replace(known.encode(), unknown[place].encode())
    assert told == _bytes_of(nowhere)
    assert foreign.status_code == 404


@pytest.mark.parametrize("route", WITH_ID_FILTERS, ids=lambda route: route.name)
@pytest.mark.usefixtures("filters")
async def test_a_filter_by_a_foreign_id_finds_what_a_filter_by_an_unknown_one_finds(
    theatre: Theatre, telling: frozenset[bytes], route: Route
) -> None:
    for name in route.id_filters:
        own = request_for(route, theatre.mine.ids)
        wanted = [name] if name in theatre.theirs.ids else ["document_id", "actor_id", "passport_version_id"]
        for theirs in (theatre.theirs.ids[each] for each in wanted):
            unknown = str(fresh.new_id())
            foreign = await _asked(theatre.mine.calls["Admin"], _filtered(own, {name: theirs}))
            nowhere = await _asked(theatre.mine.calls["Admin"], _filtered(own, {name: unknown}))

            assert _bytes_of(foreign).replace(theirs.encode(), unknown.encode()) == _bytes_of(nowhere), name
            assert _leaks(foreign, theatre.theirs, telling) <= {theirs.encode()}


@pytest.mark.parametrize("route", READS, ids=lambda route: route.name)
async def test_what_a_tenant_reads_of_its_own_holds_nothing_of_another(
    theatre: Theatre, telling: frozenset[bytes], route: Route, filters: Unfiltered | None
) -> None:
    for role in _roles(route, filters):
        answer = await _asked(theatre.mine.calls[role], request_for(route, theatre.mine.ids))

        assert answer.status_code == (200 if route.permission in ROLES[role] else 403), answer.text
        assert _leaks(answer, theatre.theirs, telling) == set()


@pytest.mark.usefixtures("filters")
async def test_graphql_answers_a_foreign_id_like_one_that_nobody_has(
    theatre: Theatre, telling: frozenset[bytes]
) -> None:
    asked = [(name, argument) for name, field in ROOT.fields.items() for argument in _id_arguments(field)]
    assert len(asked) >= 9

    for name, argument in asked:
        one_of_theirs = re.sub("[A-Z]", lambda capital: f"_{capital[0].lower()}", f"{name}Id")
        theirs, unknown = theatre.theirs.ids.get(one_of_theirs, theatre.theirs.ids["document_id"]), str(fresh.new_id())
        query = f'{{ {name}({argument}: "%s") {{ __typename }} }}'
        foreign = await _asked(theatre.mine.calls["Admin"], _graphql(query % theirs))
        nowhere = await _asked(theatre.mine.calls["Admin"], _graphql(query % unknown))

        assert foreign.status_code == 200
        assert _bytes_of(foreign).replace(theirs.encode(), unknown.encode()) == _bytes_of(nowhere), name
        assert _leaks(foreign, theatre.theirs, telling) <= {theirs.encode()}


@pytest.mark.usefixtures("filters")
async def test_graphql_lists_hold_nothing_of_another_tenant(theatre: Theatre, telling: frozenset[bytes]) -> None:
    lists = [name for name, field in ROOT.fields.items() if "first" in field.args]
    assert len(lists) >= 7

    for name in lists:
        page: Any = get_named_type(ROOT.fields[name].type)
        item: Any = get_named_type(page.fields["items"].type)
        plain = [
            each for each, field in item.fields.items() if is_leaf_type(get_named_type(field.type)) and not field.args
        ]
        answer = await _asked(
            theatre.mine.calls["Admin"], _graphql(f"{{ {name} {{ items {{ {' '.join(plain)} }} }} }}")
        )

        assert answer.json().get("errors") is None, answer.text
        assert answer.json()["data"][name]["items"] != [], name
        assert _leaks(answer, theatre.theirs, telling) == set()


@pytest.mark.usefixtures("filters")
async def test_what_another_tenant_has_is_no_obstacle_and_no_hint(theatre: Theatre) -> None:
    mine, theirs = theatre.mine.calls["Admin"], theatre.theirs.calls["Admin"]
    for path in ("/v1/documents/{document_id}/versions", "/v1/rule-packages", "/v1/battery-products"):
        route = next(route for route in ROUTES if (route.method, route.path) == ("POST", path))
        body = request_for(route, theatre.theirs.ids).body

        first = await theirs.post(request_for(route, theatre.theirs.ids).path, body)
        second = await mine.post(request_for(route, theatre.mine.ids).path, body)
        third = await mine.post(request_for(route, theatre.mine.ids).path, body)

        assert (first.status_code, second.status_code, third.status_code) == (201, 201, 409), path


@pytest.mark.usefixtures("filters")
async def test_a_cursor_of_another_tenant_is_no_cursor(theatre: Theatre) -> None:
    for each in (theatre.theirs, theatre.mine):
        for _ in range(2):
            await each.calls["Admin"].made("/v1/documents", {"kind": "BOM"})
    page = await theatre.theirs.calls["Admin"].got("/v1/documents", params={"limit": 1})

    answer = await theatre.mine.calls["Admin"].get("/v1/documents", params={"cursor": page["next_cursor"]})

    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "VALIDATION_ERROR")


async def test_the_filters_are_really_in_or_out(theatre: Theatre, filters: Unfiltered | None) -> None:
    """Without them and without row-level security, the other tenant's rows do come."""
    seen = await documents.page(theatre.superuser, theatre.mine.tenant, Ask.of(None, 200))

    assert (theatre.theirs.ids["document_id"] in {str(row.document_id) for row in seen}) == (filters is not None)
    assert filters is None or len(filters.statements) >= STATEMENTS_AT_LEAST, sorted(filters.statements)


def _roles(route: Route, filters: Unfiltered | None) -> list[str]:
    """All roles; where only the filters are different, those that get as far as a filter."""
    return [role for role in ROLES if filters is None or route.permission in ROLES[role]]


def _id_arguments(field: Any) -> list[str]:
    return [name for name, argument in field.args.items() if "Id" in str(argument.type)]


def _graphql(query: str) -> Sent:
    return Sent(method="POST", path="/v1/graphql", body={"query": query}, query={})


def _filtered(sent: Sent, more: Mapping[str, str]) -> Sent:
    return Sent(method=sent.method, path=sent.path, body=sent.body, query={**sent.query, **more})


async def _asked(caller: Api, sent: Sent) -> httpx2.Response:
    headers = {"X-Correlation-Id": "11111111-1111-4111-8111-111111111111"}
    return await caller.send(sent.method, sent.path, sent.body, params=sent.query, headers=headers)


def _bytes_of(answer: httpx2.Response) -> bytes:
    """Everything the other side gets."""
    lines = [b"%s: %s" % pair for pair in sorted(answer.headers.raw)]
    return b"\n".join([str(answer.status_code).encode(), *lines, b"", answer.content])


def _leaks(answer: httpx2.Response, theirs: Stage, telling: frozenset[bytes]) -> set[bytes]:
    told = _bytes_of(answer)
    return {found for found in TELLING.findall(told) if found in telling} | (
        {theirs.mark.encode()} if theirs.mark.encode() in told else set()
    )
