"""`bpc passports`, `documents`, `facts` and `snapshots` against a real `bpc up`: a day with one product, by its SKU."""

import json
import socket
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from bpc.runtime import clock
from tests.cli.program import Program
from tests.running_installation import RunningInstallation
from tests.terminal import list_completions

RULES = """
field battery.capacity_kwh @public: Dec(6) =
  let b = requireSome(getFact("Battery", concat("battery:", productSku())), "E001", "battery missing");
  requireSome(recordGet(b, "capacity_kwh"), "E002", "no capacity");
"""
TESTS = """
property it_stores_what_its_sheet_says: cases(500) seed(1) given {
  fact b("Battery", "battery:SKU-1") = {"sku": "SKU-1", "capacity_kwh": "1.000000"};
} => forall x: Int . implies(x == x, field("battery.capacity_kwh") == 1);;
"""
SKU = "DAY-1"
REF = "ERP-4711"


@dataclass(frozen=True, slots=True)
class Day:
    """A product with two versions of its passport: the first superseded, the second active."""

    bpc: Program
    folder: Path
    first: str
    second: str


@pytest.fixture(scope="session")
def day(running_installation: RunningInstallation, run_folder: Path) -> Day:
    bpc = running_installation.create_tenant()
    folder = run_folder / f"day-{clock.new_id().hex[-8:]}"
    folder.mkdir()
    (folder / "rules.bpc").write_text(RULES + TESTS)
    bpc.run_ok("rules", "publish", folder / "rules.bpc", "--package", "rules", "--json")
    products = folder / "products.csv"
    products.write_text(f"sku,name\n{SKU},City pack\n")

    _upload(bpc, folder, "75.5")
    bpc.run_ok("passports", "compile", "--rules", "rules", "--csv", products, "--wait")
    first = bpc.run_ok("passport", "activate", SKU, "--json").json()["passport_version_id"]
    _upload(bpc, folder, "76")
    bpc.run_ok("passports", "compile", SKU, "--rules", "rules", "--wait")
    second = bpc.run_ok("passports", "activate", SKU, "--json").json()["passport_version_id"]
    return Day(bpc, folder, first, second)


def _upload(bpc: Program, folder: Path, capacity: str) -> None:
    file = folder / "bom.json"
    file.write_text(json.dumps({"battery": {"sku": SKU, "capacity_kwh": capacity}}))
    bpc.run_ok("upload", file, "--kind", "BOM", "--ref", REF, "--wait", "--json")


def test_a_passport_is_shown_by_sku_by_its_ids_and_in_the_singular(day: Day) -> None:
    by_sku = day.bpc.run_ok("passports", "show", SKU, "--json").json()
    text = day.bpc.run_ok("passport", "show", SKU).out

    assert (by_sku["sku"], by_sku["name"], by_sku["status"]) == (SKU, "City pack", "ACTIVE")
    assert (by_sku["passport_version_id"], by_sku["is_current"]) == (day.second, True)
    assert text.startswith(f"product     {SKU}, City pack\nversion     {day.second} (ACTIVE)\n")
    for identifier in (by_sku["passport_id"], by_sku["battery_product_id"], day.second):
        assert day.bpc.run_ok("passports", "show", identifier, "--json").json() == by_sku
    assert day.bpc.run_ok("passports", "show", day.first, "--json").json()["status"] == "SUPERSEDED"


def test_passports_and_versions_are_listed(day: Day) -> None:
    [passport] = json.loads(day.bpc.run_ok("passports", "list", "--json").out)
    versions = json.loads(day.bpc.run_ok("passports", "versions", SKU, "--json").out)

    assert (passport["sku"], passport["current_passport_version_id"]) == (SKU, day.second)
    assert [version["passport_version_id"] for version in versions] == [day.second, day.first]
    assert f"{SKU}  City pack  {day.second}" in day.bpc.run_ok("passports", "list").out
    assert day.second in day.bpc.run_ok("passports", "versions", SKU, "--limit", "1").out


