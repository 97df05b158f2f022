"""Write docs/rules/units.md and docs/rules/facts.md from the tables that rules are checked against."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from bpc.core.exports.data_points import POINTS
from bpc.core.facts.schemas import SCHEMA_MEMBERS, SchemaMember
from bpc.core.facts.units import RELATIONS, UNITS, Unit
from bpc.core.language.types import FactRecordType

FOLDER = Path(__file__).parent.parent / "docs" / "rules"

# The Commission's guidance on the content of battery passports, version 1.0 of 28 July 2026, its titles shortened.
DATA_POINTS: Mapping[int, str] = {point.number: point.name for point in POINTS}
KEYS: Mapping[str, str] = {
    "Battery": "battery:<sku>",
    "Component": "component:<sku>:<part>",
    "PCF": "pcf:<sku>",
    "DueDiligence": "dd:<sku>",
    "Reading": "reading:<sku>:<kind>:<time>",
    "ReadingSeries": "series:<sku>:<kind>",
    "Finding": "finding:<sku>:<code>:<number>",
    "Attachment": "attachment:<sku>:<data point>:<hash>",
}

GENERATED = "<!-- Made by tools/rule_reference.py from {table}; `make cases` rewrites it. -->"

FACTS_HEAD = f"""\
# Facts

{GENERATED.format(table="bpc.core.facts.schemas")}

A rule reads facts with `getFact("Battery", key)` and `getFactsByPrefix("Component", prefix)`, and their members with
`recordGet`. This page lists every fact type, its members and their types. A published schema never changes: what is
added later is a new version, which a rule asks for by name (`"Battery@2"`); a plain name means version 1.

In a document every member may be missing, and `null` is the same as missing, so `recordGet` gives an
[option](language.md#options). A member this page does not list is ignored. A `Dec(n)` is written as text with at most
n decimals (`"75.5"`) or as a whole number, a `Date` as `"2027-02-18"`. A fact that does not fit is refused with
VALIDATION_ERROR, which names fact and member, before any rule runs.

The last column names the data points of the Commission's guidance on battery passports that a member serves;
[below](#the-71-data-points) they are listed the other way round.
"""
POINTS_HEAD = """\
## The 71 data points

Titles are shortened. Points 17, 18, 19 and 44 are not to be filled before their formats are adopted, and 16 and 25
repeat others; the members are there all the same.
"""
UNITS_HEAD = f"""\
# Units

{GENERATED.format(table="bpc.core.facts.units")}

`Qty(kWh)` is the type of a quantity in kWh, `qty(1.5, kWh)` a quantity written out. Units of one dimension are made
into each other with `convert("Wh", "kWh", q)`; units of different dimensions never are. A unit, once published, keeps
its meaning.
"""
RELATIONS_HEAD = """\
## Products and quotients

Quantities of different units are multiplied and divided where this table says what comes out. In any other case
convert first: there is no `W * kWh`.
"""


def format_row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def format_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join([format_row(*head), format_row(*("---" for _ in head)), *(format_row(*cells) for cells in rows)])


def format_facts_page() -> str:
    parts = [FACTS_HEAD, *(format_schema(fact, members) for fact, members in SCHEMA_MEMBERS.items()), POINTS_HEAD]
    rows = [(str(number), title, ", ".join(list_serving_members(number))) for number, title in DATA_POINTS.items()]
    return "\n".join([*parts, format_table(("#", "data point", "members"), rows), ""])


def format_schema(fact: FactRecordType, members: Mapping[str, SchemaMember]) -> str:
    rows = [
        (f"`{name}`", f"`{member.type}`", member.description, ", ".join(map(str, member.points)))
        for name, member in members.items()
    ]
    head = f"## {fact.name}, version {fact.version}\n\nKey: `{KEYS[fact.name]}`\n"
    return f"{head}\n{format_table(('member', 'type', 'what it says', 'data points'), rows)}\n"


def list_serving_members(point: int) -> list[str]:
    """The members that serve a data point, as `Battery.mass_kg`."""
    return [
        f"`{fact.name}.{name}`"
        for fact, members in SCHEMA_MEMBERS.items()
        for name, member in members.items()
        if point in member.points
    ]


def format_units_page() -> str:
    dimensions = {unit.dimension: find_base_unit(unit.dimension) for unit in UNITS.values()}
    rows = [
        (f"`{name}`", unit.dimension, format_factor(unit, dimensions[unit.dimension])) for name, unit in UNITS.items()
    ]
    relations = [
        (
            f"`{product}`",
            f"`{left} * {right}`, `{right} * {left}`",
            f"`{product} / {left}` is `{right}`, `{product} / {right}` is `{left}`",
        )
        for product, left, right in RELATIONS
    ]
    return "\n".join(
        [
            UNITS_HEAD,
            format_table(("unit", "dimension", "is"), rows),
            "",
            RELATIONS_HEAD,
            format_table(("unit", "is the product", "so"), relations),
            "",
        ]
    )


def find_base_unit(dimension: str) -> str:
    return next(name for name, unit in UNITS.items() if unit == Unit(dimension))


def format_factor(unit: Unit, base_unit: str) -> str:
    if unit.numerator == unit.denominator:
        return "the unit the others are counted in"
    if unit.denominator == 1:
        return f"{unit.numerator:,} {base_unit}"
    return f"1/{unit.denominator:,} {base_unit}"


def main() -> None:
    (FOLDER / "facts.md").write_text(format_facts_page(), encoding="utf-8")
    (FOLDER / "units.md").write_text(format_units_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
