"""Nothing false gets signed: what went wrong once, typed as a user would, over the command line and over the API.

Each case runs twice, with a tenant of its own: once with `bpc upload` and `bpc snapshots create`, once with plain HTTP.
"""

import json
import zipfile
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol

import httpx2
import pytest
import xlsxwriter  # type: ignore[import-untyped]

from bpc.core.facts.provenance import ProvenanceIndex
from bpc.core.facts.snapshot import read_facts
from bpc.core.formats.hashes import sha256, to_hex
from bpc.runtime import clock
from tests.cli.program import Program
from tests.running_installation import RunningInstallation
from tools import reference_input

SKU = "EB-500-36"


class User(Protocol):
    """Whoever uploads documents and looks at what is known."""

    def upload(self, content: bytes, *, kind: str, ref: str, name: str) -> Mapping[str, Any]:
        """Upload a file to the document with this reference, and wait until it is read; return its version."""
        ...

    def withdraw(self, document_id: str, reason: str) -> None: ...

    def load_facts(self) -> list[dict[str, Any]]:
        """The facts of a snapshot of what is known of the product now."""
        ...

    def list_conflicts(self) -> list[dict[str, Any]]: ...


class CommandLineUser:
    def __init__(self, bpc: Program, folder: Path) -> None:
        self._bpc = bpc
        self._folder = folder

    def upload(self, content: bytes, *, kind: str, ref: str, name: str) -> Mapping[str, Any]:
        (self._folder / name).write_bytes(content)
        file = str(self._folder / name)
        uploaded = self._bpc.run_ok("upload", file, "--kind", kind, "--ref", ref, "--wait", "--json").json()
        version = self._bpc.run_ok("get", f"/v1/document-versions/{uploaded['document_version_id']}").json()
        return {**version, "document_id": uploaded["document_id"]}

    def withdraw(self, document_id: str, reason: str) -> None:
        self._bpc.run_ok("documents", "withdraw", document_id, "--reason", reason)

    def load_facts(self) -> list[dict[str, Any]]:
        snapshot = self._bpc.run_ok("snapshots", "create", SKU, "--json").json()["snapshot_id"]
        items: list[dict[str, Any]] = self._bpc.run_ok("get", f"/v1/snapshots/{snapshot}/items").json()["items"]
        return items

    def list_conflicts(self) -> list[dict[str, Any]]:
        conflicts: list[dict[str, Any]] = self._bpc.run_ok("get", f"/v1/conflicts?sku={SKU}").json()["conflicts"]
        return conflicts


class HttpUser:
    def __init__(self, client: httpx2.Client) -> None:
        self._client = client

    def upload(self, content: bytes, *, kind: str, ref: str, name: str) -> Mapping[str, Any]:
        answer = self._client.put(
            f"/v1/documents/by-ref/{ref}",
            params={"kind": kind},
            files={"file": (name, content)},
            headers={"Idempotency-Key": str(clock.new_id())},
        )
        assert answer.status_code in {200, 201}, answer.text
        uploaded = answer.json()
        if uploaded["job_id"] is not None:
            self._wait(uploaded["job_id"])
        version = self._get(f"/v1/document-versions/{uploaded['document_version_id']}")
        return {**version, "document_id": uploaded["document_id"]}

    def withdraw(self, document_id: str, reason: str) -> None:
        self._post(f"/v1/documents/{document_id}:withdraw", {"reason": reason})

    def load_facts(self) -> list[dict[str, Any]]:
        snapshot = self._post("/v1/snapshots", {"sku": SKU})["snapshot_id"]
        items: list[dict[str, Any]] = self._get(f"/v1/snapshots/{snapshot}/items")["items"]
        return items

    def list_conflicts(self) -> list[dict[str, Any]]:
        conflicts: list[dict[str, Any]] = self._get(f"/v1/conflicts?sku={SKU}")["conflicts"]
        return conflicts

    def _get(self, path: str) -> Any:
        answer = self._client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def _post(self, path: str, body: object) -> Any:
        answer = self._client.post(path, json=body, headers={"Idempotency-Key": str(clock.new_id())})
        assert answer.is_success, answer.text
        return answer.json()

    def _wait(self, job: str) -> None:
        while self._get(f"/v1/jobs/{job}")["status"] in {"QUEUED", "RUNNING"}:
            pass


