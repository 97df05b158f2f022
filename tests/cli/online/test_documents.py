"""`bpc documents` and `bpc snapshots`: what documents say is decided, sealed and withdrawn on the command line."""

import json
from pathlib import Path
from typing import Any

import pytest
from bpc_client import SyncClient

from tests.cli.program import Program
from tests.running_installation import RunningInstallation


@pytest.fixture(scope="session")
def bpc(running_installation: RunningInstallation) -> Program:
    return running_installation.create_tenant()


def upload_battery(bpc: Program, folder: Path, **members: Any) -> str:
    """Upload a document about a battery; return the document's id."""
    file = folder / "bom.json"
    file.write_text(json.dumps({"battery": members}))
    return str(bpc.run_ok("upload", str(file), "--kind", "BOM", "--wait", "--json").json()["document_id"])


def load_battery(bpc: Program, sku: str) -> Any:
    """What a snapshot of what is known now holds about a battery."""
    snapshot = bpc.run_ok("snapshots", "create", sku, "--json").json()["snapshot_id"]
    items = json.loads(bpc.run_ok("get", f"/v1/snapshots/{snapshot}/items").out)["items"]
    return next(item["payload"] for item in items if item["fact_type"] == "Battery")


def test_documents_that_differ_are_listed_and_decided(bpc: Program, tmp_path: Path) -> None:
    sheet = upload_battery(bpc, tmp_path, sku="A-1", mass_kg=400)
    bom = upload_battery(bpc, tmp_path, sku="A-1", mass_kg=410, chemistry="NMC")
    assert load_battery(bpc, "A-1")["mass_kg"] == "410.000000"

    conflicts = bpc.run_ok("documents", "conflicts", "A-1").out.splitlines()
    sealed = bpc.run_ok("snapshots", "create", "A-1", "--label", "before").out
    decided = bpc.run_ok(
        "documents", "resolve", "A-1", "mass_kg", "--document", sheet, "--reason", "It was weighed"
    ).out

    assert [line.split()[0] for line in conflicts] == ["fact", "battery:A-1", "battery:A-1"]
    assert [line.split()[-1] for line in conflicts[1:]] == [bom, sheet]
    assert ("yes, not decided" in conflicts[1], "410 kg" in conflicts[1], "400 kg" in conflicts[2]) == (
        True,
        True,
        True,
    )
    assert "1 not decided" in sealed
    assert decided == f"mass_kg of battery:A-1 is what document {sheet} says\n"
    assert load_battery(bpc, "A-1") == {"sku": "A-1", "mass_kg": "400.000000", "chemistry": "NMC"}


def test_what_is_not_in_conflict_is_refused_with_what_to_do(bpc: Program, tmp_path: Path) -> None:
    document = upload_battery(bpc, tmp_path, sku="B-1", mass_kg=400)

    refused = bpc.run("documents", "resolve", "B-1", "mass_kg", "--document", document, "--reason", "Why not")

    assert refused.code == 1
    assert "do not differ about `mass_kg`" in refused.err
    assert "bpc documents conflicts B-1" in refused.err


def test_a_document_is_withdrawn_with_a_reason_that_is_listed(bpc: Program, tmp_path: Path) -> None:
    document = upload_battery(bpc, tmp_path, sku="C-1", mass_kg=400)

    assert bpc.run_ok("documents", "withdraw", document, "--reason", "Wrong battery").out.endswith("is withdrawn\n")

    newest, first = bpc.run_ok("documents", "statements", document, "--json").json()
    assert (newest["document_version_id"], newest["reason"], newest["sequence"]) == (None, "Wrong battery", 2)
    assert first["sequence"] == 1
    assert "WITHDRAWN" in bpc.run_ok("documents", "statements", document).out
    nothing = bpc.run("snapshots", "create", "C-1")
    assert (nothing.code, nothing.err.startswith("CONFLICT: there are no facts about `C-1`")) == (1, True)


def upload_footprint(bpc: Program, folder: Path, total: int, *options: str) -> Any:
    file = folder / "pcf.json"
    file.write_text(json.dumps({"sku": "D-1", "total_gco2e": total}))
    return bpc.run_ok("upload", str(file), "--kind", "PCF", "--wait", "--json", *options).json()


def test_a_value_that_is_corrected_and_corrected_back_is_the_last_one(bpc: Program, tmp_path: Path) -> None:
    uploads = [upload_footprint(bpc, tmp_path, total, "--ref", "ERP-7") for total in (86_700, 79_000, 86_700)]

    snapshot = bpc.run_ok("snapshots", "create", "D-1", "--json").json()["snapshot_id"]

    assert len({upload["document_id"] for upload in uploads}) == 1
    assert uploads[2]["document_version_id"] == uploads[0]["document_version_id"]
    [fact] = json.loads(bpc.run_ok("get", f"/v1/snapshots/{snapshot}/items").out)["items"]
    assert fact["payload"]["total_gco2e"] == "86700.00"


def test_a_reference_that_several_documents_have_is_refused_with_their_ids(bpc: Program, tmp_path: Path) -> None:
    (tmp_path / "pcf.json").write_text('{"sku":"T-1","total_gco2e":1}')
    with SyncClient(bpc.settings["BPC_URL"], bpc.settings["BPC_API_KEY"]) as client:  # it looks for no other document
        first, second = (str(client.create_document(kind="PCF", external_ref="TWICE").document_id) for _ in range(2))

    refused = bpc.run("upload", str(tmp_path / "pcf.json"), "--kind", "PCF", "--ref", "TWICE", "--json")

    error = refused.json()["error"]
    assert (refused.code, error["code"], error["details"]["document_ids"]) == (1, "CONFLICT", [first, second])
    assert upload_footprint(bpc, tmp_path, 2, "--document", second)["document_id"] == second
