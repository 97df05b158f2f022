"""`bpc passports check` and `what-if` against a real `bpc up`: tables, matrix, JSON and spreadsheet."""

import asyncio
import json
import signal
import socket
import zipfile
from base64 import b64encode
from pathlib import Path
from typing import Any
from uuid import UUID
from xml.etree import ElementTree as ET

import openpyxl  # type: ignore[import-untyped]
import pytest
from bpc_client import Client

from bpc.runtime import clock
from tests.cli.program import Program
from tests.running_installation import RunningInstallation

RULES = """
field general.mass @public: Qty(kg) =
  let b = requireSome(getFact("Battery", concat("battery:", productSku())), "B000", "no battery");
  toQty("kg", requireSome(recordGet(b, "mass_kg"), "DP10", "mass_kg is missing"));
"""
TESTS = """
property mass_is_positive: cases(500) seed(1) given {
  fact b("Battery", "battery:SKU-1") = {"sku": "SKU-1", "mass_kg": "1.000000"};
} => forall x: Int . implies(x == x, field("general.mass") > qty(0, kg));;
"""


@pytest.fixture(scope="session")
def bpc(running_installation: RunningInstallation) -> Program:
    """A tenant that knows two products: SKU-1, which is active, and SKU-2, which has no mass."""
    running = running_installation.create_tenant()
    asyncio.run(_fill(running))
    return running


def _make_client(bpc: Program) -> Client:
    return Client(bpc.settings["BPC_URL"], bpc.settings["BPC_API_KEY"])


async def _fill(bpc: Program) -> None:
    async with _make_client(bpc) as api:
        package = await api.create_rule_package(name="rules")
        version = await api.create_rule_version(package.rule_package_id, dsl_source=RULES, tests_source=TESTS)
        await api.wait((await api.run_rule_tests(version.rule_package_version_id, seed=1)).job_id)
        await api.publish_rule_version(version.rule_package_version_id)
        batteries = [{"sku": "SKU-1", "category": "ev", "mass_kg": "10"}, {"sku": "SKU-2", "category": "lmt"}]
        document = await api.create_document(kind="BOM")
        uploaded = await api.upload_document_version(
            document.document_id,
            mime_type="application/json",
            content_base64=b64encode(json.dumps({"batteries": batteries}).encode()).decode(),
        )
        assert uploaded.job_id is not None
        await api.wait(uploaded.job_id)
        for battery in batteries:
            await api.create_battery_product(sku=battery["sku"], name="Cell")
        run = await api.bulk_compile(rule_package_version_id=version.rule_package_version_id, all=True, activate=True)
        await api.wait_until(
            lambda: api.get_compile_run(run.run_id), lambda standing: standing.finished_at is not None, seconds=60
        )


def test_a_table_says_what_is_missing_where_it_is_written_and_who_can_be_asked(bpc: Program) -> None:
    ended = bpc.run("passports", "check", "SKU-2")

    assert ended.code == 1
    [line] = [line for line in ended.out.splitlines() if "DP10" in line]
    for part in ("SKU-2", "error", "missing", "10", "general.mass", "mass_kg", "Battery: mass_kg", "document "):
        assert part in line
    assert "products  1: 0 ready, 1 not ready" in ended.out
    assert "entries   0 FAIL, 0 WARN" in ended.out


def test_all_products_are_checked_as_a_matrix_of_data_points(bpc: Program) -> None:
    ended = bpc.run("passports", "check", "--all", "--matrix")

    lines = {line.split()[0]: line.split() for line in ended.out.splitlines() if line.startswith("SKU-")}
    assert {sku: words[1] for sku, words in lines.items()} == {"SKU-1": "ev", "SKU-2": "lmt"}
    assert [len(words[2]) for words in lines.values()] == [71, 71]
    assert (lines["SKU-1"][2][9], lines["SKU-2"][2][9]) == ("+", "M")
    assert "+ filled, M missing" in ended.out


def test_programs_get_everything_as_json(bpc: Program) -> None:
    report: dict[str, Any] = bpc.run("passports", "check", "--all", "--rules", "rules", "--json").json()

    assert [product["sku"] for product in report["products"]] == ["SKU-1", "SKU-2"]
    assert [product["compiles"] for product in report["products"]] == [True, False]
    assert str(UUID(report["rule_package_version_id"])) == report["rule_package_version_id"]


def test_a_template_asks_only_what_the_service_says_is_missing(bpc: Program, tmp_path: Path) -> None:
    bpc.run_ok("template", "--missing", "SKU-2", "--out", tmp_path / "missing.xlsx")

    book = openpyxl.load_workbook(tmp_path / "missing.xlsx")
    sheet = book["1 Identity and label data"]
    names = [cell.value for cell in sheet[6]]
    assert "mass_kg" in names
    assert "category" not in names
    assert sheet["B7"].value == "SKU-2"


def test_a_spreadsheet_has_products_issues_and_matrix(bpc: Program, tmp_path: Path) -> None:
    file = tmp_path / "readiness.xlsx"

    ended = bpc.run("passports", "check", "--all", "--xlsx", file)

    assert f"wrote {file}" in ended.out
    products, issues, matrix = (_read_sheet(file, number) for number in (1, 2, 3))
    assert [[row[column] for column in "ABCD"] for row in products[1:]] == [
        ["SKU-1", "ev", "no", "yes"],
        ["SKU-2", "lmt", "no", "no"],
    ]
    [issue] = [row for row in issues if row.get("J") == "DP10"]
    assert [issue[column] for column in "ABCDEFGH"] == [
        *("SKU-2", "lmt", "error", "missing", "10", "general.mass", "mass_kg", "Battery: mass_kg")
    ]
    assert [row["L"] for row in matrix] == ["10", "Weight", "filled", "missing"]


