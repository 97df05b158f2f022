"""What is written into a spreadsheet is read back: random values of every member, none wrong, none changed silently.

Written by another program than ours, with headers as members are named and as people call them, in the member's unit
and in others, as numbers, percentages, texts in two locales, dates and booleans.
"""

import random  # noqa: TID251 seeded, so that a run can be repeated
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from fractions import Fraction
from typing import Any

import pytest

from bpc.core.documents.elements import FACT_TYPES
from bpc.core.documents.fact_members import fits_a_cell
from bpc.core.documents.header_names import match_header
from bpc.core.documents.header_synonyms import SYNONYMS
from bpc.core.documents.header_units import find_member_unit, find_unit_factor, strip_unit_name
from bpc.core.documents.number_texts import NumberLocale
from bpc.core.documents.read_options import ReadOptions
from bpc.core.documents.reader import DocumentFacts, read_document
from bpc.core.facts.schemas import SCHEMAS
from bpc.core.formats import canonical_json
from bpc.core.language.types import BOOL, DATE, INT, TEXT, Dec, FactRecordType, List, Type
from tests.core.documents.render_facts import SHEETS, XLSX
from tests.core.documents.supplier_tables import Percentage, SupplierTable
from tests.measurements import choose_effort

KINDS = {fact_type: kind for kind, types in FACT_TYPES.items() for fact_type in types}
VALUES_PER_TABLE = 50


@dataclass(frozen=True, slots=True)
class WrittenCell:
    """A header, a cell below it, and what the member must be."""

    header: str
    cell: Any
    expected: Any


def write_member(draw: random.Random, member: str, kind: Type, locale: NumberLocale, fact_type: str) -> WrittenCell:
    if isinstance(kind, Dec) or kind == INT:
        return _write_number(draw, member, kind, locale, fact_type)
    header = _choose_header(draw, member, "", fact_type)
    match kind:
        case List():
            texts = [f"text {draw.randrange(10**6)}" for _ in range(draw.randint(1, 4))]
            return WrittenCell(header, draw.choice(["; ", ";", "\n"]).join(texts), texts)
        case _ if kind == DATE:
            day = date(1990, 1, 1) + timedelta(draw.randrange(30_000))
            forms = [day, day.isoformat(), f"{day:%d.%m.%Y}", *([f"{day:%d/%m/%Y}"] if locale == "comma" else [])]
            return WrittenCell(header, draw.choice(forms), day.isoformat())
        case _ if kind == BOOL:
            value = draw.random() < 0.5
            words = ("yes", "Ja", "OUI", "sí", "tak", 1) if value else ("no", "Nein", "NON", "no", "nie", 0)
            return WrittenCell(header, draw.choice([value, draw.choice(words)]), value)
        case _:
            assert kind == TEXT
            text = "".join(draw.choice("abc äöü łż éñ 0123456789.,;:/()%€&<>'\"-_") for _ in range(draw.randint(1, 30)))
            return WrittenCell(header, f"x{text}x", f"x{text}x")


def _write_number(draw: random.Random, member: str, kind: Type, locale: NumberLocale, fact_type: str) -> WrittenCell:
    scale = kind.scale if isinstance(kind, Dec) else 0
    count = draw.randrange(-(10**5) * 10**scale, 10**7 * 10 ** min(scale, 3))
    value = Fraction(count, 10**scale)
    expected: Any = int(value) if kind == INT else _format_decimal(count, scale)
    unit = find_member_unit(member)
    if unit is None:
        return WrittenCell(_choose_header(draw, member, "", fact_type), _write_fraction(draw, value, locale), expected)
    if unit.symbol.startswith("%") and draw.random() < 0.4:
        is_whole = draw.random() < 0.5 or locale == "comma"
        cell = Percentage(float(value / 100)) if is_whole else f"{_format_plain(value, 'point')} %"
        return WrittenCell(member, cell, expected)
    spelling = draw.choice([name for name in unit.table if not name.isdigit()])
    factor = find_unit_factor(unit.table, spelling)
    assert factor is not None
    in_unit = value * 10**factor.scale / factor.count
    if (in_unit * 10**12).denominator != 1 or spelling == unit.symbol or draw.random() < 0.5:
        return WrittenCell(_choose_header(draw, member, "", fact_type), _write_fraction(draw, value, locale), expected)
    header = _choose_header(draw, member, spelling, fact_type)
    return WrittenCell(header, _write_fraction(draw, value if header == member else in_unit, locale), expected)


