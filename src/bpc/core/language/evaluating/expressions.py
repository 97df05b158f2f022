"""The proof of rules of level 2: a node for each expression, over what it has read (docs/formats/proof.md).

While the expression of a field, a definition or a requirement is computed, `state[READS]` gathers the nodes of the
facts, fields, definitions and entries that it asks for. Its own node says where it stands in the rules, and what it
gave.

    open_expression ──► compute, which records reads ──► close_expression ──► add_expression, add_entry
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from bpc.core.facts.fact_table import FactRecord
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.language.evaluating.runtime import COMPLIANCE, LARGE_NODES, NODES, READS, NodeMaker, add_limited_node
from bpc.core.language.evaluating.values import quote_text, value_to_json
from bpc.core.language.evaluation import ComplianceEntry, MissingCause
from bpc.core.language.types import FactRecordType, Type, contains_fact_record
from bpc.core.passport.proof import COMPLIANCE_EMIT, FACT_GET, MAX_PROOF_STEPS, OP, StepsTooLarge

# The value of a definition that takes more is shown by its hash.
MAX_SHOWN_BYTES: Final = 256
FIXED_ENTRIES: Final = 4096  # texts that are kept; a package of the Union's rules has about a hundred


def open_expression(state: list[Any]) -> dict[int, None]:
    """Begin an expression that sees nothing of the one around it; what that one has read so far."""
    around: dict[int, None] = state[READS]
    state[READS] = {}
    return around


def close_expression(state: list[Any], around: dict[int, None]) -> tuple[int, ...]:
    """Go on with the expression around it; what this one has read."""
    reads = tuple(state[READS])
    state[READS] = around
    return reads


def create_fact_recorder(fact: FactRecordType, first: int) -> NodeMaker:
    """Of a fact that is asked for by its key. `first` is the id of the first step, here and below."""
    before, after = f'{{"fact_type":"{fact.name}","key":', f',"schema_version":{fact.version}}}'

    def record_read(state: list[Any], fact_read: FactRecord | None, key: str) -> int:
        known_ids: dict[object, int] = state[LARGE_NODES]
        node_id = known_ids.get((before, key))
        if node_id is None:
            json_value = "null" if fact_read is None else f'"{fact_read.payload_hash}"'
            data = f'{before}{quote_text(key)},"payload_hash":{json_value}{after}'
            node_id = known_ids[before, key] = _add_read_node(state, data, first)
        state[READS][node_id] = None
        return node_id

    return record_read


def create_facts_recorder(fact: FactRecordType, first: int) -> NodeMaker:
    """Of facts that are asked for by a prefix: the hash of their keys and payload hashes."""
    before, after = f',"fact_type":"{fact.name}","list_hash":"', f',"schema_version":{fact.version}}}'

    def record_read(state: list[Any], facts_read: list[FactRecord], prefix: str) -> int:
        known_ids: dict[object, int] = state[LARGE_NODES]
        node_id = known_ids.get((before, prefix))
        if node_id is None:
            list_bytes = canonical_json.encode_typed([[each.key, each.payload_hash] for each in facts_read])
            data = (
                f'{{"count":{len(facts_read)}{before}{to_hex(sha256(list_bytes))}","prefix":{quote_text(prefix)}{after}'
            )
            node_id = known_ids[before, prefix] = _add_read_node(state, data, first)
        state[READS][node_id] = None
        return node_id

    return record_read


def _add_read_node(state: list[Any], data: str, first: int) -> int:
    if len(state[NODES]) > MAX_PROOF_STEPS:
        raise StepsTooLarge
    return add_limited_node(state, FACT_GET, data, (), first)


def create_entry_recorder(first: int) -> NodeMaker:
    """Of an entry that `emitCompliance` is about to add."""

    def record_entry(state: list[Any], entry: ComplianceEntry) -> int:
        data: dict[str, Json] = {**entry.to_payload_json(2), "index": len(state[COMPLIANCE])}
        node_id = add_limited_node(state, COMPLIANCE_EMIT, canonical_json.encode_typed(data).decode(), (), first)
        state[READS][node_id] = None
        return node_id

    return record_entry


def add_entry(state: list[Any], at: tuple[int, int], reads: tuple[int, ...], first: int) -> None:
    """The node of a requirement, whose entry is the last one; the field of all requirements reads it."""
    entries: list[ComplianceEntry] = state[COMPLIANCE]
    write = _write_entry_node if entries[-1].args else _write_fixed_entry_node
    node_id = add_limited_node(state, COMPLIANCE_EMIT, write(entries[-1], at, len(entries) - 1), reads, first)
    state[READS][node_id] = None


def _write_entry_node(entry: ComplianceEntry, at: tuple[int, int], index: int) -> str:
    # Written member by member: there is one for each requirement, and one more way of writing it is quicker by half.
    code, field, message, status, verdict, args = entry
    return (
        f'{{"args":{write_arguments(args)},"at":[{at[0]},{at[1]}],"code":{quote_text(code)},"field":{quote_text(field)},'
        f'"index":{index},"message":{quote_text(message)},"status":"{status}","verdict":"{verdict}"}}'
    )


def write_entry(entry: ComplianceEntry) -> str:
    """An entry as canonical JSON, as payloads of level 2 have it."""
    return _write_entry(entry) if entry.args else _write_fixed_entry(entry)


def _write_entry(entry: ComplianceEntry) -> str:
    code, field, message, status, verdict, args = entry
    return (
        f'{{"args":{write_arguments(args)},"code":{quote_text(code)},"field":{quote_text(field)},'
        f'"message":{quote_text(message)},"status":"{status}","verdict":"{verdict}"}}'
    )


# Entries without arguments are the same text for each of a million batteries.
_write_fixed_entry = lru_cache(maxsize=FIXED_ENTRIES)(_write_entry)
_write_fixed_entry_node = lru_cache(maxsize=FIXED_ENTRIES)(_write_entry_node)


def write_arguments(args: tuple[tuple[str, str], ...]) -> str:
    """The texts in a message as canonical JSON, by what they are called."""
    return canonical_json.encode_typed(dict(args)).decode() if args else "{}"


def add_expression(state: list[Any], data: Mapping[str, Json], reads: tuple[int, ...], first: int) -> int:
    """The node of a field or a definition."""
    return add_limited_node(state, OP, canonical_json.encode_typed(data).decode(), reads, first)


def show_missing(cause: MissingCause | None) -> dict[str, Json]:
    """What the node of something missing says of it."""
    return {} if cause is None else {"missing": {"code": cause.code, "message": cause.message}}


def show_value(kind: Type, value: Any) -> dict[str, Json]:
    """What the node of a definition says of its value: the value itself, if it is short, or its hash."""
    if contains_fact_record(kind):
        return {}
    json_value = value_to_json(kind, value)
    value_bytes = canonical_json.encode_typed(json_value)
    return {"value": json_value} if len(value_bytes) <= MAX_SHOWN_BYTES else {"value_hash": to_hex(sha256(value_bytes))}
