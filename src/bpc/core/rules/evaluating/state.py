"""The state generated code works on: a list, because a list is read faster than an object's members.

These are the places in it. The values of the fields follow, in the order of evaluation.
"""

from collections.abc import Mapping
from typing import Any, Final

from bpc.core.rules.world import World

STEPS_LEFT: Final = 0
GET_FACT: Final = 1
GET_FACTS: Final = 2
INPUTS: Final[Mapping[str, int]] = {"productSku": 3, "productName": 4, "issuedOn": 5}
COMPLIANCE: Final = 6
# In a session: computes the field at a place. With coverage: a byte for each site.
GET_FIELD: Final = 7
REACHED: Final = 8
# With proof: the nodes by what they say, those of large values by what they follow from, the fields' derivations, how
# many characters there is room for.
NODES: Final = 9
LARGE_NODES: Final = 10
DERIVATIONS: Final = 11
ROOM: Final = 12
FIRST_FIELD: Final = 13


def state_of(world: World, max_steps: int) -> list[Any]:
    """The state before anything is computed, without coverage and proof."""
    facts = world.facts
    given = [max_steps, facts.get, facts.by_prefix, world.product_sku, world.product_name, world.issued_on]
    return [*given, [], None, None, None, None, None, None]
