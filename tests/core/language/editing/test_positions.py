"""Places as editors count them lead to code points and back."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpc.core.language.editing.places import EditorPlace, EditorText, Encoding
from bpc.core.language.source import Span

TEXTS = st.text(alphabet=st.sampled_from("aé€🔋\n\r\u2028\x0b\x85"), max_size=40)


@pytest.mark.parametrize(("encoding", "character"), [("utf-8", 7), ("utf-16", 4), ("utf-32", 3)])
def test_a_character_counts_as_its_units(encoding: Encoding, character: int) -> None:
    text = EditorText("x\né🔋a|", encoding)

    assert text.find_place(len("x\né🔋a")) == EditorPlace(1, character)
    assert text.find_offset(EditorPlace(1, character)) == len("x\né🔋a")


def test_lines_end_with_lf_cr_lf_and_cr_and_nothing_else() -> None:
    text = EditorText("a\r\nb\rc\nd\u2028e\x85f\x0bg")

    assert [text.find_place(text.text.index(letter)) for letter in "abcdefg"] == [
        (0, 0), (1, 0), (2, 0), (3, 0), (3, 2), (3, 4), (3, 6),
    ]  # fmt: skip


def test_a_place_that_does_not_exist_is_moved_to_the_nearest_before_it() -> None:
    text = EditorText("ab\r\n🔋c")

    assert text.find_offset(EditorPlace(0, 99)) == 2
    assert text.find_offset(EditorPlace(9, 0)) == len(text.text)
    assert text.find_offset(EditorPlace(1, 1)) == 4  # inside the battery
    assert text.find_range(Span(4, 5)) == ((1, 0), (1, 2))
    assert text.find_place(99) == (1, 3)


@pytest.mark.repeats
@given(TEXTS, st.sampled_from(get_args(Encoding)), st.data())
def test_every_place_leads_back(text: str, encoding: Encoding, data: st.DataObject) -> None:
    offset = data.draw(st.integers(0, len(text)))
    if text[max(0, offset - 1) : offset + 1] == "\r\n":
        return  # between the two there is no place
    editor_text = EditorText(text, encoding)

    assert editor_text.find_offset(editor_text.find_place(offset)) == offset
