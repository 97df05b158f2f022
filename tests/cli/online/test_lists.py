"""What the lists of the command line can be narrowed by: text, SKU, name, status, supplier, time."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bpc.runtime import clock
from tests.cli.online.test_passports import RULES, TESTS
from tests.cli.program import Program
from tests.running_installation import RunningInstallation

SUPPLIER = "Example Cells GmbH"
PACKAGE = "Industrial rules"
LONG_AGO = ("--until", "2020-01-01")
LATELY = ("--since", "1h", "--until", "2999-12-31")


@dataclass(frozen=True, slots=True)
class Stock:
    """Two products with a passport each: that of CELL-1 is active and its document is from a supplier."""

    bpc: Program

    def list_members(self, member: str, *command: str) -> list[Any]:
        """A member of every item of a list."""
        return [item[member] for item in json.loads(self.bpc.run_ok(*command, "--json").out)]


@pytest.fixture(scope="session")
def stock(running_installation: RunningInstallation, run_folder: Path) -> Stock:
    bpc = running_installation.create_tenant()
    folder = run_folder / f"lists-{clock.new_id().hex[-8:]}"
    folder.mkdir()
    (folder / "rules.bpc").write_text(RULES + TESTS)
    bpc.run_ok("rules", "publish", folder / "rules.bpc", "--package", PACKAGE, "--json")
    for sku, more in (("CELL-1", ("--supplier", SUPPLIER)), ("PACK-2", ())):
        (folder / f"{sku}.json").write_text(f'{{"battery": {{"sku": "{sku}", "capacity_kwh": "1"}}}}')
        bpc.run_ok("upload", folder / f"{sku}.json", "--kind", "BOM", "--ref", f"ERP-{sku}", *more, "--wait")
    (folder / "products.csv").write_text("sku,name\nCELL-1,Zinkzelle Öhringen\nPACK-2,Traction pack\n")
    bpc.run_ok("passports", "compile", "--rules", PACKAGE, "--csv", folder / "products.csv", "--wait")
    bpc.run_ok("passports", "activate", "CELL-1")
    return Stock(bpc)


BOTH = ["PACK-2", "CELL-1"]


@pytest.mark.parametrize(
    ("filters", "skus"),
    [
        ((), BOTH),
        (("zelle öhr",), ["CELL-1"]),
        (("--sku", "PACK-2"), ["PACK-2"]),
        (("--name", "TRACTION"), ["PACK-2"]),
        (("--status", "active"), ["CELL-1"]),
        (("--status", "NONE"), ["PACK-2"]),
        (("--supplier", SUPPLIER), ["CELL-1"]),
        (LATELY, BOTH),
        (LONG_AGO, []),
    ],
)
def test_passports(stock: Stock, filters: Sequence[str], skus: list[str]) -> None:
    assert sorted(stock.list_members("sku", "passports", "list", *filters)) == sorted(skus)
    assert sorted(stock.list_members("product_name", "passports", "list", *filters)) == sorted(
        {"CELL-1": "Zinkzelle Öhringen", "PACK-2": "Traction pack"}[sku] for sku in skus
    )


@pytest.mark.parametrize(
    ("filters", "skus"),
    [
        ((), BOTH),
        (("CELL-1",), ["CELL-1"]),
        (("--text", "zelle"), ["CELL-1"]),
        (("--name", "pack"), ["PACK-2"]),
        (("--status", "signed"), ["PACK-2"]),
        (("CELL-1", "--status", "signed"), []),
        (("--supplier", SUPPLIER), ["CELL-1"]),
        (LATELY, BOTH),
        (LONG_AGO, []),
    ],
)
def test_versions(stock: Stock, filters: Sequence[str], skus: list[str]) -> None:
    assert sorted(stock.list_members("sku", "passports", "versions", *filters)) == sorted(skus)


@pytest.mark.parametrize(
    ("filters", "skus"),
    [
        (("erp-cell",), ["CELL-1"]),
        (("--ref", "ERP-PACK-2"), ["PACK-2"]),
        (("--name", "no such"), []),
        (("--kind", "bom"), BOTH),
        (("--kind", "PCF"), []),
        (("--supplier", SUPPLIER), ["CELL-1"]),
        (("--sku", "PACK-2"), ["PACK-2"]),
        (("--status", "inactive"), []),
        (LATELY, BOTH),
        (LONG_AGO, []),
    ],
)
def test_documents(stock: Stock, filters: Sequence[str], skus: list[str]) -> None:
    refs = stock.list_members("external_ref", "documents", "list", *filters)

    assert refs == [f"ERP-{sku}" for sku in skus]
    table = stock.bpc.run_ok("documents", "list", *filters).out.splitlines()
    assert [sku in line for sku, line in zip(skus, table[1:], strict=True)] == [True for _ in skus]


@pytest.mark.parametrize(
    ("filters", "skus"),
    [
        (("--sku", "CELL-1"), ["CELL-1"]),
        (("--text", "öhringen"), ["CELL-1"]),
        (("--supplier", SUPPLIER), ["CELL-1"]),
        (("--type", "Battery", *LATELY), BOTH),
        (LONG_AGO, []),
    ],
)
def test_facts(stock: Stock, filters: Sequence[str], skus: list[str]) -> None:
    assert sorted(set(stock.list_members("sku", "facts", "list", *filters))) == sorted(skus)


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        (("--text", "INDUSTRIAL"), 1),
        (("--name", "no such"), 0),
        (("--status", "inactive"), 0),
        (("--status", "active", *LATELY), 1),
        (LONG_AGO, 0),
        ((PACKAGE,), 1),
    ],
)
def test_rule_packages(stock: Stock, filters: Sequence[str], count: int) -> None:
    assert stock.list_members("name", "rules", "list", *filters) == [PACKAGE] * count


def test_a_package_is_named_or_searched_for(stock: Stock) -> None:
    assert stock.bpc.run("rules", "list", PACKAGE, "--status", "active").code == 2


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        (("--sku", "CELL-1"), 1),
        (("--sku", "CELL"), 0),
        (("--text", "zelle"), 1),
        (("--rules", PACKAGE), 1),
        (("--status", "cancelled"), 0),
        (LATELY, 1),
        (LONG_AGO, 0),
    ],
)
def test_runs(stock: Stock, filters: Sequence[str], count: int) -> None:
    assert len(stock.list_members("status", "runs", "list", *filters)) == count


@pytest.mark.parametrize(("filters", "count"), [(("zelle",), 1), (("--name", "pack"), 1), (("--status", "active"), 2)])
def test_products(stock: Stock, filters: Sequence[str], count: int) -> None:
    assert len(stock.list_members("sku", "products", "list", *filters)) == count
