"""Tables: which value of a format becomes which member of a fact.

    Row("nominal_voltage_v", "performance.rated.voltage.nominal")
    Row("mass_kg", "netWeight", measured(KILOGRAMS))

Several rows of one member are alternatives: the first that gives something decides.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from bpc.core.documents.elements import Element
from bpc.core.documents.public.conversions import LONGEST_NAME, Converter, plain
from bpc.core.documents.public.places import Place
from bpc.core.documents.values import Given
from bpc.core.rules.types import Fact, List, Opt, Record, Type
from bpc.core.schemas import SCHEMA_VERSION, SCHEMAS


class Row(NamedTuple):
    """A member, the way to the value it comes from, and how it is converted."""

    member: str
    source: str
    convert: Converter = plain


def members(fact_type: str, place: Place, rows: Iterable[Row]) -> dict[str, Given]:
    """The members of a fact of this type that the table finds from `place` on."""
    return _found(SCHEMAS[Fact(fact_type, SCHEMA_VERSION)], place, rows)


def _found(schema: Mapping[str, Type], place: Place, rows: Iterable[Row]) -> dict[str, Given]:
    made: dict[str, Given] = {}
    for member, source, convert in rows:
        if member not in made:
            kind = schema[member]
            value = convert(place.at(source), kind.item if isinstance(kind, Opt) else kind)
            if value is not None:
                made[member] = value
    return made


def records(*rows: Row) -> Converter:
    """A list of records, each from one item."""

    def convert(place: Place, kind: Type) -> Given:
        schema = dict(kind.item.members) if isinstance(kind, List) and isinstance(kind.item, Record) else {}
        found = [_found(schema, item, rows) for item in place.items()]
        return [record for record in found if record] or None

    return convert


def listed(source: str, convert: Converter = plain) -> Converter:
    """A list of texts, one from each item."""

    def gather(place: Place, kind: Type) -> Given:
        item_type = kind.item if isinstance(kind, List) else kind
        found = [convert(item.at(source), item_type) for item in place.items()]
        return list(dict.fromkeys(text for text in found if isinstance(text, str))) or None

    return gather


def joined(source: str = "") -> Converter:
    """Several texts in one, `; ` between them."""

    def gather(place: Place, kind: Type) -> Given:
        found = [plain(item.at(source), kind) for item in place.items()]
        return "; ".join(text for text in found if isinstance(text, str)) or None

    return gather


def components(
    sku: str, places: Sequence[Place], rows: Sequence[Row], names: Callable[[Place], Given]
) -> list[Element]:
    """A component of each place. A name that comes again gets a number, for a fact's key names one part."""
    found: list[Element] = []
    seen: dict[str, int] = {}
    for index, place in enumerate(places):
        made = members("Component", place, rows)
        name = names(place)
        part = name if isinstance(name, str) else f"part {index + 1}"
        if len(part) > LONGEST_NAME - 10:
            place.problem(f"has a name of {len(part)} characters; a part's name has at most {LONGEST_NAME - 10}")
        seen[part] = seen.get(part, 0) + 1
        numbered = part if seen[part] == 1 else f"{part}#{seen[part]}"
        found.append(Element("Component", place.path, {"sku": sku, "part": numbered, **made}))
    return found
