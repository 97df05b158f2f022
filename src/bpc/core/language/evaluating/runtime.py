"""What generated code calls beside Python's own functions: rounding, days, limits, and the nodes of a proof.

Pure, and quick: these run once for each operator or node. What a node says that is known from the rules alone is bound
when the code is loaded, so that generated code names a node in one short call: compiling Python is what takes long
when rules are first used.
"""

import calendar
from collections.abc import Callable, Mapping
from datetime import date
from typing import Any, Final, TypeAlias

from bpc.core.facts.fact_table import FactRecord
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.language.evaluating.values import LengthMeasure, ValueWriter, quote_text
from bpc.core.language.evaluation import RuleFailure, World
from bpc.core.passport.proof import COMPLIANCE_EMIT, CONST, FACT_GET, MAX_PROOF_STEPS, OP, ProofSteps, StepsTooLarge

# The state generated code works on: a list, because a list is read faster than an object's members.


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
# Gives a definition's value, in proof mode also its node. The fields that are missing, by their place, and why.
GET_DEFINITION: Final = 13
MISSING: Final = 14
# With a proof by expression: the nodes that the expression computed now has read, in order.
READS: Final = 15
FIRST_FIELD: Final = 16


def create_state(world: World, max_steps: int) -> list[Any]:
    """The state before anything is computed, without coverage and proof."""
    facts = world.facts
    inputs = [max_steps, facts.get, facts.find_by_prefix, world.product_sku, world.product_name, world.issued_on]
    return [*inputs, [], None, None, None, None, None, None, None, {}, {}]


NodeMaker: TypeAlias = Callable[..., int]
"""The id of a node: an earlier one's that says the same, or the next."""

_KEY_DATA_START: Final = '{"type":"Text","value":'


def divide_half_even(numerator: int, denominator: int) -> int:
    """The quotient as an integer, rounded half to even (docs/rules/language.md)."""
    if denominator < 0:
        numerator, denominator = -numerator, -denominator
    quotient, remainder = divmod(numerator, denominator)
    remainder += remainder
    return quotient + 1 if remainder > denominator or (remainder == denominator and quotient & 1) else quotient


# Days are texts such as `2027-02-18`; one that no calendar has is None.
_BLANKS: Final = " \t\r\n"


def count_days(day: str) -> int:
    """How many days it is after the last one before the calendar begins."""
    return date.fromisoformat(day).toordinal()


def add_days(day: str, days: int) -> str | None:
    number = count_days(day) + days
    return date.fromordinal(number).isoformat() if 1 <= number <= date.max.toordinal() else None


def add_months(day: str, months: int) -> str | None:
    """The same day of another month, or its last where it is shorter."""
    year, month = divmod(int(day[:4]) * 12 + int(day[5:7]) - 1 + months, 12)
    if not date.min.year <= year <= date.max.year:
        return None
    last = calendar.monthrange(year, month + 1)[1]
    return date(year, month + 1, min(int(day[8:]), last)).isoformat()


def add_years(day: str, years: int) -> str | None:
    return add_months(day, years * 12)


def split_text(text: str, separator: str) -> list[str]:
    """An empty separator is nowhere in a text."""
    return text.split(separator) if separator else [text]


def trim_text(text: str) -> str:
    return text.strip(_BLANKS)


def create_distinct_picker(write: ValueWriter) -> Callable[[list[Any]], list[Any]]:
    """Of values that Python does not hash: equal ones are written alike."""

    def pick_distinct(values: list[Any]) -> list[Any]:
        first: dict[str, Any] = {}
        for value in values:
            first.setdefault(write(value), value)
        return [*first.values()]

    return pick_distinct


def rank_positions(keys: list[Any]) -> list[int]:
    """The positions by key, those without one first, equal ones as they stand."""
    return sorted(range(len(keys)), key=lambda position: (keys[position] is not None, keys[position]))


def create_grouping(write: ValueWriter | None) -> Callable[[list[Any]], list[dict[str, Any]]]:
    """Equal keys and their positions, as they first appear; what Python does not hash is written."""

    def group_keys(keys: list[Any]) -> list[dict[str, Any]]:
        groups: dict[Any, dict[str, Any]] = {}
        for position, key in enumerate(keys):
            name = key if write is None else write(key)
            groups.setdefault(name, {"key": key, "positions": []})["positions"].append(position)
        return [*groups.values()]

    return group_keys


def create_plain_maker(kind: str, data: str, first: int) -> NodeMaker:
    """Of a node that says what the rules say. `first` is the id of the first step, here and below."""

    def make_node(nodes: ProofSteps, *children: int) -> int:
        return nodes.setdefault((kind, data, children), first + len(nodes))

    return make_node


