"""Files of rows: CSV and JSON lines say the same, and every fault is named with its line."""

import pytest

from bpc.core.batteries.row_files import FileRow, RowFault, read_rows
from bpc.core.errors import Invalid

COLUMNS = ("sku", "serial_number", "value")
REQUIRED = ("sku", "serial_number")


def test_csv_and_json_lines_give_the_same_rows() -> None:
    csv = '\ufeffSKU;serial_number;value\r\nP;A1;1.50\r\n\r\nP;"A\n2";\r\n'.encode()
    lines = b'{"sku":"P","serial_number":"A1","value":1.50}\n\n{"sku":"P","serial_number":"A\\n2","value":null}\n'

    assert read_rows(csv, COLUMNS, REQUIRED).rows == [
        FileRow(2, {"sku": "P", "serial_number": "A1", "value": "1.50"}),
        FileRow(4, {"sku": "P", "serial_number": "A\n2"}),
    ]
    assert [row.cells for row in read_rows(lines, COLUMNS, REQUIRED).rows] == [
        row.cells for row in read_rows(csv, COLUMNS, REQUIRED).rows
    ]


def test_every_row_with_a_fault_is_named() -> None:
    csv = b"sku,serial_number\nP,A1\nP\n,A3\nP,A4,5\n"
    lines = b'{"sku":"P"}\n{"sku":"P","serial_number":"A","colour":1}\n[1]\n{\n{"sku":["P"]}\n{"sku":"P","sku":"Q"}\n'

    assert [(fault.line, fault.says) for fault in read_rows(csv, COLUMNS, REQUIRED).faults] == [
        (3, "has no serial_number"),
        (4, "has no sku"),
        (5, "has more cells than there are columns"),
    ]
    assert read_rows(lines, COLUMNS, REQUIRED).faults == [
        RowFault(1, "has no serial_number", "serial_number"),
        RowFault(2, "has the unknown member `colour`; the members are sku, serial_number, value"),
        RowFault(3, "is not an object"),
        RowFault(4, "is not JSON: the text is not JSON at column 2"),
        RowFault(5, "`sku` is neither a text nor a number"),
        RowFault(6, "holds a name twice"),
    ]


def test_a_file_that_is_no_table_is_refused_as_a_whole() -> None:
    for content, says in {
        b"": "the file has no column `sku`",
        b"sku,serial_number\n": "the file has no row",
        b"sku,serial_number,sku\nP,A,P\n": "a column appears twice",
        b"sku,serial_number,colour\nP,A,red\n": "unknown column `colour`",
        b'sku,serial_number\nP,"A\n': "the file is not CSV: line 3: unexpected end of data",
        b"\xff\xfe": "the file is not UTF-8 text",
        b"sku,serial_number\n" + b"P,A\n" * 100_001: "the file has more than 100,000 rows",
    }.items():
        with pytest.raises(Invalid) as refusal:
            read_rows(content, COLUMNS, REQUIRED)
        assert refusal.value.says == says
        assert refusal.value.fix
