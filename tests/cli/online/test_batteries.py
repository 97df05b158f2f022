"""`bpc batteries`: registered by file, found by their labels, read out and recycled on the command line."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from bpc_client import SyncClient
from pyarrow import parquet as pq
from pypdf import PdfReader

from bpc.cli.online.batteries import row_parts
from tests.cli.program import Program
from tests.running_installation import RunningInstallation

STEP = ("--on", "2025-09-01", "--by", "GLN:9521234000006")


@pytest.fixture(scope="session")
def bpc(running_installation: RunningInstallation) -> Program:
    return running_installation.create_tenant()


def test_batteries_are_registered_found_read_out_and_recycled(bpc: Program, tmp_path: Path) -> None:
    with SyncClient(bpc.settings["BPC_URL"], bpc.settings["BPC_API_KEY"]) as api:
        for sku in ("PACK-48", "PACK-60"):
            api.create_battery_product(sku=sku, name="Pack")
    items, states = tmp_path / "items.csv", tmp_path / "states.csv"
    items.write_text("sku,serial_number,batch_number\nPACK-48,A1,B1\nPACK-48,A2,\nPACK-60,A2,\n")
    states.write_text("sku,serial_number,kind,recorded_at,value\nPACK-48,A1,full_cycles,2025-08-01T00:00:00Z,12\n")

    checked = bpc.run_ok("batteries", "register", str(items), "--check").out
    first = bpc.run_ok("batteries", "register", str(items)).out
    again = bpc.run_ok("batteries", "register", str(items), "--json").json()
    sent = bpc.run_ok("batteries", "readings", str(states), "--source", "BMS").out

    assert checked == "all rows are good; nothing was stored\n"
    assert first == "3 batteries registered, 0 were registered before\n"
    assert (again["registered"], again["unchanged"]) == (0, 3)
    assert sent == "1 of 1 readings are new, 0 correct others\n"
    listed = bpc.run_ok("batteries", "list", "--sku", "PACK-48", "--json").json()
    assert {battery["serial_number"] for battery in listed} == {"A1", "A2"}
    shown = bpc.run_ok("batteries", "show", "A1", "--json").json()
    assert [reading["number"] for reading in shown["readings"]] == ["12.000000"]
    assert bpc.run_ok("batteries", "show", shown["address"]).out.splitlines()[1] == "serial    A1"
    several = bpc.run("batteries", "show", "A2")
    assert (several.code, "name one by its address" in several.err) == (1, True)
    assert bpc.run("batteries", "show", "A9").err.startswith("NOT_FOUND: there is no battery `A9`")

    bpc.run_ok("batteries", "repair", "A1", *STEP, "--reason", "a cell was replaced")
    bpc.run_ok("batteries", "waste", "A1", *STEP, "--reason", "it was handed in")
    recycled = bpc.run_ok("batteries", "recycle", shown["battery_id"], *STEP, "--report", "R-1", "--json").json()
    assert recycled["ceased_at"] is not None
    assert bpc.run_ok("batteries", "list", "--status", "waste").out.splitlines()[1].split()[3] == "recycled"
    refused = bpc.run("batteries", "waste", "A1", *STEP, "--reason", "again")
    assert (refused.code, "its passport has ceased" in refused.err) == (1, True)

    items.write_text("sku,serial_number\nNO-SUCH,A1\nPACK-48,\n")
    faulty = bpc.run("batteries", "register", str(items))
    assert (faulty.code, "line 2: there is no product `NO-SUCH`" in faulty.err) == (1, True)
    assert "has no serial_number" in faulty.out


def test_parquet_is_sent_in_parts_and_events_are_recorded_once(bpc: Program, tmp_path: Path) -> None:
    with SyncClient(bpc.settings["BPC_URL"], bpc.settings["BPC_API_KEY"]) as api:
        api.create_battery_product(sku="FLEET", name="Pack")
    items, states, events = tmp_path / "items.parquet", tmp_path / "states.parquet", tmp_path / "events.jsonld"
    pq.write_table(pa.table({"sku": ["FLEET"] * 2, "serial_number": ["F1", "F2"]}), items)
    times = pa.array([datetime(2025, 8, day, tzinfo=UTC) for day in (1, 2, 3)])
    table = {"sku": ["FLEET"] * 3, "serial_number": ["F1"] * 3, "kind": ["full_cycles"] * 3, "recorded_at": times}
    pq.write_table(pa.table({**table, "value": [10, 20, 30]}), states)

    assert bpc.run_ok("batteries", "register", items).out.startswith("2 batteries registered")
    assert bpc.run_ok("batteries", "readings", states, "--source", "BMS").out.startswith("3 of 3 readings are new")
    assert bpc.run_ok("batteries", "readings", states, "--source", "BMS", "--json").json()["stored"] == 0
    pq.write_table(pa.table({**table, "value": [10, 20, 30.5]}), states)
    faulty = bpc.run("batteries", "readings", states, "--source", "BMS", "--check")
    assert (faulty.code, "line 3: `30.5` is not a value of full_cycles" in faulty.err) == (1, True)

    battery = bpc.run_ok("batteries", "show", "F2", "--json").json()
    event: dict[str, object] = {"eventID": "urn:uuid:7", "eventTime": "2025-09-01T00:00:00Z", "bizStep": "repairing"}
    place = {"id": "https://id.gs1.org/414/9521987000018"}
    event |= {"epcList": [f"https://passports.example{battery['address']}"], "bizLocation": place}
    events.write_text(json.dumps({"epcisBody": {"eventList": [event]}}))
    assert "1 steps would be recorded" in bpc.run_ok("batteries", "events", events, "--check").out
    assert "1 steps recorded, 0 were on" in bpc.run_ok("batteries", "events", events).out
    assert bpc.run_ok("batteries", "events", events, "--json").json()["unchanged"] == 1
    events.write_text(json.dumps({"epcisBody": {"eventList": [{**event, "bizStep": "destroying", "eventID": "x"}]}}))
    refused = bpc.run("batteries", "events", events, "--check")
    assert (refused.code, "it must be waste first" in refused.err) == (1, True)


def test_a_large_file_is_sent_in_parts_that_keep_their_header(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_parts, "ROWS_AT_ONCE", 2)

    assert list(row_parts.split_rows(b"sku,serial_number\nP,1\nP,2\nP,3\n")) == [
        (0, b"sku,serial_number\nP,1\nP,2\n"),
        (2, b"sku,serial_number\nP,3\n"),
    ]
    assert list(row_parts.split_rows(b"{}\n{}\n{}\n")) == [(0, b"{}\n{}\n"), (2, b"{}\n")]


def test_labels_are_printed_as_a_pdf_and_as_pages(bpc: Program, tmp_path: Path) -> None:
    with SyncClient(bpc.settings["BPC_URL"], bpc.settings["BPC_API_KEY"]) as api:
        api.create_battery_product(sku="LABELLED", name="Pack")
    items, pdf, svg = tmp_path / "items.csv", tmp_path / "labels.pdf", tmp_path / "labels.svg"
    items.write_text("sku,serial_number\n" + "".join(f"LABELLED,L{number}\n" for number in range(30)))
    bpc.run_ok("batteries", "register", str(items))
    choice = ("batteries", "labels", "--sku", "LABELLED", "--base-url", "https://id.example.com")

    printed = bpc.run_ok(*choice, "--out", str(pdf)).out
    pages = bpc.run_ok(*choice, "--out", str(svg), "--json").json()

    assert printed == f"30 labels in {pdf}\n"
    text = "".join(page.extract_text() for page in PdfReader(pdf).pages)
    assert set(re.findall(r"L[0-9]+", text)) >= {f"L{number}" for number in range(30)}
    assert [Path(name).name for name in pages["files"]] == ["labels-1.svg", "labels-2.svg"]
    assert all(Path(name).read_bytes().startswith(b"<svg") for name in pages["files"])
    no_host = bpc.run("batteries", "labels", "--sku", "LABELLED", "--out", str(pdf))
    assert (no_host.code, "is no link" in no_host.err) == (1, True)
    assert bpc.run(*choice, "--out", str(tmp_path / "labels.doc")).code == 1
    assert "no battery matches" in bpc.run(*choice, "--serial", "X", "--out", str(pdf)).err