def create_bool_maker(before: str, first: int) -> NodeMaker:
    """Of a node that says a Bool: both texts are there, for `of` may name a long type."""
    yes, no = before + "true}", before + "false}"

    def make_node(nodes: ProofSteps, value: bool, *children: int) -> int:
        return nodes.setdefault((OP, yes if value else no, children), first + len(nodes))

    return make_node


def create_value_maker(before: str, write: ValueWriter, first: int) -> NodeMaker:
    """Of a node that says a small value."""

    def make_node(nodes: ProofSteps, value: Any, *children: int) -> int:
        return nodes.setdefault((OP, f"{before}{write(value)}}}", children), first + len(nodes))

    return make_node


def create_number_maker(
    before: str, write: ValueWriter, first: int, limit: int, fail: Callable[[int], RuleFailure]
) -> NodeMaker:
    """The same of a number that must be below `limit`; `failure` is the number of what to fail with."""
    lower_limit = -limit

    def make_node(nodes: ProofSteps, value: int, failure: int, *children: int) -> int:
        if not lower_limit < value < limit:
            raise fail(failure)
        return nodes.setdefault((OP, f"{before}{write(value)}}}", children), first + len(nodes))

    return make_node


def create_large_maker(before: str, value_of: tuple[ValueWriter, LengthMeasure], after: str, first: int) -> NodeMaker:
    """Of a node that says a value which may be large.

    What such a node says follows from what stands before the value and from the node's children, so a value is written
    once: it is charged once, and any number of nodes may repeat it. What all of them say is limited.
    """
    write, length = value_of

    def make_node(state: list[Any], value: Any, *children: int) -> int:
        known_ids: dict[object, int] = state[LARGE_NODES]
        key = before, children
        node_id = known_ids.get(key)
        if node_id is None:
            room = state[ROOM]
            if length(value, room) > room:
                raise StepsTooLarge
            node_id = known_ids[key] = add_limited_node(state, OP, f"{before}{write(value)}{after}", children, first)
        return node_id

    return make_node


def create_fact_maker(before: str, after: str, first: int) -> NodeMaker:
    """Of a fact that was asked for by its key."""
    none = f"{before}null{after}"

    def make_node(nodes: ProofSteps, fact: FactRecord | None, key: int) -> int:
        data = none if fact is None else f'{before}"{fact.payload_hash}"{after}'
        return nodes.setdefault((FACT_GET, data, (key,)), first + len(nodes))

    return make_node


def create_facts_maker(before: str, after: str, first: int) -> NodeMaker:
    """Of facts that were asked for by a prefix: the hash of their keys and payload hashes, computed once a prefix."""

    def make_node(state: list[Any], facts: list[FactRecord], prefix: int) -> int:
        known_ids: dict[object, int] = state[LARGE_NODES]
        node_id = known_ids.get((before, prefix))
        if node_id is None:
            encoded_list = canonical_json.encode_typed([[fact.key, fact.payload_hash] for fact in facts])
            data = f'{{"count":{len(facts)}{before}{to_hex(sha256(encoded_list))}{after}'
            nodes: ProofSteps = state[NODES]
            node_id = nodes.setdefault((FACT_GET, data, (prefix,)), first + len(nodes))
            known_ids[before, prefix] = node_id
        return node_id

    return make_node


def create_key_maker(first: int) -> NodeMaker:
    """Of a key inside a lambda, shown as a constant. It may be long and asked for again and again: it is known by
    itself, not by what is written of it."""

    def make_node(state: list[Any], key: str) -> int:
        known_ids: dict[object, int] = state[LARGE_NODES]
        node_id = known_ids.get(key)
        if node_id is None:
            if len(state[NODES]) > MAX_PROOF_STEPS:
                raise StepsTooLarge
            node_id = known_ids[key] = add_limited_node(
                state, CONST, f"{_KEY_DATA_START}{quote_text(key)}}}", (), first
            )
        return node_id

    return make_node


def create_compliance_maker(before: str, first: int) -> NodeMaker:
    """Of a compliance entry that is about to be added."""

    def make_node(state: list[Any], status: str, message: str, *children: int) -> int:
        entry_data = f'{len(state[COMPLIANCE])},"message":{quote_text(message)},"status":{quote_text(status)}}}'
        return add_limited_node(state, COMPLIANCE_EMIT, before + entry_data, children, first)

    return make_node


def add_limited_node(state: list[Any], kind: str, data: str, children: tuple[int, ...], first: int) -> int:
    nodes: ProofSteps = state[NODES]
    next_id = first + len(nodes)
    node_id = nodes.setdefault((kind, data, children), next_id)
    if node_id == next_id:
        state[ROOM] -= len(data)
        if state[ROOM] < 0:
            raise StepsTooLarge
    return node_id
