"""The page on public formats shows what the code reads."""

import re

import pytest

from bpc.core.documents.public import epcis_events
from bpc.core.documents.reader import PUBLIC_FORMATS
from bpc.core.facts.schemas import SCHEMAS
from bpc.core.language.types import FactRecordType
from tests.core.documents.public_files import list_example_names
from tools import public_formats

PAGE = public_formats.PAGE.read_text(encoding="utf-8")


def test_the_tables_are_those_that_documents_are_read_by() -> None:
    assert public_formats.rewrite_page(PAGE) == PAGE, "run `make cases`"
    assert public_formats.format_sensor_members() in PAGE


def test_every_format_has_a_table() -> None:
    assert {id(known) for known in PUBLIC_FORMATS} == {id(known) for known in public_formats.FORMATS.values()}
    assert re.findall(r"<!-- table: (\w+) -->", PAGE) == list(public_formats.FORMATS)


@pytest.mark.parametrize("name", sorted(public_formats.FORMATS))
def test_every_row_fills_a_member_that_exists(name: str) -> None:
    for fact_type, rows in public_formats.FORMATS[name].tables:
        members = SCHEMAS[FactRecordType(fact_type, 1)]
        assert [row.member for row in rows if row.member not in members] == []


def test_every_reading_fills_a_member_that_exists() -> None:
    assert {sensor_member.member for sensor_member in epcis_events.SENSOR_MEMBERS.values()} <= SCHEMAS[
        FactRecordType("Battery", 1)
    ].keys()


def test_every_format_has_an_example() -> None:
    assert len(list_example_names()) >= len(PUBLIC_FORMATS)
