"""Proof nodes: their hashes, how a field's derivation is closed, and the bytes of a whole proof."""

from typing import Any

import pytest

from bpc.core import canon
from bpc.core.digest import sha256, to_hex
from bpc.core.proof import CONST, OP, Steps, StepsTooLarge, assembled, derivation, node_hash, refuse_too_many


def made_of(steps: Steps, first: int, *keys: tuple[str, str, tuple[int, ...]]) -> None:
    for key in keys:
        steps.setdefault(key, first + len(steps))


def test_a_nodes_hash_covers_its_childrens_hashes_data_id_and_type() -> None:
    child = sha256(b"child")

    found = node_hash(7, "OP", {"op": "+", "value": 5}, [child, child])

    hashed = (
        f'{{"children_hashes":["{to_hex(child)}","{to_hex(child)}"],"data":{{"op":"+","value":5}},"id":7,"type":"OP"}}'
    )
    assert found == sha256(hashed.encode())


def test_a_derivation_closes_over_what_nothing_refers_to() -> None:
    steps: Steps = {}
    made_of(steps, 2, (CONST, "1", ()), (CONST, "2", ()), (OP, "3", (3,)), (CONST, "4", ()))

    closed = derivation(steps, 2, 0, 2, "{}")

    assert (closed, list(steps)[-1]) == (6, (OP, "{}", (2, 4, 5)))


def test_a_derivation_leaves_what_earlier_fields_made_alone() -> None:
    steps: Steps = {}
    made_of(steps, 2, (CONST, "1", ()), (CONST, "2", ()))

    made_of(steps, 2, (OP, "3", (2,)))
    derivation(steps, 2, 2, 4, "{}")

    assert list(steps)[-1] == (OP, "{}", (4,))


def test_a_derivation_that_says_the_same_is_the_same_node() -> None:
    steps: Steps = {}
    made_of(steps, 2, (CONST, "1", ()))

    first, again = derivation(steps, 2, 0, 2, "{}"), derivation(steps, 2, 2, 2, "{}")

    assert first == again == 3


def test_the_bytes_are_the_canonical_proof() -> None:
    steps: Steps = {}
    made_of(steps, 3, (CONST, '{"type":"Int","value":1}', ()), (OP, '{"op":"+","value":2}', (3, 3)))
    fields = [(OP, '{"op":"field","path":"a"}', (4,)), (OP, '{"op":"field","path":"b"}', (3,))]

    data, root_hash = assembled(steps, fields, '{"op":"passport"}', '{"a":0,"b":1}')

    proof: Any = canon.decode(data)
    assert [(node["id"], node["type"], node["children"]) for node in proof["nodes"]] == [
        (0, "OP", [4]),
        (1, "OP", [3]),
        (2, "OP", [0, 1]),
        (3, "CONST", []),
        (4, "OP", [3, 3]),
    ]
    digests = {node["id"]: bytes.fromhex(node["hash"]) for node in proof["nodes"]}
    for node in proof["nodes"]:
        children: Any = [digests[child] for child in node["children"]]
        assert node_hash(node["id"], node["type"], node["data"], children) == digests[node["id"]]
    assert (proof["root_hash"], root_hash) == (digests[2].hex(), digests[2])
    assert proof["field_index"] == {"a": 0, "b": 1}
    assert proof["proof_version"] == "BPC-PROOF-1"


# What is larger than any limit that can be set


def said(length: int) -> tuple[bytes, bytes]:
    """A proof whose nodes' data have so many characters."""
    return assembled({}, [(OP, "1" * (length - 2), ())], "{}", "{}")


def test_a_proof_of_20_million_bytes_is_put_together_and_a_larger_one_refused() -> None:
    assert len(said(20_000_000)[0]) > 20_000_000
    with pytest.raises(StepsTooLarge) as refused:
        said(20_000_001)

    assert refused.value.code == "PROOF_TOO_LARGE"
    assert refused.value.says == "the proof has more than 20,000,000 bytes"
    assert refused.value.fix == "make fewer or smaller values"


def test_more_steps_than_fit_are_refused_whatever_they_say() -> None:
    steps: Steps = {(CONST, str(number), ()): number for number in range(166_666)}

    refuse_too_many(steps)
    steps[OP, "{}", ()] = 166_666

    with pytest.raises(StepsTooLarge):
        refuse_too_many(steps)
    with pytest.raises(StepsTooLarge):
        assembled(steps, [], "{}", "{}")
