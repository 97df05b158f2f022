"""What generated code calls beside Python's own functions: rounding, limits, and the nodes of a proof.

Pure, and quick: these run once for each operator or node. What a node says that is known from the rules alone is bound
when the code is loaded, so that generated code names a node in one short call: compiling Python is what takes long
when rules are first used.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from bpc.core import canon
from bpc.core.digest import sha256, to_hex
from bpc.core.facts import FactRecord
from bpc.core.proof import COMPLIANCE_EMIT, CONST, FACT_GET, MAX_STEPS_OF_A_PROOF, OP, Steps, StepsTooLarge
from bpc.core.rules.evaluating.lengths import Length
from bpc.core.rules.evaluating.state import COMPLIANCE, LARGE_NODES, NODES, ROOM
from bpc.core.rules.evaluating.writing import Writer, quoted
from bpc.core.rules.failure import RuleFailure

Maker: TypeAlias = Callable[..., int]
"""The id of a node: an earlier one's that says the same, or the next."""

_KEY: Final = '{"type":"Text","value":'


def half(numerator: int, denominator: int) -> int:
    """The quotient as an integer, rounded half to even (docs/rules/language.md)."""
    if denominator < 0:
        numerator, denominator = -numerator, -denominator
    quotient, rest = divmod(numerator, denominator)
    rest += rest
    return quotient + 1 if rest > denominator or (rest == denominator and quotient & 1) else quotient


def plain_node(kind: str, data: str, first: int) -> Maker:
    """Of a node that says what the rules say. `first` is the id of the first step, here and below."""

    def node(nodes: Steps, *children: int) -> int:
        return nodes.setdefault((kind, data, children), first + len(nodes))

    return node


def bool_node(before: str, first: int) -> Maker:
    """Of a node that says a Bool: both texts are there, for `of` may name a long type."""
    yes, no = before + "true}", before + "false}"

    def node(nodes: Steps, value: bool, *children: int) -> int:
        return nodes.setdefault((OP, yes if value else no, children), first + len(nodes))

    return node


def value_node(before: str, write: Writer, first: int) -> Maker:
    """Of a node that says a small value."""

    def node(nodes: Steps, value: Any, *children: int) -> int:
        return nodes.setdefault((OP, f"{before}{write(value)}}}", children), first + len(nodes))

    return node


def number_node(before: str, write: Writer, first: int, most: int, fail: Callable[[int], RuleFailure]) -> Maker:
    """The same of a number that must be below `most`; `failure` is the number of what to fail with."""
    least = -most

    def node(nodes: Steps, value: int, failure: int, *children: int) -> int:
        if not least < value < most:
            raise fail(failure)
        return nodes.setdefault((OP, f"{before}{write(value)}}}", children), first + len(nodes))

    return node


def large_node(before: str, value_of: tuple[Writer, Length], behind: str, first: int) -> Maker:
    """Of a node that says a value which may be large.

    What such a node says follows from what stands before the value and from the node's children, so a value is written
    once: it is charged once, and any number of nodes may repeat it. What all of them say is limited.
    """
    write, length = value_of

    def node(state: list[Any], value: Any, *children: int) -> int:
        made: dict[object, int] = state[LARGE_NODES]
        found = made.get((before, children))
        if found is None:
            if length(value, state[ROOM]) > state[ROOM]:
                raise StepsTooLarge
            found = made[before, children] = _spent(state, OP, f"{before}{write(value)}{behind}", children, first)
        return found

    return node


def fact_node(before: str, behind: str, first: int) -> Maker:
    """Of a fact that was asked for by its key."""
    none = f"{before}null{behind}"

    def node(nodes: Steps, fact: FactRecord | None, key: int) -> int:
        data = none if fact is None else f'{before}"{fact.payload_hash}"{behind}'
        return nodes.setdefault((FACT_GET, data, (key,)), first + len(nodes))

    return node


def facts_node(before: str, behind: str, first: int) -> Maker:
    """Of facts that were asked for by a prefix: the hash of their keys and payload hashes."""

    def node(nodes: Steps, facts: list[FactRecord], prefix: int) -> int:
        listed = canon.encode_typed([[fact.key, fact.payload_hash] for fact in facts])
        data = f'{{"count":{len(facts)}{before}{to_hex(sha256(listed))}{behind}'
        return nodes.setdefault((FACT_GET, data, (prefix,)), first + len(nodes))

    return node


def key_node(first: int) -> Maker:
    """Of a key inside a lambda, shown as a constant. It may be long and asked for again and again: it is known by
    itself, not by what is written of it."""

    def node(state: list[Any], key: str) -> int:
        made: dict[object, int] = state[LARGE_NODES]
        found = made.get(key)
        if found is None:
            if len(state[NODES]) > MAX_STEPS_OF_A_PROOF:
                raise StepsTooLarge
            found = made[key] = _spent(state, CONST, f"{_KEY}{quoted(key)}}}", (), first)
        return found

    return node


def emit_node(before: str, first: int) -> Maker:
    """Of a compliance entry that is about to be added."""

    def node(state: list[Any], status: str, message: str, *children: int) -> int:
        said = f'{len(state[COMPLIANCE])},"message":{quoted(message)},"status":{quoted(status)}}}'
        return _spent(state, COMPLIANCE_EMIT, before + said, children, first)

    return node


def _spent(state: list[Any], kind: str, data: str, children: tuple[int, ...], first: int) -> int:
    nodes: Steps = state[NODES]
    next_id = first + len(nodes)
    found = nodes.setdefault((kind, data, children), next_id)
    if found == next_id:
        state[ROOM] -= len(data)
        if state[ROOM] < 0:
            raise StepsTooLarge
    return found
