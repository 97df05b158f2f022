"""The facts of a battery as lines of facts.jsonl: what is on record of it, what is stated beside it, its readings.

Pure.

    RegisteredItem, statements, readings ── encode_item_facts ──► lines, without the secret
    facts of an earlier passport ── find_statements ──► what was stated then
"""

from collections.abc import Mapping, Sequence

from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.facts.readings import READING_FACT_TYPE, RECORDED_ON, to_battery_value
from bpc.core.facts.schemas import SCHEMA_VERSION
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.items.compile_order import ITEM_FACT_TYPE
from bpc.core.items.item_rows import REGISTERED_MEMBERS, RegisteredItem, build_members


def encode_item_facts(
    sku: str, item: RegisteredItem, statements: Mapping[str, Json], readings: Sequence[SnapshotFact]
) -> bytes:
    """The facts of a battery. What is stated counts before what its newest readings say."""
    payload = build_members(item, {**take_latest_states(readings), **statements})
    lines = [encode_fact(ITEM_FACT_TYPE, f"item:{sku}", payload)]
    lines += [encode_fact(fact.fact_type, fact.fact_key, dict(fact.payload)) for fact in readings]
    return b"".join(lines)


def encode_fact(fact_type: str, fact_key: str, payload: dict[str, Json]) -> bytes:
    """A line of facts.jsonl."""
    document: dict[str, Json] = {
        "fact_key": fact_key,
        "fact_type": fact_type,
        "payload": payload,
        "schema_version": SCHEMA_VERSION,
    }
    return canonical_json.encode(document) + b"\n"


def take_latest_states(readings: Sequence[SnapshotFact]) -> dict[str, Json]:
    """The states that the newest reading of each kind gives, and the day of the newest of all."""
    newest: dict[str, Mapping[str, Json]] = {}
    for fact in readings:
        if fact.fact_type == READING_FACT_TYPE:
            kind, earlier = str(fact.payload["kind"]), newest.get(str(fact.payload["kind"]))
            if earlier is None or str(earlier["recorded_at"]) < str(fact.payload["recorded_at"]):
                newest[kind] = fact.payload
    members = {kind: to_battery_value(kind, reading) for kind, reading in newest.items()}
    states: dict[str, Json] = {kind: value for kind, value in members.items() if value is not None}
    if states:
        states[RECORDED_ON] = max(str(newest[kind]["recorded_on"]) for kind in states)
    return states


def find_statements(facts: Sequence[SnapshotFact]) -> dict[str, Json]:
    """What was stated of a battery when these facts were sealed: neither on record nor what its readings said then."""
    states = take_latest_states(facts)
    members = next((fact.payload for fact in facts if fact.fact_type == ITEM_FACT_TYPE), {})
    return {
        name: value
        for name, value in members.items()
        if name not in REGISTERED_MEMBERS and (name not in states or states[name] != value)
    }