@pytest.fixture(params=["command line", "http"])
def user(request: pytest.FixtureRequest, running_installation: RunningInstallation, tmp_path: Path) -> Iterator[User]:
    bpc = running_installation.create_tenant()
    if request.param == "command line":
        yield CommandLineUser(bpc, tmp_path)
        return
    headers = {"Authorization": f"Bearer {bpc.settings['BPC_API_KEY']}"}
    with httpx2.Client(base_url=bpc.settings["BPC_URL"], headers=headers, timeout=60) as client:
        yield HttpUser(client)


def write_workbook(sheet: str, rows: list[list[object]], *, percent: bool = False) -> bytes:
    buffer = BytesIO()
    with xlsxwriter.Workbook(buffer, {"in_memory": True}) as book:
        style = book.add_format({"num_format": "0 %" if percent else "General"})
        page = book.add_worksheet(sheet)
        for number, row in enumerate(rows):
            for column, value in enumerate(row):
                page.write(number, column, value, style if isinstance(value, float) else None)
    return buffer.getvalue()


def encode(document: object) -> bytes:
    return json.dumps(document).encode()


def encode_footprint(total: int) -> bytes:
    return encode({"sku": SKU, "total_gco2e": total})


def get_payload(facts: list[dict[str, Any]], fact_type: str) -> dict[str, Any]:
    [payload] = [fact["payload"] for fact in facts if fact["fact_type"] == fact_type]
    return dict(payload)


def test_a_value_that_is_corrected_back_counts_again(user: User) -> None:
    for total in (86_700, 79_000, 86_700):
        user.upload(encode_footprint(total), kind="PCF", ref="PCF-1", name="pcf.json")

    assert get_payload(user.load_facts(), "PCF")["total_gco2e"] == "86700.00"


def test_a_part_that_is_removed_from_the_bill_of_materials_is_not_in_the_passport(user: User) -> None:
    parts = [{"part": "cell", "mass_g": 100}, {"part": "casing", "mass_g": 20}]
    user.upload(encode({"battery": {"sku": SKU}, "components": parts}), kind="BOM", ref="BOM-1", name="bom.json")
    user.upload(encode({"battery": {"sku": SKU}, "components": parts[:1]}), kind="BOM", ref="BOM-1", name="bom.json")

    names = [fact["payload"]["part"] for fact in user.load_facts() if fact["fact_type"] == "Component"]

    assert names == ["cell"]


def test_a_document_that_is_withdrawn_says_nothing(user: User) -> None:
    user.upload(encode({"battery": {"sku": SKU}}), kind="BOM", ref="BOM-1", name="bom.json")
    version = user.upload(encode_footprint(79_000), kind="PCF", ref="PCF-1", name="pcf.json")
    user.withdraw(version["document_id"], "The supplier computed another battery.")

    assert {fact["fact_type"] for fact in user.load_facts()} == {"Battery"}


def test_a_cell_that_shows_95_per_cent_is_95(user: User) -> None:
    rows: list[list[object]] = [["sku", "initial_round_trip_efficiency_pct"], [SKU, 0.95]]
    user.upload(write_workbook("Battery", rows, percent=True), kind="BOM", ref="BOM-1", name="bom.xlsx")

    assert get_payload(user.load_facts(), "Battery")["initial_round_trip_efficiency_pct"] == "95.00"


def test_a_number_that_two_countries_read_differently_is_not_read(user: User) -> None:
    rows: list[list[object]] = [["sku", "mass_kg", "expected_cycles"], [SKU, "4.2", "1.000"]]
    version = user.upload(write_workbook("Battery", rows), kind="BOM", ref="BOM-1", name="bom.xlsx")

    battery = get_payload(user.load_facts(), "Battery")

    assert (battery["mass_kg"], battery.get("expected_cycles")) == ("4.200000", None)
    [warning] = [warning for warning in version["warnings"] if "1.000" in warning["says"]]
    assert warning["at"] == "Battery!C2"
    assert "1000" in warning["says"].replace(",", "")


