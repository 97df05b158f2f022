"""Proof nodes: their hashes, how a field's derivation is closed, and the bytes of a whole proof."""

from typing import Any

import pytest

from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.passport.proof import (
    CONST,
    OP,
    ProofSteps,
    StepsTooLarge,
    add_derivation,
    assemble_proof,
    check_step_count,
    hash_node,
)


def add_steps(steps: ProofSteps, first_id: int, *keys: tuple[str, str, tuple[int, ...]]) -> None:
    for key in keys:
        steps.setdefault(key, first_id + len(steps))


def test_a_nodes_hash_covers_its_childrens_hashes_data_id_and_type() -> None:
    child = sha256(b"child")

    node_digest = hash_node(7, "OP", {"op": "+", "value": 5}, [child, child])

    hashed = (
        f'{{"children_hashes":["{to_hex(child)}","{to_hex(child)}"],"data":{{"op":"+","value":5}},"id":7,"type":"OP"}}'
    )
    assert node_digest == sha256(hashed.encode())


def test_a_derivation_closes_over_what_nothing_refers_to() -> None:
    steps: ProofSteps = {}
    add_steps(steps, 2, (CONST, "1", ()), (CONST, "2", ()), (OP, "3", (3,)), (CONST, "4", ()))

    closed = add_derivation(steps, 2, 0, 2, "{}")

    assert (closed, list(steps)[-1]) == (6, (OP, "{}", (2, 4, 5)))


def test_a_derivation_leaves_what_earlier_fields_made_alone() -> None:
    steps: ProofSteps = {}
    add_steps(steps, 2, (CONST, "1", ()), (CONST, "2", ()))

    add_steps(steps, 2, (OP, "3", (2,)))
    add_derivation(steps, 2, 2, 4, "{}")

    assert list(steps)[-1] == (OP, "{}", (4,))


def test_a_derivation_that_says_the_same_is_the_same_node() -> None:
    steps: ProofSteps = {}
    add_steps(steps, 2, (CONST, "1", ()))

    first, again = add_derivation(steps, 2, 0, 2, "{}"), add_derivation(steps, 2, 2, 2, "{}")

    assert first == again == 3


def test_the_bytes_are_the_canonical_proof() -> None:
    steps: ProofSteps = {}
    add_steps(steps, 3, (CONST, '{"type":"Int","value":1}', ()), (OP, '{"op":"+","value":2}', (3, 3)))
    fields = [(OP, '{"op":"field","path":"a"}', (4,)), (OP, '{"op":"field","path":"b"}', (3,))]

    data, root_hash = assemble_proof(steps, fields, '{"op":"passport"}', '{"a":0,"b":1}')

    proof: Any = canonical_json.decode(data)
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
        assert hash_node(node["id"], node["type"], node["data"], children) == digests[node["id"]]
    assert (proof["root_hash"], root_hash) == (digests[2].hex(), digests[2])
    assert proof["field_index"] == {"a": 0, "b": 1}
    assert proof["proof_version"] == "BPC-PROOF-1"


# What is larger than any limit that can be set


def assemble_with_length(length: int) -> tuple[bytes, bytes]:
    """A proof whose nodes' data have so many characters."""
    return assemble_proof({}, [(OP, "1" * (length - 2), ())], "{}", "{}")


def test_a_proof_of_20_million_bytes_is_put_together_and_a_larger_one_refused() -> None:
    assert len(assemble_with_length(20_000_000)[0]) > 20_000_000
    with pytest.raises(StepsTooLarge) as error:
        assemble_with_length(20_000_001)

    assert error.value.code == "PROOF_TOO_LARGE"
    assert error.value.says == "the proof has more than 20,000,000 bytes"
    assert error.value.fix == "make fewer or smaller values"


def test_more_steps_than_fit_are_refused_whatever_they_say() -> None:
    steps: ProofSteps = {(CONST, str(number), ()): number for number in range(166_666)}

    check_step_count(steps)
    steps[OP, "{}", ()] = 166_666

    with pytest.raises(StepsTooLarge):
        check_step_count(steps)
    with pytest.raises(StepsTooLarge):
        assemble_proof(steps, [], "{}", "{}")
