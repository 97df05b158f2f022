"""`bpc passports show`, `waive`, `activate` and `bpc tenants settings` against a real `bpc up`."""

import asyncio
import json
from base64 import b64encode
from pathlib import Path
from uuid import UUID

import pytest
from bpc_client import Client

from bpc.core.passport.receipt import read_receipt
from bpc.runtime import clock
from bpc.runtime.settings import Settings
from bpc.storage.database import open_migrated_database
from tests.cli.program import Program
from tests.running_installation import RunningInstallation

RULES = """
field battery.capacity_kwh @public: Dec(6) =
  let b = requireSome(getFact("Battery", concat("battery:", productSku())), "E001", "battery missing");
  requireSome(recordGet(b, "capacity_kwh"), "E002", "no capacity");
field checks.recycled @public: Bool = emitCompliance("R1", "FAIL", "no recycled share is known");
field checks.report @public: Bool = emitCompliance("T:1", "WARN", "no test report");
"""
TESTS = """
property it_stores_what_its_sheet_says: cases(500) seed(1) given {
  fact b("Battery", "battery:SKU-1") = {"sku": "SKU-1", "capacity_kwh": "1.000000"};
} => forall x: Int . implies(x == x, field("battery.capacity_kwh") == 1);;
"""


@pytest.fixture
def bpc(running_installation: RunningInstallation) -> Program:
    return running_installation.create_tenant()


@pytest.fixture
def rules(bpc: Program, tmp_path: Path) -> str:
    file = tmp_path / "rules.bpc"
    file.write_text(RULES + TESTS)
    published = bpc.run_ok("rules", "publish", file, "--package", "rules", "--json").json()
    return str(published["rule_package_version_id"])


def compile_passport(bpc: Program, rules: str, tmp_path: Path, sku: str) -> str:
    """The id of a new version that the run could not activate."""
    file, report = tmp_path / "products.csv", tmp_path / "report.csv"
    file.write_text(f"sku,name\n{sku},Cell\n")

    arguments = ("--rules", rules, "--csv", file, "--activate", "--force", "--wait", "--report", report)
    ended = bpc.run("passports", "compile", *arguments)

    assert ended.code == 1
    assert "rows      1: 1 FAILED\nentries   1 FAIL, 1 WARN\n" in ended.out
    assert f"row 1, {sku}: COMPLIANCE_BLOCKED: passport version `" in ended.out
    header, row = (line.split(",") for line in report.read_text().splitlines())
    values = dict(zip(header, row, strict=True))
    assert (values["status"], values["fail_count"], values["warn_count"], values["waived_count"]) == (
        "FAILED",
        "1",
        "1",
        "0",
    )
    return values["passport_version_id"]


def upload_battery(bpc: Program, sku: str, **members: str) -> None:
    asyncio.run(_upload(bpc, {"sku": sku, "capacity_kwh": "75.5", **members}))


async def _upload(bpc: Program, battery: dict[str, str]) -> None:
    content = json.dumps({"batteries": [battery]}).encode()
    async with Client(bpc.settings["BPC_URL"], bpc.settings["BPC_API_KEY"]) as api:
        document = await api.create_document(kind="BOM")
        version = await api.upload_document_version(
            document.document_id, mime_type="application/json", content_base64=b64encode(content).decode()
        )
        assert version.job_id is not None
        await api.wait(version.job_id)


def test_a_version_is_blocked_waived_and_activated_and_the_next_one_is_blocked_again(
    bpc: Program, rules: str, tmp_path: Path
) -> None:
    sku = f"SKU-{clock.new_id().hex[-12:]}"
    upload_battery(bpc, sku)
    version = compile_passport(bpc, rules, tmp_path, sku)

    blocked = bpc.run("passports", "activate", version)
    waived = bpc.run_ok("passports", "waive", version, "--entry", "checks.recycled:R1", "--reason", "Not due yet")
    again = bpc.run("passports", "waive", version, "--entry", "checks.recycled:R1", "--reason", "Not due yet")
    shown = bpc.run_ok("passports", "show", version)
    activated = bpc.run_ok("passports", "activate", version)

    assert blocked.code == 1
    assert blocked.err.startswith(
        f"COMPLIANCE_BLOCKED: passport version `{version}` has a compliance entry that nobody"
    )
    assert [line.split() for line in blocked.out.splitlines()][1][:3] == ["FAIL", "checks.recycled", "R1"]
    assert f"version {version}: 1 FAIL, 1 WARN, 1 waived\n" in waived.out
    assert again.code == 1
    assert again.err.startswith("CONFLICT: the entries `R1` of field `checks.recycled` are already waived")
    assert f"version     {version} (SIGNED)\n" in shown.out
    assert "compliance  1 FAIL, 1 WARN, 1 waived\n" in shown.out
    assert "Not due yet" in shown.out
    assert activated.out == f"version {version} is ACTIVE\n"
    assert compile_passport(bpc, rules, tmp_path, sku) != version


COPY_UNSIGNED = """
    INSERT INTO passport_versions
    SELECT (jsonb_populate_record(NULL::passport_versions, to_jsonb(v) || jsonb_build_object(
             'passport_version_id', $2::uuid, 'status', 'COMPILING', 'signature', NULL, 'signing_key_id', NULL,
             'qr_png', NULL, 'qr_payload', NULL, 'payload_hash', sha256(uuid_send($2))))).*
      FROM passport_versions v WHERE v.passport_version_id = $1
"""


