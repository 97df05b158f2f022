"""The page on public formats shows what the code reads."""

import re

import pytest

from bpc.core.documents.public import FORMATS, events
from bpc.core.rules.types import Fact
from bpc.core.schemas import SCHEMAS
from tests.core.documents.public_data import example_names
from tools import public_formats

PAGE = public_formats.PAGE.read_text(encoding="utf-8")


def test_the_tables_are_those_that_documents_are_read_by() -> None:
    assert public_formats.page(PAGE) == PAGE, "run `make cases`"
    assert public_formats.readings() in PAGE


def test_every_format_has_a_table() -> None:
    assert {id(known) for known in FORMATS} == {id(known) for known in public_formats.FORMATS.values()}
    assert re.findall(r"<!-- table: (\w+) -->", PAGE) == list(public_formats.FORMATS)


@pytest.mark.parametrize("name", sorted(public_formats.FORMATS))
def test_every_row_fills_a_member_that_exists(name: str) -> None:
    for fact_type, rows in public_formats.FORMATS[name].tables:
        members = SCHEMAS[Fact(fact_type, 1)]
        assert [row.member for row in rows if row.member not in members] == []


def test_every_reading_fills_a_member_that_exists() -> None:
    assert {reading.member for reading in events.READINGS.values()} <= SCHEMAS[Fact("Battery", 1)].keys()


def test_every_format_has_an_example() -> None:
    assert len(example_names()) >= len(FORMATS)
