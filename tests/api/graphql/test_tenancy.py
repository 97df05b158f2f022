"""GraphQL and tenants: every field of the schema, asked with another tenant's ids, once with the code's own tenant
filters and once with row-level security alone.

The queries are made of the schema: for every root field the whole tree of what it can show, to three levels.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from graphql import (
    GraphQLField,
    GraphQLInterfaceType,
    GraphQLList,
    GraphQLNonNull,
    GraphQLObjectType,
    is_required_argument,
)

from bpc.api.graphql.schema import SCHEMA
from bpc.core.policies import ROLES
from tests.api.access.test_tenancy import UnfilteredStatements, drop_tenant_filters, foreign_values
from tests.api.filled_tenants import TwoTenantApp

__all__ = ["foreign_values"]

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.every_case]

LEVELS = 5
UNKNOWN = "00000000-0000-4000-8000-00000000dead"
ROOT = SCHEMA._schema.query_type
assert ROOT is not None
ROOTS = dict(ROOT.fields)
ONE = [name for name, field in ROOTS.items() if "id" in field.args]
MANY = [name for name in ROOTS if name not in ONE]
IDS = {
    "passport": "passport_id",
    "passportVersion": "passport_version_id",
    "batteryProduct": "battery_product_id",
    "document": "document_id",
    "snapshot": "snapshot_id",
    "rulePackage": "rule_package_id",
    "rulePackageVersion": "rule_package_version_id",
    "compileRun": "run_id_of_compiles",
    "job": "job_id",
}


def select_fields(field: GraphQLField, levels: int) -> str:
    """The selection of everything below a field that takes no argument it must be given."""
    kind: Any = field.type
    while isinstance(kind, GraphQLNonNull | GraphQLList):
        kind = kind.of_type
    if not isinstance(kind, GraphQLObjectType | GraphQLInterfaceType):
        return ""
    parts = [
        f"{name}{'(first: 2)' if 'first' in below.args else ''} {select_fields(below, levels - 1)}"
        for name, below in kind.fields.items()
        if not any(is_required_argument(argument) for argument in below.args.values())
        and (levels > 1 or _is_leaf(below))
    ]
    return "{ " + " ".join(parts) + " }"


def _is_leaf(field: GraphQLField) -> bool:
    kind: Any = field.type
    while isinstance(kind, GraphQLNonNull | GraphQLList):
        kind = kind.of_type
    return not isinstance(kind, GraphQLObjectType | GraphQLInterfaceType)


@pytest.fixture(scope="module", params=["filters and row-level security", "row-level security alone"])
def filters(request: pytest.FixtureRequest) -> Iterator[UnfilteredStatements | None]:
    if request.param == "filters and row-level security":
        yield None
        return
    with drop_tenant_filters() as statements:
        yield statements


async def test_every_root_field_by_id_is_asked_with_an_id() -> None:
    assert sorted(ONE) == sorted(IDS)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("name", ONE)
async def test_a_foreign_id_gives_byte_for_byte_what_an_unknown_one_gives(
    two_tenants: TwoTenantApp, filters: UnfilteredStatements | None, name: str, role: str
) -> None:
    query = f"query Q($id: Id!) {{ {name}(id: $id) {select_fields(ROOTS[name], LEVELS)} }}"
    caller = two_tenants.own.clients[role]

    foreign = await caller.post(
        "/v1/graphql", {"query": query, "variables": {"id": two_tenants.foreign.ids[IDS[name]]}}
    )
    unknown = await caller.post("/v1/graphql", {"query": query, "variables": {"id": UNKNOWN}})

    assert foreign.status_code == unknown.status_code == 200
    assert foreign.content == unknown.content


@pytest.mark.parametrize("name", ROOTS)
async def test_what_is_shown_of_ones_own_holds_nothing_of_another(
    two_tenants: TwoTenantApp, filters: UnfilteredStatements | None, foreign_values: frozenset[bytes], name: str
) -> None:
    arguments = f'(id: "{two_tenants.own.ids[IDS[name]]}")' if name in ONE else "(first: 2)"
    query = f"{{ {name}{arguments} {select_fields(ROOTS[name], LEVELS)} }}"

    answer = await two_tenants.own.clients["Admin"].post("/v1/graphql", {"query": query})

    assert answer.status_code == 200, answer.text
    assert answer.json().get("errors") is None, answer.text
    body = answer.json()["data"][name]
    assert body is not None
    assert name in ONE or body["items"], "nothing was shown at all"
    assert not [mark for mark in foreign_values if mark in answer.content]
    assert two_tenants.foreign.mark.encode() not in answer.content
