"""The published test vectors give the published bytes."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bpc.core import canon
from bpc.core.digest import Digest, from_hex, sha256, to_hex
from bpc.core.ids import PassportVersionId, SnapshotId, parse_uuid
from bpc.core.proof import node_hash
from bpc.core.qr import qr_text
from bpc.core.snapshot import FactRef, snapshot_bytes

VECTORS = Path(__file__).parent / "vectors"


def vectors(name: str) -> Any:
    return json.loads((VECTORS / f"{name}.json").read_bytes())


@pytest.mark.parametrize("vector", vectors("cjson")["accept"], ids=lambda vector: ascii(vector["json"]))
def test_canonical_json_accepts(vector: dict[str, str]) -> None:
    made = canon.canonicalize(vector["json"].encode())

    assert made == vector["canonical"].encode()
    assert to_hex(sha256(made)) == vector["sha256"]
    assert canon.encode(canon.decode(made)) == made


@pytest.mark.parametrize("text", vectors("cjson")["reject"], ids=ascii)
def test_canonical_json_refuses(text: str) -> None:
    for read in (canon.canonicalize, canon.decode, canon.read_json):
        with pytest.raises(canon.NotCanonical):
            read(text.encode())


def facts_of(vector: dict[str, Any]) -> list[FactRef]:
    return [
        FactRef(fact["fact_type"], fact["fact_key"], sha256(canon.encode(fact["payload"]))) for fact in vector["facts"]
    ]


@pytest.mark.parametrize("vector", vectors("snapshot"), ids=lambda vector: vector["snapshot_id"])
def test_snapshots(vector: dict[str, Any]) -> None:
    snapshot_id = SnapshotId(parse_uuid(vector["snapshot_id"]))

    made = snapshot_bytes(snapshot_id, facts_of(vector))

    assert made == vector["canonical"].encode()
    assert to_hex(sha256(made)) == vector["sha256"]
    assert snapshot_bytes(snapshot_id, reversed(facts_of(vector))) == made


names = st.text(st.sampled_from("ab\x7fé\ue000\uffff😀"), max_size=3)


@settings(derandomize=True, max_examples=150)
@given(st.lists(st.builds(FactRef, names, names, st.binary(min_size=32, max_size=32).map(Digest)), max_size=6))
def test_the_facts_of_a_snapshot_are_sorted_by_their_bytes(facts: list[FactRef]) -> None:
    made: Any = canon.decode(snapshot_bytes(SnapshotId(parse_uuid("c386bbc4-0000-4000-8000-3c5f414c343c")), facts))

    rows = [tuple(fact[name].encode() for name in ("fact_type", "fact_key", "payload_hash")) for fact in made["facts"]]
    assert rows == sorted(rows)
    assert len(rows) == len(facts)


def test_proof_node_hashes() -> None:
    proof = vectors("proof-hash")
    made: list[Digest] = []

    for node in proof["nodes"]:
        made.append(node_hash(node["id"], node["type"], node["data"], [made[at] for at in node["children"]]))
        assert to_hex(made[-1]) == node["hash"]

    assert to_hex(made[-1]) == proof["root_hash"]


def test_the_order_of_children_is_part_of_a_node_hash() -> None:
    one, other = sha256(b"1"), sha256(b"2")

    assert node_hash(0, "OP", {}, [one, other]) != node_hash(0, "OP", {}, [other, one])


@pytest.mark.parametrize("vector", vectors("qr"), ids=lambda vector: vector["passport_version_id"])
def test_qr_texts(vector: dict[str, str]) -> None:
    made = qr_text(
        PassportVersionId(parse_uuid(vector["passport_version_id"])),
        from_hex(vector["payload_hash"]),
        from_hex(vector["proof_root_hash"]),
        from_hex(vector["receipt_hash"]),
    )

    assert made == vector["qr"]
