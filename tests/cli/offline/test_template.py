"""`bpc template`: a file that is read as it is once it is filled in, and says so kindly before."""

import io
import zipfile
from pathlib import Path

import pytest

from bpc.cli.template_files import EXAMPLES, SHEETS, columns, written
from bpc.core.documents import Read, Rejected, read_document
from bpc.core.rules.types import Fact
from bpc.core.schemas import SCHEMAS
from tests.cli.program import Program

MIME_TYPES = {
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "csv": "text/csv",
    "json": "application/json",
}
COMMITTED = Path(__file__).parents[2] / "examples" / "documents"
EACH = [(kind, form) for kind in SHEETS for form in MIME_TYPES]


def facts(kind: str, form: str, content: bytes) -> list[tuple[str, str, bytes]]:
    outcome = read_document(kind, MIME_TYPES[form], content)
    assert isinstance(outcome, Read), outcome
    assert outcome.warnings.total == 0
    return [(fact.fact_type, fact.fact_key, fact.payload_canonical) for fact in outcome.facts]


@pytest.mark.parametrize(("kind", "form"), EACH)
def test_filled_in_it_is_read_without_a_word_and_says_the_same_in_every_format(kind: str, form: str) -> None:
    found = facts(kind, form, written(kind, form, example=True))

    assert len(found) == sum(len(EXAMPLES[fact_type]) for _, fact_type in SHEETS[kind])
    assert found == facts(kind, "json", written(kind, "json", example=True))


@pytest.mark.parametrize(("kind", "form"), EACH)
def test_untouched_it_is_rejected_kindly(kind: str, form: str) -> None:
    outcome = read_document(kind, MIME_TYPES[form], written(kind, form, example=False))

    assert isinstance(outcome, Rejected)
    first = outcome.problems.first[0].says
    expected = "is missing; it says what this is about" if form == "json" else "has no rows yet; fill in at least one"
    assert first.startswith(expected)


@pytest.mark.parametrize("kind", list(SHEETS))
def test_it_has_a_column_for_everything_that_can_be_said(kind: str) -> None:
    for _, fact_type in SHEETS[kind]:
        named = {name.partition("[")[0] for name, _, _ in columns(fact_type)}

        assert named == set(SCHEMAS[Fact(fact_type, 1)])
        assert all(set(row) <= {name for name, _, _ in columns(fact_type)} for row in EXAMPLES[fact_type])


def test_the_same_template_has_the_same_content() -> None:
    [one, other] = [zipfile.ZipFile(io.BytesIO(written("BOM", "xlsx", example=True))) for _ in range(2)]

    assert {name: one.read(name) for name in one.namelist()} == {name: other.read(name) for name in other.namelist()}


@pytest.mark.parametrize(("kind", "form"), EACH)
def test_the_examples_are_filled_in_templates(kind: str, form: str) -> None:
    name = f"{kind.lower().replace('_', '-')}.{form}"
    remake = f"run `bpc template {kind} --format {form} --example --out examples/documents/{name}`"

    content = (COMMITTED / name).read_bytes()

    assert facts(kind, form, content) == facts(kind, form, written(kind, form, example=True)), remake


def test_the_program_writes_it_where_it_is_told(bpc: Program, tmp_path: Path) -> None:
    said = bpc.ok("template", "PCF", "--format", "csv", "--out", tmp_path / "pcf.csv")

    assert said.out == f"{tmp_path}/pcf.csv is ready to be filled in\n"
    assert (tmp_path / "pcf.csv").read_bytes() == written("PCF", "csv", example=False)
    printed = bpc.ok("template", "PCF", "--format", "json", "--example", "--out", "-")
    assert printed.out.encode() == written("PCF", "json", example=True)


def test_a_file_that_exists_is_not_overwritten(bpc: Program, tmp_path: Path) -> None:
    (tmp_path / "mine.xlsx").write_bytes(b"filled in with care")

    refused = bpc.run("template", "--out", tmp_path / "mine.xlsx")

    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith(f"CONFLICT: `{tmp_path}/mine.xlsx` exists already")
    assert (tmp_path / "mine.xlsx").read_bytes() == b"filled in with care"


def test_a_kind_that_is_none_is_wrong_usage(bpc: Program) -> None:
    refused = bpc.run("template", "OTHER")

    assert refused.code == 2
    assert "'BOM', 'PCF', 'DUE_DILIGENCE'" in refused.err