def test_two_documents_about_one_battery_complete_each_other_and_a_conflict_is_listed(user: User) -> None:
    sheet = {"battery": {"sku": SKU, "mass_kg": 4.2, "chemistry": "NMC"}}
    bom = {"battery": {"sku": SKU, "mass_kg": 4.3, "nominal_voltage_v": 36}}
    user.upload(encode(sheet), kind="BOM", ref="SHEET", name="sheet.json")
    user.upload(encode(bom), kind="BOM", ref="BOM", name="bom.json")

    battery = get_payload(user.load_facts(), "Battery")
    [conflict] = user.list_conflicts()

    assert battery == {"sku": SKU, "mass_kg": "4.300000", "chemistry": "NMC", "nominal_voltage_v": "36.000"}
    assert (conflict["member"], conflict["decided"]) == ("mass_kg", False)
    assert [(each["value"], each["file_name"]) for each in conflict["values"]] == [
        ("4.300000", "bom.json"),
        ("4.200000", "sheet.json"),
    ]


def test_a_reading_that_arrives_late_does_not_replace_a_newer_one(user: User) -> None:
    for day, fade in (("2027-06-01", 5), ("2027-05-01", 4)):
        state = {"battery": {"sku": SKU, "state_recorded_on": day, "capacity_fade_pct": fade}}
        user.upload(encode(state), kind="BOM", ref="BMS", name="bms.json")

    facts = user.load_facts()

    battery = get_payload(facts, "Battery")
    assert (battery["capacity_fade_pct"], battery["state_recorded_on"]) == ("5.00", "2027-06-01")
    assert len([fact for fact in facts if fact["fact_type"] == "Reading"]) == 2


RULES = """\
field footprint.total @public : Dec(2) =
  requireSome(
    recordGet(requireSome(getFact("PCF", concat("pcf:", productSku())), "E1", "no footprint"), "total_gco2e"),
    "E2",
    "no total"
  );
field footprint.low @public : Bool =
  if (field("footprint.total") < 80000)
    then emitCompliance("LOW", "PASS", "the footprint is low")
    else emitCompliance("LOW", "FAIL", "the footprint is too high");
field conformity.files @public : List(Text) =
  map(
    getFactsByPrefix("Attachment", concat("attachment:", productSku(), ":42:")),
    fn(file) => requireSome(recordGet(file, "sha256"), "F1", "no hash")
  );
"""
RULE_TESTS = """\
example a_low_one: { product("A", "A"); fact p("PCF", "pcf:A") = {"total_gco2e": "79999.99"}; } =>
  expect(footprint.low, == true);
  expect(conformity.files, == []);
;
property a_high_one: cases(500) seed(1) given { product("A", "A"); fact p("PCF", "pcf:A") = any; } =>
  forall x: Int . implies(field("footprint.total") >= 80000, !field("footprint.low"));
;
"""


@pytest.fixture
def bpc(running_installation: RunningInstallation, tmp_path: Path) -> Program:
    """The program in a tenant with published rules and a footprint from a spreadsheet that fails them."""
    bpc = running_installation.create_tenant()
    (tmp_path / "rules.bpc").write_text(RULES)
    (tmp_path / "tests.bpc").write_text(RULE_TESTS)
    bpc.run_ok("rules", "publish", str(tmp_path / "rules.bpc"), "--tests", str(tmp_path / "tests.bpc"), "--json")
    rows: list[list[object]] = [["sku", "model", "total_gco2e"], [SKU, "E-36", "86700"]]
    (tmp_path / "pcf.xlsx").write_bytes(write_workbook("PCF", rows))
    options = ("--kind", "PCF", "--ref", "PCF-1", "--supplier", "Example Cells GmbH", "--wait", "--json")
    bpc.run_ok("upload", str(tmp_path / "pcf.xlsx"), *options)
    return bpc


def compile_passport(bpc: Program, tmp_path: Path) -> str:
    """Compile the product without activating it; return the version."""
    (tmp_path / "products.csv").write_text(f"sku,name\n{SKU},Pack\n")
    products = ("--csv", str(tmp_path / "products.csv"))
    result = bpc.run_ok("passports", "compile", "--rules", "rules", *products, "--force", "--wait", "--json").json()
    [row] = bpc.run_ok("get", f"/v1/compile-runs/{result['runs'][0]['run_id']}/rows").json()["items"]
    return str(row["passport_version_id"])


