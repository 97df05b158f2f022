"""Sealing: whatever order facts are added in and however they are grouped, the seal is that of the facts alone."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bpc import fresh
from bpc.core import blinding, canon
from bpc.core.digest import sha256
from bpc.core.documents import ReadFact
from bpc.core.events import Act
from bpc.core.ids import DocumentVersionId, FactId, SnapshotId, TenantId
from bpc.core.snapshot import FactRef, snapshot_bytes
from bpc.db import facts, snapshots, tenants
from bpc.db.address import Address
from bpc.db.connection import Connection
from bpc.db.database import Database, open_database
from bpc.pipeline.snapshot import add_items, build_snapshot, seal
from tests.db.rows import a_document_version
from tests.measuring import effort

EXAMPLES = effort(test=15, shown=300, campaign=3_000)

# Anything that a database keeps and canonical JSON writes.
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
payloads = st.dictionaries(texts, texts | st.integers(-(10**30), 10**30) | st.booleans() | st.none(), max_size=4)
keyed = st.tuples(st.sampled_from(["Battery", "Component", "PCF", "DueDiligence"]), texts.filter(bool))


@dataclass(frozen=True, slots=True)
class Adding:
    """Facts, each type and key once, and the groups they are added in: any order, some of them more than once."""

    facts: tuple[ReadFact, ...]
    groups: tuple[tuple[int, ...], ...]


@st.composite
def additions(draw: st.DrawFn) -> Adding:
    names = draw(st.lists(keyed, min_size=1, max_size=8, unique=True))
    said = tuple(_fact(kind, key, draw(payloads)) for kind, key in names)
    again = draw(st.lists(st.integers(0, len(said) - 1), max_size=3))
    order = draw(st.permutations([*range(len(said)), *again]))
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(order) - 1)), max_size=4)))
    bounds = [0, *cuts, len(order)]
    groups = (tuple(order[start:end]) for start, end in pairwise(bounds))
    return Adding(said, tuple(group for group in groups if group))


def _fact(kind: str, key: str, payload: dict[str, Any]) -> ReadFact:
    canonical = canon.encode(payload)
    return ReadFact(
        fact_type=kind,
        fact_key=key,
        schema_version=1,
        payload_canonical=canonical,
        payload_hash=sha256(canonical),
        source_path="/",
    )


async def test_a_seal_depends_on_the_facts_alone_and_is_the_one_that_anybody_computes(address: Address) -> None:
    loop = asyncio.get_running_loop()
    database = await open_database(address, pool_size=1)
    tenant = await tenants.create(database, slug="acme", name="Acme", act=Act(None, fresh.now()))

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), database=None)
    @given(additions())
    def holds(adding: Adding) -> None:
        asyncio.run_coroutine_threadsafe(_check(database, tenant, adding), loop).result(60)

    await asyncio.to_thread(holds)
    await database.close()


async def _check(database: Database, tenant: TenantId, adding: Adding) -> None:
    async with database.tenant(tenant) as conn:
        act = Act(None, fresh.now())
        ids = await _stored(conn, tenant, adding.facts)
        snapshot = (await snapshots.create(conn, tenant, label=None, act=act)).snapshot_id
        for group in adding.groups:
            await add_items(conn, tenant, snapshot, [ids[number] for number in group], act=act)
        await build_snapshot(conn, tenant, snapshot, act=act)
        sealed = await seal(conn, tenant, snapshot, act=act)
        kept = await snapshots.get(conn, tenant, snapshot)

        expected = snapshot_bytes(snapshot, [*map(_ref, adding.facts), await _secret(conn, tenant, snapshot)])

    assert kept.snapshot_canonical == expected
    assert sealed.snapshot_hash == kept.snapshot_hash == sha256(expected)
    assert kept.count == len(adding.facts)


async def _stored(conn: Connection, tenant: TenantId, said: Sequence[ReadFact]) -> list[FactId]:
    version = DocumentVersionId(await a_document_version(conn, tenant, status="VALIDATED"))
    await facts.add(conn, tenant, version, said, at=fresh.now())
    return [
        FactId(
            await conn.fetchval(
                "SELECT fact_id FROM facts WHERE fact_type = $1 AND fact_key = $2 AND payload_hash = $3",
                fact.fact_type,
                fact.fact_key,
                fact.payload_hash,
            )
        )
        for fact in said
    ]


async def _secret(conn: Connection, tenant: TenantId, snapshot: SnapshotId) -> FactRef:
    """The one fact that the build has added."""
    refs = [item.ref for item in await snapshots.items_of(conn, tenant, snapshot)]
    [secret] = [ref for ref in refs if ref.fact_type == blinding.FACT_TYPE]
    return secret


def _ref(fact: ReadFact) -> FactRef:
    return FactRef(fact.fact_type, fact.fact_key, fact.payload_hash)
