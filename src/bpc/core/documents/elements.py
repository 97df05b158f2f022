"""What a document holds before its values have types, in any format; and which parts are facts.

A number stays the text it was written as until its length is known. It never becomes a binary fraction on its way
into a fact. JSON is read strictly (`core.formats.strict_json`); a document may also not hold a number that is too long
for any fact, nor more values than any document needs.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeAlias

from bpc.core.documents import Notes, join_path, quote_text
from bpc.core.facts.member_readers import MAX_MAGNITUDE, MAX_NUMBER_TEXT
from bpc.core.formats.file_types import BYTE_ORDER_MARK
from bpc.core.formats.strict_json import JsonTextError, RejectedValue, StrictJsonReader

# Enough for any number that fits into a fact, and too few for one that takes long to compute.
MAX_EXPONENT_DIGITS: Final = 3
# Fifty thousand facts with forty members each. Values outside of objects, or commas in texts, count too.
MAX_VALUES: Final = 2_000_000
MAX_LOOSE_VALUES: Final = 300_000
VALUES_PER_OBJECT: Final = 200
# The fact types that the documents of a kind hold.
FACT_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "BOM": ("Battery", "Component"),
    "PCF": ("PCF",),
    "DUE_DILIGENCE": ("DueDiligence",),
}

_NUMBER: Final = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?)([0-9]+))?")
_PLAIN_DECIMAL: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")


@dataclass(frozen=True, slots=True)
class NumberText:
    """A number as it is written: an optional sign, digits, perhaps a fraction and an exponent."""

    text: str


RawValue: TypeAlias = "bool | str | NumberText | list[RawValue] | dict[str, RawValue] | None"


@dataclass(frozen=True, slots=True)
class ExactNumber:
    """`count` divided by ten to the power of `scale`."""

    count: int
    scale: int

    def at_scale(self, scale: int) -> int | None:
        """The same value counted in units of 10^-scale, or None where it has more decimals than that."""
        if self.scale <= scale:
            larger_count: int = self.count * 10 ** (scale - self.scale)
            return larger_count
        count, remainder = divmod(self.count, 10 ** (self.scale - scale))
        return count if remainder == 0 else None

    def round_half_even(self, scale: int) -> int:
        """The nearest value with `scale` decimals, counted in units of 10^-scale; `scale` is below our own."""
        divisor: int = 10 ** (self.scale - scale)
        count, remainder = divmod(self.count, divisor)
        return count + (remainder * 2 > divisor or (remainder * 2 == divisor and count % 2 == 1))

    @property
    def fits_a_fact(self) -> bool:
        limit: int = MAX_MAGNITUDE * 10**self.scale
        return abs(self.count) < limit

    def __mul__(self, other: "ExactNumber") -> "ExactNumber":
        return ExactNumber(self.count * other.count, self.scale + other.scale)

    def __str__(self) -> str:
        """A plain decimal without zeros at its end."""
        text = format_decimal(self.count, self.scale)
        return text.rstrip("0").rstrip(".") if "." in text else text


def format_decimal(count: int, scale: int) -> str:
    """`count` divided by ten to the power of `scale`, with exactly `scale` decimals."""
    digits = str(abs(count)).rjust(scale + 1, "0")
    return ("-" if count < 0 else "") + (f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits)


def power_of_ten(power: int) -> ExactNumber:
    return ExactNumber(10**power, 0) if power >= 0 else ExactNumber(1, -power)


def parse_exact(text: str) -> ExactNumber | None:
    """The value of a number's text; None if it is not a number, or has more digits or exponent than any that fits."""
    parts = _NUMBER.fullmatch(text) if len(text) <= MAX_NUMBER_TEXT else None
    if parts is None:
        return None
    sign, integer, fraction, exponent_sign, exponent = parts.groups(default="")
    if len(exponent) > MAX_EXPONENT_DIGITS:
        return None
    shift = int(exponent_sign + exponent) if exponent else 0
    count, scale = int(sign + integer + fraction), len(fraction) - shift
    return ExactNumber(count, scale) if scale >= 0 else ExactNumber(count * 10**-scale, 0)


def is_plain_decimal(text: str) -> bool:
    """Whether `text` is a decimal number as people write it: no exponent, no plus sign, no blank."""
    return len(text) <= MAX_NUMBER_TEXT and _PLAIN_DECIMAL.fullmatch(text) is not None


def describe_value(raw: RawValue) -> str:
    """A value in words, for a sentence that says what it should have been."""
    return f"the text {quote_text(raw)}" if isinstance(raw, str) else describe_kind(raw)


def describe_kind(raw: RawValue) -> str:
    match raw:
        case None:
            return "null"
        case bool():
            return "a boolean (true or false)"
        case NumberText():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case _:
            return "an object"


def parse_strict_json(content: bytes, notes: Notes) -> RawValue:
    """The value of a JSON text; None and a problem in `notes` if it cannot be read."""
    if content.startswith(BYTE_ORDER_MARK):
        notes.add_problem("line 1, column 1", "is a byte order mark; save the document as UTF-8 without one")
        return None
    max_values = min(MAX_VALUES, MAX_LOOSE_VALUES + VALUES_PER_OBJECT * content.count(b"{"))
    if content.count(b",") > max_values:
        notes.add_problem("$", f"has more than {max_values:,} values; split the document")
        return None
    reader = _DocumentJsonReader()
    try:
        value: RawValue = reader.read(content)  # type: ignore[assignment]  # NumberText and what json.loads returns
    except JsonTextError as error:
        notes.add_problem(f"line {error.line}, column {error.column}", f"is where reading stopped: {error.reason}")
        return None
    if reader.has_rejected:
        _report_rejected(value, "$", notes)
        return None
    return value


