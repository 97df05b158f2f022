"""The world `bpc rules eval` and `bpc why` compute in, from the input of `bpc compile` or as little of it as is there.

An input is a JSON object. Of its members `facts`, `battery_product` (its `sku` and `name`) and `issued_at` are read, a
missing one is as in a test that does not say it, and all others are left alone.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from bpc.core.canon import Json, read_json
from bpc.core.errors import Invalid
from bpc.core.facts import FactTable, SnapshotFact, is_day
from bpc.core.facts_file import read_fact, sealed
from bpc.core.rules.types import Fact
from bpc.core.rules.world import World
from bpc.core.timestamps import format_time, parse_time

SKU: Final = "SKU-1"
NAME: Final = "Product"
ISSUED_AT: Final = "2027-02-18"


class Given(NamedTuple):
    """What an input says, as far as rules can ask for it; the facts in the order they are written in."""

    sku: str
    name: str
    issued_on: str
    facts: tuple[SnapshotFact, ...]

    def world(self, named: Iterable[Fact]) -> World:
        """What rules that name these fact types can ask for."""
        return World(
            product_sku=self.sku,
            product_name=self.name,
            issued_on=self.issued_on,
            facts=FactTable.of(self.facts, named),
        )


def read_given(data: bytes) -> Given:
    given = read_json(data)
    if not isinstance(given, Mapping):
        raise Invalid("the input is not an object", fix='the least is {"facts": []}')
    product = given.get("battery_product", {})
    if not isinstance(product, Mapping):
        raise Invalid("`battery_product` is not an object", fix='like {"sku": "SKU-1", "name": "Pack"}')
    return Given(
        sku=_text(product, "sku", SKU),
        name=_text(product, "name", NAME),
        issued_on=_day(_text(given, "issued_at", ISSUED_AT)),
        facts=_facts(given.get("facts", [])),
    )


def _text(members: Mapping[str, Json], name: str, otherwise: str) -> str:
    found = members.get(name, otherwise)
    if not isinstance(found, str):
        raise Invalid(f"`{name}` is not a text")
    return found


def _day(text: str) -> str:
    """A day, or that of a moment."""
    if is_day(text):
        return text
    try:
        return format_time(parse_time(text))[: len(ISSUED_AT)]
    except Invalid as wrong:
        raise Invalid(f"`issued_at`: {wrong.says}", fix="a day like 2027-02-18 is enough") from None


def _facts(given: Json) -> tuple[SnapshotFact, ...]:
    if not isinstance(given, list):
        raise Invalid("`facts` is not a list")
    facts = tuple(_fact(index, element) for index, element in enumerate(given))
    sealed(facts)  # refuses one that is there twice
    return facts


def _fact(index: int, given: Json) -> SnapshotFact:
    """A fact; one that does not say its schema version is of the first."""
    try:
        return read_fact({"schema_version": 1, **given} if isinstance(given, Mapping) else given)
    except Invalid as wrong:
        raise Invalid(f"`facts[{index}]`: {wrong.says}", fix=wrong.fix, details=wrong.details) from None
