"""The whole product at once: `bpc up`, asked over HTTP by the client we ship, from a supplier's file to a replay."""

import asyncio
import os
import tempfile
from base64 import b64encode
from pathlib import Path
from typing import Literal
from uuid import UUID

from bpc.client import Client
from tests.cli.program import Program
from tests.cli.started import started

EXAMPLE = Path(__file__).parents[2] / "examples" / "first"
BOM = b'{"battery":{"sku":"SKU-123","capacity_kwh":75.5},"components":[]}'
PCF = b'{"sku":"SKU-123","total_gco2e":4500000.00}'
MADE = ["PASSPORT_COMPILED", "PASSPORT_SIGNED", "QR_GENERATED", "PASSPORT_ACTIVATED", "PASSPORT_REPLAYED"]


def test_a_suppliers_file_becomes_a_passport_that_anyone_can_check(run_folder: Path, tmp_path: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="whole-", dir=run_folder))
    folder.chmod(0o711 if os.geteuid() == 0 else 0o700)
    bpc = Program(folder, {"BPC_LOG_LEVEL": "error"})
    bundle = tmp_path / "passport.zip"

    with started(bpc, "up", "--port", "0") as (_, told):
        asyncio.run(_from_file_to_replay(told["url"], told["api_key"], bundle))

    # Whoever was only given the file checks it without us.
    checked = Program(tmp_path).ok("verify", bundle, "--json").json()
    assert checked["ok"] is True
    assert [step["name"] for step in checked["steps"] if not step["ok"]] == []


async def _from_file_to_replay(url: str, api_key: str, bundle: Path) -> None:
    async with Client(url, api_key) as bpc:
        await asyncio.gather(_uploaded(bpc, "BOM", BOM), _uploaded(bpc, "PCF", PCF))
        snapshot, rules = await asyncio.gather(_sealed(bpc), _published(bpc))
        product = await bpc.create_battery_product(sku="SKU-123", name="First")
        passport = await bpc.create_passport(battery_product_id=product.battery_product_id)

        asked = await bpc.compile_passport(passport.passport_id, snapshot_id=snapshot, rule_package_version_id=rules)
        await bpc.wait(asked.job_id, seconds=120)
        version = asked.passport_version_id
        code = await bpc.until(lambda: bpc.get_qr_code(version), lambda seen: bool(seen.content), seconds=120)
        active = await bpc.activate_passport_version(version)
        bundle.write_bytes((await bpc.get_bundle(version)).content)
        replayed = await bpc.replay_passport_version(version)
        chain = await bpc.list_events(aggregate_type="PassportVersion", aggregate_id=version)
        verified = await bpc.verify_events()

    assert code.content.startswith(b"\x89PNG")
    assert active.status == "ACTIVE"
    assert replayed.status == "OK"
    assert [event.event_type for event in reversed(chain.items)] == MADE
    assert verified.ok is True


async def _uploaded(bpc: Client, kind: Literal["BOM", "PCF"], content: bytes) -> None:
    document = await bpc.create_document(kind=kind)
    version = await bpc.upload_document_version(
        document.document_id, mime_type="application/json", content_base64=b64encode(content).decode()
    )
    assert version.job_id is not None
    await bpc.wait(version.job_id, seconds=120)


async def _sealed(bpc: Client) -> UUID:
    """A sealed snapshot of all that was read."""
    facts = [fact.fact_id async for fact in bpc.list_all(bpc.list_facts)]
    snapshot = (await bpc.create_snapshot(label="all")).snapshot_id
    await bpc.add_snapshot_items(snapshot, fact_ids=facts)
    await bpc.wait((await bpc.build_snapshot(snapshot)).job_id, seconds=120)
    await bpc.seal_snapshot(snapshot)
    return snapshot


async def _published(bpc: Client) -> UUID:
    """Rules whose tests passed."""
    package = await bpc.create_rule_package(name="first")
    made = await bpc.create_rule_version(
        package.rule_package_id,
        dsl_source=(EXAMPLE / "rules.bpc").read_text(),
        tests_source=(EXAMPLE / "tests.bpc").read_text(),
    )
    version = made.rule_package_version_id
    await bpc.wait((await bpc.run_rule_tests(version, seed=42)).job_id, seconds=120)
    await bpc.publish_rule_version(version)
    return version
