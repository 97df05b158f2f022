"""`bpc passports` against a real `bpc up`: many products at once, each row for itself, and a report of all of them."""

import asyncio
import csv
import json
from base64 import b64encode
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from bpc_client import Client
from typer.testing import CliRunner

from bpc.api.routes.compile_runs import MAX_ITEMS
from bpc.cli.online import compile_runs, passports, product_list
from bpc.runtime import clock
from tests.cli.program import Program
from tests.running_installation import RunningInstallation
from tests.terminal import run_on_terminal

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


@pytest.fixture(scope="session")
def bpc(running_installation: RunningInstallation) -> Program:
    return running_installation.create_tenant()


@pytest.fixture(scope="session")
def rules(bpc: Program) -> str:
    return asyncio.run(_publish_rules(bpc))


async def _publish_rules(bpc: Program) -> str:
    async with _make_client(bpc) as api:
        package = await api.create_rule_package(name="rules")
        version = await api.create_rule_version(package.rule_package_id, dsl_source=RULES, tests_source=TESTS)
        run = await api.run_rule_tests(version.rule_package_version_id, seed=1)
        await api.wait(run.job_id)
        await api.publish_rule_version(version.rule_package_version_id)
    return str(version.rule_package_version_id)


def _make_client(bpc: Program) -> Client:
    return Client(bpc.settings["BPC_URL"], bpc.settings["BPC_API_KEY"])


def _upload_documents(bpc: Program, *skus: str) -> None:
    asyncio.run(_upload_all(bpc, skus))


async def _upload_all(bpc: Program, skus: tuple[str, ...]) -> None:
    content = json.dumps({"batteries": [{"sku": sku, "capacity_kwh": "75.5"} for sku in skus]}).encode()
    async with _make_client(bpc) as api:
        document = await api.create_document(kind="BOM")
        version = await api.upload_document_version(
            document.document_id, mime_type="application/json", content_base64=b64encode(content).decode()
        )
        assert version.job_id is not None
        await api.wait(version.job_id)


def _write_csv(folder: Path, *lines: str) -> Path:
    file = folder / "products.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def _read_lines(report: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(report.read_text().splitlines()))


def _make_sku() -> str:
    return f"SKU-{clock.new_id().hex[-12:]}"


def test_a_file_of_products_becomes_passports_and_a_report(bpc: Program, rules: str, tmp_path: Path) -> None:
    good, better, report = _make_sku(), _make_sku(), tmp_path / "report.csv"
    _upload_documents(bpc, good, better)
    file = _write_csv(tmp_path, "sku,name", f"{good},Cell", f'{better},"Pack, large"')

    arguments = ("--rules", rules, "--csv", file, "--activate", "--wait", "--report", report, "--json")
    done = bpc.run_ok("passports", "compile", *arguments).json()

    assert (done["rows"], done["counts"]["ACTIVE"], done["progress"], done["failures"]) == (2, 2, 100, [])
    assert [run["rows"] for run in done["runs"]] == [2]
    lines = _read_lines(report)
    assert [(line["row"], line["sku"], line["status"]) for line in lines] == [
        ("1", good, "ACTIVE"),
        ("2", better, "ACTIVE"),
    ]
    assert str(UUID(lines[0]["passport_version_id"])) == lines[0]["passport_version_id"]


def test_rules_are_named_by_their_package_and_the_newest_published_version_compiles(
    bpc: Program, rules: str, tmp_path: Path
) -> None:
    sku = _make_sku()
    _upload_documents(bpc, sku)
    draft, products = tmp_path / "draft.bpc", _write_csv(tmp_path, "sku,name", f"{sku},Cell")
    draft.write_text(f"{RULES}-- newer\n{TESTS}")
    bpc.run_ok("rules", "publish", draft, "--package", "rules", "--no-publish")

    output = bpc.run_ok("passports", "compile", "--rules", "rules", "--csv", products, "--wait").out
    unknown = bpc.run("passports", "compile", "--rules", "no rules", "--csv", products)

    assert output.startswith(f"rules     {rules} (version 1 of rules)\nrun       ")
    assert "rows      1: 1 ISSUED" in output
    assert unknown.code == 1
    assert unknown.err.startswith("NOT_FOUND: there is no rule package called `no rules`\n")


def test_a_failed_row_is_printed_and_the_command_exits_1(bpc: Program, rules: str, tmp_path: Path) -> None:
    good, unknown, report = _make_sku(), _make_sku(), tmp_path / "report.csv"
    _upload_documents(bpc, good)
    file = _write_csv(tmp_path, "name,sku", f"Cell,{good}", f",{unknown}")

    ended = bpc.run("passports", "compile", "--rules", rules, "--csv", file, "--wait", "--report", report)

    assert ended.code == 1
    assert f"row 2, {unknown}: NOT_FOUND: there is no battery product with the SKU `{unknown}`" in ended.out
    lines = _read_lines(report)
    assert [(line["status"], line["error_code"]) for line in lines] == [("ISSUED", ""), ("FAILED", "NOT_FOUND")]


