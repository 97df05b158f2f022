"""What is known of a product: merged, with its origins, its latest readings and what is wrong about it, all sealed."""

import resource
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest

from bpc.core.audit.events import Act
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.facts.provenance import ProvenanceIndex
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.ids import DocumentId, DocumentVersionId, TenantId
from bpc.pipeline.product_facts import decide_conflict, load_product_evidence
from bpc.pipeline.snapshot import snapshot_product
from bpc.runtime import clock
from bpc.storage.connection import Connection
from bpc.storage.database import Database
from bpc.storage.evidence import snapshots, statements
from bpc.storage.evidence.statements import DecisionRow
from tests.measurements import RecordMeasurement, allow_seconds, choose_effort
from tests.storage.probes import Superuser
from tests.storage.statements import insert_row
from tests.tasks.product_facts import insert_document_facts, make_fact

SKU = "A-1"


def make_battery(**members: Json) -> SnapshotFact:
    return make_fact("Battery", f"battery:{SKU}", {"sku": SKU, **members})


def make_reading(kind: str, day: str, number: str) -> SnapshotFact:
    at = f"{day}T00:00:00.000000Z"
    return make_fact(
        "Reading",
        f"reading:{SKU}:{kind}:{at}",
        {"sku": SKU, "kind": kind, "recorded_at": at, "recorded_on": day, "number": number},
    )


async def seal_product(conn: Connection, tenant: TenantId, act: Act) -> Sequence[SnapshotFact]:
    sealed = await snapshot_product(conn, tenant, SKU, label=None, act=act)
    return await snapshots.load_facts(conn, tenant, sealed.snapshot_id)


def select_payloads(facts: Sequence[SnapshotFact], fact_type: str) -> list[Mapping[str, Json]]:
    return [fact.payload for fact in sorted(facts, key=lambda fact: fact.fact_key) if fact.fact_type == fact_type]


async def test_a_snapshot_seals_the_document_and_the_place_of_every_value(
    database: Database, tenant: TenantId, act: Act
) -> None:
    async with database.tenant(tenant) as conn:
        await insert_document_facts(conn, tenant, [make_battery(mass_kg="4.000000")])
        places = {"chemistry": "Data!C5", "sku": "Data!A5"}
        await insert_document_facts(conn, tenant, [make_battery(chemistry="NMC")], member_places=places)

        index = ProvenanceIndex(await seal_product(conn, tenant, act))

    mass = index.find_origin("Battery", f"battery:{SKU}", "mass_kg")
    chemistry = index.find_origin("Battery", f"battery:{SKU}", "chemistry")
    assert mass is not None
    assert chemistry is not None
    assert (mass.place, chemistry.place) == ("$.mass_kg", "Data!C5")
    assert mass.document_id != chemistry.document_id


async def test_what_is_made_for_a_snapshot_is_neither_counted_nor_listed_nor_merged_again(
    database: Database, tenant: TenantId, act: Act
) -> None:
    async with database.tenant(tenant) as conn:
        await insert_document_facts(conn, tenant, [make_battery(mass_kg="4.000000")])
        await insert_document_facts(conn, tenant, [make_battery(mass_kg="5.000000")])
        first = await snapshot_product(conn, tenant, SKU, label=None, act=act)
        second = await snapshot_product(conn, tenant, SKU, label=None, act=act)

        row = await snapshots.get_snapshot(conn, tenant, first.snapshot_id)
        one, other = [await snapshots.load_facts(conn, tenant, each.snapshot_id) for each in (first, second)]

    assert row.count == 1
    names = [
        {(fact.fact_type, fact.fact_key) for fact in facts if fact.fact_type != "Blinding"} for facts in (one, other)
    ]
    assert names[0] == names[1]
    assert {fact_type for fact_type, _ in names[0]} == {"Battery", "Finding", "Provenance"}


async def test_a_value_that_could_not_be_read_is_a_finding_and_not_the_older_value(
    database: Database, tenant: TenantId, act: Act
) -> None:
    async with database.tenant(tenant) as conn:
        await insert_document_facts(conn, tenant, [make_battery(category="ev", mass_kg="4.000000")])
        unreadable = {"mass_kg": ("Data!C7", "is #REF!; correct the formula")}
        later = clock.now() + timedelta(seconds=1)
        await insert_document_facts(conn, tenant, [make_battery()], unreadable=unreadable, at=later)

        facts = await seal_product(conn, tenant, act)

    [battery] = select_payloads(facts, "Battery")
    findings = {str(finding["code"]): finding for finding in select_payloads(facts, "Finding")}
    assert "mass_kg" not in battery
    assert findings["UNREADABLE_VALUE"]["severity"] == "error", "data point 10 is mandatory"
    assert findings["UNREADABLE_VALUE"]["points"] == [10]
    assert "sheet Data, cell C7" in str(findings["UNREADABLE_VALUE"]["message"])
    assert "documents differ about `mass_kg`" in str(findings["CONFLICTING_DOCUMENTS"]["message"])


