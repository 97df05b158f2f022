"""GS1: article numbers, places, serial numbers, and the Digital Link that names one battery.

Pure. A GTIN is stored with 14 digits. A Digital Link is `/01/{gtin}/21/{serial}`, under any host and path before it.

    "4006381333931"                      ── parse_gtin ──────────► "04006381333931"
    "04006381333931", "A/1"              ── build_digital_link ──► "/01/04006381333931/21/A%2F1"
    "https://id.example/01/…/21/A%2F1"   ── read_digital_link ───► Gs1Item(gtin, serial, lot)
    "(01)04006381333931(21)A/1"          ── read_element_text ───► the same
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bpc.core.errors import Invalid

GTIN_LENGTHS: Final = (8, 12, 13, 14)
GTIN_DIGITS: Final = 14
GLN_DIGITS: Final = 13
MAX_VALUE_CHARS: Final = 20  # of a serial number (AI 21), a lot (AI 10) and a variant (AI 22)

# GS1 General Specifications 7.11, character set 82.
_SET_82: Final = re.compile(r"[!\"%&'()*+,\-./0-9:;<=>?A-Z_a-z]+")
_DIGITS: Final = re.compile("[0-9]+")
_PLAIN: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")  # RFC 3986 2.3
_PERCENT: Final = re.compile("%([0-9A-Fa-f]{2})")
# The keys that may follow a GTIN, in the order that GS1 Digital Link: URI Syntax 4.3 fixes.
_QUALIFIERS: Final = ("22", "10", "21")
_ELEMENT: Final = re.compile(r"\(([0-9]{2,4})\)([^()]*(?:\((?![0-9]{2,4}\))[^()]*|\)[^()]*)*)")


class BadIdentifier(Invalid):
    """An identifier that is not valid. `problem` says why, without repeating it."""

    def __init__(self, name: str, problem: str, fix: str) -> None:
        super().__init__(f"the {name} {problem}", fix=fix)
        self.problem = problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Gs1Item:
    """What a Digital Link names: an article, and one of its lots or pieces if it says so."""

    gtin: str
    serial: str | None = None
    lot: str | None = None


def compute_check_digit(digits: str) -> str:
    """The digit that completes `digits`."""
    # GS1 General Specifications 7.9: weights 3 and 1 from the right; the digit completes the sum to a multiple of ten.
    total = sum(int(digit) * (3 if index % 2 == 0 else 1) for index, digit in enumerate(reversed(digits)))
    return str(-total % 10)


def parse_gtin(text: str) -> str:
    """A GTIN of 8, 12, 13 or 14 digits, as 14 digits."""
    if not _DIGITS.fullmatch(text) or len(text) not in GTIN_LENGTHS:
        raise BadIdentifier("GTIN", "does not have 8, 12, 13 or 14 digits", "write the digits under the bar code")
    _require_check_digit("GTIN", text)
    return text.rjust(GTIN_DIGITS, "0")


def parse_gln(text: str) -> str:
    """A GLN: 13 digits."""
    if not _DIGITS.fullmatch(text) or len(text) != GLN_DIGITS:
        raise BadIdentifier("GLN", "does not have 13 digits", "write its 13 digits without blanks")
    _require_check_digit("GLN", text)
    return text


def parse_serial(text: str, name: str = "serial number") -> str:
    """A serial number (or lot) of GS1: up to 20 characters of its set."""
    if not 1 <= len(text) <= MAX_VALUE_CHARS:
        raise BadIdentifier(name, f"does not have 1 to {MAX_VALUE_CHARS} characters", "GS1 allows no other length")
    if not _SET_82.fullmatch(text):
        problem = "has a character that GS1 does not allow"
        raise BadIdentifier(name, problem, "use letters, digits and !\"%&'()*+,-./:;<=>?_ without blanks")
    return text


def build_digital_link(gtin: str, *, serial: str | None = None, lot: str | None = None) -> str:
    """The path of a Digital Link."""
    parts = ["01", gtin]
    parts += [] if lot is None else ["10", escape_path_part(lot)]
    parts += [] if serial is None else ["21", escape_path_part(serial)]
    return "/" + "/".join(parts)


def read_digital_link(path: str) -> Gs1Item | None:
    """What the path of a link names; None if it is not a Digital Link. A wrong number in one is refused."""
    parts = path.split("/")
    start = next((index for index, part in enumerate(parts) if part == "01" and _looks_like_gtin(parts, index)), None)
    if start is None or len(parts[start:]) % 2:
        return None
    keys, values = parts[start + 2 :: 2], parts[start + 3 :: 2]
    places = [_QUALIFIERS.index(key) if key in _QUALIFIERS else -1 for key in keys]
    if -1 in places or places != sorted(set(places)):
        return None
    return _to_item(parts[start + 1], dict(zip(keys, map(unescape_path_part, values), strict=True)))


def read_element_text(text: str) -> Gs1Item | None:
    """What the text below a GS1 code says, like `(01)04006381333931(21)A1`; None if it is not such a text."""
    elements = [(match[1], match[2]) for match in _ELEMENT.finditer(text)]
    if not elements or elements[0][0] != "01" or "".join(f"({key}){value}" for key, value in elements) != text:
        return None
    return _to_item(elements[0][1], dict(elements[1:]))


def escape_path_part(text: str) -> str:
    """A text as one part of the path of a URL."""
    return "".join(char if char in _PLAIN else "".join(f"%{byte:02X}" for byte in char.encode()) for char in text)


def unescape_path_part(text: str) -> str:
    """The text of one part of a path; what is not escaped well stays as it is."""
    raw = _PERCENT.sub(lambda match: chr(int(match[1], 16)), text)
    try:
        return raw.encode("latin-1").decode()
    except UnicodeError:
        return text


def _looks_like_gtin(parts: list[str], index: int) -> bool:
    return index + 1 < len(parts) and _DIGITS.fullmatch(parts[index + 1]) is not None


def _to_item(gtin: str, values: Mapping[str, str]) -> Gs1Item:
    serial, lot = values.get("21"), values.get("10")
    return Gs1Item(
        gtin=parse_gtin(gtin),
        serial=None if serial is None else parse_serial(serial),
        lot=None if lot is None else parse_serial(lot, "lot number"),
    )


def _require_check_digit(name: str, digits: str) -> None:
    digit = compute_check_digit(digits[:-1])
    if digits[-1] != digit:
        problem = f"has the check digit {digits[-1]}, and its other digits give {digit}"
        raise BadIdentifier(name, problem, "compare it digit by digit with its source")
