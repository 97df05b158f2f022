"""Files of rows, in parts that can be sent at once: CSV, JSON lines and EPCIS as they are, Parquet as JSON lines.

    CSV, JSON lines ── split_rows ──┐
    Parquet ── pyarrow, a part at a time ──┴──► (rows before it, bytes), (…)

Parquet is read here and not by the service: a service that reads it would let everybody who may send a file feed a
large parser in C++. It needs `bpc[parquet]`.
"""

import importlib
import io
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from types import ModuleType
from typing import Any, Final

from bpc.core.batteries.reading_rows import is_epcis
from bpc.core.errors import Invalid
from bpc.core.formats.timestamps import format_time

ROWS_AT_ONCE: Final = 50_000
PARQUET_MAGIC: Final = b"PAR1"
RowParts = Iterator[tuple[int, bytes]]


def read_row_parts(content: bytes) -> RowParts:
    """Parts of a file of any of the formats, each with the number of rows before it."""
    if content.startswith(PARQUET_MAGIC):
        return _split_parquet(content)
    return iter([(0, content)]) if is_epcis(content) else split_rows(content)


def split_rows(content: bytes) -> RowParts:
    """Parts of CSV or JSON lines; CSV keeps its header."""
    lines = content.splitlines(keepends=True)
    header = [] if content.lstrip()[:1] == b"{" or not lines else lines[:1]
    rows = lines[len(header) :]
    if len(rows) <= ROWS_AT_ONCE:
        yield 0, content
        return
    for start in range(0, len(rows), ROWS_AT_ONCE):
        yield start, b"".join([*header, *rows[start : start + ROWS_AT_ONCE]])


def _split_parquet(content: bytes) -> RowParts:
    """The rows of a Parquet file as JSON lines: the line of a fault is the number of the row."""
    arrow, parquet = _load_arrow("pyarrow"), _load_arrow("pyarrow.parquet")
    start = 0
    try:
        for batch in parquet.ParquetFile(io.BytesIO(content)).iter_batches(batch_size=ROWS_AT_ONCE):
            columns = {
                str(name): _list_texts(arrow, str(name), column)
                for name, column in zip(batch.schema.names, batch.columns, strict=True)
            }
            rows = (dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True))
            lines = [json.dumps({name: cell for name, cell in row.items() if cell is not None}) for row in rows]
            if lines:
                yield start, "".join(f"{line}\n" for line in lines).encode()
            start += len(lines)
    except (arrow.ArrowException, OSError) as wrong:
        first_line = str(wrong).partition("\n")[0]
        raise Invalid(f"the Parquet file cannot be read: {first_line}", fix="write it again") from None
    if start == 0:
        raise Invalid("the file has no row", fix="write a row for each value")


def _list_texts(arrow: ModuleType, name: str, column: Any) -> list[str | None]:
    kind = column.type
    if arrow.types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    if arrow.types.is_timestamp(kind):
        column = column.cast(arrow.timestamp("us", tz=kind.tz), safe=False)  # no kind of reading is more exact
    elif arrow.types.is_decimal(kind):
        column = column.cast(arrow.string())
    elif arrow.types.is_nested(kind) or arrow.types.is_binary(kind) or arrow.types.is_large_binary(kind):
        raise Invalid(f"the column `{name}` is of type {kind}", fix="write texts, numbers, dates or times")
    return [None if value is None else _to_text(value) for value in column.to_pylist()]


def _to_text(value: object) -> str:
    match value:
        case float():  # the shortest digits that give this number
            return _write_plainly(repr(value))
        case datetime(tzinfo=None):  # the service refuses a time without a zone, with its row
            return value.isoformat()
        case datetime():
            return format_time(value.astimezone(UTC))
        case date():
            return value.isoformat()
        case _:
            return str(value)


def _write_plainly(number: str) -> str:
    """The digits of a number without an exponent; `nan` and `inf` as they are, for the service to refuse."""
    digits, _, exponent = number.partition("e")
    if not exponent:
        return number.removesuffix(".0")
    sign = "-" if digits.startswith("-") else ""
    whole, _, fraction = digits.removeprefix("-").partition(".")
    places, point = whole + fraction, len(whole) + int(exponent)
    if point <= 0:
        return f"{sign}0.{'0' * -point}{places}"
    return f"{sign}{places.ljust(point, '0')}" if point >= len(places) else f"{sign}{places[:point]}.{places[point:]}"


def _load_arrow(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise Invalid(
            "reading Parquet needs pyarrow, which is not installed",
            fix="install `bpc[parquet]`, or save the file as CSV",
        ) from None
