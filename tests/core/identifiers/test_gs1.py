"""GS1 numbers and Digital Links: check digits and character sets are enforced, and a link reads back as built."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpc.core.identifiers.gs1 import (
    BadIdentifier,
    Gs1Item,
    build_digital_link,
    compute_check_digit,
    parse_gln,
    parse_gtin,
    parse_serial,
    read_digital_link,
    read_element_text,
)

SET_82 = "!\"%&'()*+,-./0123456789:;<=>?ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
GTIN = "09521234000013"


def test_a_gtin_has_14_digits_whatever_its_length_was() -> None:
    for text, gtin in {
        "40170725": "00000040170725",
        "036000291452": "00036000291452",
        "4006381333931": "04006381333931",
        "9521234000013": GTIN,
        GTIN: GTIN,
    }.items():
        assert parse_gtin(text) == gtin


def test_what_is_not_a_number_of_gs1_is_refused_with_the_reason() -> None:
    for text, problem in {
        "9521234000014": "has the check digit 4, and its other digits give 3",
        "952123400001": "has the check digit 1, and its other digits give 0",
        "95212340000": "does not have 8, 12, 13 or 14 digits",
        "952123400001X": "does not have 8, 12, 13 or 14 digits",
        "": "does not have 8, 12, 13 or 14 digits",
        "٩521234000013": "does not have 8, 12, 13 or 14 digits",
    }.items():
        with pytest.raises(BadIdentifier, match=problem):
            parse_gtin(text)
    assert parse_gln("9521987000018") == "9521987000018"
    for text in ("9521987000019", "09521234000013", "GLN"):
        with pytest.raises(BadIdentifier):
            parse_gln(text)
    for text in ("", "A" * 21, "a b", "Ä", "#", "A\n"):
        with pytest.raises(BadIdentifier):
            parse_serial(text)


@given(st.text("0123456789", min_size=13, max_size=13), st.text(SET_82, min_size=1, max_size=20))
def test_a_digital_link_reads_back_as_it_was_built_under_any_host(digits: str, serial: str) -> None:
    gtin = digits + compute_check_digit(digits)
    path = build_digital_link(gtin, serial=serial)

    assert read_digital_link("/deep/path" + path) == Gs1Item(gtin=gtin, serial=serial)
    wrong = gtin[:-1] + str((int(gtin[-1]) + 1) % 10)
    with pytest.raises(BadIdentifier):
        read_digital_link(build_digital_link(wrong, serial=serial))


def test_a_link_names_lot_and_serial_in_the_order_of_the_standard() -> None:
    path = build_digital_link(GTIN, serial="A/1", lot="L?1")

    assert path == f"/01/{GTIN}/10/L%3F1/21/A%2F1"
    assert read_digital_link(path) == Gs1Item(gtin=GTIN, serial="A/1", lot="L?1")
    assert read_digital_link(f"/01/{GTIN}/22/2A/21/A1") == Gs1Item(gtin=GTIN, serial="A1")
    assert read_digital_link("/01/9521234000013") == Gs1Item(gtin=GTIN)
    for not_a_link in (f"/01/{GTIN}/21", f"/01/{GTIN}/21/A/10/L", f"/01/{GTIN}/17/270101", "/p/1", "/01/x/21/A", ""):
        assert read_digital_link(not_a_link) is None
    assert read_digital_link(f"/01/{GTIN}/21/A%25") == Gs1Item(gtin=GTIN, serial="A%")
    with pytest.raises(BadIdentifier):
        read_digital_link(f"/01/{GTIN}/21/A%20")


def test_the_text_below_a_code_is_read() -> None:
    assert read_element_text(f"(01){GTIN}(21)A(1)") == Gs1Item(gtin=GTIN, serial="A(1)")
    assert read_element_text(f"(01){GTIN}(10)L1(21)A1") == Gs1Item(gtin=GTIN, serial="A1", lot="L1")
    for text in ("A0001", "(21)A1", f"x(01){GTIN}", ""):
        assert read_element_text(text) is None
