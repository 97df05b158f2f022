"""Commands that ask an API: against a real `bpc up`, with its refusals as they are, and without one."""

import asyncio
import hashlib
import json
from base64 import b64encode
from pathlib import Path
from typing import Literal
from uuid import UUID

import pytest
from bpc_client import Client

from tests.cli.program import Program
from tests.running_installation import RunningInstallation

NOBODY = "http://127.0.0.1:9"
EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "first"


@pytest.fixture(scope="session")
def bpc(running_installation: RunningInstallation) -> Program:
    """The program beside a running `bpc up`, whose address it is told, but not a key."""
    return running_installation.bpc


@pytest.fixture
def bpc_key(bpc: Program) -> str:
    return (bpc.data_dir / "keys" / "dev-api-key").read_text().strip()


def test_a_file_is_uploaded_with_the_key_that_is_kept_here(bpc: Program, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_bytes(b"notes")

    uploaded = bpc.run_ok("upload", file, "--kind", "OTHER", "--ref", "ERP-1", "--json").json()

    assert uploaded["sha256"] == hashlib.sha256(b"notes").hexdigest()
    assert (uploaded["version"], uploaded["status"], uploaded["job_id"]) == (1, "UPLOADED", None)
    document = json.loads(bpc.run_ok("get", f"/v1/documents/{uploaded['document_id']}").out)
    assert (document["kind"], document["external_ref"]) == ("OTHER", "ERP-1")


def test_uploading_it_again_gives_the_same_answer_and_makes_nothing(bpc: Program, tmp_path: Path) -> None:
    file = tmp_path / "twice.bin"
    file.write_bytes(b"twice")

    first = bpc.run_ok("upload", file, "--kind", "OTHER", "--json").json()
    again = bpc.run_ok("upload", file, "--kind", "OTHER", "--json").json()

    assert again == first


def test_bytes_that_are_known_are_not_stored_again_under_another_name(bpc: Program, tmp_path: Path) -> None:
    file = tmp_path / "renamed.bin"
    file.write_bytes(b"renamed")
    first = bpc.run_ok("upload", file, "--kind", "OTHER", "--json").json()

    again = bpc.run_ok("upload", file, "--kind", "OTHER", "--ref", "another", "--json").json()

    assert again["document_version_id"] == first["document_version_id"]
    assert again["document_id"] != first["document_id"]


def test_waiting_ends_when_the_facts_are_there(bpc: Program, tmp_path: Path) -> None:
    file = tmp_path / "bom.json"
    file.write_text('{"battery": {"sku": "SKU-9", "capacity_kwh": "75.5"}}')

    uploaded = bpc.run_ok("upload", file, "--kind", "BOM", "--wait", "--json").json()

    assert uploaded["status"] == "VALIDATED"
    facts = json.loads(bpc.run_ok("get", "/v1/facts?fact_key_prefix=battery:SKU-9").out)
    assert [fact["fact_key"] for fact in facts["items"]] == ["battery:SKU-9"]


def test_waiting_reports_why_a_document_gave_no_facts(bpc: Program) -> None:
    ended = bpc.run("upload", "-", "--kind", "BOM", "--wait", stdin=b"[]")

    assert ended.code == 1
    assert ended.err.startswith("VALIDATION_ERROR: the document was rejected: 1 problem; no facts were stored")
    assert "problem   $ is not an object with `battery` and `components`\n" in ended.out
    error = bpc.run("upload", "-", "--kind", "BOM", "--wait", "--json", stdin=b"[]").json()["error"]
    assert [problem["at"] for problem in error["details"]["problems"]] == ["$"]


def test_the_ids_are_printed(bpc: Program, tmp_path: Path) -> None:
    file = tmp_path / "file.csv"
    file.write_text("a,b\n")

    output = bpc.run_ok("upload", file, "--kind", "OTHER").out.splitlines()

    assert [line.split()[0] for line in output] == ["document", "version", "sha256"]


def test_a_bundle_of_nothing_is_not_found_and_writes_nothing(bpc: Program, tmp_path: Path) -> None:
    out = tmp_path / "bundle.zip"

    ended = bpc.run("bundle", "01932f5c-7b1e-7cc0-9d3a-52a4c0f0a1b2", "--out", out)

    assert ended.code == 1
    assert ended.err.startswith("NOT_FOUND: ")
    assert not out.exists()


async def make_passport(url: str, api_key: str) -> UUID:
    """A passport version with everything, made by the client as an integrator would."""
    async with Client(url, api_key) as bpc:
        facts = [
            await _upload_fact(bpc, "BOM", {"battery": {"sku": "SKU-123", "capacity_kwh": "75.5"}}, "battery:SKU-123"),
            await _upload_fact(bpc, "PCF", {"sku": "SKU-123", "total_gco2e": "4500000"}, "pcf:SKU-123"),
        ]
        snapshot = await bpc.create_snapshot(label="online")
        await bpc.add_snapshot_items(snapshot.snapshot_id, fact_ids=facts)
        await bpc.wait((await bpc.build_snapshot(snapshot.snapshot_id)).job_id)
        await bpc.seal_snapshot(snapshot.snapshot_id)
        package = await bpc.create_rule_package(name="First rules")
        rules = await bpc.create_rule_version(
            package.rule_package_id,
            dsl_source=(EXAMPLE / "rules.bpc").read_text(),
            tests_source=(EXAMPLE / "tests.bpc").read_text(),
        )
        version = rules.rule_package_version_id
        await bpc.wait((await bpc.run_rule_tests(version, seed=1)).job_id)
        await bpc.publish_rule_version(version)
        product = await bpc.create_battery_product(sku="SKU-123", name="Pack 75")
        passport = await bpc.create_passport(battery_product_id=product.battery_product_id)
        compiling = await bpc.compile_passport(
            passport.passport_id, snapshot_id=snapshot.snapshot_id, rule_package_version_id=version
        )
        await bpc.wait(compiling.job_id)
        await bpc.wait_until(lambda: bpc.get_qr_code(compiling.passport_version_id))
        await bpc.activate_passport_version(compiling.passport_version_id)
        assert (await bpc.replay_passport_version(compiling.passport_version_id)).status == "OK"
        return compiling.passport_version_id


async def _upload_fact(bpc: Client, kind: Literal["BOM", "PCF"], content: object, key: str) -> UUID:
    document = await bpc.create_document(kind=kind)
    encoded = b64encode(json.dumps(content).encode()).decode()
    version = await bpc.upload_document_version(
        document.document_id, mime_type="application/json", content_base64=encoded
    )
    assert version.job_id is not None
    await bpc.wait(version.job_id)
    [fact] = [listed_fact.fact_id async for listed_fact in bpc.list_all(bpc.list_facts, fact_key_prefix=key)]
    return fact


def test_a_bundle_is_fetched_unchanged_and_verifies(bpc: Program, bpc_key: str, tmp_path: Path) -> None:
    version = asyncio.run(make_passport(bpc.settings["BPC_URL"], bpc_key))
    out = tmp_path / "bundle.zip"

    report = bpc.run_ok("bundle", str(version), "--out", out, "--json").json()

    content = out.read_bytes()
    assert report == {"file": str(out), "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    assert bpc.run_ok("verify", out, "--unpinned", "--json").json()["ok"] is True


def test_any_path_is_printed_as_it_is_answered(bpc: Program) -> None:
    page = json.loads(bpc.run_ok("get", "/v1/documents?limit=1").out)

    assert page.keys() == {"items", "next_cursor"}


@pytest.mark.parametrize("path", ["v1/documents", "//elsewhere.test/v1", "http://elsewhere.test/"])
def test_a_path_cannot_lead_elsewhere(bpc: Program, path: str) -> None:
    ended = bpc.run("get", path, "--json")

    assert (ended.code, ended.json()["error"]["code"]) == (1, "VALIDATION_ERROR")


def test_an_unknown_key_is_refused_with_the_correlation_id(bpc: Program, bpc_key: str) -> None:
    wrong = bpc.with_settings(BPC_API_KEY=bpc_key[:-1] + ("0" if bpc_key[-1] != "0" else "1"))

    ended = wrong.run("get", "/v1/documents", "--json")

    assert ended.code == 1
    assert ended.json()["error"]["code"] == "UNAUTHORIZED"
    assert "correlation_id" in ended.json()["error"]["details"]
    assert bpc_key not in ended.out + ended.err


def test_the_option_wins_over_the_environment_and_an_unreachable_api_exits_69(bpc: Program) -> None:
    ended = bpc.run("get", "/v1/documents", "--url", NOBODY)

    assert ended.code == 69
    assert ended.err.startswith(f"UNREACHABLE: {NOBODY} does not answer: ")
    assert "bpc up" in ended.err


def test_the_key_that_is_kept_here_is_not_sent_elsewhere(bpc: Program) -> None:
    ended = bpc.run("get", "/v1/documents", "--url", "http://elsewhere.test")

    assert ended.code == 1
    assert ended.err.startswith("VALIDATION_ERROR: there is no API key")


@pytest.mark.parametrize("url", ["localhost:8080", "http://[", b"http://\xff"])
def test_an_invalid_address_is_refused(bpc: Program, url: str | bytes) -> None:
    ended = bpc.run("get", "/v1/documents", "--url", url)

    assert ended.code == 1
    assert ended.err.startswith("VALIDATION_ERROR: ")


def test_a_key_that_cannot_be_sent_is_refused_without_showing_it(bpc: Program) -> None:
    ended = bpc.with_settings(BPC_API_KEY="bpc_ключ").run("get", "/v1/documents")

    assert ended.code == 1
    assert ended.err.startswith("VALIDATION_ERROR: BPC_API_KEY is not an API key")
    assert "ключ" not in ended.err


def test_its_variables_are_no_settings_and_no_mistakes(bpc: Program, bpc_key: str) -> None:
    bpc.with_settings(BPC_API_KEY=bpc_key).run_ok("jobs", "stats", "--json")
