"""Why there is a finding, and where a value is from: both end at the cell of the file that said so."""

from datetime import UTC, datetime
from uuid import UUID

from bpc.core.facts.fact_table import FactTable, SnapshotFact
from bpc.core.facts.findings import Finding, build_finding_facts
from bpc.core.facts.provenance import DocumentOrigin, MemberOrigin, build_provenance_facts
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import DocumentId, DocumentVersionId
from bpc.core.language.evaluation import World
from bpc.core.language.package import read_program
from bpc.core.language.reference.derive import explain
from bpc.core.passport.value_words import format_member
from bpc.core.passport.why import Reason, explain_field, explain_findings, list_finding_codes

SHEET = DocumentOrigin(
    document_id=DocumentId(UUID(int=1)),
    document_version_id=DocumentVersionId(UUID(int=2)),
    kind="PCF",
    sha256=sha256(b"sheet"),
    file_name="pcf.xlsx",
    supplier="Example Cells GmbH",
    stated_at=datetime(2026, 11, 16, tzinfo=UTC),
)
FOOTPRINT = SnapshotFact(
    fact_type="PCF", fact_key="pcf:S", schema_version=1, payload={"sku": "S", "total_gco2e": "79000.00"}
)
PART = SnapshotFact(
    fact_type="Component", fact_key="component:S:cell", schema_version=1, payload={"part": "cell", "mass_g": "4"}
)
FINDING = Finding(
    code="STAGES_DIFFER",
    severity="error",
    fact_type="PCF",
    fact_key="pcf:S",
    members=("total_gco2e", "production_gco2e"),
    says="the stages add up to 80000, the declared total is 79000",
)
FACTS = [
    FOOTPRINT,
    PART,
    *build_provenance_facts(
        {
            ("PCF", "pcf:S"): {
                "sku": MemberOrigin(SHEET, "PCF!A2"),
                "total_gco2e": MemberOrigin(SHEET, "PCF!C2"),
            },
            ("Component", "component:S:cell"): {
                "mass_g": MemberOrigin(SHEET, "Parts!D7"),
                "part": MemberOrigin(SHEET, "Parts!A7"),
            },
        }
    ),
    *build_finding_facts("S", [FINDING]),
]
CELL = "pcf.xlsx, sheet PCF, cell C2, uploaded on 16 November 2026 by Example Cells GmbH"


def format_reasons(reason: Reason) -> list[str]:
    return [f"{'  ' * depth}{says}" for depth, says, _ in reason.iterate_lines()]


def explain_rule(rule: str) -> list[str]:
    program = read_program(rule.encode())
    table = FactTable.from_facts(FACTS, program.facts)
    world = World(product_sku="S", product_name="P", issued_on="2027-02-18", facts=table)
    [field] = program.fields
    return format_reasons(explain_field(field, explain(program, world, field.path), program.source, FACTS))


def test_a_value_is_told_down_to_the_cell_of_the_file() -> None:
    lines = explain_rule(
        'field total: Dec(2) = requireSome(recordGet(requireSome(getFact("PCF", "pcf:S"), "E1", "none"),'
        ' "total_gco2e"), "E2", "no total");'
    )

    assert lines[-1].strip() == f"79,000 g CO2e: {CELL}"


def test_a_line_of_the_bill_of_materials_is_told_with_its_place() -> None:
    lines = explain_rule(
        'field mass: Dec(6) = fold(getFactsByPrefix("Component", "component:"), 0,'
        ' fn(sum, c) => sum + unwrapOr(recordGet(c, "mass_g"), 0));'
    )

    assert any("component:S:cell" in line and "(pcf.xlsx, sheet Parts, cell D7)" in line for line in lines)


def test_a_finding_is_told_with_the_cells_it_is_about() -> None:
    [reason] = explain_findings(FACTS, "STAGES_DIFFER")

    assert format_reasons(reason) == [
        "STAGES_DIFFER (error): the stages add up to 80000, the declared total is 79000",
        "  total_gco2e of pcf:S is 79,000 g CO2e",
        f"    {CELL}",
        "  production_gco2e of pcf:S is absent",
    ]
    assert explain_findings(FACTS, "finding:S:STAGES_DIFFER:0001") == [reason]
    assert explain_findings(FACTS, "VOLTAGE_ORDER") == []
    assert list_finding_codes(FACTS) == ["STAGES_DIFFER"]


def test_values_have_the_unit_that_their_name_says() -> None:
    assert [format_member(*pair) for pair in (("mass_kg", "4.050000"), ("recycled_lead_pct", "0.00"))] == [
        "4.05 kg",
        "0 %",
    ]
    assert [format_member(*pair) for pair in (("total_gco2e", "-1234567.50"), ("full_cycles", 4000))] == [
        "-1,234,567.5 g CO2e",
        "4000",
    ]
