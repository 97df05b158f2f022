"""The readiness of many products: all of them are checked in pieces, and the time and memory are on record."""

import resource
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.formats.ids import TenantId
from bpc.core.passport.compile_input import read_input
from bpc.core.readiness.trial import TrialRules
from bpc.pipeline.readiness import check_readiness
from bpc.runtime import clock
from bpc.storage.database import Database
from tests.measurements import RecordMeasurement, allow_seconds, choose_effort
from tests.tasks.product_facts import insert_document_facts

REFERENCE: Final = Path(__file__).resolve().parents[1] / "core" / "golden" / "reference-2"
PRODUCTS: Final = choose_effort(test=10, shown=1_000, campaign=1_000)
PARTS: Final = 30
AT_ONCE: Final = 100  # as over the API
DOCUMENT_TYPES: Final = ("Battery", "Component", "PCF", "DueDiligence")


def make_products() -> list[list[SnapshotFact]]:
    """Products with the facts of the reference example, each under a SKU of its own and with some of its parts."""
    example = read_input((REFERENCE / "input.json").read_bytes(), rules=b"")
    old = example.product.sku
    facts = [fact for fact in example.facts if fact.fact_type in DOCUMENT_TYPES]
    components = [fact for fact in facts if fact.fact_type == "Component"][:PARTS]
    kept = [*(fact for fact in facts if fact.fact_type != "Component"), *components]
    return [
        [
            replace(
                fact,
                fact_key=fact.fact_key.replace(f":{old}", f":SKU-{number}", 1),
                payload={**fact.payload, "sku": f"SKU-{number}"},
            )
            for fact in kept
        ]
        for number in range(PRODUCTS)
    ]


@pytest.mark.slow
async def test_the_readiness_of_many_products_takes_a_time_that_is_linear_and_memory_that_is_bounded(
    database: Database, tenant: TenantId, record_measurement: RecordMeasurement
) -> None:
    rules = TrialRules(dsl=(REFERENCE / "rules.bpc").read_bytes(), issued_at=clock.now(), max_steps=1_000_000)
    products = make_products()
    async with database.tenant(tenant) as conn:
        for facts in products:
            await insert_document_facts(conn, tenant, facts)
    skus = [f"SKU-{number}" for number in range(PRODUCTS)]
    megabytes_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    issues = 0

    began = time.monotonic()
    for start in range(0, PRODUCTS, AT_ONCE):
        async with database.tenant(tenant) as conn:
            results = await check_readiness(conn, tenant, skus[start : start + AT_ONCE], rules, pool=None)
        issues += sum(len(readiness.issues) for readiness in results)
    seconds = time.monotonic() - began

    assert issues >= PRODUCTS  # at least: there is no such product yet
    assert seconds < allow_seconds(0.2 * PRODUCTS)
    record_measurement(
        "readiness",
        products=PRODUCTS,
        facts=sum(map(len, products)),
        issues=issues,
        seconds=round(seconds, 2),
        milliseconds_per_product=round(1000 * seconds / PRODUCTS, 1),
        more_megabytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024 - megabytes_before,
    )
