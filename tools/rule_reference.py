"""Write docs/rules/units.md, facts.md and plausibility.md from the tables that rules are checked against."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from bpc.core.exports.data_points import POINTS
from bpc.core.facts.enumerations import ENUMERATIONS, Enumeration
from bpc.core.facts.item_schemas import SchemaMember
from bpc.core.facts.plausibility_table import CHECKS
from bpc.core.facts.schemas import SCHEMA_MEMBERS
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
    "Item": "item:<sku>",
    "Batch": "batch:<sku>",
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
PLAUSIBILITY_HEAD = f"""\
# Plausibility

{GENERATED.format(table="bpc.core.facts.plausibility_table and enumerations")}

When a product's evidence is put together, its facts are checked: values that cannot be, numbers that contradict each
other, texts that are not what they should be. What is implausible becomes a *finding*. A finding never changes or
removes a value. It is sealed in the snapshot as a fact of type [`Finding`](facts.md#finding-version-1), so whoever
verifies the passport sees it too.

| severity | means |
| --- | --- |
| error | it cannot be true: it contradicts itself, other evidence or arithmetic |
| warning | it can be true, but is far more often a mistake of units, columns or copying |
| note | it is plausible as such and worth a look |

A check needs all the members it is about: what is missing is not checked here, because whether it must be there depends
on the category. There is no clock: a date is compared with the other dates of the product only.

## How exactly numbers must agree

Numbers are compared exactly, never as binary fractions. Two kinds of declared numbers may have been rounded before they
were written, so there are tolerances:

- **Sums** (recycled shares; the stages of a footprint, in kg). Whole numbers must add up exactly: 5 + 4 is not 8. If
  the total has fewer decimals than its parts, it may differ by half of its last decimal: 5.25 + 4.5 may be written as
  9.8. Otherwise each part may be wrong by half of the parts' last decimal: 33.33 + 33.33 may be written as 66.67.
- **Computed numbers** (fades, ratios, energies). The table says how many percent or percentage points they may differ.

The footprint per kWh is divided by the energy that the battery delivers over its service life (Article 7(1)(d) of
Regulation (EU) 2023/1542), not by its capacity. That energy is the declared one, or else usable energy x cycles a year
x years, or else usable energy x expected cycles.

## Findings in a passport

A rule reads findings like other facts and brings them into `compliance`. Where there is no finding, this rule says
nothing: that nothing was found is not a proof that everything is right.

```bpc
field checks.plausible: Bool =
  let findings = getFactsByPrefix("Finding", concat("finding:", productSku(), ":"));
  let errors = filter(findings, fn(f) => unwrapOr(recordGet(f, "severity"), "error") == "error");
  let said = fold(errors, {{ number: 0, text: "" }}, fn(acc, f) =>
    let number = unwrapOr(recordGet(acc, "number"), 0);
    let text = unwrapOr(recordGet(acc, "text"), "");
    let message = unwrapOr(recordGet(f, "message"), "");
    {{
      number: number + 1,
      text: if (number == 0) then message else if (number < 20) then concat(text, "; ", message) else text
    }});
  if (count(errors) > 0)
    then emitCompliance("PLAUSIBILITY", "FAIL", unwrapOr(recordGet(said, "text"), ""))
    else true;

field checks.recycled_sums: Bool =
  let findings = getFactsByPrefix("Finding", concat("finding:", productSku(), ":RECYCLED_SUM:"));
  if (count(findings) > 0)
    then emitCompliance("ART_8_SUMS", "WARN", "recycled shares do not add up")
    else true;

example an_error_fails: {{
  fact f("Finding", "finding:SKU-1:VOLTAGE_ORDER:0001") = {{
    "code": "VOLTAGE_ORDER",
    "severity": "error",
    "message": "the minimum voltage of 400 V is not below the nominal voltage of 350 V"
  }};
}} =>
  expect(checks.plausible, == false);
  expect(checks.recycled_sums, == true);
;
example a_note_does_not_fail: {{
  fact f("Finding", "finding:SKU-1:COMPONENT_SHARE:0001") = {{ "code": "COMPONENT_SHARE", "severity": "note" }};
}} => expect(checks.plausible, == true);;
```

The code and the status of a compliance entry are written out, and lists are not a place for `emitCompliance`. So a rule
makes one entry for a severity, or one for a code, and not one for each finding. The first twenty messages are in the
entry above because a text has at most 65,536 characters; all of them are in the snapshot.

## The checks
"""
LISTS_HEAD = """\
## Lists of values

These members take one of a few values. Words in German, English, French, Spanish, Italian and Polish are understood;
capitals, accents and hyphens do not matter. An unknown word is kept as it is and is a finding (`UNKNOWN_VALUE`), unless
the list is open. Countries are those of ISO 3166-1: two letters, three letters or a name.
"""
MAX_LISTED_VALUES = 30


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


def format_plausibility_page() -> str:
    rows = [
        (f"`{check.code}`", check.severity, check.requires, ", ".join(map(str, check.points)) or "of the member")
        for check in CHECKS.values()
    ]
    lists = [
        (f"`{fact_type}.{member}`", format_values(enumeration), "open" if enumeration.is_open else "closed")
        for (fact_type, member), enumeration in ENUMERATIONS.items()
    ]
    return "\n".join(
        [
            PLAUSIBILITY_HEAD,
            format_table(("code", "severity", "what must hold", "data points"), rows),
            "",
            LISTS_HEAD,
            format_table(("member", "values", "list"), lists),
            "",
        ]
    )


def format_values(enumeration: Enumeration) -> str:
    values = enumeration.values
    if len(values) > MAX_LISTED_VALUES:
        return f"the {len(values)} two-letter codes, `{values[0]}` to `{values[-1]}`"
    return ", ".join(f"`{value}`" for value in values)


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
    (FOLDER / "plausibility.md").write_text(format_plausibility_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
