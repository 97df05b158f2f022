"""Public formats: documents as others publish them, read into the elements that our own form has.

A format is recognised by the names of its members, never by the name of a file. `FORMATS` is tried in its order; a
document that is none of them is taken for our own form.

    value ── recognise ──► Format ── elements ──► [Element …], with warnings for what has no place in a fact
"""

from typing import Final

from bpc.core.documents.elements import Element
from bpc.core.documents.notes import Notes
from bpc.core.documents.public import (
    aspects,
    battery_pass,
    catena_pcf,
    component_pcf,
    events,
    product_passport,
    ready_passport,
    specified_bom,
)
from bpc.core.documents.public.formats import Format
from bpc.core.documents.public.places import Place, Reading, warn_of_unread
from bpc.core.documents.public.strangers import stranger
from bpc.core.documents.values import Given

__all__ = ["FORMATS", "Format", "public_elements", "recognise"]

FORMATS: Final[tuple[Format, ...]] = (
    battery_pass.FORMAT,
    catena_pcf.NESTED,
    component_pcf.FORMAT,
    catena_pcf.FLAT,
    specified_bom.FORMAT,
    events.FORMAT,
    ready_passport.FORMAT,
    product_passport.FORMAT,
    aspects.FORMAT,
)


def recognise(value: Given) -> Format | None:
    """The public format a document is in, if it is in one."""
    if not isinstance(value, dict):
        return None
    return next((known for known in FORMATS if known.is_it(value)), None)


def public_elements(kind: str, value: Given, notes: Notes) -> list[Element] | None:
    """The elements of a document in a public format; None where it is in none and may be in our own form.

    Formats that hold one thing may also come as a list of them.
    """
    if isinstance(value, list) and any(recognise(item) for item in value):
        return [
            element
            for index, item in enumerate(value)
            for element in _one(kind, item, f"$[{index}]", notes) or _nothing(f"$[{index}]", notes)
        ]
    return _one(kind, value, "$", notes)


def _one(kind: str, value: Given, path: str, notes: Notes) -> list[Element] | None:
    if not isinstance(value, dict):
        return None
    says = stranger(value)
    if says is not None:
        notes.problem(path, says)
        return []
    found = recognise(value)
    return None if found is None else _read(found, kind, Place(value, path, Reading(notes)), found.kinds(value))


def _nothing(path: str, notes: Notes) -> list[Element]:
    if notes.is_clean:
        notes.problem(path, "is not in the format of the others of this list")
    return []


def _read(found: Format, kind: str, document: Place, kinds: tuple[str, ...]) -> list[Element]:
    if kind not in kinds:
        document.problem(
            f"is {found.name}, which is read as a document of kind {' or '.join(kinds)}; this one is of kind {kind}"
        )
        return []
    elements = found.elements(document)
    if document.reading.notes.is_clean and elements:
        warn_of_unread(document, found.name)
    return elements