class _DocumentJsonReader(StrictJsonReader):
    def read_integer(self, text: str) -> NumberText | RejectedValue:
        if len(text) > MAX_NUMBER_TEXT:
            return self.reject(f"is a number of {len(text)} characters; the limit is {MAX_NUMBER_TEXT}")
        return NumberText(text)

    read_fraction = read_integer


def _report_rejected(value: object, path: str, notes: Notes) -> None:
    """Note every rejected value with its path. The reader has bounded the depth, so the recursion is bounded."""
    if isinstance(value, RejectedValue):
        notes.add_problem(path, value.says)
    elif isinstance(value, dict):
        for name, member in value.items():
            _report_rejected(member, join_path(path, name), notes)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _report_rejected(item, f"{path}[{index}]", notes)


class UnreadableMember(NamedTuple):
    """An optional member whose value cannot be read: its name, the place of the value, and what is wrong with it."""

    member: str
    place: str
    says: str


@dataclass(frozen=True, slots=True)
class FactElement:
    """A part of a document that becomes one fact: its type, its place and its members.

    `places` has the place of each member, unless that is `<path>.<member>`. Members that could not be read are not in
    `members` but in `unreadable`.
    """

    fact_type: str
    path: str
    members: dict[str, RawValue]
    places: Mapping[str, str] = field(default_factory=dict)
    unreadable: tuple[UnreadableMember, ...] = ()


_BOM_MEMBERS: Final = ("battery", "batteries", "components")


def find_elements(kind: str, value: RawValue, notes: Notes) -> list[FactElement]:
    """The elements of a JSON document in our own form, in the order they stand."""
    if kind == "BOM":
        return _find_bom_elements(value, notes)
    return list(_find_one_or_more(FACT_TYPES[kind][0], value, notes))


def _find_bom_elements(value: RawValue, notes: Notes) -> list[FactElement]:
    if not isinstance(value, dict):
        notes.add_problem("$", "is not an object with `battery` and `components`")
        return []
    for name in value:
        if name not in _BOM_MEMBERS:
            notes.add_warning(join_path("$", name), "is not part of a bill of materials and was left out")
    elements = [
        *_find_one("Battery", value.get("battery"), "$.battery", notes),
        *_find_many("Battery", value.get("batteries"), "$.batteries", notes),
    ]
    for part in _find_many("Component", value.get("components"), "$.components", notes):
        is_component = part.members.get("part") is not None
        elements.append(part if is_component else replace(part, fact_type="Battery"))
    return assign_components_to_battery(elements)


def assign_components_to_battery(elements: list[FactElement]) -> list[FactElement]:
    """Give components without a SKU the SKU of the only battery, which may stand on several sheets.

    Not if a component names another SKU: then the document is about more products, and it is not known which is meant.
    """
    batteries = [element for element in elements if element.fact_type == "Battery"]
    sku = batteries[0].members.get("sku") if batteries else None
    if sku is None or any(element.members.get("sku") not in (None, sku) for element in elements):
        return elements
    if any(battery.members.get("sku") is None for battery in batteries):
        return elements
    place = batteries[0].places.get("sku", f"{batteries[0].path}.sku")
    return [
        replace(element, members={**element.members, "sku": sku}, places=InheritedPlaces(element.places, "sku", place))
        if element.fact_type == "Component" and element.members.get("sku") is None
        else element
        for element in elements
    ]


class InheritedPlaces(Mapping[str, str]):
    """The places of a fact's members, and that of a member which is written elsewhere in the document."""

    __slots__ = ("_member", "_own", "_place")

    def __init__(self, own: Mapping[str, str], member: str, place: str) -> None:
        self._own, self._member, self._place = own, member, place

    def __getitem__(self, member: str) -> str:
        return self._place if member == self._member else self._own[member]

    def __iter__(self) -> Iterator[str]:
        yield from (name for name in self._own if name != self._member)
        yield self._member

    def __len__(self) -> int:
        return len(self._own) + (self._member not in self._own)


def _find_one_or_more(fact_type: str, value: RawValue, notes: Notes) -> Iterator[FactElement]:
    if isinstance(value, list):
        return _find_many(fact_type, value, "$", notes)
    if value is None:
        notes.add_problem("$", "is null, not an object or a list of objects")
    return _find_one(fact_type, value, "$", notes)


def _find_many(fact_type: str, value: RawValue, path: str, notes: Notes) -> Iterator[FactElement]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            at = f"{path}[{index}]"
            if item is None:
                notes.add_problem(at, "is null, not an object")
            yield from _find_one(fact_type, item, at, notes)
    elif value is not None:
        notes.add_problem(path, "is not a list")


def _find_one(fact_type: str, value: RawValue, path: str, notes: Notes) -> Iterator[FactElement]:
    if isinstance(value, dict):
        yield FactElement(fact_type, path, value)
    elif value is not None:
        notes.add_problem(path, "is not an object")
