"""`bpc products`: products are found, renamed, deactivated and reactivated on the command line."""

import pytest
from bpc_client import SyncClient

from tests.cli.program import Program
from tests.running_installation import RunningInstallation


@pytest.fixture(scope="session")
def bpc(running_installation: RunningInstallation) -> Program:
    return running_installation.create_tenant()


def test_products_are_found_renamed_deactivated_and_reactivated(bpc: Program) -> None:
    with SyncClient(bpc.settings["BPC_URL"], bpc.settings["BPC_API_KEY"]) as api:
        api.create_battery_product(sku="CELL-1", name="Zinkzelle Öhringen")
        api.create_battery_product(sku="PACK-2", name="Traction battery 75 kWh")

    def list_skus(*arguments: str) -> list[str]:
        return [product["sku"] for product in bpc.run_ok("products", "list", *arguments, "--json").json()]

    assert list_skus() == ["PACK-2", "CELL-1"]
    assert list_skus("zelle öhr") == ["CELL-1"]
    assert list_skus("--limit", "1") == ["PACK-2"]
    assert list_skus("--since", "1h", "--until", "2999-12-31T23:59:59+01:00") == ["PACK-2", "CELL-1"]
    assert list_skus("--until", "2020-01-01") == list_skus("--supplier", "nobody") == []

    renamed = bpc.run_ok("products", "rename", "CELL-1", "Zelle").out.splitlines()
    assert renamed[1:] == ["sku       CELL-1", "name      Zelle", "active    yes"]
    bpc.run_ok("products", "deactivate", "CELL-1", "--reason", "no longer sold")
    assert list_skus("--status", "inactive") == ["CELL-1"]
    table = bpc.run_ok("products", "list").out.splitlines()
    assert [line.split()[:2] for line in table] == [["sku", "name"], ["PACK-2", "Traction"], ["CELL-1", "Zelle"]]
    assert bpc.run_ok("products", "reactivate", "CELL-1", "--json").json()["is_active"] is True
    shown = bpc.run_ok("products", "show", "CELL-1").out.splitlines()
    assert shown[1:] == ["sku       CELL-1", "name      Zelle", "active    yes", "passport  none", "current   none"]
    assert bpc.run_ok("products", "show", "CELL-1", "--json").json()["passport_id"] is None


def test_what_cannot_be_done_with_a_product_is_said(bpc: Program) -> None:
    for command in (("show",), ("rename",), ("deactivate",), ("reactivate",)):
        refused = bpc.run("products", *command, "NO-SUCH", *(["x"] if command == ("rename",) else []))
        assert (refused.code, refused.err.splitlines()[0]) == (1, "NOT_FOUND: there is no product `NO-SUCH`")
        assert "`bpc products list`" in refused.err
    naive = bpc.run("products", "list", "--since", "2027-02-18T12:00:00")
    assert (naive.code, "add Z if it is UTC" in naive.err) == (1, True)
    assert bpc.run("products", "list", "x").code == 1
