"""`bpc suppliers`, `bpc upload` by reference and `bpc documents map`: a supplier's tables, on the command line."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import Program
from tests.running_installation import RunningInstallation

CELLS = "Example Cells GmbH"
TABLE = "sku;Masse [kg];Wert X\n{sku};1.000;2,5\n"


@pytest.fixture(scope="session")
def bpc(running_installation: RunningInstallation) -> Program:
    return running_installation.create_tenant()


def write_table(folder: Path, sku: str, name: str = "bom.csv") -> str:
    file = folder / name
    file.write_text(TABLE.format(sku=sku))
    return str(file)


def load_battery(bpc: Program, sku: str) -> Any:
    """What a snapshot of what is known now holds about a battery."""
    snapshot = bpc.run_ok("snapshots", "create", sku, "--json").json()["snapshot_id"]
    items = json.loads(bpc.run_ok("get", f"/v1/snapshots/{snapshot}/items").out)["items"]
    return next(item["payload"] for item in items if item["fact_type"] == "Battery")


def test_suppliers_are_added_changed_and_listed_by_rank(bpc: Program) -> None:
    bpc.run_ok("suppliers", "add", "Slow Cells", "--locale", "comma")
    added = bpc.run_ok("suppliers", "add", "Fast Cells", "--rank", "2").out.splitlines()
    bpc.run_ok("suppliers", "change", "Slow Cells", "--rank", "1", "--locale", "point")
    bpc.run_ok("suppliers", "add", "Other Cells", "--rank", "1")
    bpc.run_ok("suppliers", "change", "Other Cells", "--rank", "none", "--locale", "unknown")

    listed = bpc.run_ok("suppliers", "list", "--json").json()
    shown = bpc.run_ok("suppliers", "list").out.splitlines()

    assert added[1:] == ["name      Fast Cells", "locale    unknown", "rank      2"]
    rows = [(each["name"], each["rank"], each["locale"]) for each in listed if "Cells" in each["name"]]
    assert rows[:3] == [("Slow Cells", 1, "point"), ("Fast Cells", 2, None), ("Other Cells", None, None)]
    assert shown[1].startswith("Slow Cells")


def test_what_cannot_be_done_with_a_supplier_is_said(bpc: Program) -> None:
    bpc.run_ok("suppliers", "add", "Known")

    assert "already exists" in bpc.run("suppliers", "add", "Known").err
    assert "`bpc suppliers list`" in bpc.run("suppliers", "change", "Nobody", "--rank", "1").err
    assert "`first` is not a rank" in bpc.run("suppliers", "change", "Known", "--rank", "first").err
    assert "nothing to change" in bpc.run("suppliers", "change", "Known").err


def test_an_upload_by_reference_keeps_the_name_and_the_supplier_and_a_repetition_changes_nothing(
    bpc: Program, tmp_path: Path
) -> None:
    options = ("--kind", "BOM", "--ref", "ERP/4711", "--supplier", CELLS, "--locale", "comma", "--wait", "--json")
    first = bpc.run_ok("upload", write_table(tmp_path, "A-1"), *options, "--version-ref", "1").json()
    second = bpc.run_ok("upload", write_table(tmp_path, "A-2"), *options, "--version-ref", "2").json()
    again = bpc.run_ok("upload", write_table(tmp_path, "A-1"), *options, "--version-ref", "1").json()

    assert first["document_id"] == second["document_id"] == again["document_id"]
    assert (first["version"], second["version"], again["version"]) == (1, 2, 1)
    document = json.loads(bpc.run_ok("get", f"/v1/documents/{first['document_id']}").out)
    assert (document["external_ref"], document["supplier"], document["locale"]) == ("ERP/4711", CELLS, "comma")
    statements = bpc.run_ok("documents", "statements", first["document_id"], "--json").json()
    assert [(each["sequence"], each["file_name"], each["status"]) for each in statements] == [
        (2, "bom.csv", "VALIDATED"),
        (1, "bom.csv", "VALIDATED"),
    ]
    assert load_battery(bpc, "A-2")["mass_kg"] == "1000.000000"


def test_several_files_are_several_documents(bpc: Program, tmp_path: Path) -> None:
    files = [write_table(tmp_path, f"S-{number}", f"{number}.csv") for number in range(2)]

    uploaded = bpc.run_ok("upload", *files, "--kind", "BOM", "--supplier", CELLS, "--wait", "--json").json()
    lines = bpc.run_ok("upload", *files, "--kind", "BOM").out.splitlines()
    refused = bpc.run("upload", *files, "--kind", "BOM", "--ref", "ERP-1")

    assert len({each["document_id"] for each in uploaded}) == 2
    assert [line.split()[1] for line in lines if line.startswith("document")] == [e["document_id"] for e in uploaded]
    assert "several files cannot be one document" in refused.err


def test_statements_of_rejected_versions_are_listed_as_such(bpc: Program, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text('{"battery":{"sku":"R-1"}}')
    bad.write_text('{"battery":{}}')
    first = bpc.run_ok("upload", str(good), "--kind", "BOM", "--ref", "R", "--wait", "--json").json()
    bpc.run("upload", str(bad), "--kind", "BOM", "--ref", "R", "--wait")

    lines = bpc.run_ok("documents", "statements", first["document_id"]).out.splitlines()

    assert [line.split()[0] for line in lines] == ["no", "2", "1"]
    assert ("REJECTED" in lines[1], "bad.json" in lines[1]) == (True, True)
    assert "VALIDATED" in lines[2]


def test_columns_are_proposed_corrected_and_kept_for_the_supplier(bpc: Program, tmp_path: Path) -> None:
    file = write_table(tmp_path, "M-1")
    upload = ("upload", file, "--kind", "BOM", "--ref", "M", "--supplier", "Mapped", "--locale", "comma", "--wait")
    bpc.run_ok(*upload)
    assert "capacity_kwh" not in load_battery(bpc, "M-1")

    proposed = bpc.run_ok("documents", "map", file, "--kind", "BOM").out
    change = ("--set", "Wert X=capacity_kwh kWh")
    accepted = bpc.run_ok("documents", "map", file, "--kind", "BOM", *change, "--supplier", "Mapped", "--accept").out
    bpc.run_ok(*upload)

    assert "nothing is kept" in proposed
    assert [line.split("  ")[0] for line in proposed.splitlines() if "Wert X" in line] == ["line 1, column Wert X"]
    assert accepted.splitlines()[-1] == "version 1 of the mapping for BOM is in force for Mapped"
    assert load_battery(bpc, "M-1")["capacity_kwh"] == "2.500000"


def test_what_is_wrong_with_a_mapping_is_said(bpc: Program, tmp_path: Path) -> None:
    file, note = write_table(tmp_path, "M-1"), tmp_path / "note.json"
    note.write_text('{"battery":{"sku":"A-1"}}')
    run = ("documents", "map", file, "--kind", "BOM")

    assert "--supplier" in bpc.run(*run, "--accept").err
    assert "the columns are `sku`, `Masse [kg]`, `Wert X`" in bpc.run(*run, "--set", "Gewicht=mass_kg").err
    assert "does not say what a column is" in bpc.run(*run, "--set", "Gewicht").err
    assert "not a member" in bpc.run(*run, "--set", "Wert X=nothing", "--supplier", CELLS, "--accept").err
    assert "no table was recognised" in bpc.run("documents", "map", str(note), "--kind", "BOM").err