def test_on_a_terminal_a_failure_is_shown_while_the_run_goes_on(bpc: Program, rules: str, tmp_path: Path) -> None:
    sku = _make_sku()
    file = _write_csv(tmp_path, "sku", sku)

    output = run_on_terminal(bpc, "passports", "compile", "--rules", rules, "--csv", str(file), "--wait")

    live, _, summary = output.partition("rows      1: 1 FAILED")
    assert "compiling" in live
    assert "left" in live
    assert f"row 1, {sku}: NOT_FOUND: " in live
    assert f"row 1, {sku}: NOT_FOUND: " in summary


def test_more_products_than_one_run_takes_are_several_runs_with_one_summary_and_one_report(
    bpc: Program, rules: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skus, report = [_make_sku() for _ in range(5)], tmp_path / "report.csv"
    _upload_documents(bpc, *skus[:4])
    file = _write_csv(tmp_path, "sku,name", *(f"{sku},{'Cell' if sku != skus[4] else ''}" for sku in skus))
    monkeypatch.setattr(compile_runs, "MAX_ROWS_PER_RUN", 2)

    arguments = ["compile", "--rules", rules, "--csv", str(file), "--wait", "--report", str(report)]
    result = CliRunner().invoke(passports.passports_app, arguments, env=dict(bpc.settings))

    assert result.exit_code == 1, result.output
    assert result.output.count("run       ") == 3
    assert "rows      5: 4 ISSUED, 1 FAILED" in result.output
    assert f"row 5, {skus[4]}: NOT_FOUND: " in result.output
    lines = _read_lines(report)
    assert [(line["row"], line["sku"]) for line in lines] == [(str(n), sku) for n, sku in enumerate(skus, 1)]
    assert [line["status"] for line in lines] == ["ISSUED"] * 4 + ["FAILED"]
    assert len({line["run_id"] for line in lines}) == 3


def test_runs_that_have_begun_before_a_refusal_are_named(
    bpc: Program, rules: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = _write_csv(tmp_path, "sku", _make_sku(), "A:B")
    monkeypatch.setattr(compile_runs, "MAX_ROWS_PER_RUN", 1)

    arguments = ["compile", "--rules", rules, "--csv", str(file)]
    result = CliRunner().invoke(passports.passports_app, arguments, env=dict(bpc.settings))

    assert result.exit_code == 1
    assert "a SKU must not contain" in result.output
    assert "was already started: rows 1 to 1; `bpc runs show` shows it" in result.output


def test_a_run_is_as_large_as_the_api_takes_it() -> None:
    assert compile_runs.MAX_ROWS_PER_RUN == MAX_ITEMS


def test_a_run_is_started_looked_at_listed_and_cancelled(bpc: Program, rules: str, tmp_path: Path) -> None:
    sku = _make_sku()
    _upload_documents(bpc, sku)

    run = bpc.run_ok(
        "passports", "compile", "--rules", rules, "--csv", _write_csv(tmp_path, "sku,name", f"{sku},C"), "--json"
    )
    run_id = run.json()["runs"][0]["run_id"]
    output = bpc.run_ok("runs", "show", run_id, "--wait")
    runs: list[Any] = json.loads(bpc.run_ok("runs", "list", "--limit", "1", "--json").out)
    cancelled = bpc.run_ok("runs", "cancel", run_id, "--json").json()

    assert "1: 1 ISSUED" in output.out
    assert [listed_run["run_id"] for listed_run in runs] == [run_id]
    assert run_id in bpc.run_ok("runs", "list").out
    assert cancelled["cancelled_at"] is not None
    assert cancelled["counts"]["ISSUED"] == 1
    assert bpc.run("runs", "cancel", run_id).code == 1


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["name", "Cell"], "the file has no column `sku`"),
        (["sku,colour", "A,red"], "unknown column `colour`"),
        (["sku,name", ",Cell"], "line 2 has no SKU"),
        (["sku", "A,B"], "line 2 has more cells than there are columns"),
        (["sku,snapshot_id", "A,x"], "`x` is not an id"),
        (["sku", "A", "B", "A"], "lines 2 and 4 have the same SKU"),
        (["sku,name"], "the file lists no product"),
        (["sku,SKU", "a,b"], "the column `sku` appears twice"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused_before_anything_is_asked(
    bpc: Program, rules: str, tmp_path: Path, lines: list[str], says: str
) -> None:
    ended = bpc.run("passports", "compile", "--rules", rules, "--csv", _write_csv(tmp_path, *lines))

    assert ended.code == 1
    assert says in ended.err


def test_files_as_spreadsheets_write_them_are_read() -> None:
    items = product_list.read_items("\ufeffSKU; Name\r\nA-1;Pack, small\r\n".encode())

    assert [(item.sku, item.name) for item in items] == [("A-1", "Pack, small")]


@pytest.mark.parametrize("arguments", [(), ("--all", "--csv", "x"), ("--all", "--report", "x")])
def test_what_to_compile_is_said_once(bpc: Program, rules: str, arguments: tuple[str, ...]) -> None:
    assert bpc.run("passports", "compile", "--rules", rules, *arguments).code == 2
