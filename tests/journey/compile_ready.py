"""All that a passport needs before it can be compiled, made over HTTP by the client we ship."""

import asyncio
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from uuid import UUID

from bpc_client import Client

EXAMPLE = Path(__file__).parents[2] / "examples" / "first"
BOM = b'{"battery":{"sku":"SKU-123","capacity_kwh":75.5},"components":[]}'
PCF = b'{"sku":"SKU-123","total_gco2e":4500000.00}'


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileReady:
    """A passport, and what it can be compiled with, over and over. `facts` are in the order of their list."""

    passport_id: UUID
    snapshot_id: UUID
    rule_package_version_id: UUID
    facts: tuple[UUID, ...]


async def prepare_compile(bpc: Client, *, bom: bytes = BOM) -> CompileReady:
    """Make the passport of a tenant that has nothing yet."""
    await asyncio.gather(_upload(bpc, "BOM", bom), _upload(bpc, "PCF", PCF))
    facts = tuple([fact.fact_id async for fact in bpc.list_all(bpc.list_facts)])
    snapshot, rules = await asyncio.gather(_seal_snapshot(bpc, facts), _publish_rules(bpc))
    product = await bpc.create_battery_product(sku="SKU-123", name="First")
    passport = await bpc.create_passport(battery_product_id=product.battery_product_id)
    return CompileReady(
        passport_id=passport.passport_id, snapshot_id=snapshot, rule_package_version_id=rules, facts=facts
    )


async def _upload(bpc: Client, kind: Literal["BOM", "PCF"], content: bytes) -> None:
    document = await bpc.create_document(kind=kind)
    version = await bpc.upload_document_version(
        document.document_id, mime_type="application/json", content_base64=b64encode(content).decode()
    )
    assert version.job_id is not None
    await bpc.wait(version.job_id, seconds=120)


async def _seal_snapshot(bpc: Client, facts: tuple[UUID, ...]) -> UUID:
    """A sealed snapshot of all that was read."""
    snapshot = (await bpc.create_snapshot(label="all")).snapshot_id
    await bpc.add_snapshot_items(snapshot, fact_ids=list(facts))
    await bpc.wait((await bpc.build_snapshot(snapshot)).job_id, seconds=120)
    await bpc.seal_snapshot(snapshot)
    return snapshot


async def _publish_rules(bpc: Client) -> UUID:
    """Rules whose tests passed."""
    package = await bpc.create_rule_package(name="first")
    created = await bpc.create_rule_version(
        package.rule_package_id,
        dsl_source=(EXAMPLE / "rules.bpc").read_text(),
        tests_source=(EXAMPLE / "tests.bpc").read_text(),
    )
    version = created.rule_package_version_id
    await bpc.wait((await bpc.run_rule_tests(version, seed=42)).job_id, seconds=120)
    await bpc.publish_rule_version(version)
    return version
