"""Forms with a file: fields and bytes come out as they were sent, and what is wrong with a form is said."""

import re

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpc.api.http.multipart import read_file_name, split_form
from bpc.core.errors import Invalid
from bpc.core.formats.file_types import MAX_FILE_NAME_CHARS, clean_file_name

TYPE = "multipart/form-data; boundary=x"
FILE = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\nContent-Type: text/csv\r\n\r\na,b\r\n'
FIELD = b'--x\r\nContent-Disposition: form-data; name="kind"\r\n\r\nBOM\r\n'
END = b"--x--\r\n"

REFUSED = {
    "no boundary": ("multipart/form-data", FILE + END, "names no boundary"),
    "an invalid boundary": ('multipart/form-data; boundary="a\u00e9"', FILE + END, "names no boundary"),
    "no form": (TYPE, b"a,b\r\n1,2", "cut off"),
    "cut off": (TYPE, FILE, "cut off"),
    "no file": (TYPE, FIELD + END, "has no file"),
    "nothing": (TYPE, END, "has no file"),
    "two files": (TYPE, FILE + FILE + END, "more than one file"),
    "a field twice": (TYPE, FIELD + FIELD + FILE + END, "`kind` twice"),
    "a part without a name": (TYPE, b"--x\r\nContent-Type: text/csv\r\n\r\na\r\n" + END, "has no name"),
    "a part without a head": (TYPE, b"--x\r\nnothing\r\n" + END, "has no head"),
    "a long head": (TYPE, b"--x\r\nX: " + b"a" * 9_000 + b"\r\n\r\n\r\n" + END, "has no head"),
    "a long field": (TYPE, FIELD.replace(b"BOM", b"B" * 9_000) + FILE + END, "more than 8,192 bytes"),
    "a field in another encoding": (TYPE, FIELD.replace(b"BOM", b"\xff") + FILE + END, "not UTF-8"),
    "a field with U+0000": (TYPE, FIELD.replace(b"BOM", b"a\0b") + FILE + END, "U+0000"),
    "many parts": (TYPE, b"".join(FIELD.replace(b"kind", b"f%d" % n) for n in range(30)) + END, "more than 20 parts"),
    "text after a boundary": (TYPE, FILE.replace(b"--x", b"--xyz") + b"--x--", "is not written as"),
}


@given(
    content=st.binary(max_size=300) | st.sampled_from([b"\r\n", b"--", b"\r\n--", b"\r\n\r\n", b""]),
    kind=st.text(max_size=20).filter(lambda text: "\0" not in text),
)
def test_what_a_client_writes_is_read_as_it_was_sent(content: bytes, kind: str) -> None:
    request = httpx2.Request(
        "PUT", "http://bpc.test", data={"kind": kind}, files={"file": ("bom.xlsx", content, "text/csv")}
    )

    form = split_form(request.headers["content-type"], request.read())

    assert form.fields == {"kind": kind}
    assert (form.file.content, form.file.media_type, form.file.file_name) == (content, "text/csv", "bom.xlsx")


def test_what_is_before_and_after_the_form_is_ignored() -> None:
    form = split_form('Multipart/Form-Data; charset=utf-8; boundary="x"', b"before\r\n" + FIELD + FILE + END + b"after")

    assert (form.fields, form.file.content) == ({"kind": "BOM"}, b"a,b")


def test_blanks_after_a_boundary_and_an_empty_file_are_read() -> None:
    body = FILE.replace(b"--x\r\n", b"--x \t\r\n").replace(b"a,b", b"") + END

    assert split_form(TYPE, body).file.content == b""


@pytest.mark.parametrize("name", REFUSED)
def test_a_form_that_is_wrong_is_refused_with_what_is_wrong(name: str) -> None:
    content_type, body, says = REFUSED[name]

    with pytest.raises(Invalid, match=re.escape(says)) as refused:
        split_form(content_type, body)

    assert refused.value.fix


@given(st.binary(max_size=200))
def test_any_bytes_are_a_form_or_refused(body: bytes) -> None:
    for content in (body, FILE + body, b"--x\r\n" + body + b"\r\n--x--"):
        try:
            split_form(TYPE, content)
        except Invalid:
            continue


@pytest.mark.parametrize(
    ("disposition", "name"),
    [
        ('attachment; filename="bom.xlsx"', "bom.xlsx"),
        ("attachment; filename=bom.xlsx", "bom.xlsx"),
        ('attachment; filename="St\u00fcckliste.xlsx"', "St\u00fcckliste.xlsx"),
        ("attachment; filename=\"x\"; filename*=UTF-8''St%C3%BCckliste%20a.xlsx", "St\u00fcckliste a.xlsx"),
        ("attachment; filename*=iso-8859-1'de'St%FCckliste.csv", "St\u00fcckliste.csv"),
        ('form-data; name="file"; filename="a;b=\\"c\\".csv"', 'a;b="c".csv'),
        ('form-data; name="file"; filename="a%22b.csv"', 'a"b.csv'),
        ('form-data; filename="C:\\Users\\Public\\bom.csv"', "bom.csv"),
        ("form-data; name=file", None),
        ("", None),
    ],
)
def test_the_file_name_of_a_header_is_read_as_clients_write_it(disposition: str, name: str | None) -> None:
    assert read_file_name(disposition) == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("bom.xlsx", "bom.xlsx"),
        ("../../etc/passwd", "passwd"),
        ("folder/", None),
        ("..", None),
        ("", None),
        (None, None),
        ("a\x00b\r\n\x1b[31m.csv", "ab[31m.csv"),
        ("invoice\u202excod.exe", "invoicexcod.exe"),
        ("Stu\u0308ckliste.xlsx", "Stu\u0308ckliste.xlsx"),
    ],
)
def test_a_file_name_has_no_folders_and_nothing_invisible(text: str | None, name: str | None) -> None:
    assert clean_file_name(text) == name


@given(st.text(max_size=500))
def test_a_clean_file_name_is_short_and_stays_as_it_is(text: str) -> None:
    name = clean_file_name(text)

    assert name is None or (0 < len(name) <= MAX_FILE_NAME_CHARS and clean_file_name(name) == name)


def test_a_long_file_name_keeps_its_ending() -> None:
    name = clean_file_name("a" * 500 + ".xlsx")

    assert name is not None
    assert name.endswith("a.xlsx")
