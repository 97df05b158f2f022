"""Documents that are small to send and expensive to read, each by another trick."""

import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from hashlib import sha256
from io import BytesIO
from typing import Final

from tests.measurements import choose_effort

XLSX: Final = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_PART: Final = choose_effort(test=3, shown=1, campaign=1)  # beside other tests a bomb is so many times smaller
LARGEST: Final = 25_000_000 // _PART  # bytes of an upload
_TEXTS: Final = choose_effort(test=310_000, shown=600_000, campaign=600_000)

_MAIN: Final = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_LINKS: Final = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE: Final = "http://schemas.openxmlformats.org/package/2006/relationships"
_WORKBOOK: Final = (
    f'<workbook xmlns="{_MAIN}" xmlns:r="{_LINKS}"><sheets>'
    '<sheet name="PCF" sheetId="1" r:id="r1"/></sheets></workbook>'
)  # fmt: skip
_RELATIONS: Final = (
    f'<Relationships xmlns="{_PACKAGE}">'
    f'<Relationship Id="r1" Type="{_LINKS}/worksheet" Target="worksheets/sheet1.xml"/>'
    f'<Relationship Id="r2" Type="{_LINKS}/sharedStrings" Target="sharedStrings.xml"/></Relationships>'
)
_ROW: Final = '<row r="1"><c r="A1" t="inlineStr"><is><t>sku</t></is></c></row>'


def workbook(
    sheet: bytes | str = "",
    strings: bytes | str = "<si><t>x</t></si>",
    *,
    prologue: str = "",
    more: Mapping[str, bytes] | None = None,
) -> bytes:
    """A workbook of one sheet with this content, whatever it is; `prologue` stands before the sheet's XML."""
    if isinstance(sheet, str):
        sheet = f'{prologue}<worksheet xmlns="{_MAIN}"><sheetData>{sheet}</sheetData></worksheet>'.encode()
    if isinstance(strings, str):
        strings = f'<sst xmlns="{_MAIN}">{strings}</sst>'.encode()
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("xl/workbook.xml", _WORKBOOK)
        archive.writestr("xl/_rels/workbook.xml.rels", _RELATIONS)
        archive.writestr("xl/worksheets/sheet1.xml", sheet)
        archive.writestr("xl/sharedStrings.xml", strings)
        for name, content in (more or {}).items():
            archive.writestr(name, content)
    return buffer.getvalue()


