"""Proof: a passport's computation, step by step, each step hash-linked to those it used. BPC-PROOF-1, BPC-PROOF-2.

Pure. A node's hash covers its children's hashes, so the root's hash covers the whole computation. While rules run, a
step is a key: its type, the canonical text of its data, its children's ids. Equal keys are one node; a new key gets
the next id. At the end `assemble_proof` hashes every node and writes the proof's canonical bytes directly.

    steps (dict of key: id) ── add_derivation, once a field
                            └─ assemble_proof(steps, fields, root) ──► proof bytes, root hash

Nodes 0 … k−1 are the fields by path, k is the root, the steps follow.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256 as hashed
from itertools import islice
from operator import itemgetter
from typing import Final, TypeAlias

from bpc.core.errors import Refusal
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.hashes import Digest, sha256, to_hex

# By the level of the rule language: rules of level 2 need more kinds of nodes.
PROOF_VERSIONS: Final[Mapping[int, str]] = {1: "BPC-PROOF-1", 2: "BPC-PROOF-2"}
# No configuration allows a larger proof, so a larger one need not be put together to be refused.
MAX_PROOF_BYTES: Final = 20_000_000
# Without its data and its children a node takes about 120 bytes, most of them its hash.
_MIN_NODE_BYTES: Final = 120
MAX_PROOF_STEPS: Final = MAX_PROOF_BYTES // _MIN_NODE_BYTES

ProofStep: TypeAlias = tuple[str, str, tuple[int, ...]]
"""A step: how its text ends, which names its type; its data as canonical JSON; its children."""

ProofSteps = dict[ProofStep, int]
"""The steps in the order they were made, and their ids. Keys are texts, never values: True == 1 in Python."""

OP: Final = ',"type":"OP"}'
CONST: Final = ',"type":"CONST"}'
FACT_GET: Final = ',"type":"FACT_GET"}'
FIELD_REF: Final = ',"type":"FIELD_REF"}'
ASSERT: Final = ',"type":"ASSERT"}'
COMPLIANCE_EMIT: Final = ',"type":"COMPLIANCE_EMIT"}'

_DATA: Final = itemgetter(1)
_CHILDREN: Final = itemgetter(2)


class StepsTooLarge(Refusal):
    """The steps say more than any proof may."""

    code = "PROOF_TOO_LARGE"

    def __init__(self) -> None:
        super().__init__(f"the proof has more than {MAX_PROOF_BYTES:,} bytes", fix="make fewer or smaller values")


def hash_node(node_id: int, node_type: str, data: Mapping[str, Json], children_hashes: Iterable[Digest]) -> Digest:
    """BPC-PROOF-HASH-1: SHA-256 of the canonical object of the four, the children's hashes in their order."""
    return sha256(
        canonical_json.encode_typed(
            {
                "children_hashes": [to_hex(child) for child in children_hashes],
                "data": data,
                "id": node_id,
                "type": node_type,
            }
        )
    )


def add_derivation(steps: ProofSteps, first_id: int, steps_before: int, result: int, data: str) -> int:
    """The node that closes a field: over its result, and over what the field made and nothing refers to.

    `first_id` is the first step's id, `steps_before` how many steps there were before the field.
    """
    next_id = first_id + len(steps)
    new_count = len(steps) - steps_before
    children: tuple[int, ...] = (result,)
    if new_count > 1 or (new_count and result != next_id - 1):
        referenced_ids = {result}.union(*map(_CHILDREN, islice(reversed(steps), new_count)))
        children = (result, *[step for step in range(next_id - new_count, next_id) if step not in referenced_ids])
    return steps.setdefault((OP, data, children), next_id)


def assemble_proof(
    steps: ProofSteps, fields: Sequence[ProofStep], root: str, field_index: str, version: str = PROOF_VERSIONS[1]
) -> tuple[bytes, Digest]:
    """The canonical bytes of the proof, and its root's hash.

    `fields` are in the order of their ids; `root` is the root's data and `field_index` that object, as canonical JSON.
    `StepsTooLarge` instead of hashing and writing what no limit allows.
    """
    last = len(fields)
    check_step_count(steps)
    nodes = [*fields, (OP, root, tuple(range(last))), *steps]
    if sum(map(len, map(_DATA, nodes))) > MAX_PROOF_BYTES:
        raise StepsTooLarge
    # Of each node its hash in quotes, and its text; the steps come first, because all others stand on them.
    hashes, node_texts = [""] * len(nodes), [b""] * len(nodes)
    for number in (*range(last + 1, len(nodes)), *range(last + 1)):
        kind, data, children = nodes[number]
        if len(children) == 1:  # most nodes; the general way takes twice as long
            child_hashes, ids = hashes[children[0]], str(children[0])
        else:
            child_hashes, ids = ",".join([hashes[child] for child in children]), ",".join(map(str, children))
        behind = f'"id":{number}{kind}'
        hashed_text = f'{{"children_hashes":[{child_hashes}],"data":{data},{behind}'
        hashes[number] = quoted_hash = f'"{hashed(hashed_text.encode()).hexdigest()}"'
        node_texts[number] = f'{{"children":[{ids}],"data":{data},"hash":{quoted_hash},{behind}'.encode()
    root_hash = hashes[last][1:-1]
    # Joined as bytes: as one text, a single character outside ASCII would make all of it several times as large.
    opening = f'{{"field_index":{field_index},"nodes":['
    closing = f'],"proof_version":"{version}","root_hash":"{root_hash}"}}'
    return b"".join((opening.encode(), b",".join(node_texts), closing.encode())), Digest(bytes.fromhex(root_hash))


def check_step_count(steps: ProofSteps) -> None:
    """`StepsTooLarge` for more steps than fit, whatever they say."""
    if len(steps) > MAX_PROOF_STEPS:
        raise StepsTooLarge
