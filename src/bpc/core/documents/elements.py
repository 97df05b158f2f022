"""Which parts of a JSON document are facts, and of which type.

    BOM             {"battery": {…}, "batteries": [{…} …], "components": [{…} …]}
    PCF             {…} or [{…} …]
    DUE_DILIGENCE   {…} or [{…} …]

An item of `components` without `part` is a battery. A component that does not say of which battery it is belongs to the
document's battery, if there is one and not several.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bpc.core.documents.notes import Notes, step
from bpc.core.documents.values import Given


@dataclass(frozen=True, slots=True)
class Element:
    """A part of a document that becomes one fact: what it is, where it stands, and its members."""

    fact_type: str
    path: str
    members: dict[str, Given]


_BOM_MEMBERS: Final = ("battery", "batteries", "components")


def elements(kind: str, value: Given, notes: Notes) -> list[Element]:
    """The elements of a document of this kind, in the order they stand."""
    match kind:
        case "BOM":
            return _bill_of_materials(value, notes)
        case "PCF":
            return list(_one_or_more("PCF", value, notes))
        case "DUE_DILIGENCE":
            return list(_one_or_more("DueDiligence", value, notes))
        case _:
            notes.problem("$", f"cannot be read: documents of kind {kind} have no facts")
            return []


def _bill_of_materials(value: Given, notes: Notes) -> list[Element]:
    if not isinstance(value, dict):
        notes.problem("$", "is not an object with `battery` and `components`")
        return []
    for name in value:
        if name not in _BOM_MEMBERS:
            notes.warning(step("$", name), "is not part of a bill of materials and was left out")
    found = [
        *_one("Battery", value.get("battery"), "$.battery", notes),
        *_many("Battery", value.get("batteries"), "$.batteries", notes),
    ]
    for part in _many("Component", value.get("components"), "$.components", notes):
        is_component = part.members.get("part") is not None
        found.append(part if is_component else Element("Battery", part.path, part.members))
    return of_their_battery(found)


def of_their_battery(found: list[Element]) -> list[Element]:
    """Components that do not say of which battery they are belong to the only one."""
    batteries = [element for element in found if element.fact_type == "Battery"]
    sku = batteries[0].members.get("sku") if len(batteries) == 1 else None
    if sku is None:
        return found
    return [
        Element(element.fact_type, element.path, {**element.members, "sku": sku})
        if element.fact_type == "Component" and element.members.get("sku") is None
        else element
        for element in found
    ]


def _one_or_more(fact_type: str, value: Given, notes: Notes) -> Iterator[Element]:
    if isinstance(value, list):
        return _many(fact_type, value, "$", notes)
    if value is None:
        notes.problem("$", "is null, not an object or a list of objects")
    return _one(fact_type, value, "$", notes)


def _many(fact_type: str, value: Given, path: str, notes: Notes) -> Iterator[Element]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            at = f"{path}[{index}]"
            if item is None:
                notes.problem(at, "is null, not an object")
            yield from _one(fact_type, item, at, notes)
    elif value is not None:
        notes.problem(path, "is not a list")


def _one(fact_type: str, value: Given, path: str, notes: Notes) -> Iterator[Element]:
    if isinstance(value, dict):
        yield Element(fact_type, path, value)
    elif value is not None:
        notes.problem(path, "is not an object")
