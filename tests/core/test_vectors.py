"""The published test vectors give the published bytes."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bpc.core.facts.snapshot import FactRef, encode_snapshot
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import Digest, from_hex, sha256, to_hex
from bpc.core.formats.ids import PassportVersionId, SnapshotId, parse_uuid
from bpc.core.passport.proof import hash_node
from bpc.core.passport.qr import format_qr_text
from tests.measurements import choose_examples

VECTORS = Path(__file__).parent / "vectors"


def load_vectors(name: str) -> Any:
    return json.loads((VECTORS / f"{name}.json").read_bytes())


@pytest.mark.parametrize("vector", load_vectors("cjson")["accept"], ids=lambda vector: ascii(vector["json"]))
def test_canonical_json_accepts(vector: dict[str, str]) -> None:
    canonical = canonical_json.canonicalize(vector["json"].encode())

    assert canonical == vector["canonical"].encode()
    assert to_hex(sha256(canonical)) == vector["sha256"]
    assert canonical_json.encode(canonical_json.decode(canonical)) == canonical


@pytest.mark.parametrize("text", load_vectors("cjson")["reject"], ids=ascii)
def test_canonical_json_refuses(text: str) -> None:
    for read in (canonical_json.canonicalize, canonical_json.decode, canonical_json.read_json):
        with pytest.raises(canonical_json.NotCanonical):
            read(text.encode())


def facts_from_vector(vector: dict[str, Any]) -> list[FactRef]:
    return [
        FactRef(fact["fact_type"], fact["fact_key"], sha256(canonical_json.encode(fact["payload"])))
        for fact in vector["facts"]
    ]


@pytest.mark.parametrize("vector", load_vectors("snapshot"), ids=lambda vector: vector["snapshot_id"])
def test_snapshots(vector: dict[str, Any]) -> None:
    snapshot_id = SnapshotId(parse_uuid(vector["snapshot_id"]))

    snapshot = encode_snapshot(snapshot_id, facts_from_vector(vector))

    assert snapshot == vector["canonical"].encode()
    assert to_hex(sha256(snapshot)) == vector["sha256"]
    assert encode_snapshot(snapshot_id, reversed(facts_from_vector(vector))) == snapshot


names = st.text(st.sampled_from("ab\x7fé\ue000\uffff😀"), max_size=3)


@settings(derandomize=True, max_examples=choose_examples(150))
@given(st.lists(st.builds(FactRef, names, names, st.binary(min_size=32, max_size=32).map(Digest)), max_size=6))
def test_the_facts_of_a_snapshot_are_sorted_by_their_bytes(facts: list[FactRef]) -> None:
    snapshot: Any = canonical_json.decode(
        encode_snapshot(SnapshotId(parse_uuid("c386bbc4-0000-4000-8000-3c5f414c343c")), facts)
    )

    rows = [
        tuple(fact[name].encode() for name in ("fact_type", "fact_key", "payload_hash")) for fact in snapshot["facts"]
    ]
    assert rows == sorted(rows)
    assert len(rows) == len(facts)


def test_proof_node_hashes() -> None:
    proof = load_vectors("proof-hash")
    digests: list[Digest] = []

    for node in proof["nodes"]:
        digests.append(hash_node(node["id"], node["type"], node["data"], [digests[at] for at in node["children"]]))
        assert to_hex(digests[-1]) == node["hash"]

    assert to_hex(digests[-1]) == proof["root_hash"]


def test_the_order_of_children_is_part_of_a_node_hash() -> None:
    one, other = sha256(b"1"), sha256(b"2")

    assert hash_node(0, "OP", {}, [one, other]) != hash_node(0, "OP", {}, [other, one])


@pytest.mark.parametrize("vector", load_vectors("qr"), ids=lambda vector: vector["passport_version_id"])
def test_qr_texts(vector: dict[str, str]) -> None:
    text = format_qr_text(
        PassportVersionId(parse_uuid(vector["passport_version_id"])),
        from_hex(vector["payload_hash"]),
        from_hex(vector["proof_root_hash"]),
        from_hex(vector["receipt_hash"]),
    )

    assert text == vector["qr"]
