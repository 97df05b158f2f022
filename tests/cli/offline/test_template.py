"""`bpc template`: a file that is read as it is once it is filled in, and says so kindly before."""

import io
import json
import zipfile
from pathlib import Path

import openpyxl  # type: ignore[import-untyped]
import pytest

from bpc.cli.offline.template import EXAMPLES, SHEETS, list_template_columns, make_template
from bpc.core.documents.forms.template_plan import AskedMember, build_template
from bpc.core.documents.reader import DocumentFacts, DocumentProblems, read_document
from bpc.core.exports.data_points import CATEGORIES, Category
from bpc.core.facts.schemas import SCHEMAS
from bpc.core.language.types import FactRecordType
from bpc.printing.template_workbook import write_template_workbook
from tests.cli.program import Program

MIME_TYPES = {
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "csv": "text/csv",
    "json": "application/json",
}
COMMITTED = Path(__file__).parents[3] / "examples" / "documents"
EACH = [(kind, form) for kind in SHEETS for form in MIME_TYPES]


def parse_facts(kind: str, form: str, content: bytes) -> list[tuple[str, str, bytes]]:
    outcome = read_document(kind, MIME_TYPES[form], content)
    assert isinstance(outcome, DocumentFacts), outcome
    assert outcome.warnings.total == 0
    return [(fact.fact_type, fact.fact_key, fact.payload_canonical) for fact in outcome.facts]


@pytest.mark.parametrize(("kind", "form"), EACH)
def test_a_filled_template_is_read_without_warnings_and_gives_the_same_facts_in_every_format(
    kind: str, form: str
) -> None:
    facts_read = parse_facts(kind, form, make_template(kind, form, example=True))

    assert len(facts_read) == sum(len(EXAMPLES[fact_type]) for _, fact_type in SHEETS[kind])
    assert facts_read == parse_facts(kind, "json", make_template(kind, "json", example=True))


@pytest.mark.parametrize(("kind", "form"), EACH)
def test_an_empty_template_is_rejected_with_a_clear_message(kind: str, form: str) -> None:
    outcome = read_document(kind, MIME_TYPES[form], make_template(kind, form, example=False))

    assert isinstance(outcome, DocumentProblems)
    first = outcome.problems.first[0].says
    expected = "is missing; it identifies the product" if form == "json" else "has no rows; fill in at least one"
    assert first.startswith(expected)


@pytest.mark.parametrize("kind", list(SHEETS))
def test_it_has_a_column_for_everything_that_can_be_said(kind: str) -> None:
    for _, fact_type in SHEETS[kind]:
        named = {name.partition("[")[0] for name, _, _ in list_template_columns(fact_type)}

        assert named == set(SCHEMAS[FactRecordType(fact_type, 1)])
        assert all(set(row) <= {name for name, _, _ in list_template_columns(fact_type)} for row in EXAMPLES[fact_type])


def test_the_same_template_has_the_same_content() -> None:
    [one, other] = [zipfile.ZipFile(io.BytesIO(make_template("BOM", "xlsx", example=True))) for _ in range(2)]

    assert {name: one.read(name) for name in one.namelist()} == {name: other.read(name) for name in other.namelist()}


@pytest.mark.parametrize(("kind", "form"), EACH)
def test_the_examples_are_filled_in_templates(kind: str, form: str) -> None:
    name = f"{kind.lower().replace('_', '-')}.{form}"
    remake = f"run `bpc template {kind} --format {form} --example --out examples/documents/{name}`"

    content = (COMMITTED / name).read_bytes()

    assert parse_facts(kind, form, content) == parse_facts(kind, form, make_template(kind, form, example=True)), remake


def test_the_template_is_written_to_the_chosen_file(bpc: Program, tmp_path: Path) -> None:
    result = bpc.run_ok("template", "PCF", "--format", "csv", "--out", tmp_path / "pcf.csv")

    assert result.out == f"{tmp_path}/pcf.csv is ready to be filled in\n"
    assert (tmp_path / "pcf.csv").read_bytes() == make_template("PCF", "csv", example=False)
    printed = bpc.run_ok("template", "PCF", "--format", "json", "--example", "--out", "-")
    assert printed.out.encode() == make_template("PCF", "json", example=True)


