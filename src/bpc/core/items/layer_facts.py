"""The facts of one battery: written as its snapshot lists them, and read as rules see them.

Pure. The bytes are those of `order_facts`, in a fraction of its time: a payload is encoded once, for hash and line.
`test_layer_facts.py` compares the two.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from bpc.core.facts.fact_table import FactRecord, FactTable, SnapshotFact, read_members
from bpc.core.facts.snapshot import DuplicateFact, FactRef, OrderedFacts, order_facts
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import NotCanonical
from bpc.core.formats.hashes import sha256
from bpc.core.items.compile_order import ItemRow
from bpc.core.language.types import FactRecordType
from bpc.core.passport.payload import BLINDING_FACT_TYPE, make_blinding_fact


def write_layer_facts(row: ItemRow) -> OrderedFacts:
    """The facts of a row with its secret, in order; `DuplicateFact` or `BadFact` as `order_facts` says."""
    facts = sorted(
        (make_blinding_fact(row.snapshot_id, row.blinding_key), *row.facts),
        key=lambda fact: (fact.fact_type, fact.fact_key),
    )
    for one, other in pairwise(facts):
        if (one.fact_type, one.fact_key) == (other.fact_type, other.fact_key):
            raise DuplicateFact(one.fact_type, one.fact_key)
    lines, refs = [], []
    for fact in facts:
        encode = canonical_json.encode_typed if fact.fact_type == BLINDING_FACT_TYPE else canonical_json.encode
        try:
            payload = encode(fact.payload)
            name = canonical_json.encode([fact.fact_key, fact.fact_type])
        except NotCanonical:
            return order_facts(facts)  # which says what is wrong
        key, _, kind = name[1:-1].rpartition(b',"')
        lines.append(
            b'{"fact_key":%b,"fact_type":"%b,"payload":%b,"schema_version":%d}\n'
            % (key, kind, payload, fact.schema_version)
        )
        refs.append(FactRef(fact.fact_type, fact.fact_key, sha256(payload)))
    return OrderedFacts(tuple(facts), b"".join(lines), tuple(refs))


def read_layer_facts(
    facts: OrderedFacts, fact_types: Sequence[FactRecordType]
) -> Mapping[FactRecordType, Mapping[str, FactRecord]]:
    """The facts of some types by key; `FactInvalid` names the first that does not fit its schema."""
    records: dict[FactRecordType, dict[str, FactRecord]] = {kind: {} for kind in fact_types}
    for fact, ref in zip(facts.facts, facts.refs, strict=True):
        kind = FactRecordType(fact.fact_type, fact.schema_version)
        table = records.get(kind)
        if table is not None:
            members = read_members(kind, fact.fact_key, fact.payload)
            table[fact.fact_key] = FactRecord(fact.fact_key, ref.payload_hash.hex(), members)
        elif any(fact.fact_type == each.name for each in fact_types):
            _refuse_version(fact, fact_types)
    return records


def _refuse_version(fact: SnapshotFact, fact_types: Iterable[FactRecordType]) -> None:
    """Raise what reading such a fact for a product raises."""
    FactTable.from_facts([fact], fact_types)
