"""Steps `payload_hash`, `snapshot`, `facts`, `rules`: the bundle's parts are those the receipt was made for.

Pure.

Checks:
  1. payload.json has the hash the receipt names
  2. snapshot.json has the hash and the id the receipt names
  3. its facts are in order, each of its form, no two of one type and key
  4. facts.jsonl holds exactly the snapshot's facts, in its order, each with the payload hash the snapshot names
  5. rules.bpc and tests.bpc have the hashes the receipt names
"""

from itertools import pairwise

from bpc.core.digest import Digest, sha256, to_hex
from bpc.core.verify import forms as verify_forms
from bpc.core.verify.forms import formed
from bpc.core.verify.report import Wrong, counted
from bpc.core.verify.structure import Opened


def check_payload_hash(opened: Opened) -> str:
    return _has_hash(opened, "payload.json", opened.receipt.payload_hash)  # 1


def check_snapshot(opened: Opened) -> str:
    says = _has_hash(opened, "snapshot.json", opened.receipt.snapshot_hash)  # 2
    if opened.snapshot["snapshot_id"] != str(opened.receipt.snapshot_id):
        raise Wrong("snapshot.json is of another snapshot than the receipt names")
    refs = _refs(opened)
    for before, after in pairwise(refs):
        if before[:2] == after[:2]:
            raise Wrong(f"snapshot.json holds two facts `{after[1]}` of type `{after[0]}`")
        if before > after:
            raise Wrong(f"snapshot.json is not in order: `{after[1]}` stands behind `{before[1]}`")
    return says


def check_facts(opened: Opened) -> str:
    refs = _refs(opened)
    facts = opened.facts
    for number, (fact, ref) in enumerate(zip(facts, refs, strict=False), 1):  # 4
        if (fact.fact_type, fact.fact_key) != ref[:2]:
            raise Wrong(f"facts.jsonl line {number} is `{fact.fact_key}`, and the snapshot has `{ref[1]}` there")
        if fact.payload_hash() != ref[2]:
            raise Wrong(f"facts.jsonl line {number}: `{fact.fact_key}` does not have the hash the snapshot names")
    if len(facts) != len(refs):
        raise Wrong(f"facts.jsonl holds {len(facts)} facts, and the snapshot names {len(refs)}")
    return f"{counted(len(facts), 'fact')}, each with the hash the snapshot names"


def check_rules(opened: Opened) -> str:
    _has_hash(opened, "rules.bpc", opened.receipt.dsl_sha256)  # 5
    _has_hash(opened, "tests.bpc", opened.receipt.tests_sha256)
    return "rules and tests have the hashes the receipt names"


def _refs(opened: Opened) -> list[tuple[str, str, str]]:
    refs = []
    for index, value in enumerate(opened.snapshot["facts"]):  # 3
        fact = formed(f"snapshot.json: fact {index}", value, verify_forms.SNAPSHOT_FACT)
        refs.append((fact["fact_type"], fact["fact_key"], fact["payload_hash"]))
    return refs


def _has_hash(opened: Opened, entry: str, named: Digest) -> str:
    found = sha256(opened.entries[entry])
    if found != named:
        raise Wrong(f"{entry} has the hash {to_hex(found)}, and the receipt names {to_hex(named)}")
    return f"{entry} is {to_hex(found)}"
