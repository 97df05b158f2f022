"""Commands that ask an API: against a real `bpc up`, with its refusals as they are, and without one."""

import asyncio
import hashlib
import json
import tempfile
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Literal
from uuid import UUID

import pytest

from bpc.client import Client
from tests.cli.program import Program
from tests.cli.started import started

NOBODY = "http://127.0.0.1:9"
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "first"


@pytest.fixture(scope="module")
def bpc(run_folder: Path) -> Iterator[Program]:
    """The program beside a running `bpc up`, whose address it is told."""
    folder = Path(tempfile.mkdtemp(prefix="online-", dir=run_folder))
    folder.chmod(0o711)
    program = Program(folder)
    with started(program, "up", "--port", "0") as (_, told):
        yield program.having(BPC_URL=told["url"])


@pytest.fixture
def bpc_key(bpc: Program) -> str:
    return (bpc.data_dir / "keys" / "dev-api-key").read_text().strip()


def test_a_file_is_uploaded_with_the_key_that_is_kept_here(bpc: Program, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_bytes(b"notes")

    made = bpc.ok("upload", file, "--kind", "OTHER", "--ref", "ERP-1", "--json").json()

    assert made["sha256"] == hashlib.sha256(b"notes").hexdigest()
    assert (made["version"], made["status"], made["job_id"]) == (1, "UPLOADED", None)
    found = json.loads(bpc.ok("get", f"/v1/documents/{made['document_id']}").out)
    assert (found["kind"], found["external_ref"]) == ("OTHER", "ERP-1")


def test_uploading_it_again_gives_the_same_answer_and_makes_nothing(bpc: Program, tmp_path: Path) -> None:
    file = tmp_path / "twice.bin"
    file.write_bytes(b"twice")

    first = bpc.ok("upload", file, "--kind", "OTHER", "--json").json()
    again = bpc.ok("upload", file, "--kind", "OTHER", "--json").json()

    assert again == first


def test_bytes_that_are_known_under_another_name_are_a_conflict_that_names_them(bpc: Program, tmp_path: Path) -> None:
    file = tmp_path / "renamed.bin"
    file.write_bytes(b"renamed")
    first = bpc.ok("upload", file, "--kind", "OTHER", "--json").json()

    ended = bpc.run("upload", file, "--kind", "OTHER", "--ref", "another", "--json")

    assert ended.code == 1
    error = ended.json()["error"]
    assert error["code"] == "CONFLICT"
    assert error["details"]["document_version_id"] == first["document_version_id"]


def test_waiting_ends_when_the_facts_are_there(bpc: Program, tmp_path: Path) -> None:
    file = tmp_path / "bom.json"
    file.write_text('{"battery": {"sku": "SKU-9", "capacity_kwh": "75.5"}}')

    made = bpc.ok("upload", file, "--kind", "BOM", "--wait", "--json").json()

    assert made["status"] == "VALIDATED"
    facts = json.loads(bpc.ok("get", "/v1/facts?fact_key_prefix=battery:SKU-9").out)
    assert [fact["fact_key"] for fact in facts["items"]] == ["battery:SKU-9"]


def test_waiting_tells_why_there_are_none(bpc: Program) -> None:
    ended = bpc.run("upload", "-", "--kind", "BOM", "--wait", stdin=b"[]")

    assert ended.code == 1
    assert ended.err.startswith("VALIDATION_ERROR: the document was rejected, for 1 problem(s)")
    assert "problem   $ is not an object with `battery` and `components`\n" in ended.out
    told = bpc.run("upload", "-", "--kind", "BOM", "--wait", "--json", stdin=b"[]").json()["error"]
    assert [problem["at"] for problem in told["details"]["problems"]] == ["$"]


def test_a_person_is_told_the_ids(bpc: Program, tmp_path: Path) -> None:
    file = tmp_path / "file.csv"
    file.write_text("a,b\n")

    shown = bpc.ok("upload", file, "--kind", "OTHER").out.splitlines()

    assert [line.split()[0] for line in shown] == ["document", "version", "sha256"]


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
            await _fact(bpc, "BOM", {"battery": {"sku": "SKU-123", "capacity_kwh": "75.5"}}, "battery:SKU-123"),
            await _fact(bpc, "PCF", {"sku": "SKU-123", "total_gco2e": "4500000"}, "pcf:SKU-123"),
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
        await bpc.until(lambda: bpc.get_qr_code(compiling.passport_version_id))
        await bpc.activate_passport_version(compiling.passport_version_id)
        assert (await bpc.replay_passport_version(compiling.passport_version_id)).status == "OK"
        return compiling.passport_version_id


async def _fact(bpc: Client, kind: Literal["BOM", "PCF"], content: object, key: str) -> UUID:
    document = await bpc.create_document(kind=kind)
    encoded = b64encode(json.dumps(content).encode()).decode()
    made = await bpc.upload_document_version(document.document_id, mime_type="application/json", content_base64=encoded)
    assert made.job_id is not None
    await bpc.wait(made.job_id)
    [fact] = [each.fact_id async for each in bpc.list_all(bpc.list_facts, fact_key_prefix=key)]
    return fact


def test_a_bundle_is_fetched_as_it_is_and_a_stranger_can_check_it(bpc: Program, bpc_key: str, tmp_path: Path) -> None:
    version = asyncio.run(make_passport(bpc.settings["BPC_URL"], bpc_key))
    out = tmp_path / "bundle.zip"

    told = bpc.ok("bundle", str(version), "--out", out, "--json").json()

    content = out.read_bytes()
    assert told == {"file": str(out), "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    assert bpc.ok("verify", out, "--json").json()["ok"] is True


def test_any_path_is_printed_as_it_is_answered(bpc: Program) -> None:
    page = json.loads(bpc.ok("get", "/v1/documents?limit=1").out)

    assert page.keys() == {"items", "next_cursor"}


@pytest.mark.parametrize("path", ["v1/documents", "//elsewhere.test/v1", "http://elsewhere.test/"])
def test_a_path_cannot_lead_elsewhere(bpc: Program, path: str) -> None:
    ended = bpc.run("get", path, "--json")

    assert (ended.code, ended.json()["error"]["code"]) == (1, "VALIDATION_ERROR")


def test_a_key_that_opens_nothing_is_told_with_the_id_of_the_request(bpc: Program, bpc_key: str) -> None:
    wrong = bpc.having(BPC_API_KEY=bpc_key[:-1] + ("0" if bpc_key[-1] != "0" else "1"))

    ended = wrong.run("get", "/v1/documents", "--json")

    assert ended.code == 1
    assert ended.json()["error"]["code"] == "UNAUTHORIZED"
    assert "correlation_id" in ended.json()["error"]["details"]
    assert bpc_key not in ended.out + ended.err


def test_the_option_goes_before_the_environment_and_nobody_there_is_unavailable(bpc: Program) -> None:
    ended = bpc.run("get", "/v1/documents", "--url", NOBODY)

    assert ended.code == 69
    assert ended.err.startswith(f"REQUEST_TIMEOUT: {NOBODY} does not answer: ")
    assert "bpc up" in ended.err


def test_the_key_that_is_kept_here_is_not_sent_elsewhere(bpc: Program) -> None:
    ended = bpc.run("get", "/v1/documents", "--url", "http://elsewhere.test")

    assert ended.code == 1
    assert ended.err.startswith("VALIDATION_ERROR: there is no API key")


@pytest.mark.parametrize("url", ["localhost:8080", "http://[", b"http://\xff"])
def test_an_address_that_is_none_is_refused(bpc: Program, url: str | bytes) -> None:
    ended = bpc.run("get", "/v1/documents", "--url", url)

    assert ended.code == 1
    assert ended.err.startswith("VALIDATION_ERROR: ")


def test_a_key_that_cannot_be_sent_is_refused_without_showing_it(bpc: Program) -> None:
    ended = bpc.having(BPC_API_KEY="bpc_ключ").run("get", "/v1/documents")

    assert ended.code == 1
    assert ended.err.startswith("VALIDATION_ERROR: BPC_API_KEY is not an API key")
    assert "ключ" not in ended.err


def test_its_variables_are_no_settings_and_no_mistakes(bpc: Program, bpc_key: str) -> None:
    bpc.having(BPC_API_KEY=bpc_key).ok("jobs", "stats", "--json")
