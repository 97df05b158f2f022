"""A member that is missing is found in the template by sheet and column."""

import pytest

from bpc.cli.offline.template import SHEETS, list_template_columns
from bpc.core.facts.schemas import SCHEMA_MEMBERS, SCHEMA_VERSION
from bpc.core.language.types import FactRecordType
from bpc.core.readiness.issues import TEMPLATE_SHEETS, TemplateCell, find_template_cell


def test_the_sheets_are_those_of_the_template() -> None:
    assert {fact_type: sheet for sheets in SHEETS.values() for sheet, fact_type in sheets} == TEMPLATE_SHEETS


@pytest.mark.parametrize("fact_type", sorted(TEMPLATE_SHEETS))
def test_every_member_has_a_column_that_is_in_the_template(fact_type: str) -> None:
    columns = {column[0] for column in list_template_columns(fact_type)}

    cells = [find_template_cell(fact_type, name) for name in SCHEMA_MEMBERS[FactRecordType(fact_type, SCHEMA_VERSION)]]

    assert all(cell is not None and cell.column in columns for cell in cells)


def test_a_member_of_a_record_is_found_in_the_first_record() -> None:
    assert find_template_cell("Battery", "hazardous_substances.impact") == TemplateCell(
        "Battery", "hazardous_substances[1].impact"
    )


def test_what_no_template_asks_for_has_no_column() -> None:
    assert find_template_cell("Finding", "code") is None
    assert find_template_cell("Battery", "colour") is None
