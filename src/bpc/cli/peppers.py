"""The peppers of this installation, and which of them a key hangs on, in words for whoever replaces one."""

from collections.abc import Mapping

from bpc.core.peppers import Peppers, pepper_id
from bpc.settings import Settings, next_pepper, pepper, pepper_is_at_hand, previous_pepper

CURRENT, PREVIOUS, NEXT = "current", "previous", "next"
ANOTHER, UNKNOWN = "another", ""


def peppers_of(settings: Settings) -> Peppers:
    """All peppers of this installation; the one in use is made where there is none yet."""
    return Peppers(in_use=pepper(settings), previous=previous_pepper(settings), next=next_pepper(settings))


def names_of(settings: Settings) -> Mapping[str, str]:
    """What the peppers of this installation are called by their ids. None is made in order to name it."""
    found = {
        PREVIOUS: previous_pepper(settings),
        NEXT: next_pepper(settings),
        CURRENT: pepper(settings) if pepper_is_at_hand(settings) else None,
    }
    return {pepper_id(value): name for name, value in found.items() if value is not None}


def named(names: Mapping[str, str], found: str | None) -> str:
    """What the pepper with the id `found` is called; nothing where nobody knows which it is."""
    return UNKNOWN if found is None else names.get(found, ANOTHER)
