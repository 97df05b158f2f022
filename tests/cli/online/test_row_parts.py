"""Parquet becomes JSON lines, a part at a time: every number with its own digits, every time with its zone."""

import io
import json
import sys
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from bpc.cli.online.batteries import row_parts
from bpc.core.errors import Invalid


def write_parquet(**columns: Any) -> bytes:
    target = io.BytesIO()
    parquet.write_table(pa.table(columns), target)
    return target.getvalue()


def read_lines(content: bytes) -> list[dict[str, str]]:
    return [json.loads(line) for _, part in row_parts.read_row_parts(content) for line in part.splitlines()]


def test_values_keep_their_digits_and_times_their_instant() -> None:
    moment = datetime(2025, 8, 1, 2, 0, 0, 250, tzinfo=UTC)
    content = write_parquet(
        serial_number=pa.array(["A1", None]).dictionary_encode(),
        value=pa.array([4.5, 1e-7]),
        recorded_at=pa.array([moment, moment], pa.timestamp("ns", tz="Europe/Berlin")),
        manufactured_on=[date(2024, 8, 1), None],
        cycles=pa.array([1, 2], pa.int32()),
        exact=pa.array(["1.50", "1e3"]).cast(pa.string()),
    )

    first, second = read_lines(content)

    assert first["recorded_at"] == "2025-08-01T02:00:00.000250Z"
    assert (first["serial_number"], first["value"], first["manufactured_on"]) == ("A1", "4.5", "2024-08-01")
    assert (second["value"], second["cycles"], "serial_number" in second) == ("0.0000001", "2", False)


@pytest.mark.parametrize(
    ("number", "text"),
    [(1e22, "10000000000000000000000"), (-1.25e-5, "-0.0000125"), (3.0, "3"), (1.5e16, "15000000000000000")],
)
def test_a_number_is_written_without_an_exponent(number: float, text: str) -> None:
    assert read_lines(write_parquet(value=[number])) == [{"value": text}]


def test_a_decimal_is_taken_as_it_is() -> None:
    column = pa.array(["12.3400"]).cast(pa.decimal128(10, 4))

    assert read_lines(write_parquet(value=column)) == [{"value": "12.3400"}]


def test_a_large_file_is_sent_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_parts, "ROWS_AT_ONCE", 2)

    parts = list(row_parts.read_row_parts(write_parquet(value=["1", "2", "3"])))

    assert parts == [(0, b'{"value": "1"}\n{"value": "2"}\n'), (2, b'{"value": "3"}\n')]


def test_a_document_of_events_is_one_part() -> None:
    content = b'{"epcisBody":\n{}}' + b"\n" * 100_000

    assert list(row_parts.read_row_parts(content)) == [(0, content)]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"PAR1 and nothing else", "cannot be read"),
        (write_parquet(value=[[1]]), "the column `value` is of type list"),
        (write_parquet(value=[b"1"]), "the column `value` is of type binary"),
        (write_parquet(value=pa.array([], pa.string())), "the file has no row"),
    ],
)
def test_what_cannot_be_rows_is_refused(content: bytes, says: str) -> None:
    with pytest.raises(Invalid, match=says):
        list(row_parts.read_row_parts(content))


def test_without_pyarrow_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    content = write_parquet(value=["1"])
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    with pytest.raises(Invalid, match="needs pyarrow") as refusal:
        list(row_parts.read_row_parts(content))

    assert "bpc[parquet]" in str(refusal.value.fix)
