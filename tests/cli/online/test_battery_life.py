"""The whole life of a battery, over the API and the command line, with two tenants; and who sees what at each point.

made, sold, read out ten times out of order, repaired, waste ─► repurposed by another operator ─► waste, recycled
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from bpc_client import SyncClient

from bpc.runtime import clock
from tests.cli.program import Program
from tests.running_installation import RunningInstallation

MAKER_GLN, WORKSHOP_GLN = "GLN:9521234000006", "GLN:9521234000013"
GTIN = "09521234000013"
SERIAL = f"L{clock.new_id().hex[-12:]}"  # others have batteries of this GTIN in the same service
ADDRESS = f"/01/{GTIN}/21/{SERIAL}"
READINGS = {7: "7.5", 3: "3.5", 9: "9.5", 1: "1.5", 10: "10.5", 2: "2.5", 8: "8.5", 4: "4.5", 6: "6.5", 5: "5.5"}


@dataclass(frozen=True, slots=True)
class Audiences:
    """Everybody who may look at a battery: who has it, an auditor there, another tenant, and the public."""

    maker: Program
    auditor: Program
    taker: Program

    def look(self, battery: str) -> dict[str, Any]:
        """What each sees of the battery with this address: its status, or the code of the refusal."""
        return {
            "maker": self._show(self.maker, battery),
            "auditor": self._show(self.auditor, battery),
            "taker": self._show(self.taker, battery),
            "public": self.ask_public(battery),
        }

    def ask_public(self, address: str) -> Mapping[str, Any] | int:
        try:
            request = Request(f"{self.maker.settings['BPC_URL']}{address}", headers={"Accept": "application/json"})
            with urlopen(request, timeout=30) as answer:
                members: Mapping[str, Any] = json.load(answer)
        except HTTPError as refusal:
            return refusal.code
        return {name: members[name] for name in ("ceased", "successor")}

    @staticmethod
    def _show(program: Program, battery: str) -> str:
        shown = program.run("batteries", "show", battery, "--json")
        return str(shown.json()["status"]) if shown.code == 0 else "unknown"


@pytest.fixture
def audiences(running_installation: RunningInstallation) -> Audiences:
    maker, taker = running_installation.create_tenant(), running_installation.create_tenant()
    with SyncClient(maker.settings["BPC_URL"], maker.settings["BPC_API_KEY"]) as api:
        product = api.create_battery_product(sku="PACK-48", name="Pack").battery_product_id
        api.set_battery_identification(product, scheme="GS1", gtin=GTIN)
        actor = api.create_actor(type="USER", display_name="Auditor", roles=["Auditor"]).actor_id
        key = api.create_api_key(actor_id=actor).api_key
    with SyncClient(taker.settings["BPC_URL"], taker.settings["BPC_API_KEY"]) as api:
        api.create_battery_product(sku="STORAGE-5", name="Storage")
    return Audiences(maker, maker.with_settings(BPC_API_KEY=key), taker)


def step(day: str, by: str = MAKER_GLN) -> tuple[str, ...]:
    return "--on", day, "--by", by


@pytest.mark.slow
def test_a_battery_is_made_sold_read_out_repaired_repurposed_by_another_operator_and_recycled(
    audiences: Audiences, tmp_path: Path
) -> None:
    maker, auditor, taker = audiences.maker, audiences.auditor, audiences.taker
    items = tmp_path / "items.csv"
    items.write_text(f"sku,serial_number,batch_number,manufactured_on\nPACK-48,{SERIAL},2024-08,2024-08-01\n")
    before = audiences.ask_public(ADDRESS)

    # made
    maker.run_ok("batteries", "register", str(items))
    old = maker.run_ok("batteries", "show", ADDRESS, "--json").json()
    nothing_said = {"ceased": False, "successor": None}
    assert before == 404
    assert audiences.look(ADDRESS) == {
        "maker": "original",
        "auditor": "original",
        "taker": "unknown",
        "public": nothing_said,
    }
    assert (old["placed_on"], old["readings"], old["changes"]) == (None, [], [])

    # sold
    maker.run_ok("batteries", "place", ADDRESS, "--on", "2024-08-20")
    assert auditor.run("batteries", "place", ADDRESS, "--on", "2024-08-20").code == 1
    placed = auditor.run_ok("batteries", "show", ADDRESS, "--json").json()
    assert (placed["placed_on"], [each["kind"] for each in placed["changes"]]) == ("2024-08-20", ["PLACED"])

    # read out ten times, out of order; the latest is by its own time, whoever sends it last
    for day, value in READINGS.items():
        states = tmp_path / f"{day}.csv"
        rows = f"{GTIN},{SERIAL},capacity_fade_pct,2025-08-{day:02d}T10:00:00Z,{value}\n"
        states.write_text(f"gtin,serial_number,kind,recorded_at,value\n{rows}")
        maker.run_ok("batteries", "readings", str(states), "--source", "BMS")
    read = auditor.run_ok("batteries", "show", ADDRESS, "--json").json()
    assert [each["number"] for each in read["readings"]] == ["10.500000"]
    with SyncClient(auditor.settings["BPC_URL"], auditor.settings["BPC_API_KEY"]) as api:
        series = api.list_battery_readings(old["battery_id"], kind="capacity_fade_pct").items
    assert [each.number for each in series] == [f"{day}.500000" for day in range(1, 11)]

    # repaired
    maker.run_ok("batteries", "repair", ADDRESS, *step("2025-09-01"), "--reason", "cell 4 was replaced")
    assert audiences.look(ADDRESS)["auditor"] == "original"
    early = maker.run("batteries", "transfer", "offer", ADDRESS, "--to", old["battery_id"], "--by", MAKER_GLN)
    assert "it must be waste first" in early.err

    # waste, offered to another operator
    maker.run_ok("batteries", "waste", ADDRESS, *step("2026-01-01"), "--reason", "it was handed in")
    taker_id = taker.run_ok("batteries", "transfer", "list", "--json").json()["tenant_id"]
    offered = maker.run_ok(
        "batteries", "transfer", "offer", ADDRESS, "--to", taker_id, "--by", MAKER_GLN, "--json"
    ).json()
    [incoming] = taker.run_ok("batteries", "transfer", "list", "--json").json()["incoming"]
    assert incoming["transfer_id"] == offered["transfer_id"]
    assert "PACK-48" not in json.dumps(incoming)
    assert audiences.look(ADDRESS) == {
        "maker": "waste",
        "auditor": "waste",
        "taker": "unknown",
        "public": nothing_said,
    }

    # repurposed by the other operator
    new_life = ("--life", "repurposed", "--sku", "STORAGE-5", "--serial", "S1")
    accepted = taker.run_ok(
        "batteries",
        "transfer",
        "accept",
        offered["transfer_id"],
        *new_life,
        *step("2026-02-01", WORKSHOP_GLN),
        "--wait",
    ).out
    assert "state     completed" in accepted
    new = taker.run_ok("batteries", "show", "S1", "--json").json()
    assert (new["status"], new["predecessor"], new["readings"]) == ("repurposed", ADDRESS, [])
    assert audiences.look(ADDRESS) == {
        "maker": "repurposed",
        "auditor": "repurposed",
        "taker": "unknown",
        "public": {"ceased": False, "successor": new["address"]},
    }
    assert audiences.look(new["address"]) == {
        "maker": "unknown",
        "auditor": "unknown",
        "taker": "repurposed",
        "public": nothing_said,
    }
    late = maker.run("batteries", "recycle", ADDRESS, *step("2026-03-01"), "--report", "R-0")
    assert "whose operator answers for it" in late.err
    kept, keys = tmp_path / "transfer.json", tmp_path / "keys.json"
    auditor.run_ok("batteries", "transfer", "show", offered["transfer_id"], "--save", str(kept))
    with urlopen(f"{maker.settings['BPC_URL']}/.well-known/bpc-keys.json", timeout=30) as answer:
        keys.write_bytes(answer.read())
    checked = taker.run_ok("batteries", "transfer", "check", str(kept), "--keys", str(keys)).out
    assert checked == "both sides signed the same terms, with keys that you trust\n"
    kept.write_text(kept.read_text().replace("repurposed", "re-used"))
    assert taker.run("batteries", "transfer", "check", str(kept), "--keys", str(keys)).code == 1

    # recycled: the end, which both addresses tell for ever
    taker.run_ok("batteries", "waste", "S1", *step("2026-04-01", WORKSHOP_GLN), "--reason", "it is worn out")
    taker.run_ok("batteries", "recycle", "S1", *step("2026-05-01", WORKSHOP_GLN), "--report", "R-1")
    assert audiences.look(new["address"])["public"] == {"ceased": True, "successor": None}
    assert audiences.look(new["address"])["taker"] == "waste"
    assert audiences.look(ADDRESS)["public"] == {"ceased": False, "successor": new["address"]}
    assert taker.run("batteries", "waste", "S1", *step("2026-06-01"), "--reason", "again").code == 1

    # and each point of it can be read again, as it was on record then
    changes = maker.run_ok("batteries", "show", ADDRESS, "--json").json()["changes"]
    then = [
        auditor.run_ok("batteries", "show", ADDRESS, "--at", each["changed_at"], "--json").json() for each in changes
    ]
    assert [each["kind"] for each in changes] == ["PLACED", "REPAIRED", "WASTE", "SUCCEEDED"]
    assert [each["status"] for each in then] == ["original", "original", "waste", "repurposed"]
    assert [len(each["changes"]) for each in then] == [1, 2, 3, 4]
    assert [len(each["readings"]) for each in then] == [0, 1, 1, 1]
    assert auditor.run("batteries", "show", ADDRESS, "--at", "2024-08-02T00:00:00Z").code == 1