def _read_sheet(file: Path, number: int) -> list[dict[str, str]]:
    """The cells of each row by the letter of their column; empty ones are left out."""
    with zipfile.ZipFile(file) as parts:
        texts = ["".join(part.itertext()) for part in ET.fromstring(parts.read("xl/sharedStrings.xml"))]
        sheet = ET.fromstring(parts.read(f"xl/worksheets/sheet{number}.xml"))
    rows = []
    for row in sheet.iterfind(".//{*}row"):
        cells = {}
        for cell in row:
            value = cell.findtext("{*}v") or ""
            cells[cell.attrib["r"].rstrip("0123456789")] = texts[int(value)] if cell.get("t") == "s" else value
        rows.append(cells)
    return rows


@pytest.mark.parametrize("arguments", [[], ["SKU-1", "--all"]], ids=["nothing", "both"])
def test_products_are_named_or_all_are_meant(bpc: Program, arguments: list[str]) -> None:
    assert bpc.run("passports", "check", *arguments).code == 2


def test_a_draft_of_rules_is_tried_on_active_passports(bpc: Program, tmp_path: Path) -> None:
    draft = tmp_path / "draft.bpc"
    draft.write_text(RULES.replace('toQty("kg", requireSome', 'toQty("kg", 2 * requireSome'))

    ended = bpc.run_ok("passports", "what-if", "--rules", draft)

    [line] = [line.split() for line in ended.out.splitlines() if line.startswith("SKU-1")]
    assert line == ["SKU-1", "general.mass", "10", "kg", "20", "kg"]
    assert ended.out.endswith("1 of 1 active passport would change\n")


def test_a_document_is_tried_before_it_is_uploaded(bpc: Program, tmp_path: Path) -> None:
    file = tmp_path / "bom.csv"
    file.write_text("sku,mass_kg\nSKU-1,12\n")

    ended = bpc.run_ok("passports", "what-if", "--document", file, "--kind", "BOM", "--json")

    [passport] = ended.json()["passports"]
    assert passport["fields"] == [
        {
            "path": "general.mass",
            "before": {"unit": "kg", "value": "10"},
            "after": {"unit": "kg", "value": "12"},
        }
    ]
    assert len(json.loads(bpc.run_ok("get", "/v1/documents").out)["items"]) == 1  # the first one alone


@pytest.mark.parametrize(
    "arguments",
    [[], ["--document", "x.csv"], ["--rules", "x.bpc", "--kind", "BOM"], ["--rules", "x.bpc", "--replaces", "1"]],
    ids=["nothing", "no kind", "kind with rules", "replaces with rules"],
)
def test_a_question_that_makes_no_sense_is_wrong_usage(bpc: Program, arguments: list[str]) -> None:
    assert bpc.run("passports", "what-if", *arguments).code == 2


def test_a_compile_skips_what_is_unchanged_and_repeats_what_failed(bpc: Program) -> None:
    ended = bpc.run("passports", "compile", "--rules", "rules", "--all", "--wait", "--json")
    run = ended.json()["runs"][0]["run_id"]
    repeated = bpc.run("passports", "compile", "--failed-of", run, "--wait", "--json")
    forced = bpc.run("passports", "compile", "--rules", "rules", "--all", "--force", "--wait", "--json")

    assert {name: count for name, count in ended.json()["counts"].items() if count} == {"SKIPPED": 1, "FAILED": 1}
    assert [failure["sku"] for failure in repeated.json()["failures"]] == ["SKU-2"]
    assert {name: count for name, count in forced.json()["counts"].items() if count} == {"ISSUED": 1, "FAILED": 1}


def test_ctrl_c_says_that_the_run_goes_on_and_how_to_look_at_it(bpc: Program, tmp_path: Path) -> None:
    file = tmp_path / "products.csv"
    file.write_text("sku,name\n" + "".join(f"NEW-{number},Cell\n" for number in range(400)))
    process = bpc.start("passports", "compile", "--rules", "rules", "--csv", str(file), "--wait")
    _wait_for_run(bpc, rows=400)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)

    run = json.loads(bpc.run_ok("runs", "list", "--limit", "1", "--json").out)[0]["run_id"]
    assert process.returncode == 130
    assert f"run {run} goes on without this command: 400 rows" in err
    assert f"bpc runs show {run} --wait" in err
    assert f"bpc runs cancel {run}" in err


def test_ctrl_c_before_the_api_has_answered_does_not_say_that_nothing_was_started(bpc: Program) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        process = bpc.start("passports", "compile", "--rules", str(clock.new_id()), "--all", "--url", url)
        connection, _ = silent.accept()
        with connection:
            assert connection.recv(1_000).startswith(b"POST /v1/")
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)

    assert process.returncode == 130
    assert "`bpc runs list` shows whether a run was started" in err
    assert "nothing is compiled" not in err


def _wait_for_run(bpc: Program, *, rows: int) -> None:
    async def wait() -> None:
        async with _make_client(bpc) as api:
            await api.wait_until(
                lambda: api.list_compile_runs(limit=1), lambda page: page.items[0].rows == rows, seconds=60
            )

    asyncio.run(wait())