def test_what_fails_is_not_activated_unless_it_is_waived_and_never_for_the_next_version(
    bpc: Program, tmp_path: Path
) -> None:
    version = compile_passport(bpc, tmp_path)

    blocked = bpc.run("passports", "activate", version)
    bpc.run_ok("passports", "waive", version, "--entry", "footprint.low:LOW", "--reason", "A prototype")
    activated = bpc.run("passports", "activate", version)
    next_blocked = bpc.run("passports", "activate", compile_passport(bpc, tmp_path))

    assert (blocked.code, blocked.err.split(":")[0]) == (1, "COMPLIANCE_BLOCKED")
    assert "the footprint is too high" in blocked.out
    assert activated.code == 0
    assert (next_blocked.code, next_blocked.err.split(":")[0]) == (1, "COMPLIANCE_BLOCKED")


def test_implausible_evidence_is_not_activated_though_no_rule_looks_at_it(bpc: Program, tmp_path: Path) -> None:
    footprint, battery = {"sku": SKU, "total_gco2e": 79_000}, {"sku": SKU, "mass_kg": -4}
    (tmp_path / "pcf.json").write_bytes(encode(footprint))
    (tmp_path / "bom.json").write_bytes(encode({"battery": battery}))
    bpc.run_ok("upload", str(tmp_path / "pcf.json"), "--kind", "PCF", "--ref", "PCF-1", "--wait", "--json")
    bpc.run_ok("upload", str(tmp_path / "bom.json"), "--kind", "BOM", "--ref", "BOM-1", "--wait", "--json")
    version = compile_passport(bpc, tmp_path)

    blocked = bpc.run("passports", "activate", version)
    finding = f"finding:{SKU}:NOT_POSITIVE:0001"
    bpc.run_ok("passports", "waive", version, "--entry", f"{finding}:NOT_POSITIVE", "--reason", "A prototype")
    activated = bpc.run("passports", "activate", version)

    assert (blocked.code, blocked.err.split(":")[0]) == (1, "COMPLIANCE_BLOCKED")
    assert finding in blocked.out
    assert activated.code == 0, activated.err


def test_every_value_of_a_passport_leads_to_the_cell_or_the_file_that_said_it(bpc: Program, tmp_path: Path) -> None:
    content = reference_input.make_pdf("Declaration")
    (tmp_path / "declaration.pdf").write_bytes(content)
    options = ("--kind", "OTHER", "--ref", "DOC-1", "--supplier", "Example Labs GmbH")
    bpc.run_ok("upload", str(tmp_path / "declaration.pdf"), *options)
    bpc.run_ok("attachments", "add", SKU, "42", "--ref", "DOC-1", "--title", "Declaration")
    version, bundle = compile_passport(bpc, tmp_path), tmp_path / "bundle.zip"
    bpc.run_ok("bundle", version, "--out", str(bundle))

    number = bpc.run_ok("why", str(bundle), "footprint.total").out.splitlines()
    file = bpc.run_ok("why", str(bundle), "conformity.files").out.splitlines()

    [cell] = [line.strip() for line in number if "86,700 g CO2e" in line]
    assert cell.startswith("86,700 g CO2e: pcf.xlsx, sheet PCF, cell C2, uploaded on ")
    assert cell.endswith(" by Example Cells GmbH")
    [attachment] = [line.strip() for line in file if "declaration.pdf" in line]
    assert attachment.startswith(f"attachment:{SKU}:42:")
    assert f"(declaration.pdf, sha256 {to_hex(sha256(content))}, uploaded on " in attachment
    assert " by Example Labs GmbH)" in attachment
    facts = read_facts(zipfile.ZipFile(bundle).read("facts.jsonl"))
    index = ProvenanceIndex(facts)
    documented = [fact for fact in facts if fact.fact_type in {"PCF", "Attachment"}]
    assert len(documented) == 2
    for fact in documented:
        assert [member for member in fact.payload if not index.find_origin(fact.fact_type, fact.fact_key, member)] == []
    # Two versions are compared by their ids, with the cause of each difference down to the cell.
    rows: list[list[object]] = [["sku", "model", "total_gco2e"], [SKU, "E-36", "79000"]]
    (tmp_path / "pcf.xlsx").write_bytes(write_workbook("PCF", rows))
    bpc.run_ok("upload", str(tmp_path / "pcf.xlsx"), "--kind", "PCF", "--ref", "PCF-1", "--wait", "--json")
    difference = bpc.run("diff", version, compile_passport(bpc, tmp_path))
    assert (difference.code, difference.err) == (1, "")
    assert "footprint.total: 86700.00 -> 79000.00\n" in difference.out
    assert "and is 79000.00 (pcf.xlsx, sheet PCF, cell C2, uploaded on " in difference.out