def test_a_file_that_exists_is_not_overwritten(bpc: Program, tmp_path: Path) -> None:
    (tmp_path / "mine.xlsx").write_bytes(b"filled in with care")

    refused = bpc.run("template", "--out", tmp_path / "mine.xlsx")

    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith(f"CONFLICT: `{tmp_path}/mine.xlsx` already exists")
    assert (tmp_path / "mine.xlsx").read_bytes() == b"filled in with care"


def test_an_unknown_kind_is_wrong_usage(bpc: Program) -> None:
    refused = bpc.run("template", "OTHER")

    assert refused.code == 2
    assert "'BOM', 'PCF', 'DUE_DILIGENCE'" in refused.err


# Templates by category ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("category", CATEGORIES)
def test_a_template_by_category_is_the_workbook_of_its_plan(bpc: Program, tmp_path: Path, category: Category) -> None:
    result = bpc.run_ok("template", "--category", category, "--language", "de", "--out", tmp_path / "form.xlsx")

    assert result.out == f"{tmp_path}/form.xlsx is ready to be filled in\n"
    assert (tmp_path / "form.xlsx").read_bytes() == write_template_workbook(build_template(category, "de"))


def test_a_template_asks_only_what_a_readiness_report_says_is_missing(bpc: Program, tmp_path: Path) -> None:
    issue = {"kind": "missing", "severity": "error", "fact_type": "Battery", "members": ["mass_kg"]}
    products = [{"sku": "A", "category": "ev", "issues": [issue]}]
    (tmp_path / "report.json").write_text(json.dumps({"products": products}))

    bpc.run_ok("template", "--missing", tmp_path / "report.json", "--out", tmp_path / "form.xlsx")

    expected = build_template("ev", "en", {"A": [AskedMember("Battery", "mass_kg")]})
    assert (tmp_path / "form.xlsx").read_bytes() == write_template_workbook(expected)


def test_a_template_asks_only_what_documents_lack(bpc: Program, tmp_path: Path) -> None:
    bpc.run_ok("template", "--missing", COMMITTED / "bom.xlsx", "--out", tmp_path / "form.xlsx")

    book = openpyxl.load_workbook(tmp_path / "form.xlsx")
    asked = {cell.value for sheet in book.worksheets for cell in sheet[6]}
    assert {"sku", "passport_uri", "minimum_voltage_v"} <= asked
    assert not {"mass_kg", "nominal_voltage_v"} & asked
    assert book["1 Identity and label data"]["B7"].value == "SKU-1"


def test_the_missing_values_of_two_files_about_one_product_are_asked_once(bpc: Program, tmp_path: Path) -> None:
    for name, member in (("one", "mass_kg"), ("two", "chemistry")):
        issue = {"kind": "missing", "severity": "error", "fact_type": "Battery", "members": [member]}
        report = {"products": [{"sku": "A", "category": "ev", "issues": [issue]}]}
        (tmp_path / name).write_text(json.dumps(report))

    bpc.run_ok(
        "template", "--missing", tmp_path / "one", "--missing", tmp_path / "two", "--out", tmp_path / "form.xlsx"
    )

    members = [AskedMember("Battery", "mass_kg"), AskedMember("Battery", "chemistry")]
    assert (tmp_path / "form.xlsx").read_bytes() == write_template_workbook(build_template("ev", "en", {"A": members}))


@pytest.mark.parametrize(
    ("report", "says"),
    [
        ({"products": [{"sku": "A", "category": "ev", "issues": []}]}, "CONFLICT: nothing is missing"),
        (
            {"products": [{"sku": "A", "category": None, "issues": []}]},
            "VALIDATION_ERROR: the category of these products is not known",
        ),
        (
            {"products": [{"sku": sku, "category": sku, "issues": []} for sku in ("lmt", "ev")]},
            "VALIDATION_ERROR: these products have several categories: ev, lmt",
        ),
        ({"other": 1}, "VALIDATION_ERROR: `"),
    ],
)
def test_a_list_of_which_no_template_can_be_made_is_refused(
    bpc: Program, tmp_path: Path, report: object, says: str
) -> None:
    (tmp_path / "report.json").write_text(json.dumps(report))

    refused = bpc.run("template", "--missing", tmp_path / "report.json", "--out", tmp_path / "form.xlsx")

    assert (refused.code, refused.err[: len(says)]) == (1, says)
    assert not (tmp_path / "form.xlsx").exists()


def test_a_category_goes_without_a_kind(bpc: Program) -> None:
    assert bpc.run("template", "PCF", "--category", "ev").code == 2
