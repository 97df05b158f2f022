"""Columns: how the members of a fact are named in the header of a table.

    mass_g                        a member
    fastenings                    a list of texts, `;` or a line break between them
    fastenings[2]                 its second text, whatever it contains
    labels[1].url                 a member of the first record of a list
    labels[1].part_numbers[2]     and so on

Capitals do not matter, and a blank or a hyphen stands for `_`. Counting begins with 1, as people do.
"""

import re
from collections.abc import Mapping
from typing import Final, TypeAlias

from bpc.core.rules.types import TEXT, List, Opt, Record, Type
from bpc.core.schemas import Member

Steps: TypeAlias = tuple[str | int, ...]

_SMALL: Final = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ -\u00a0\n", "abcdefghijklmnopqrstuvwxyz____")
BLANK: Final = " \t\r\n\u00a0"
_NAME: Final = re.compile(r"[a-z0-9_]+(?:\[[0-9]{1,4}\])?(?:\.[a-z0-9_]+(?:\[[0-9]{1,4}\])?)?")
_STEP: Final = re.compile(r"[a-z0-9_]+")


def normal(name: str) -> str:
    """A name of a column or a sheet, however it is written."""
    return name.strip(BLANK).translate(_SMALL)


def steps_of(name: str) -> Steps | None:
    """The way from a fact to the value of a column; None where `name` is no such name. `name` is normal."""
    if not _NAME.fullmatch(name):
        return None
    found = _STEP.findall(name)
    marks = [name[found_at.start() - 1 : found_at.start()] for found_at in _STEP.finditer(name)]
    return tuple(int(step) if mark == "[" else step for step, mark in zip(found, marks, strict=True))


def type_at(schema: Mapping[str, Type], steps: Steps) -> Type | None:
    """The type of the value a column holds; None where the schema has none."""
    kind = schema.get(str(steps[0]))
    for step in steps[1:]:
        kind = kind.item if isinstance(kind, Opt) else kind
        match kind:
            case Record(members) if isinstance(step, str):
                kind = dict(members).get(step)
            case List(item) if isinstance(step, int) and step > 0:
                kind = item
            case _:
                return None
    return kind.item if isinstance(kind, Opt) else kind


def fits_a_cell(kind: Type) -> bool:
    """Whether one cell can hold it: everything but records, and lists of anything but text."""
    return not isinstance(kind, Record) and (not isinstance(kind, List) or kind.item == TEXT)


def columns_of(name: str, member: Member, *, records: int = 1) -> list[tuple[str, Type, str]]:
    """The columns a member has in a table: name, type, and what it says. A list of records has some for each."""
    if fits_a_cell(member.type):
        return [(name, member.type, member.says)]
    return [
        (f"{name}[{number}].{part}", kind.item if isinstance(kind, Opt) else kind, f"{member.says}: {part}")
        for number in range(1, records + 1)
        for part, kind in _members_of(member.type)
    ]


def _members_of(kind: Type) -> tuple[tuple[str, Type], ...]:
    match kind:
        case List(Record(members)):
            return members
        case _:
            return ()
