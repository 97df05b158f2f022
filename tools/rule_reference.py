"""Write docs/rules/units.md and docs/rules/facts.md from the tables that rules are checked against."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from bpc.core.rules.types import Fact
from bpc.core.schemas import MEMBERS, Member
from bpc.core.units import RELATIONS, UNITS, Unit

FOLDER = Path(__file__).parent.parent / "docs" / "rules"

# The Commission's guidance on the content of battery passports, version 1.0 of 28 July 2026, its titles shortened.
DATA_POINTS: Mapping[int, str] = {
    1: "Unique identifier",
    2: "Responsible operator",
    3: "Manufacturer's name or trade mark",
    4: "Manufacturer's postal address",
    5: "Manufacturer's web and e-mail address",
    6: "Battery category",
    7: "Model, batch, serial or product number",
    8: "Place of manufacture",
    9: "Date of manufacture",
    10: "Weight",
    11: "Capacity",
    12: "Chemistry",
    13: "Hazardous substances other than Hg, Cd, Pb",
    14: "Usable extinguishing agent",
    15: "Critical raw materials above 0.1 %",
    16: "Material composition (12, 13 and 15 together)",
    17: "Carbon footprint declaration",
    18: "Carbon footprint label",
    19: "Responsible sourcing",
    20: "Recycled cobalt",
    21: "Recycled lithium",
    22: "Recycled nickel",
    23: "Recycled lead",
    24: "Renewable content",
    25: "Rated capacity",
    26: "Minimum voltage",
    27: "Nominal voltage",
    28: "Maximum voltage",
    29: "Original power capability",
    30: "Power limits",
    31: "Expected lifetime in cycles",
    32: "Reference test of that",
    33: "Capacity threshold for exhaustion",
    34: "Temperatures withstood when not in use",
    35: "Commercial warranty for the calendar life",
    36: "Initial round trip efficiency",
    37: "Round trip efficiency at half of the cycle life",
    38: "Internal resistance of cell and pack",
    39: "C-rate of the cycle-life test",
    40: "Marking of Art. 13(4): separate collection",
    41: "Marking of Art. 13(5): cadmium and lead",
    42: "EU declaration of conformity",
    43: "Waste prevention and management",
    44: "Instructions for use",
    45: "Detailed composition",
    46: "Part numbers",
    47: "Sources of replacement parts",
    48: "Dismantling information",
    49: "Safety measures",
    50: "Test reports",
    51: "Rated capacity (state)",
    52: "Capacity fade",
    53: "Power",
    54: "Power fade",
    55: "Internal resistance",
    56: "Internal resistance increase",
    57: "Round trip efficiency",
    58: "Round trip efficiency fade",
    59: "Expected lifetime in cycles (state)",
    60: "Expected lifetime in years",
    61: "State of certified energy",
    62: "Remaining capacity",
    63: "Remaining power capability",
    64: "Remaining round trip efficiency",
    65: "Evolution of self-discharge",
    66: "Ohmic resistance",
    67: "Battery status",
    68: "Charging and discharging cycles",
    69: "Negative events",
    70: "Recorded temperatures",
    71: "Recorded state of charge",
}
KEYS: Mapping[str, str] = {
    "Battery": "battery:<sku>",
    "Component": "component:<sku>:<part>",
    "PCF": "pcf:<sku>",
    "DueDiligence": "dd:<sku>",
}

GENERATED = "<!-- Made by tools/rule_reference.py from {table}; `make cases` rewrites it. -->"

FACTS_HEAD = f"""\
# Facts

{GENERATED.format(table="bpc.core.schemas")}

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

{GENERATED.format(table="bpc.core.units")}

`Qty(kWh)` is the type of a quantity in kWh, `qty(1.5, kWh)` a quantity written out. Units of one dimension are made
into each other with `convert("Wh", "kWh", q)`; units of different dimensions never are. A unit, once published, keeps
its meaning.
"""
RELATIONS_HEAD = """\
## Products and quotients

Quantities of different units are multiplied and divided where this table says what comes out. In any other case
convert first: there is no `W * kWh`.
"""


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join([row(*head), row(*("---" for _ in head)), *(row(*cells) for cells in rows)])


def facts() -> str:
    parts = [FACTS_HEAD, *(schema(fact, members) for fact, members in MEMBERS.items()), POINTS_HEAD]
    rows = [(str(number), title, ", ".join(serving(number))) for number, title in DATA_POINTS.items()]
    return "\n".join([*parts, table(("#", "data point", "members"), rows), ""])


def schema(fact: Fact, members: Mapping[str, Member]) -> str:
    rows = [
        (f"`{name}`", f"`{member.type}`", member.says, ", ".join(map(str, member.points)))
        for name, member in members.items()
    ]
    head = f"## {fact.name}, version {fact.version}\n\nKey: `{KEYS[fact.name]}`\n"
    return f"{head}\n{table(('member', 'type', 'what it says', 'data points'), rows)}\n"


def serving(point: int) -> list[str]:
    """The members that serve a data point, as `Battery.mass_kg`."""
    return [
        f"`{fact.name}.{name}`"
        for fact, members in MEMBERS.items()
        for name, member in members.items()
        if point in member.points
    ]


def units() -> str:
    dimensions = {unit.dimension: base(unit.dimension) for unit in UNITS.values()}
    rows = [(f"`{name}`", unit.dimension, factor(unit, dimensions[unit.dimension])) for name, unit in UNITS.items()]
    relations = [
        (
            f"`{made}`",
            f"`{one} * {other}`, `{other} * {one}`",
            f"`{made} / {one}` is `{other}`, `{made} / {other}` is `{one}`",
        )
        for made, one, other in RELATIONS
    ]
    return "\n".join(
        [
            UNITS_HEAD,
            table(("unit", "dimension", "is"), rows),
            "",
            RELATIONS_HEAD,
            table(("unit", "is the product", "so"), relations),
            "",
        ]
    )


def base(dimension: str) -> str:
    return next(name for name, unit in UNITS.items() if unit == Unit(dimension))


def factor(unit: Unit, of: str) -> str:
    if unit.numerator == unit.denominator:
        return "the unit the others are counted in"
    if unit.denominator == 1:
        return f"{unit.numerator:,} {of}"
    return f"1/{unit.denominator:,} {of}"


def main() -> None:
    (FOLDER / "facts.md").write_text(facts(), encoding="utf-8")
    (FOLDER / "units.md").write_text(units(), encoding="utf-8")


if __name__ == "__main__":
    main()
