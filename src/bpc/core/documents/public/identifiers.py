"""The SKU of a document in a public format. A fact's key is parted by colons, so a SKU has none.

    text without a colon                        itself
    GS1 Digital Link, …/01/09521234010012/21/…  its GTIN
    urn:epc:id:sgtin:9521234.001001.7           its GTIN, with the check digit
    any other address or URN                    what stands after its last slash or colon

Whatever is not the text itself is said in a warning.
"""

import re
from typing import Final

from bpc.core.documents.notes import quoted
from bpc.core.documents.public.conversions import LONGEST_NAME, text
from bpc.core.documents.public.places import Place

_GTIN: Final = re.compile(r"/01/([0-9]{8,14})(?=[/?#]|$)")
_SERIAL: Final = re.compile(r"/21/([^/?#]+)")
_SGTIN: Final = re.compile(r"urn:epc:id(?:pat)?:sgtin:([0-9]{6,12})\.([0-9]{1,7})\.([^:?#]+)")
_LAST: Final = re.compile(r"[^/:#?]+(?=[/:#?]*$)")


def sku_of(*places: Place) -> str | None:
    """The SKU from the first of these places that has a value; None, and a problem, where none gives one."""
    for place in places:
        given = text(place)
        if isinstance(given, str):
            return _checked(place, given)
    places[0].problem("is missing; it says which product this is about")
    return None


def _checked(place: Place, given: str) -> str | None:
    sku = short(given)
    if sku is None or not 1 <= len(sku) <= LONGEST_NAME:
        place.problem(f"does not name a product in 1 to {LONGEST_NAME} characters")
        return None
    if sku != given:
        place.warning(f"is {quoted(given)}; the SKU is {quoted(sku)}, for the key of a fact has no colon or address")
    return sku


def short(given: str) -> str | None:
    """The identifier without colons."""
    item = item_of(given)
    if item is not None:
        return item[0]
    if ":" not in given:
        return given
    last = _LAST.search(given)
    return last[0] if last else None


def item_of(given: str) -> tuple[str, str | None] | None:
    """The GTIN and the serial number of an item, if the identifier is one of GS1's."""
    link = _GTIN.search(given) if "://" in given else None
    if link:
        serial_number = _SERIAL.search(given, link.end())
        return link[1].rjust(14, "0"), serial_number[1] if serial_number else None
    sgtin = _SGTIN.fullmatch(given)
    if sgtin is None or len(sgtin[1]) + len(sgtin[2]) != 13:
        return None
    prefix, reference, serial = sgtin.groups()
    return _with_check_digit(reference[0] + prefix + reference[1:]), None if serial == "*" else serial


def _with_check_digit(digits: str) -> str:
    # GS1 General Specifications 7.9: weights 3 and 1 from the right, up to the next ten.
    total = sum(int(digit) * (3 if index % 2 == 0 else 1) for index, digit in enumerate(digits))
    return f"{digits}{-total % 10}"
