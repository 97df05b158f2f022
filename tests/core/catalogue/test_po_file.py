"""PO files: what gettext's tools write is read, what we write they read, and what is none is refused with its line."""

import io

import pytest
from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po, write_po
from hypothesis import given
from hypothesis import strategies as st

from bpc.core.catalogue.po_file import (
    CatalogueUnreadable,
    PoEntry,
    build_header,
    format_po,
    parse_po,
    read_language,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from('"\\\n\t{}'), max_size=80)
ENTRIES = st.lists(
    st.builds(
        PoEntry, context=TEXTS.filter(bool), source=TEXTS.filter(bool), translation=TEXTS, is_fuzzy=st.booleans()
    ),
    max_size=5,
    unique_by=lambda entry: entry.key,
)
FILE = """\
# A translator's remark.
msgid ""
msgstr ""
"Language: de\\n"
"Content-Type: text/plain; charset=UTF-8\\n"

#. {cobalt}: number
#: rules.bpc:12
msgctxt "finding DP20 message"
msgid "only {cobalt} % "
"is recovered"
msgstr "nur {cobalt} %"

#, fuzzy, python-format
#| msgid "Weight"
msgctxt "point 10"
msgid "Mass"
msgstr "Gewicht"

#~ msgctxt "point 11"
#~ msgid "Old"
#~ msgstr ""
#~ "Alt"
"""


def test_every_part_of_a_file_is_read() -> None:
    header, finding, point, stale = parse_po(FILE.encode())

    assert read_language([header]) == "de"
    assert finding == PoEntry(
        context="finding DP20 message",
        source="only {cobalt} % is recovered",
        translation="nur {cobalt} %",
        notes=("{cobalt}: number",),
    )
    assert (point.key, point.is_fuzzy, point.is_obsolete) == (("point 10", "Mass"), True, False)
    assert (stale.source, stale.translation, stale.is_obsolete) == ("Old", "Alt", True)


def test_a_byte_order_mark_and_windows_line_ends_change_nothing() -> None:
    assert parse_po(b"\xef\xbb\xbf" + FILE.replace("\n", "\r\n").encode()) == parse_po(FILE.encode())


@given(ENTRIES)
def test_what_is_written_is_read_again(entries: list[PoEntry]) -> None:
    assert parse_po(format_po(entries)) == entries


@given(ENTRIES)
def test_gettext_reads_what_is_written(entries: list[PoEntry]) -> None:
    catalog = read_po(io.BytesIO(format_po([build_header("de", "test"), *entries])), locale="de")

    for entry in entries:
        message = catalog.get(entry.source, entry.context)
        assert message is not None
        assert (message.string, message.fuzzy) == (entry.translation, entry.is_fuzzy)


@given(ENTRIES)
def test_what_gettext_writes_is_read(entries: list[PoEntry]) -> None:
    catalog = Catalog(locale="de")
    for entry in entries:
        flags = ["fuzzy"] if entry.is_fuzzy else []
        catalog.add(entry.source, entry.translation, context=entry.context, flags=flags)
    file = io.BytesIO()
    write_po(file, catalog)

    assert [entry for entry in parse_po(file.getvalue()) if entry.source] == entries


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ('msgid "a"\nmsgstr "b\n', 2, "is not"),
        ('"text"\n', 1, "belongs to no keyword"),
        ('msgid "a"\nmsgid_plural "as"\n', 2, "is not"),
        ('msgid "a"\nmsgstr "\\x"\n', 2, "escape"),
        ('msgid "a"\nmsgstr "1"\n\nmsgid "a"\nmsgstr "2"\n', 6, "second entry"),
        ('msgid "a"\nmsgstr "1"\nmsgstr "2"\n', 3, "second `msgstr`"),
        ("\n\xff".encode("latin-1").decode("latin-1"), 2, "is not"),
    ],
)
def test_what_is_no_catalogue_is_refused_with_its_line(text: str, line: int, says: str) -> None:
    with pytest.raises(CatalogueUnreadable, match=f"line {line} of the catalogue .*{says}"):
        parse_po(text.encode())


def test_what_is_not_utf_8_and_what_is_too_large_is_refused() -> None:
    with pytest.raises(CatalogueUnreadable, match="line 2 of the catalogue is not UTF-8"):
        parse_po(b"\n\xff")
    with pytest.raises(CatalogueUnreadable, match="at most 1,048,576"):
        parse_po(b" " * 1_048_577)
