"""Property of sealing: the hash depends on the facts alone, not on their order or grouping."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bpc.core.audit.events import Act
from bpc.core.documents.reader import ExtractedFact
from bpc.core.facts.snapshot import FactRef, encode_snapshot
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import DocumentVersionId, FactId, SnapshotId, TenantId
from bpc.core.passport import payload as blinding
from bpc.pipeline.snapshot import add_items, build_snapshot, seal
from bpc.runtime import clock
from bpc.runtime.postgres.address import Address
from bpc.storage.access import tenants_and_actors
from bpc.storage.connection import Connection
from bpc.storage.database import Database, open_database
from bpc.storage.evidence import facts, snapshots
from tests.measurements import choose_effort
from tests.storage.evidence_rows import insert_document_version

EXAMPLES = choose_effort(test=15, shown=300, campaign=3_000)

# Anything that a database keeps and canonical JSON writes.
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
payloads = st.dictionaries(texts, texts | st.integers(-(10**30), 10**30) | st.booleans() | st.none(), max_size=4)
keyed = st.tuples(st.sampled_from(["Battery", "Component", "PCF", "DueDiligence"]), texts.filter(bool))


@dataclass(frozen=True, slots=True)
class FactAdditions:
    """Facts, each type and key once, and the groups they are added in: any order, some of them more than once."""

    facts: tuple[ExtractedFact, ...]
    groups: tuple[tuple[int, ...], ...]


@st.composite
def draw_additions(draw: st.DrawFn) -> FactAdditions:
    names = draw(st.lists(keyed, min_size=1, max_size=8, unique=True))
    new_facts = tuple(_make_fact(kind, key, draw(payloads)) for kind, key in names)
    again = draw(st.lists(st.integers(0, len(new_facts) - 1), max_size=3))
    order = draw(st.permutations([*range(len(new_facts)), *again]))
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(order) - 1)), max_size=4)))
    bounds = [0, *cuts, len(order)]
    groups = (tuple(order[start:end]) for start, end in pairwise(bounds))
    return FactAdditions(new_facts, tuple(group for group in groups if group))


def _make_fact(kind: str, key: str, payload: dict[str, Any]) -> ExtractedFact:
    canonical = canonical_json.encode(payload)
    return ExtractedFact(
        fact_type=kind,
        fact_key=key,
        schema_version=1,
        payload_canonical=canonical,
        payload_hash=sha256(canonical),
        source_path="/",
    )


async def test_the_snapshot_hash_depends_only_on_the_facts_and_can_be_recomputed(address: Address) -> None:
    loop = asyncio.get_running_loop()
    database = await open_database(address, pool_size=1)
    tenant = await tenants_and_actors.create_tenant(database, slug="acme", name="Acme", act=Act(None, clock.now()))

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), database=None)
    @given(draw_additions())
    def holds(adding: FactAdditions) -> None:
        asyncio.run_coroutine_threadsafe(_check_sealed(database, tenant, adding), loop).result(60)

    await asyncio.to_thread(holds)
    await database.close()


async def _check_sealed(database: Database, tenant: TenantId, additions_drawn: FactAdditions) -> None:
    async with database.tenant(tenant) as conn:
        act = Act(None, clock.now())
        ids = await _insert_facts(conn, tenant, additions_drawn.facts)
        snapshot = (await snapshots.create_snapshot(conn, tenant, label=None, act=act)).snapshot_id
        for group in additions_drawn.groups:
            await add_items(conn, tenant, snapshot, [ids[number] for number in group], act=act)
        await build_snapshot(conn, tenant, snapshot, act=act)
        sealed = await seal(conn, tenant, snapshot, act=act)
        snapshot_row = await snapshots.get_snapshot(conn, tenant, snapshot)

        expected = encode_snapshot(
            snapshot, [*map(_make_ref, additions_drawn.facts), await _find_secret(conn, tenant, snapshot)]
        )

    assert snapshot_row.snapshot_canonical == expected
    assert sealed.snapshot_hash == snapshot_row.snapshot_hash == sha256(expected)
    assert snapshot_row.count == len(additions_drawn.facts)


async def _insert_facts(conn: Connection, tenant: TenantId, new_facts: Sequence[ExtractedFact]) -> list[FactId]:
    version = DocumentVersionId(await insert_document_version(conn, tenant, status="VALIDATED"))
    await facts.insert_facts(conn, tenant, version, new_facts, at=clock.now())
    return [
        FactId(
            await conn.fetchval(
                "SELECT fact_id FROM facts WHERE fact_type = $1 AND fact_key = $2 AND payload_hash = $3",
                fact.fact_type,
                fact.fact_key,
                fact.payload_hash,
            )
        )
        for fact in new_facts
    ]


async def _find_secret(conn: Connection, tenant: TenantId, snapshot: SnapshotId) -> FactRef:
    """The one fact that the build has added."""
    refs = [item.ref for item in await snapshots.load_items(conn, tenant, snapshot)]
    [secret] = [ref for ref in refs if ref.fact_type == blinding.BLINDING_FACT_TYPE]
    return secret


def _make_ref(fact: ExtractedFact) -> FactRef:
    return FactRef(fact.fact_type, fact.fact_key, fact.payload_hash)
