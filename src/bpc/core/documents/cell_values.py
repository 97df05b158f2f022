"""Cells to values, by the type, the unit and the locale of their column.

Cells are converted only as far as tables differ from JSON: a boolean may be `ja`, a list stands in one cell, a number
has the unit of its header. `fact_members` checks the values, for all formats alike. A number is converted exactly or
not at all.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from bpc.core.documents import quote_text
from bpc.core.documents.cells import Cell, DateCell, FormattedNumber, InvalidCell, PercentCell, describe_cell
from bpc.core.documents.date_texts import InvalidDate, parse_bool_text, parse_date_text
from bpc.core.documents.elements import NumberText, RawValue, is_plain_decimal, parse_exact
from bpc.core.documents.fact_members import BLANKS
from bpc.core.documents.header_names import ColumnTarget
from bpc.core.documents.header_units import ONE, find_unit_factor
from bpc.core.documents.number_texts import InvalidNumber, NumberLocale, parse_number_text, split_unit_from_number
from bpc.core.documents.public.sentences import MAX_WORDS_OF_A_NAME, says_none, says_nothing, split_list
from bpc.core.facts.enumerations import ENUMERATIONS
from bpc.core.language.types import BOOL, DATE, INT, TEXT, Dec, List, Type

# Members whose items are short names: a comma separates them too. In other lists an item may be a sentence.
_LISTS_OF_NAMES: Final = frozenset({"critical_raw_materials", *(member for _, member in ENUMERATIONS)})
_LIST_SEPARATOR: Final = re.compile(r"[;\n]")


def convert_cell(target: ColumnTarget, cell: Cell, locale: NumberLocale | None) -> "RawValue | InvalidCell":
    """The value of a cell in a column of this target; or why it cannot be read."""
    if isinstance(cell, InvalidCell):
        return cell
    if target.fault is not None:
        return InvalidCell(target.fault)
    kind = target.kind
    if isinstance(kind, List):
        return _convert_list(target, kind, cell)
    if isinstance(kind, Dec) or kind == INT:
        return _convert_number(target, cell, locale)
    return _CONVERTERS[kind](cell, locale)


def _convert_list(target: ColumnTarget, kind: List, cell: Cell) -> "RawValue | InvalidCell":
    parts: list[Cell] = [cell]
    if isinstance(cell, str):
        texts = [part.strip(BLANKS) for part in _LIST_SEPARATOR.split(cell)]
        is_list_of_names = target.steps[0] in _LISTS_OF_NAMES
        parts = [*(item for text in texts for item in split_list(text))] if is_list_of_names else [*texts]
        # A dash, a dot or a bullet names nothing, and does not say that there are none.
        if is_list_of_names and (not parts or all(map(says_nothing, texts))) and not any(map(says_none, texts)):
            return InvalidCell(f"is {quote_text(cell)}; write `none` if there are none, or leave the cell empty")
    item_target = ColumnTarget(target.steps, kind.item)
    items = [convert_cell(item_target, part, None) for part in parts if part != ""]
    invalid = next((item for item in items if isinstance(item, InvalidCell)), None)
    return invalid or [item for item in items if not isinstance(item, InvalidCell)]


def find_open_list(target: ColumnTarget, cell: Cell) -> str | None:
    """What to say of a cell that may list several texts but was read as one; None if it can be one only."""
    if not isinstance(target.kind, List) or not isinstance(cell, str) or _LIST_SEPARATOR.search(cell):
        return None
    parts = cell.split(",")
    if target.steps[0] in _LISTS_OF_NAMES or len(parts) == 1 or "://" in cell:
        return None
    is_list = all(1 <= len(part.split()) <= MAX_WORDS_OF_A_NAME for part in parts)
    return f"was read as one text, {quote_text(cell)}; write `;` between texts if it lists several" if is_list else None


def _convert_bool(cell: Cell, _: NumberLocale | None) -> "RawValue | InvalidCell":
    if isinstance(cell, bool):
        return cell
    match cell:
        case str(text) | NumberText(text) | FormattedNumber(text, ""):
            value = parse_bool_text(text)
        case _:
            value = None
    return InvalidCell(f"is {describe_cell(cell)}, not true or false, yes or no, 1 or 0") if value is None else value


def _convert_date(cell: Cell, locale: NumberLocale | None) -> "RawValue | InvalidCell":
    match cell:
        case DateCell(text):
            return text
        case str(text):
            day = parse_date_text(text, locale)
            return InvalidCell(day.says) if isinstance(day, InvalidDate) else day
        case _:
            return InvalidCell(
                f"is {describe_cell(cell)}, not a date; format the cell as a date, or write it like 2027-02-18"
            )


def _convert_text(cell: Cell, _: NumberLocale | None) -> "RawValue | InvalidCell":
    match cell:
        case str():
            return InvalidCell(f"is {quote_text(cell)}; leave the cell empty") if says_nothing(cell) else cell
        case NumberText(text) if is_plain_decimal(text) and "." not in text:
            return text  # a spreadsheet stores an article number as a number
        case FormattedNumber(shown=str(shown)):
            return shown
        case _:
            return InvalidCell(f"is {describe_cell(cell)}, not a text; format the cell as text and write it again")


_CONVERTERS: Final[Mapping[Type, Callable[[Cell, NumberLocale | None], "RawValue | InvalidCell"]]] = {
    BOOL: _convert_bool,
    DATE: _convert_date,
    TEXT: _convert_text,
}


def _convert_number(target: ColumnTarget, cell: Cell, locale: NumberLocale | None) -> "RawValue | InvalidCell":
    match cell:
        case FormattedNumber(fault=str(fault)):
            return InvalidCell(fault)
        case NumberText(text) | FormattedNumber(text, ""):
            return _scale_number(target, text, NumberText(text))
        case PercentCell(text) | FormattedNumber(text, "%"):
            return _convert_percentage(target, text)
        case FormattedNumber(text, unit):
            return _convert_with_unit(target, text, unit, f"{text} {unit}")
        case str():
            return _convert_number_text(target, cell, locale)
        case _:
            return InvalidCell(f"is {describe_cell(cell)}, not a number")


def _convert_percentage(target: ColumnTarget, text: str) -> "RawValue | InvalidCell":
    symbol = "" if target.unit is None else target.unit.symbol
    if not symbol.startswith("%"):
        return InvalidCell(f"is {text} %, but `{target.name}` is not a percentage; format the cell as a number")
    if target.factor not in {None, ONE}:
        return InvalidCell(f"is {text} %, but its column has the unit `{target.header_unit}`; keep one of the two")
    return NumberText(text)


def _convert_number_text(target: ColumnTarget, text: str, locale: NumberLocale | None) -> "RawValue | InvalidCell":
    number = parse_number_text(text, locale)
    if not isinstance(number, InvalidNumber):
        return _scale_number(target, number, text)
    parts = split_unit_from_number(text)
    if parts is None or not parts[1]:
        return InvalidCell(number.says)
    number = parse_number_text(parts[0], locale)
    if isinstance(number, InvalidNumber):
        return InvalidCell(number.says)
    if parts[1] == "%" and target.unit is not None and target.unit.symbol.startswith("%"):
        return _convert_percentage(target, number)
    return _convert_with_unit(target, number, parts[1], text)


def _convert_with_unit(target: ColumnTarget, number: str, unit: str, text: str) -> "RawValue | InvalidCell":
    """A number whose cell says its unit. It must not contradict the header."""
    if target.unit is None:
        return InvalidCell(f"is {quote_text(text)}, not a number; `{target.name}` has no unit")
    factor = find_unit_factor(target.unit.table, unit)
    if factor is None:
        return InvalidCell(f"is {quote_text(text)}, but `{target.name}` is in {target.unit.symbol}; correct the unit")
    if target.header_unit is not None and factor != target.factor:
        return InvalidCell(
            f"is {quote_text(text)}, but its column has the unit `{target.header_unit}`; keep one of the two"
        )
    target_with_unit = ColumnTarget(target.steps, target.kind, target.unit, factor, unit)
    return _scale_number(target_with_unit, number, text)


def _scale_number(target: ColumnTarget, number: str, raw: "NumberText | str") -> "RawValue | InvalidCell":
    """A number in the member's unit. One that has too many decimals there is refused, never rounded."""
    factor = target.factor
    if factor is None:
        symbol = "" if target.unit is None else target.unit.symbol
        return InvalidCell(f"is {number} without a unit; write the unit into the header, such as `[{symbol}]`")
    if factor == ONE:
        return raw if isinstance(raw, NumberText) else NumberText(number)
    value = parse_exact(number)
    if value is None:
        return InvalidCell(f"is {number}, not a number below 10^36")
    product = value * factor
    decimals = target.kind.scale if isinstance(target.kind, Dec) else 0
    if product.at_scale(decimals) is None:
        symbol = "" if target.unit is None else f" {target.unit.symbol}"
        return InvalidCell(
            f"is {number} {target.header_unit}, which is {product}{symbol}, but `{target.name}` has"
            f" {decimals or 'no'} decimals; it is not rounded"
        )
    return NumberText(str(product))
