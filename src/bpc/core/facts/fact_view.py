"""A fact as the checks of plausibility see it: exact numbers on one scale, and sentences about them.

Pure. Every number of a fact becomes a count of millionths (`MILLION` of them are one), so numbers of members with
different decimals compare and add up exactly. Products of two are counts of millionths of millionths.

    SnapshotFact ── read_view ──► FactView ── report ──► Finding
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from bpc.core.facts.fact_table import SnapshotFact, read_members
from bpc.core.facts.findings import Finding
from bpc.core.facts.item_schemas import SchemaMember
from bpc.core.facts.plausibility_table import CHECKS
from bpc.core.facts.schemas import SCHEMA_MEMBERS, SCHEMAS
from bpc.core.language.types import INT, Dec, FactRecordType, Type

MILLION: Final = 10**6
_SCALE: Final = 6
_NO_SCHEMA: Final[Mapping[str, SchemaMember]] = {}


def find_scale(kind: Type) -> int | None:
    """The decimals of a type of numbers; None of any other type."""
    return kind.scale if isinstance(kind, Dec) else 0 if kind == INT else None


# What brings a number of a member to millionths. No schema has more than six decimals.
_FACTORS: Final[Mapping[FactRecordType, Mapping[str, int]]] = {
    fact: {name: 10 ** (_SCALE - scale) for name, kind in members.items() if (scale := find_scale(kind)) is not None}
    for fact, members in SCHEMAS.items()
}


@dataclass(frozen=True, slots=True)
class FactView:
    """A fact that fits its schema, and the product it belongs to. `members` are typed as rules hold them."""

    kind: FactRecordType
    key: str
    sku: str
    members: Mapping[str, Any]

    def get_number(self, member: str) -> int | None:
        """A number in millionths."""
        value = self.members.get(member)
        factor = _FACTORS[self.kind].get(member)
        return None if value is None or factor is None else value * factor

    def get_numbers(self, *members: str) -> tuple[int, ...] | None:
        """The numbers of all these members; None if one is missing."""
        values = [value for member in members if (value := self.get_number(member)) is not None]
        return tuple(values) if len(values) == len(members) else None

    def get_text(self, member: str) -> str | None:
        value = self.members.get(member)
        return value if isinstance(value, str) else None

    def iterate_records(self, member: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The records of a list member, each with its place, such as `power_limits[0]`."""
        for index, record in enumerate(self.members.get(member) or ()):
            yield f"{member}[{index}]", record

    def report(self, code: str, members: Sequence[str], **values: str) -> Finding:
        """A finding of a check about members of this fact; `values` complete the check's message."""
        return build_finding(code, self.kind, self.key, members, values)

    def restate(self, finding: Finding, member: str) -> Finding:
        """A finding about a state as one about the member of this fact that holds it."""
        return replace(finding, fact_type=self.kind.name, fact_key=self.key, members=(member,))


def build_finding(
    code: str, kind: FactRecordType, key: str, members: Sequence[str], values: Mapping[str, str]
) -> Finding:
    check = CHECKS[code]
    schema = SCHEMA_MEMBERS.get(kind, _NO_SCHEMA)
    points = check.points or {point for member in members if member in schema for point in schema[member].points}
    return Finding(
        code=code,
        severity=check.severity,
        fact_type=kind.name,
        fact_key=key,
        members=tuple(members),
        says=check.message.format_map(values),
        points=tuple(sorted(points)),
    )


def read_view(fact: SnapshotFact) -> FactView | None:
    """The view of a fact; None if no schema knows it. `FactInvalid` if it does not fit its schema."""
    kind = FactRecordType(fact.fact_type, fact.schema_version)
    if kind not in SCHEMAS:
        return None
    members = read_members(kind, fact.fact_key, fact.payload)
    sku = members.get("sku")
    # The key is `battery:<sku>`, `component:<sku>:<part>`, …: what is between the first two colons.
    return FactView(
        kind, fact.fact_key, sku if sku is not None else fact.fact_key.partition(":")[2].split(":")[0], members
    )


def format_number(count: int) -> str:
    """A count of millionths as a plain decimal without zeros at its end."""
    integer, fraction = divmod(abs(count), MILLION)
    text = f"{integer}.{fraction:06d}".rstrip("0").rstrip(".")
    return f"-{text}" if count < 0 else text


def format_ratio(numerator: int, denominator: int) -> str:
    """A quotient: with two decimals, or below one with six. `denominator` is not 0."""
    if denominator < 0:
        numerator, denominator = -numerator, -denominator
    unit = 10**4 if abs(numerator) >= denominator else 1
    count = (2 * numerator * MILLION + denominator * unit) // (2 * denominator * unit)
    return format_number(count * unit)


def quote_value(text: str) -> str:
    """The beginning of a text, quoted so that it can be printed."""
    return json.dumps(text[:60] + ("…" if len(text) > 60 else ""), ensure_ascii=False)
