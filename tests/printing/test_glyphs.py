"""Which characters can be printed, as the fonts themselves say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpc.printing import FONTS, MAX_WORD_LENGTH, Glyphs, read_code_points

FILES = ["Inter-Regular.otf", "Inter-SemiBold.otf", "DejaVuSans.ttf"]
GLYPHS = Glyphs((FONTS / name).read_bytes() for name in FILES)


@pytest.mark.parametrize(("name", "count"), [(FILES[0], 2505), (FILES[1], 2505), (FILES[2], 5918)])
def test_the_characters_of_a_font_are_read_from_it(name: str, count: int) -> None:
    known = set(read_code_points((FONTS / name).read_bytes()))

    assert len(known) == count
    assert {ord(sign) for sign in "AzÄŁšΩжЩ€–"} <= known
    assert ord("中") not in known


def test_bold_has_what_regular_has() -> None:
    regular, bold, _ = (set(read_code_points((FONTS / name).read_bytes())) for name in FILES)

    assert regular == bold


def test_every_language_of_the_union_can_be_printed() -> None:
    samples = "Łódź Žilina Şumnu Ελληνικά български Ċirkewwa ħġżċ Õ Ģ Ų ő ű ř ů ß æ ø å ñ ç ț ș €"

    assert GLYPHS.make_printable(samples) == samples


@pytest.mark.parametrize("space", [" ", "\n", "\xa0", "\u1680", "\u2003", "\u202f", "\u205f"])
def test_a_word_ends_at_a_space_of_any_kind(space: str) -> None:
    text = space.join(["abcdefghij"] * 5)

    assert "\N{ZERO WIDTH SPACE}" not in GLYPHS.make_printable(text)
    assert "\N{ZERO WIDTH SPACE}" in GLYPHS.make_printable(text.replace(space, ""))


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=200))
def test_what_is_printable_stays_so_and_long_words_can_be_broken(text: str) -> None:
    once = GLYPHS.make_printable(text)

    assert all(len(word) <= MAX_WORD_LENGTH for word in once.replace("\N{ZERO WIDTH SPACE}", " ").split())
    assert not set(once) & {chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0, 1, 27)}