def _choose_header(draw: random.Random, member: str, unit: str, fact_type: str) -> str:
    """A name that people use with this unit, if it means this member and no other; else the member's own name."""
    names = [name.strip() for name in (*SYNONYMS.get(member, "").split(";"), strip_unit_name(member)) if name]
    own = find_member_unit(member)
    symbol = unit or (own.symbol if own is not None else "")
    draw.shuffle(names)
    for name in names:
        header = draw.choice([f"{name} [{symbol}]", f"{name.upper()} ({symbol})"]) if symbol else name
        targets = match_header(header, (fact_type,)).targets
        if fact_type in targets and targets[fact_type].name == member and targets[fact_type].fault is None:
            return header
    return member


def _write_fraction(draw: random.Random, value: Fraction, locale: NumberLocale) -> Any:
    plain = _format_plain(value, "point")
    if sum(sign.isdigit() for sign in plain) <= 15 and draw.random() < 0.5:
        return float(value)
    text = _format_plain(value, locale)
    whole, separator, decimals = text.partition("," if locale == "comma" else ".")
    group = draw.choice(["", "." if locale == "comma" else ",", " ", "\u00a0", "\u2019"])
    return f"{int(whole):,}".replace(",", group) + separator + decimals if whole != "-0" else text


def _format_decimal(count: int, scale: int) -> str:
    digits = str(abs(count)).rjust(scale + 1, "0")
    return ("-" if count < 0 else "") + (f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits)


def _format_plain(value: Fraction, locale: NumberLocale) -> str:
    text = _format_decimal(int(value * 10**12), 12).rstrip("0").rstrip(".")
    return text.replace(".", ",") if locale == "comma" else text


def draw_table(draw: random.Random, fact_type: str) -> tuple[SupplierTable, dict[str, Any]]:
    schema = {name: kind for name, kind in SCHEMAS[FactRecordType(fact_type, 1)].items() if fits_a_cell(kind)}
    others = sorted(set(schema) - {"sku", "part"})
    locale: NumberLocale = draw.choice(["comma", "point"])
    members = draw.sample(others, min(VALUES_PER_TABLE, len(others)))
    written = {member: write_member(draw, member, schema[member], locale, fact_type) for member in members}
    keys = {"sku": f"P-{draw.randrange(10**6)}", **({"part": "cell"} if fact_type == "Component" else {})}
    cells = [(WrittenCell(key, value, value)) for key, value in keys.items()] + list(written.values())
    draw.shuffle(cells)
    titles = [["Declaration"]] * draw.randint(0, 2)
    table = SupplierTable(
        name="",
        kind=KINDS[fact_type],
        locale=locale,
        sheets={SHEETS[fact_type]: [*titles, [cell.header for cell in cells], [cell.cell for cell in cells]]},
    )
    return table, keys | {member: cell.expected for member, cell in written.items()}


def find_differences(expected: Mapping[str, Any], members: Mapping[str, Any], lost: set[str]) -> Iterator[str]:
    for member, value in expected.items():
        if member in lost or members.get(member) != value:
            yield f"{member}: {members.get(member)!r}, not {value!r}"


@pytest.mark.parametrize("fact_type", sorted(KINDS))
def test_random_values_of_every_member_are_read_back_unchanged(fact_type: str) -> None:
    values = choose_effort(test=500, shown=10_000, campaign=100_000)
    draw = random.Random(f"tables of {fact_type}")
    read_count = 0
    wrong: list[str] = []
    while read_count < values // len(KINDS):
        table, expected = draw_table(draw, fact_type)

        outcome = read_document(table.kind, XLSX, table.write(), ReadOptions(locale=table.locale))

        assert isinstance(outcome, DocumentFacts), outcome
        fact, *readings = outcome.facts
        assert {reading.fact_type for reading in readings} <= {"Reading"}
        members = canonical_json.decode(fact.payload_canonical)
        assert isinstance(members, dict)
        assert members.keys() <= expected.keys()
        wrong += find_differences(expected, members, {lost.member for lost in fact.unreadable})
        read_count += len(expected)

    assert wrong == []
