"""Which member a header means: by its own name, or by what people call it in six languages, with its unit.

mass_g, Mass g          exact: the member's name
Masse [kg]              a synonym; numbers are converted from kg to the member's unit
Masse                   a synonym without a unit: only numbers that say their unit themselves are read
Kapazität               two members fit, `capacity_kwh` and `rated_capacity_ah`: not guessed
Masse [V]               the unit does not fit: the values of the column cannot be read
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal, TypeAlias

from bpc.core.documents.elements import ExactNumber
from bpc.core.documents.fact_members import (
    MemberPath,
    find_member_type,
    fits_a_cell,
    normalize_name,
    parse_column_name,
)
from bpc.core.documents.header_synonyms import SYNONYMS
from bpc.core.documents.header_text import MAX_HEADER_LENGTH, build_name_key, fold_text, spell_umlauts
from bpc.core.documents.header_units import (
    ONE,
    HeaderReading,
    MemberUnit,
    find_member_unit,
    find_unit_factor,
    split_header,
    strip_unit_name,
)
from bpc.core.facts.schemas import SCHEMA_VERSION, SCHEMAS
from bpc.core.language.types import INT, Dec, FactRecordType, Type

MOST_POINTS: Final = 3

Confidence: TypeAlias = Literal["exact", "synonym", "similar", "none"]


@dataclass(frozen=True, slots=True)
class ColumnTarget:
    """Where the values of a column go in facts of one type.

    `factor` turns a number in the unit of the header into one in the member's unit; it is None if the header says no
    unit and needs one. With a `fault`, no value of the column can be read.
    """

    steps: MemberPath
    kind: Type
    unit: MemberUnit | None = None
    factor: ExactNumber | None = ONE
    header_unit: str | None = None
    fault: str | None = None

    @property
    def name(self) -> str:
        """The target as a column is named: `mass_g`, `labels[1].url`."""
        text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.steps)
        return text.removeprefix(".")


@dataclass(frozen=True, slots=True)
class HeaderMatch:
    """What a header means for each fact type; or, in `options`, the members of one type between which it is open."""

    confidence: Confidence
    targets: Mapping[str, ColumnTarget]
    options: tuple[str, ...] = ()

    @property
    def points(self) -> int:
        """How much it tells: nothing, a name without a unit that fits, what people call a member, or its own name."""
        if self.confidence == "exact":
            return MOST_POINTS
        if not self.targets:
            return 1 if self.options else 0
        return 2 if any(target.fault is None and target.factor is not None for target in self.targets.values()) else 1


NO_MATCH: Final = HeaderMatch("none", {})


def match_header(text: str, fact_types: tuple[str, ...]) -> HeaderMatch:
    """The members of these fact types that a header means."""
    if len(text) > MAX_HEADER_LENGTH:
        return NO_MATCH
    exact = _match_exact(normalize_name(text), fact_types)
    if exact:
        return HeaderMatch("exact", exact)
    for reading in split_header(text):
        match = _match_synonym(reading, fact_types)
        if match is not None:
            return match
    return NO_MATCH


def _match_exact(name: str, fact_types: tuple[str, ...]) -> dict[str, ColumnTarget]:
    steps = parse_column_name(name)
    targets: dict[str, ColumnTarget] = {}
    for fact_type in fact_types if steps else ():
        target = build_target(fact_type, steps or (), None)
        if target is not None:
            targets[fact_type] = target
    return targets


def build_target(fact_type: str, steps: MemberPath, header_unit: str | None) -> ColumnTarget | None:
    """The target of a column that is named after a member; None if the fact type has no such member."""
    kind = find_member_type(SCHEMAS[FactRecordType(fact_type, SCHEMA_VERSION)], steps)
    if kind is None:
        return None
    names = [step for step in steps if isinstance(step, str)]
    unit = find_member_unit(names[-1]) if isinstance(kind, Dec) or kind == INT else None
    target = ColumnTarget(steps, kind, unit)
    return target if header_unit is None else _apply_unit(target, header_unit)


def build_mapped_target(fact_type: str, steps: MemberPath, unit: str | None) -> ColumnTarget | None:
    """The target of a column that was mapped to a member.

    In a table of batteries and components, one column may be `mass_kg` of the one and `mass_g` of the other: a member
    that the fact type has not is the one that differs in its unit only.
    """
    target = build_target(fact_type, steps, unit)
    own_unit = find_member_unit(str(steps[0]))
    if target is not None or len(steps) > 1 or own_unit is None:
        return target
    siblings = [
        member
        for member in SCHEMAS[FactRecordType(fact_type, SCHEMA_VERSION)]
        if strip_unit_name(member) == strip_unit_name(str(steps[0]))
    ]
    return build_target(fact_type, (siblings[0],), unit or own_unit.symbol) if len(siblings) == 1 else None


def _apply_unit(target: ColumnTarget, header_unit: str) -> ColumnTarget:
    """The target with the unit of the header, or with the fault that it does not fit."""
    factor = None if target.unit is None else find_unit_factor(target.unit.table, header_unit)
    fault = None
    if factor is None:
        own = "has no unit" if target.unit is None else f"is in {target.unit.symbol}"
        fault = f"is in a column with the unit `{header_unit}`, but `{target.name}` {own}; correct the header"
    return ColumnTarget(target.steps, target.kind, target.unit, factor, header_unit, fault)


def _match_synonym(reading: HeaderReading, fact_types: tuple[str, ...]) -> HeaderMatch | None:
    key = build_name_key(reading.name)
    targets: dict[str, ColumnTarget] = {}
    options: dict[str, None] = {}
    for fact_type in fact_types:
        members = build_synonym_index(fact_type).get(key, ())
        candidates = [
            target for member in members if (target := _build_synonym_target(fact_type, member, reading)) is not None
        ]
        fitting = [target for target in candidates if target.fault is None]
        relevant_targets = fitting or candidates
        if len(relevant_targets) == 1 or (relevant_targets and not fitting):
            targets[fact_type] = relevant_targets[0]
        options |= dict.fromkeys(target.name for target in relevant_targets) if len(fitting) > 1 else {}
    if not targets and not options:
        return None
    return HeaderMatch("synonym", targets, () if targets else tuple(options))


def _build_synonym_target(fact_type: str, member: str, reading: HeaderReading) -> ColumnTarget | None:
    target = build_target(fact_type, (member,), None)
    if target is None or not fits_a_cell(target.kind):
        return None
    if reading.unit is not None:
        # What follows the name of a text or a date is not a unit: it may mean something else.
        return None if target.unit is None else _check_own_unit(_apply_unit(target, reading.unit), reading)
    needs_unit = target.unit is not None and not target.unit.may_be_missing
    return ColumnTarget(target.steps, target.kind, target.unit, None if needs_unit else ONE)


def _check_own_unit(target: ColumnTarget, reading: HeaderReading) -> ColumnTarget:
    """The target; with a fault if the header is the member's name, which has a unit, with another unit beside it."""
    is_own_name = sorted(fold_text(reading.name).replace("_", " ").split()) == sorted(target.name.split("_"))
    if target.unit is None or not is_own_name or strip_unit_name(target.name) == target.name or target.factor == ONE:
        return target
    fault = f"is in a column that says two units, `{target.unit.symbol}` and `{reading.unit}`; correct the header"
    return ColumnTarget(target.steps, target.kind, target.unit, None, target.header_unit, target.fault or fault)


@cache
def build_synonym_index(fact_type: str) -> Mapping[str, tuple[str, ...]]:
    """The members of a fact type by the keys of the names that people call them."""
    index: dict[str, dict[str, None]] = {}
    for member in SCHEMAS[FactRecordType(fact_type, SCHEMA_VERSION)]:
        for name in list_member_names(member):
            for spelling in (name, spell_umlauts(name)):
                index.setdefault(build_name_key(spelling), {})[member] = None
    return {key: tuple(members) for key, members in index.items()}


def list_member_names(member: str) -> Iterable[str]:
    """Everything that a member is called: its own name, that without the unit, and its synonyms."""
    yield member
    yield strip_unit_name(member)
    yield from (name for name in SYNONYMS.get(member, "").split(";") if name)
