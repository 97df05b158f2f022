"""What generated code calls beside Python's own functions.

Pure, and quick: these run once for each operator or node.
"""

from typing import Any

from bpc.core import canon
from bpc.core.digest import sha256, to_hex
from bpc.core.facts import FactRecord
from bpc.core.proof import Key, StepsTooLarge
from bpc.core.rules.evaluating.state import ROOM, SET_NODE


def half(numerator: int, denominator: int) -> int:
    """The quotient as an integer, rounded half to even (docs/rules/language.md)."""
    if denominator < 0:
        numerator, denominator = -numerator, -denominator
    quotient, rest = divmod(numerator, denominator)
    rest += rest
    return quotient + 1 if rest > denominator or (rest == denominator and quotient & 1) else quotient


def list_hash(facts: list[FactRecord]) -> str:
    """What a proof says about a list of facts: the hash of their keys and payload hashes."""
    return to_hex(sha256(canon.encode_typed([[fact.key, fact.payload_hash] for fact in facts])))


def large_node(state: list[Any], key: Key, next_id: int) -> int:
    """The id of a node whose data may be large: a value is charged once, and any number of nodes may repeat it."""
    found: int = state[SET_NODE](key, next_id)
    if found == next_id:
        state[ROOM] -= len(key[1])
        if state[ROOM] < 0:
            raise StepsTooLarge
    return found
