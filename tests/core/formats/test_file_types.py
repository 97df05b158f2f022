"""Specification of file types: the bytes decide, and who says something else is told."""

import pytest

from bpc.core.errors import Invalid
from bpc.core.formats.file_types import (
    CSV,
    JSON,
    OLD_EXCEL,
    PDF,
    TEXT,
    UNKNOWN,
    XLSX,
    XML,
    ZIP,
    detect_type,
    resolve_type,
)

PNG = b"\x89PNG\r\n\x1a\n...."
JPEG = b"\xff\xd8\xff\xe0...."
WORKBOOK = b"PK\x03\x04........xl/workbook.xml...."
ARCHIVE = b"PK\x03\x04........notes.txt...."

FILES = [
    (b"%PDF-1.7\n...", PDF),
    (WORKBOOK, XLSX),
    (ARCHIVE, ZIP),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1....", OLD_EXCEL),
    (PNG, "image/png"),
    (JPEG, "image/jpeg"),
    (b"GIF89a....", "image/gif"),
    (b"II*\x00....", "image/tiff"),
    (b"\x1f\x8b\x08....", "application/gzip"),
    (b'{"battery": {}}', JSON),
    (b"\xef\xbb\xbf\r\n [1]", JSON),
    (b'<?xml version="1.0"?><a/>', XML),
    (b"sku;mass\nA;1\n", CSV),
    (b"sku\tmass\n", CSV),
    (b"Sehr geehrte Damen und Herren\nanbei, wie besprochen", TEXT),
    ("Gehäuse".encode(), TEXT),
    ("Gehäuse".encode("latin-1"), UNKNOWN),
    (b"text with \x00 in it", UNKNOWN),
    (b"", TEXT),
]


@pytest.mark.parametrize(("content", "kind"), FILES)
def test_the_first_bytes_show_the_type(content: bytes, kind: str) -> None:
    assert detect_type(content) == kind
    assert resolve_type(None, content) == kind
    assert resolve_type("application/octet-stream", content) == kind
    assert resolve_type(kind, content) == kind


@pytest.mark.parametrize(
    ("declared", "content", "expected"),
    [
        ("application/zip", WORKBOOK, XLSX),
        ("application/vnd.ms-excel", WORKBOOK, XLSX),
        ("application/vnd.ms-excel", b"sku;mass\n", CSV),
        ("image/jpg", JPEG, "image/jpeg"),
        ("text/csv", b"sku\nA\n", "text/csv"),
        ("text/json", b"{}", "text/json"),
        ("application/ld+json", b"{}", "application/ld+json"),
        ("text/plain", b"{}", "text/plain"),
        ("text/markdown", b"# A title", "text/markdown"),
        ("text/csv", "sku;Gehäuse".encode("latin-1"), "text/csv"),
        ("text/csv", "sku;Gehäuse".encode("utf-16"), "text/csv"),
        ("application/x-cad-drawing", b"\x01\x02\x00", "application/x-cad-drawing"),
    ],
)
def test_a_declared_type_that_fits_the_bytes_is_kept_or_normalised(
    declared: str, content: bytes, expected: str
) -> None:
    assert resolve_type(declared, content) == expected


@pytest.mark.parametrize(
    ("declared", "content"),
    [
        ("application/pdf", b"{}"),
        ("application/pdf", PNG),
        ("application/pdf", b"\x01\x02\x00"),
        ("application/json", b"%PDF-1.7"),
        ("application/json", b"\x01\x02\x00"),
        ("text/csv", WORKBOOK),
        ("image/png", JPEG),
        ("image/png", b"hello"),
        ("image/webp", b"hello"),
        ("text/plain", PNG),
        ("text/markdown", b"\x00"),
        (XLSX, ARCHIVE),
        (XLSX, b"sku;mass\n"),
    ],
)
def test_a_name_that_contradicts_the_bytes_is_refused_with_both(declared: str, content: bytes) -> None:
    with pytest.raises(Invalid) as error:
        resolve_type(declared, content)

    assert error.value.details == {"mime_type": declared, "found": detect_type(content)}
    assert f"`{declared}`" in error.value.says
    assert error.value.fix == f"declare `{detect_type(content)}`, or send the right file"
