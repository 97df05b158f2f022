"""The whole product at once: `bpc up`, asked over HTTP by the client we ship, from a supplier's file to a replay."""

import asyncio
from pathlib import Path

from bpc_client import Client

from tests.cli.program import Program
from tests.journey.compile_ready import prepare_compile
from tests.running_installation import RunningInstallation

MADE = ["PASSPORT_COMPILED", "PASSPORT_SIGNED", "QR_GENERATED", "PASSPORT_ACTIVATED", "PASSPORT_REPLAYED"]


def test_a_suppliers_file_becomes_a_passport_that_anyone_can_check(
    running_installation: RunningInstallation, tmp_path: Path
) -> None:
    settings = running_installation.create_tenant().settings
    bundle = tmp_path / "passport.zip"

    asyncio.run(_run_whole_way(settings["BPC_URL"], settings["BPC_API_KEY"], bundle))

    # Whoever was only given the file checks it without us.
    checked = Program(tmp_path).run_ok("verify", bundle, "--unpinned", "--json").json()
    assert checked["ok"] is True
    assert [step["name"] for step in checked["steps"] if not step["ok"]] == []


async def _run_whole_way(url: str, api_key: str, bundle: Path) -> None:
    async with Client(url, api_key) as bpc:
        ready_passport = await prepare_compile(bpc)

        request = await bpc.compile_passport(
            ready_passport.passport_id,
            snapshot_id=ready_passport.snapshot_id,
            rule_package_version_id=ready_passport.rule_package_version_id,
        )
        await bpc.wait(request.job_id, seconds=120)
        version = request.passport_version_id
        code = await bpc.wait_until(
            lambda: bpc.get_qr_code(version), lambda qr_code: bool(qr_code.content), seconds=120
        )
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