async def test_the_latest_reading_counts_by_its_own_time_and_all_are_in_the_series(
    database: Database, tenant: TenantId, act: Act
) -> None:
    async with database.tenant(tenant) as conn:
        await insert_document_facts(
            conn, tenant, [make_battery(), make_reading("capacity_fade_pct", "2027-06-01", "5.000000")]
        )
        await insert_document_facts(conn, tenant, [make_reading("capacity_fade_pct", "2027-05-01", "4.000000")])
        await insert_document_facts(conn, tenant, [make_reading("full_cycles", "2027-05-15", "431.000000")])

        facts = await seal_product(conn, tenant, act)

    [battery] = select_payloads(facts, "Battery")
    series = select_payloads(facts, "ReadingSeries")
    assert battery == {
        "capacity_fade_pct": "5.00",
        "full_cycles": 431,
        "sku": SKU,
        "state_recorded_on": "2027-06-01",
    }
    assert [reading["recorded_on"] for reading in select_payloads(facts, "Reading")] == [
        "2027-05-01",
        "2027-06-01",
        "2027-05-15",
    ]
    assert [(each["kind"], each["count"]) for each in series] == [("capacity_fade_pct", 2), ("full_cycles", 1)]
    index, name = ProvenanceIndex(facts), ("ReadingSeries", f"series:{SKU}:capacity_fade_pct")
    origin = index.find_origin("Battery", f"battery:{SKU}", "capacity_fade_pct")
    first, last = (index.find_origin(*name, f"{end}_recorded_at") for end in ("first", "last"))
    assert origin is not None
    assert first is not None
    assert last is not None
    assert first.document_id != last.document_id == origin.document_id


async def test_a_corrected_reading_replaces_the_first_and_a_withdrawn_document_takes_its_readings_back(
    database: Database, tenant: TenantId, act: Act
) -> None:
    async with database.tenant(tenant) as conn:
        await insert_document_facts(
            conn, tenant, [make_battery(), make_reading("full_cycles", "2027-05-01", "400.000000")]
        )
        later = clock.now() + timedelta(seconds=1)
        version = await insert_document_facts(
            conn, tenant, [make_reading("full_cycles", "2027-05-01", "410.000000")], at=later
        )
        corrected = await load_product_evidence(conn, tenant, SKU)
        document = await find_document(conn, version)
        await statements.insert_statement(conn, tenant, document, None, reason="Wrong battery.", act=act)
        withdrawn = await load_product_evidence(conn, tenant, SKU)

    assert [each.fact.payload["number"] for each in corrected.readings] == ["410.000000"]
    assert [each.fact.payload["number"] for each in withdrawn.readings] == ["400.000000"]


async def test_a_decision_about_a_state_counts_though_the_other_document_was_read_as_readings_too(
    database: Database, tenant: TenantId, act: Act
) -> None:
    day = "2027-05-01"
    async with database.tenant(tenant) as conn:
        versions = []
        for cycles in (247, 300):
            battery = make_battery(full_cycles=cycles, state_recorded_on=day)
            at = clock.now() + timedelta(seconds=cycles)
            reading = make_reading("full_cycles", day, f"{cycles}.000000")
            versions.append(await insert_document_facts(conn, tenant, [battery, reading], at=at))
        before = await load_product_evidence(conn, tenant, SKU)
        document = await find_document(conn, versions[0])
        for name, member in (("Battery", "full_cycles"), ("Reading", "number")):
            [key] = [key for (kind, key), _ in before.iterate_conflicts() if kind == name]
            decision = DecisionRow(fact_type=name, fact_key=key, member=member, document_id=document)
            await decide_conflict(conn, tenant, SKU, decision, reason="It was counted again.", act=act)
        after = await load_product_evidence(conn, tenant, SKU)

    assert [fact.fact.payload["full_cycles"] for each in (before, after) for fact in each.product_facts] == [300, 247]
    assert [each.fact.payload["number"] for each in after.readings] == ["247.000000"]
    assert (before.count_open_conflicts(), after.count_open_conflicts()) == (2, 0)


