"""`bpc batteries issue`: passports of single batteries on the command line, checked by `bpc verify`."""

import json
import zipfile
from pathlib import Path

import pytest
from bpc_client import SyncClient

from tests.cli.program import Program
from tests.running_installation import RunningInstallation

RULES = """language 2;

def battery = Battery for productSku();
def batch = Batch for productSku();
def item = Item for productSku();

field model.capacity_kwh @public: Opt(Dec(6)) = battery.capacity_kwh;
field batch.country @public: Opt(Text) = batch.manufacturing_country;
field item.serial @public: Opt(Text) = item.serial_number;
field item.remaining_ah @interest: Opt(Dec(6)) = item.remaining_capacity_ah;
"""
TESTS = """language 2;

property it_says_what_its_sheet_says: cases(500) seed(1) given {
  fact b("Battery", "battery:SKU-1") = {"sku": "SKU-1", "capacity_kwh": "1.000000"};
} => forall x: Int . implies(x == x, field("model.capacity_kwh") is present);;
"""


@pytest.fixture(scope="session")
def bpc(running_installation: RunningInstallation) -> Program:
    return running_installation.create_tenant()


@pytest.fixture(scope="session")
def model(bpc: Program, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The SKU of a product with an active passport."""
    folder = tmp_path_factory.mktemp("model")
    (folder / "rules.bpc").write_text(RULES)
    sheet = folder / "sheet.json"
    sheet.write_text(json.dumps({"batteries": [{"sku": "PACK-48", "capacity_kwh": "0.5"}]}))
    products = folder / "products.csv"
    products.write_text("sku,name\nPACK-48,Pack\n")
    (folder / "tests.bpc").write_text(TESTS)
    tests = ("--tests", str(folder / "tests.bpc"))
    bpc.run_ok("rules", "publish", str(folder / "rules.bpc"), *tests, "--package", "items")
    bpc.run_ok("upload", str(sheet), "--kind", "BOM", "--ref", "SHEET", "--wait")
    bpc.run_ok("passports", "compile", "--rules", "items", "--csv", str(products), "--activate", "--wait")
    return "PACK-48"


def test_a_file_of_batteries_becomes_passports_that_verify(bpc: Program, model: str, tmp_path: Path) -> None:
    items, bundle, view = tmp_path / "items.csv", tmp_path / "a1.zip", tmp_path / "a1.json"
    items.write_text("serial_number,remaining_capacity_ah\nA1,9.5\nA2,9.25\n")
    arguments = ("batteries", "issue", "--model", model, "--items", str(items), "--rules", "items")

    checked = bpc.run_ok(*arguments, "--check").out
    issued = bpc.run_ok(*arguments).out.splitlines()
    again = bpc.run_ok(*arguments, "--json").json()
    runs = bpc.run_ok("batteries", "runs", "--json").json()
    shown = bpc.run_ok("batteries", "view", "A1", "--audience", "interest").out
    bpc.run_ok("batteries", "bundle", "A1", "--out", str(bundle))
    bpc.run_ok("batteries", "view", "A1", "--out", str(view))

    assert checked == "all rows are good; nothing was stored\n"
    assert issued[0] == "2 batteries get a passport, 0 have one that says the same"
    assert "FINISHED: 2 of 2 issued, 0 refused" in issued[1]
    assert (again["new"], again["unchanged"], again["runs"][0]["run_id"]) == (0, 2, runs[0]["run_id"])
    assert ("PASS" in shown, "9.500000" in shown, "item" in shown) == (True, True, True)
    with zipfile.ZipFile(bundle) as archive:
        key = json.loads(archive.read("manifest.json"))["public_key"]
    for file in (bundle, view):
        verified = bpc.run("verify", str(file), "--key", key)
        assert verified.code == 0, verified.out + verified.err
    tampered = tmp_path / "tampered.zip"
    tampered.write_bytes(bundle.read_bytes().replace(b'"A1"', b'"A2"'))
    assert bpc.run("verify", str(tampered), "--key", key).code == 1


def test_rows_with_faults_are_named_and_runs_are_stopped_and_resumed(bpc: Program, model: str, tmp_path: Path) -> None:
    items = tmp_path / "items.csv"
    items.write_text("serial_number,remaining_capacity_ah\nB1,much\nB2,1\n")
    faulty = bpc.run("batteries", "issue", "--model", model, "--items", str(items))
    items.write_text("serial_number,remaining_capacity_ah\nB1,1\nB2,1\n")
    run = bpc.run_ok("batteries", "issue", "--model", model, "--items", str(items), "--json").json()["runs"][0]
    unknown = bpc.run("batteries", "issue", "--model", "NO-SUCH", "--items", str(items))

    stopped = bpc.run_ok("batteries", "stop", run["run_id"], "--json").json()
    resumed = bpc.run_ok("batteries", "resume", run["run_id"]).out

    assert (faulty.code, "`much` is not a number" in faulty.out) == (1, True)
    assert (unknown.code, "there is no battery product" in unknown.err) == (1, True)
    assert (stopped["status"], stopped["issued"]) == ("FINISHED", 2)
    assert "FINISHED: 2 of 2 issued" in resumed
    with SyncClient(bpc.settings["BPC_URL"], bpc.settings["BPC_API_KEY"]) as api:
        [battery] = api.look_up_battery(text="B1").items
        assert len(api.list_battery_passport_versions(battery.battery_id).items) == 1


def test_a_batch_gets_a_passport_that_its_batteries_lie_below(bpc: Program, model: str, tmp_path: Path) -> None:
    items, bundle, batch_bundle = tmp_path / "items.csv", tmp_path / "c1.zip", tmp_path / "batch.zip"
    items.write_text("serial_number,batch_number\nC1,2027-08\n")
    bpc.run_ok("batteries", "register", _add_sku(items, model))

    issued = bpc.run_ok("batteries", "batch", "issue", "2027-08", "--country", "DE").out
    again = bpc.run_ok("batteries", "batch", "issue", "2027-08", "--country", "DE", "--json").json()
    unknown = bpc.run("batteries", "batch", "issue", "2027-09")
    listed = bpc.run_ok("batteries", "batch", "list", "--model", model, "--json").json()
    versions = bpc.run_ok("batteries", "batch", "versions", "2027-08", "--json").json()
    bpc.run_ok("batteries", "issue", "--model", model, "--items", str(items))
    shown = bpc.run_ok("batteries", "view", "C1").out
    batch_shown = bpc.run_ok("batteries", "batch", "view", "2027-08").out
    bpc.run_ok("batteries", "bundle", "C1", "--out", str(bundle))
    bpc.run_ok("batteries", "batch", "bundle", "2027-08", "--out", str(batch_bundle))

    assert "status    ISSUED" in issued
    assert [version["passport_version_id"] for version in versions] == [again["passport_version_id"]]
    assert (unknown.code, "there is no batch `2027-09`" in unknown.err) == (1, True)
    assert [batch["batch_number"] for batch in listed] == ["2027-08"]
    assert f"batch     {again['passport_version_id']}" in shown
    assert ("DE" in shown, "DE" in batch_shown) == (True, True)
    with zipfile.ZipFile(bundle) as archive:
        key = json.loads(archive.read("manifest.json"))["public_key"]
    for file in (bundle, batch_bundle):
        verified = bpc.run("verify", str(file), "--key", key)
        assert verified.code == 0, verified.out + verified.err


def test_batteries_are_issued_again_below_a_new_version_of_their_model(
    bpc: Program, model: str, tmp_path: Path
) -> None:
    items, sheet, products = tmp_path / "items.csv", tmp_path / "sheet.json", tmp_path / "products.csv"
    items.write_text("serial_number,remaining_capacity_ah\nD1,7.5\n")
    bpc.run_ok("batteries", "issue", "--model", model, "--items", str(items))
    sheet.write_text(json.dumps({"batteries": [{"sku": model, "capacity_kwh": "0.6"}]}))
    products.write_text(f"sku,name\n{model},Pack\n")
    bpc.run_ok("upload", str(sheet), "--kind", "BOM", "--ref", "SHEET", "--wait")
    bpc.run_ok("passports", "compile", "--rules", "items", "--csv", str(products), "--activate", "--wait")

    kept = bpc.run_ok("batteries", "view", "D1", "--audience", "interest").out
    report = bpc.run_ok("batteries", "rebase", "--model", model).out
    again = bpc.run_ok("batteries", "rebase", "--model", model, "--json").json()
    shown = bpc.run_ok("batteries", "view", "D1", "--audience", "interest").out

    assert "the product has a newer one" in kept
    assert "batteries are issued again" in report
    assert (again["new"], again["runs"]) == (0, [])
    assert ("the product has a newer one" in shown, "7.500000" in shown) == (False, True)


def _add_sku(items: Path, sku: str) -> str:
    """The same rows as a file for registering."""
    header, *rows = items.read_text().splitlines()
    file = items.with_name("register.csv")
    file.write_text("\n".join([f"sku,{header}", *(f"{sku},{row}" for row in rows)]) + "\n")
    return str(file)