def zip_bomb() -> bytes:
    return workbook(more={"xl/media/image1.png": bytes(70_000_000 // _PART)})


def zip_that_lies() -> bytes:
    """The sheet says it is small, and is not."""
    packed = workbook(" " * (60_000_000 // _PART))
    at = packed.rindex(b"PK\x01\x02", 0, packed.rindex(b"xl/worksheets/sheet1.xml"))
    return packed[: at + 24] + struct.pack("<I", 1_000) + packed[at + 28 :]


def many_entries() -> bytes:
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for number in range(20_000 // _PART):
            archive.writestr(f"xl/{number}", b"")
    return buffer.getvalue()


def nested_zip() -> bytes:
    inner = zlib.compress(bytes(10_000_000 // _PART))
    for _ in range(3):
        inner = workbook(more={"xl/embeddings/book.xlsx": inner * 20})
    return inner


def entities() -> bytes:
    """A billion laughs."""
    levels = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    declared = f'<!DOCTYPE worksheet [<!ENTITY l0 "ha">{levels}]>'
    return workbook('<row r="1"><c r="A1" t="inlineStr"><is><t>&l9;</t></is></c></row>', prologue=declared)


def external_entity() -> bytes:
    return workbook(
        '<row r="1"><c r="A1" t="inlineStr"><is><t>&e;</t></is></c></row>',
        prologue='<!DOCTYPE worksheet [<!ENTITY e SYSTEM "file:///etc/passwd">]>',
    )


def a_billion_cells() -> bytes:
    """One cell at each end of the largest sheet there is."""
    far = '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
    sheet = f'<worksheet xmlns="{_MAIN}"><dimension ref="A1:XFD1048576"/><sheetData>{_ROW}{far}</sheetData></worksheet>'
    return workbook(sheet.encode())


def many_cells() -> bytes:
    return workbook("<row>" + "<c><v>1</v></c>" * (3_000_000 // _PART) + "</row>")


def many_empty_cells() -> bytes:
    return workbook(_ROW + "<row>" + "<c/>" * (9_000_000 // _PART) + "</row>")


def many_different_cells() -> bytes:
    """Not even very well packed."""
    digits = b"".join(sha256(number.to_bytes(4)).hexdigest().encode() for number in range(5_000))
    return workbook("<row>" + "".join(f"<c><v>{digit:d}</v></c>" for digit in digits[:300_000]) + "</row>")


def many_texts() -> bytes:
    return workbook(_ROW, "".join(f"<si><t>{number}</t></si>" for number in range(_TEXTS)))


def one_long_text() -> bytes:
    return workbook(f'<row r="1"><c r="A1" t="inlineStr"><is><t>{"ab" * (30_000_000 // _PART)}</t></is></c></row>')


def deep_xml() -> bytes:
    return workbook("<row>" * (2_000_000 // _PART))


def long_attribute() -> bytes:
    return workbook(f'<row r="{"1" * (50_000_000 // _PART)}"/>')


def many_attributes() -> bytes:
    return workbook("<row " + " ".join(f'a{number}=""' for number in range(500_000 // _PART)) + "/>")


def deep_json() -> bytes:
    return b"[" * LARGEST


def deep_json_of_texts() -> bytes:
    return b'{"a":' * (LARGEST // 5)


def long_number() -> bytes:
    return b'{"sku":"A","total_gco2e":' + b"9" * (LARGEST - 30) + b"}"


def many_numbers() -> bytes:
    return b"[" + b"1," * (LARGEST // 2 - 2) + b"1]"


def many_objects() -> bytes:
    return b"[" + b"{}," * (LARGEST // 3 - 2) + b"{}]"


def many_members() -> bytes:
    return (
        b'{"sku":"A",'
        + b",".join(
            b'"%x":1' % number for number in range(choose_effort(test=310_000, shown=1_000_000, campaign=1_000_000))
        )
        + b"}"
    )


def wide_text() -> bytes:
    """Four bytes a character in memory, once one of them needs it."""
    return b'{"sku":"\xf0\x9f\x94\x8b' + b"a" * (LARGEST - 40) + b'"}'


def many_columns() -> bytes:
    return b"sku" + b",a" * (10_000_000 // _PART)


def many_empty_columns() -> bytes:
    return b"sku\n" + b"," * (LARGEST - 10)


def quote_without_end() -> bytes:
    return b'sku,method\nA,"' + b"x" * (LARGEST - 20)


def quotes_over_many_lines() -> bytes:
    return b"sku\n" + b'"\n",,,,,,,,,,,' * (LARGEST // 16)


def many_lines() -> bytes:
    return b"sku" + b"\n" * (LARGEST - 10)


def many_rows() -> bytes:
    return b"sku\n" + b"A\n" * (390_000 // _PART)


def many_wrong_rows() -> bytes:
    return b"sku,total_gco2e\n" + b"A,x\n" * (390_000 // _PART)


BOMBS: Final[Mapping[str, tuple[str, Callable[[], bytes]]]] = {
    **{
        make.__name__: (XLSX, make)
        for make in (
            *(zip_bomb, zip_that_lies, many_entries, nested_zip, entities, external_entity, a_billion_cells),
            *(
                many_cells,
                many_empty_cells,
                many_different_cells,
                many_texts,
                one_long_text,
                deep_xml,
                long_attribute,
                many_attributes,
            ),
        )
    },
    **{
        make.__name__: ("application/json", make)
        for make in (deep_json, deep_json_of_texts, long_number, many_numbers, many_objects, many_members, wide_text)
    },
    **{
        make.__name__: ("text/csv", make)
        for make in (
            *(many_columns, many_empty_columns, quote_without_end, quotes_over_many_lines, many_lines),
            *(many_rows, many_wrong_rows),
        )
    },
}
