"""`bpc upload URL`: the service fetches the file itself, and says what became of it."""

import hashlib
import json
from pathlib import Path

import pytest

from tests.cli.program import Program
from tests.running_installation import RunningInstallation

BOM = b'{"battery":{"sku":"SKU-1","name":"Cell","category":"EV","chemistry":"LFP","capacity_kwh":"75"},"components":[]}'


@pytest.fixture(scope="session")
def supplier_folder(running_installation: RunningInstallation) -> Path:
    folder = running_installation.supplier_folder
    (folder / "bom.json").write_bytes(BOM)
    return folder


@pytest.fixture(scope="session")
def bpc(running_installation: RunningInstallation) -> Program:
    return running_installation.create_tenant()


def test_a_url_is_fetched_and_read(bpc: Program, supplier_folder: Path) -> None:
    uploaded = bpc.run_ok("upload", (supplier_folder / "bom.json").as_uri(), "--kind", "BOM", "--wait", "--json").json()

    assert (uploaded["status"], uploaded["sha256"]) == ("VALIDATED", hashlib.sha256(BOM).hexdigest())
    facts = json.loads(bpc.run_ok("get", "/v1/facts?fact_type=Battery").out)
    assert [fact["fact_key"] for fact in facts["items"]] == ["battery:SKU-1"]


def test_without_waiting_the_job_is_named(bpc: Program, supplier_folder: Path) -> None:
    (supplier_folder / "note.txt").write_bytes(b"a note")

    output = bpc.run_ok("upload", (supplier_folder / "note.txt").as_uri(), "--kind", "OTHER").out.splitlines()
    named = bpc.run_ok("upload", (supplier_folder / "note.txt").as_uri(), "--kind", "OTHER", "--json").json()

    assert [line.split()[0] for line in output] == ["document", "job"]
    assert named.keys() == {"document_id", "job_id"}


def test_what_is_refused_or_not_there_ends_the_command(bpc: Program, supplier_folder: Path) -> None:
    blocked = bpc.run("upload", "file:///etc/passwd", "--kind", "OTHER", "--wait")
    missing = bpc.run("upload", (supplier_folder / "none").as_uri(), "--kind", "OTHER", "--wait")

    assert (blocked.code, missing.code) == (1, 1)
    assert blocked.err.startswith("OUTBOUND_BLOCKED: ")
    assert missing.err.startswith("NOT_FOUND: ")
