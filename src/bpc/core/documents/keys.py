"""The key of a fact: which thing it is about.

    battery:<sku>   component:<sku>:<part>   pcf:<sku>   dd:<sku>

A SKU has no colon: else the components of `A:B` would be found among those of `A`.
"""

from collections.abc import Mapping
from typing import Final

from bpc.core.documents.notes import Notes
from bpc.core.documents.values import Given
from bpc.core.skus import fault_of

LONGEST_NAME: Final = 200

_PREFIX: Final[Mapping[str, str]] = {"Battery": "battery", "Component": "component", "PCF": "pcf", "DueDiligence": "dd"}


def key_of(fact_type: str, members: Mapping[str, Given], path: str, notes: Notes) -> str:
    """The key of a fact with these members; with a problem in `notes`, one that nobody will use."""
    parts = [_PREFIX[fact_type], _name(members, "sku", path, notes)]
    if ":" in parts[1]:
        notes.problem(f"{path}.sku", "has a colon, which separates the parts of a fact's key")
    if fact_type == "Component":
        parts.append(_name(members, "part", path, notes))
    return ":".join(parts)


def _name(members: Mapping[str, Given], member: str, path: str, notes: Notes) -> str:
    given = members.get(member)
    if given is None:
        notes.problem(f"{path}.{member}", "is missing; it says what this is about")
    if not isinstance(given, str):  # which is a problem of its type, and known
        return ""
    if not 1 <= len(given) <= LONGEST_NAME:
        notes.problem(f"{path}.{member}", f"does not have 1 to {LONGEST_NAME} characters")
    elif fault := fault_of(given):
        notes.problem(f"{path}.{member}", fault)
    return given