def test_what_changed_is_told_with_its_cause(day: Day) -> None:
    changed = day.bpc.run("passports", "diff", SKU)
    backwards = day.bpc.run("passports", "diff", SKU, day.first, "--json")
    itself = day.bpc.run_ok("passports", "diff", SKU, day.second)

    assert (changed.code, changed.err) == (1, "")
    assert "battery.capacity_kwh: 75.500000 -> 76.000000\n" in changed.out
    assert (backwards.json()["before_id"], backwards.json()["after_id"]) == (day.second, day.first)
    assert itself.out == "the passports say the same\n"
    assert "is the first of its passport" in day.bpc.run("passports", "diff", day.first).err


def test_a_field_is_explained(day: Day) -> None:
    assert day.bpc.run_ok("passports", "why", SKU, "battery.capacity_kwh").out.startswith(
        "battery.capacity_kwh is 76.000000 (Dec(6))"
    )
    assert day.bpc.run_ok("passports", "why", day.first, "battery.capacity_kwh", "--json").json()["says"]
    unknown = day.bpc.run("passports", "why", SKU, "battery.capacity")
    assert (unknown.code, unknown.err.split(":")[0]) == (1, "NOT_FOUND")


def test_versions_are_replayed_one_by_one_or_all(day: Day) -> None:
    one = day.bpc.run_ok("passports", "replay", SKU)
    every = json.loads(day.bpc.run_ok("passports", "replay", "--all", "--json").out)

    assert "\n  ok  replay " in one.out
    assert one.out.endswith("1 of 1 version: byte for byte the same\n")
    assert [(result["passport_version_id"], result["ok"]) for result in every] == [(day.second, True)]
    assert day.bpc.run("passports", "replay").code == 2


def test_a_bundle_and_a_pdf_are_fetched_by_sku(day: Day) -> None:
    bundle, file = day.folder / "bundle.zip", day.folder / "passport.pdf"

    day.bpc.run_ok("bundle", SKU, "--out", bundle)
    opened = day.bpc.run_ok("passports", "open", SKU, "--no-viewer", "--out", file, "--json").json()

    assert day.bpc.run_ok("verify", bundle, "--unpinned", "--json").json()["ok"] is True
    assert file.read_bytes().startswith(b"%PDF-")
    assert opened == {"file": str(file), "bytes": file.stat().st_size, "passport_version_id": day.second}


def test_the_active_version_is_revoked_by_sku(day: Day) -> None:
    products = day.folder / "revoked.csv"
    products.write_text("sku,name\nDAY-2,Other pack\n")
    (day.folder / "other.json").write_text('{"battery": {"sku": "DAY-2", "capacity_kwh": "1"}}')
    day.bpc.run_ok("upload", day.folder / "other.json", "--kind", "BOM", "--wait")
    day.bpc.run_ok("passports", "compile", "--rules", "rules", "--csv", products, "--wait", "--activate")

    revoked = day.bpc.run_ok("passports", "revoke", "DAY-2", "--reason", "wrong", "--json").json()
    again = day.bpc.run("passports", "revoke", "DAY-2", "--reason", "wrong")

    assert revoked["status"] == "REVOKED"
    assert again.code == 1
    assert again.err == (
        "NOT_FOUND: no version of the passport of `DAY-2` is active; the newest is REVOKED\n"
        "  `bpc passports versions DAY-2` lists them\n"
    )
    assert "waits to be activated" in day.bpc.run("passports", "activate", "DAY-2").err


@pytest.mark.parametrize("command", ["show", "versions", "activate", "replay", "diff", "open"])
def test_an_unknown_sku_is_not_found_and_the_next_step_is_named(day: Day, command: str) -> None:
    ended = day.bpc.run("passports", command, "NOBODY")

    assert ended.code == 1
    assert ended.err == (
        "NOT_FOUND: there is no product with the SKU or the id `NOBODY`\n"
        "  `bpc passports list` shows those with a passport\n"
    )