async def _copy_unsigned(bpc: Program, version: str) -> str:
    """The id of a copy of a version as if its signing had failed."""
    copy_id = clock.new_id()
    async with open_migrated_database(Settings(data_dir=bpc.data_dir)) as database:
        async with Client(bpc.settings["BPC_URL"], bpc.settings["BPC_API_KEY"]) as api:
            receipt = read_receipt((await api.get_receipt(UUID(version))).content)
        async with database.tenant(receipt.tenant_id) as conn:
            await conn.execute(COPY_UNSIGNED, UUID(version), copy_id)
    return str(copy_id)


def test_a_version_that_was_not_signed_is_signed_again_or_given_up(bpc: Program, rules: str, tmp_path: Path) -> None:
    sku = f"SKU-{clock.new_id().hex[-12:]}"
    upload_battery(bpc, sku)
    version = compile_passport(bpc, rules, tmp_path, sku)
    stuck = asyncio.run(_copy_unsigned(bpc, version))

    signing = bpc.run_ok("passports", "sign", stuck)
    given_up = bpc.run_ok("passports", "abandon", stuck, "--reason", "its key is lost")
    shown = bpc.run_ok("passports", "show", stuck)

    assert signing.out.startswith(f"version {stuck} is being signed by job ")
    assert given_up.out == f"version {stuck} is given up: its key is lost\n"
    assert ": its key is lost\n" in shown.out
    assert bpc.run("passports", "sign", stuck).err.startswith(f"CONFLICT: passport version `{stuck}` was given up;")
    assert bpc.run("passports", "sign", version).err.startswith(
        f"CONFLICT: passport version `{version}` is SIGNED, and"
    )


def test_a_version_is_shown_to_programs_with_its_entries_and_waivers(bpc: Program, rules: str, tmp_path: Path) -> None:
    sku = f"SKU-{clock.new_id().hex[-12:]}"
    upload_battery(bpc, sku)
    version = compile_passport(bpc, rules, tmp_path, sku)

    refused = bpc.run("passports", "activate", version, "--json").json()
    result = bpc.run_ok(
        "passports", "waive", version, "--entry", "checks.report:T:1", "--reason", "It follows", "--json"
    ).json()
    shown = bpc.run_ok("passports", "show", version, "--json").json()

    assert refused["error"]["code"] == "COMPLIANCE_BLOCKED"
    assert [entry["code"] for entry in refused["error"]["details"]["entries"]] == ["R1"]
    assert (result["waived_count"], result["waivers"][0]["code"]) == (1, "T:1")
    assert (shown["status"], shown["fail_count"], shown["waived_count"]) == ("SIGNED", 1, 1)
    assert sorted(entry["code"] for entry in shown["entries"]) == ["R1", "T:1"]
    assert [waiver["reason"] for waiver in shown["waivers"]] == ["It follows"]


def test_a_finding_that_blocks_is_shown_with_the_entries_and_can_be_waived(
    bpc: Program, rules: str, tmp_path: Path
) -> None:
    sku = f"SKU-{clock.new_id().hex[-12:]}"
    upload_battery(bpc, sku, minimum_voltage_v="500", nominal_voltage_v="400")
    version = compile_passport(bpc, rules, tmp_path, sku)

    shown = bpc.run_ok("passports", "show", version)
    [finding] = [
        entry
        for entry in bpc.run_ok("passports", "show", version, "--json").json()["entries"]
        if entry["source"] == "finding"
    ]
    name = f"{finding['field']}:{finding['code']}"
    bpc.run_ok("passports", "waive", version, "--entry", name, "--reason", "It is measured again")
    waived = bpc.run_ok("passports", "show", version)

    assert "findings    1 FAIL, 0 WARN\nblocked by  FAIL\n" in shown.out
    assert (finding["status"], finding["code"], finding["waived"]) == ("FAIL", "VOLTAGE_ORDER", False)
    [line] = [line for line in waived.out.splitlines() if "VOLTAGE_ORDER" in line]
    assert line.split()[:2] == ["FAIL", "finding"]
    assert "It is measured again" in line


@pytest.mark.parametrize("entry", ["R1", ":R1", "checks.recycled:"])
def test_an_entry_is_a_field_and_a_code(bpc: Program, entry: str) -> None:
    refused = bpc.run("passports", "waive", str(clock.new_id()), "--entry", entry, "--reason", "x")

    assert refused.code == 1
    assert refused.err.startswith(f"VALIDATION_ERROR: `{entry}` is not an entry\n")


def test_a_tenant_decides_what_blocks_and_how_well_rules_are_tested(bpc: Program, tmp_path: Path) -> None:
    file = tmp_path / "rules.bpc"
    file.write_text(
        f'field size: Int = if (1 > 2) then 1 else 2;\nfield name: Text = "x";\n{TESTS}'.replace(
            'battery.capacity_kwh") == 1', 'size") == 2'
        )
    )

    before = bpc.run_ok("tenant", "settings")
    refused = bpc.run("rules", "publish", file, "--package", "sizes")
    changed = bpc.run_ok(
        "tenant", "settings", "--activation-blocked-by", "fail-and-warn", "--minimum-branch-coverage", "50", "--json"
    ).json()
    published = bpc.run_ok("rules", "publish", file, "--package", "sizes")
    wrong = bpc.run("tenant", "settings", "--minimum-branch-coverage", "101")

    assert before.out.startswith("activation blocked by    FAIL\nminimum branch coverage  80 %\n")
    assert refused.code == 1
    assert "RULE_TESTS_FAILED: its tests reach 50 % of the branches, but 80 % are needed" in refused.err
    assert "no test evaluates `name`" in refused.err
    assert (changed["activation_blocked_by"], changed["minimum_branch_coverage_pct"]) == ("FAIL_AND_WARN", 50)
    assert "branches  50 % reached\nuntested  name\n" in published.out
    assert wrong.code == 2