async def test_a_state_that_cannot_be_read_is_not_replaced_by_an_older_reading(
    database: Database, tenant: TenantId
) -> None:
    async with database.tenant(tenant) as conn:
        reading = make_reading("full_cycles", "2026-10-01", "247.000000")
        await insert_document_facts(conn, tenant, [reading])
        unreadable = {"full_cycles": ("Data!C7", "is #REF!; correct the formula")}
        battery = make_battery(state_recorded_on="2026-11-10")
        await insert_document_facts(conn, tenant, [battery], unreadable=unreadable)

        evidence = await load_product_evidence(conn, tenant, SKU)

    [fact] = evidence.product_facts
    assert fact.fact.payload == {"sku": SKU, "state_recorded_on": "2026-11-10"}
    assert [finding.code for finding in evidence.findings if finding.members == ("full_cycles",)] == [
        "UNREADABLE_VALUE"
    ]


async def test_a_latest_reading_that_its_document_no_longer_says_is_pointed_out(
    database: Database, tenant: TenantId, act: Act
) -> None:
    async with database.tenant(tenant) as conn:
        first = await insert_document_facts(
            conn, tenant, [make_battery(), make_reading("full_cycles", "2062-11-10", "500.000000")]
        )
        document = await find_document(conn, first)
        corrected = make_reading("full_cycles", "2026-11-10", "247.000000")
        second = await insert_document_facts(conn, tenant, [make_battery(), corrected])
        await statements.insert_statement(conn, tenant, document, second, act=act)

        evidence = await load_product_evidence(conn, tenant, SKU)

    codes = [finding.code for finding in evidence.findings]
    assert "READING_OF_REPLACED_VERSION" in codes


async def find_document(conn: Connection, version: DocumentVersionId) -> DocumentId:
    return DocumentId(
        await conn.fetchval("SELECT document_id FROM document_versions WHERE document_version_id = $1", version)
    )


async def test_a_supplier_of_a_better_rank_counts_before_a_newer_document(
    database: Database, tenant: TenantId, act: Act
) -> None:
    async with database.tenant(tenant) as conn:
        version = await insert_document_facts(conn, tenant, [make_battery(mass_kg="4.000000")])
        supplier = clock.new_id()
        await insert_row(conn, "suppliers", tenant_id=tenant, supplier_id=supplier, name="Example Cells GmbH", rank=1)
        await conn.execute(
            "UPDATE documents SET supplier_id = $1 WHERE document_id ="
            " (SELECT document_id FROM document_versions WHERE document_version_id = $2)",
            supplier,
            version,
        )
        later = clock.now() + timedelta(seconds=1)
        await insert_document_facts(conn, tenant, [make_battery(mass_kg="5.000000")], at=later)

        evidence = await load_product_evidence(conn, tenant, SKU)

    [fact] = evidence.product_facts
    assert fact.fact.payload["mass_kg"] == "4.000000"
    assert fact.origins["mass_kg"].document.supplier == "Example Cells GmbH"
    assert evidence.count_open_conflicts() == 1, "it is listed all the same"


@pytest.mark.slow
async def test_a_product_with_many_components_from_many_documents_is_sealed_in_time_linear_in_its_size(
    database: Database, tenant: TenantId, act: Act, superuser: Superuser, record_measurement: RecordMeasurement
) -> None:
    documents = 20
    total = choose_effort(test=400, shown=5_000, campaign=5_000)
    seconds = {}
    for share in (2, 1):
        size = total // share
        async with database.tenant(tenant) as conn:
            for number in range(documents):
                parts = range(number * size // documents, (number + 1) * size // documents)
                # Every other part is said by a second document too, with another member.
                facts = [make_component(part, mass_g=f"{part + 1}.000000") for part in parts]
                await insert_document_facts(conn, tenant, facts)
                await insert_document_facts(
                    conn, tenant, [make_component(part, material="steel") for part in parts if part % 2]
                )
        await superuser.execute("VACUUM ANALYZE facts, fact_sources, documents, document_versions, document_statements")
        async with database.tenant(tenant) as conn:
            start = time.perf_counter()
            sealed = await snapshot_product(conn, tenant, SKU, label=None, act=act)
            seconds[size] = time.perf_counter() - start
            row = await snapshots.get_snapshot(conn, tenant, sealed.snapshot_id)
            assert row.count == size

    half, whole = seconds.values()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    record_measurement(
        "product-snapshot", components=total, documents=documents, seconds=round(whole, 2),
        seconds_of_half=round(half, 2), peak_kilobytes=memory,
    )  # fmt: skip
    assert whole < allow_seconds(10)
    assert whole < 4 * half + allow_seconds(0.2), "not the square of its size"


def make_component(part: int, **members: Json) -> SnapshotFact:
    return make_fact("Component", f"component:{SKU}:{part}", {"sku": SKU, "part": str(part), **members})