def test_documents_are_listed_and_shown_by_reference(day: Day) -> None:
    documents = json.loads(day.bpc.run_ok("documents", "list", "--ref", REF, "--json").out)
    document = day.bpc.run_ok("document", "show", REF, "--json").json()
    text = day.bpc.run_ok("documents", "show", documents[0]["document_id"]).out

    assert [each["document_id"] for each in documents] == [document["document_id"]]
    assert [(each["version"], each["status"]) for each in document["versions"]] == [(2, "VALIDATED"), (1, "VALIDATED")]
    assert (document["problems"], document["warnings"]) == ([], [])
    assert f"reference  {REF}\n" in text
    assert REF in day.bpc.run_ok("documents", "list").out
    assert day.bpc.run_ok("documents", "statements", REF).out.count("VALIDATED") == 2
    unknown = day.bpc.run("documents", "show", "ERP-0")
    assert unknown.err.startswith("NOT_FOUND: there is no document with the id or the reference `ERP-0`\n")


def test_facts_are_listed_by_key_and_by_document_and_shown(day: Day) -> None:
    by_key = json.loads(day.bpc.run_ok("facts", "list", "--key", f"battery:{SKU}", "--json").out)
    [newest] = json.loads(day.bpc.run_ok("facts", "list", "--document", REF, "--type", "Battery", "--json").out)
    text = day.bpc.run_ok("fact", "show", newest["fact_id"]).out

    assert len(by_key) == 2
    by_sku = json.loads(day.bpc.run_ok("facts", "list", "--sku", SKU, "--type", "Battery", "--json").out)
    assert {fact["fact_id"] for fact in by_sku} >= {newest["fact_id"]}
    assert newest["payload"]["capacity_kwh"] == "76.000000"
    assert f"key      battery:{SKU}\n" in text
    assert "found in 1 place\n" in text
    assert newest["fact_id"] in day.bpc.run_ok("facts", "list").out
    assert day.bpc.run_ok("facts", "show", newest["fact_id"], "--json").json()["sources_total"] == 1


def test_snapshots_are_created_listed_and_shown(day: Day) -> None:
    sealed = day.bpc.run_ok("snapshots", "create", SKU, "--label", "today", "--json").json()

    [newest] = json.loads(day.bpc.run_ok("snapshots", "list", "--limit", "1", "--json").out)
    snapshot = day.bpc.run_ok("snapshot", "show", sealed["snapshot_id"], "--json").json()
    text = day.bpc.run_ok("snapshots", "show", sealed["snapshot_id"]).out

    assert (newest["snapshot_id"], newest["label"], newest["status"]) == (
        sealed["snapshot_id"],
        "today",
        "SEALED",
    )
    assert snapshot["count"] == len(snapshot["facts"])
    assert f"battery:{SKU}" in text
    assert "today" in day.bpc.run_ok("snapshots", "list").out


@pytest.mark.parametrize(
    ("words", "completion"),
    [
        ("bpc passports show ", SKU),
        ("bpc passport why DA", SKU),
        ("bpc bundle ", SKU),
        ("bpc snapshots create DAY", SKU),
        ("bpc passports compile --rules ", "rules"),
    ],
)
def test_the_shell_completes_what_the_service_has(day: Day, words: str, completion: str) -> None:
    assert completion in list_completions(day.bpc, "bash", words).splitlines()


def test_the_shell_completes_ids(day: Day) -> None:
    document = day.bpc.run_ok("documents", "show", REF, "--json").json()["document_id"]

    assert list_completions(day.bpc, "bash", f"bpc documents show {document[:20]}").split() == [document]
    assert day.second in list_completions(day.bpc, "bash", f"bpc passports show {day.second[:9]}")
    assert SKU in list_completions(day.bpc, "zsh", "bpc passports show ")


def test_without_a_service_the_shell_completes_nothing_and_says_nothing(bpc_alone: Program) -> None:
    with socket.socket() as silent:  # it takes the connection and never answers
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        started = time.monotonic()
        for settings in ({"BPC_URL": url}, {"BPC_URL": "http://127.0.0.1:9"}, {"BPC_URL": "nonsense"}):
            program = bpc_alone.with_settings(BPC_API_KEY="bpc_x_y", **settings)
            assert list_completions(program, "bash", "bpc passports show ").strip() == ""

    assert time.monotonic() - started < 15  # each has a second, and the machine may be busy


@pytest.fixture
def bpc_alone(data_dir: Path) -> Program:
    return Program(data_dir)
