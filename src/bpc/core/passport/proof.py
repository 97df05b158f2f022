"""Proof: a passport's computation, step by step, each step hash-linked to those it used. BPC-PROOF-1.

Pure. A node's hash covers its children's hashes, so the root's hash covers the whole computation. While rules run, a
step is a key: its type, the canonical text of its data, its children's ids. Equal keys are one node; a new key gets
the next id. At the end `assembled` hashes every node and writes the proof's canonical bytes directly.

    steps (dict of key: id) ── derivation, once a field
                            └─ assembled(steps, fields, root) ──► proof bytes, root hash

Nodes 0 … k−1 are the fields by path, k is the root, the steps follow.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256 as hashed
from itertools import islice
from operator import itemgetter
from typing import Final, TypeAlias

from bpc.core import canon
from bpc.core.canon import Json
from bpc.core.digest import Digest, sha256, to_hex
from bpc.core.errors import Refusal

PROOF_VERSION: Final = "BPC-PROOF-1"
# No configuration allows a larger proof, so a larger one need not be put together to be refused.
MAX_PROOF_BYTES: Final = 20_000_000
# Without its data and its children a node takes about 120 bytes, most of them its hash.
_LEAST_NODE_BYTES: Final = 120
MAX_STEPS_OF_A_PROOF: Final = MAX_PROOF_BYTES // _LEAST_NODE_BYTES

Key: TypeAlias = tuple[str, str, tuple[int, ...]]
"""A step: how its text ends, which names its type; its data as canonical JSON; its children."""

Steps = dict[Key, int]
"""The steps in the order they were made, and their ids. Keys are texts, never values: True == 1 in Python."""

OP: Final = ',"type":"OP"}'
CONST: Final = ',"type":"CONST"}'
FACT_GET: Final = ',"type":"FACT_GET"}'
FIELD_REF: Final = ',"type":"FIELD_REF"}'
ASSERT: Final = ',"type":"ASSERT"}'
COMPLIANCE_EMIT: Final = ',"type":"COMPLIANCE_EMIT"}'

_DATA: Final = itemgetter(1)


class StepsTooLarge(Refusal):
    """The steps say more than any proof may."""

    code = "PROOF_TOO_LARGE"

    def __init__(self) -> None:
        super().__init__(
            f"the proof has more than {MAX_PROOF_BYTES:,} bytes",
            fix="make fewer or smaller values",
        )


def node_hash(node_id: int, node_type: str, data: Mapping[str, Json], children_hashes: Iterable[Digest]) -> Digest:
    """BPC-PROOF-HASH-1: SHA-256 of the canonical object of the four, the children's hashes in their order."""
    return sha256(
        canon.encode_typed(
            {
                "children_hashes": [to_hex(child) for child in children_hashes],
                "data": data,
                "id": node_id,
                "type": node_type,
            }
        )
    )


def derivation(steps: Steps, first: int, made_before: int, result: int, data: str) -> int:
    """The node that closes a field: over its result, and over what the field made and nothing refers to.

    `first` is the first step's id, `made_before` how many steps there were before the field.
    """
    next_id = first + len(steps)
    loose = {*range(first + made_before, next_id)}
    loose.difference_update(*[key[2] for key in islice(reversed(steps), len(loose))])
    loose.discard(result)
    return steps.setdefault((OP, data, (result, *sorted(loose))), next_id)


def assembled(steps: Steps, fields: Sequence[Key], root: str, field_index: str) -> tuple[bytes, Digest]:
    """The canonical bytes of the proof, and its root's hash.

    `fields` are in the order of their ids; `root` is the root's data and `field_index` that object, as canonical JSON.
    `StepsTooLarge` instead of hashing and writing what no limit allows.
    """
    last = len(fields)
    refuse_too_many(steps)
    nodes = [*fields, (OP, root, tuple(range(last))), *steps]
    if sum(map(len, map(_DATA, nodes))) > MAX_PROOF_BYTES:
        raise StepsTooLarge
    # Of each node its hash in quotes, and its text; the steps come first, because all others stand on them.
    hashes, written = [""] * len(nodes), [b""] * len(nodes)
    for number in (*range(last + 1, len(nodes)), *range(last + 1)):
        kind, data, children = nodes[number]
        if len(children) == 1:  # most nodes; the general way takes twice as long
            below, ids = hashes[children[0]], str(children[0])
        else:
            below, ids = ",".join([hashes[child] for child in children]), ",".join(map(str, children))
        said = f'{{"children_hashes":[{below}],"data":{data},"id":{number}{kind}'
        hashes[number] = made = f'"{hashed(said.encode()).hexdigest()}"'
        written[number] = f'{{"children":[{ids}],"data":{data},"hash":{made},"id":{number}{kind}'.encode()
    root_hash = hashes[last][1:-1]
    # Joined as bytes: as one text, a single character outside ASCII would make all of it several times as large.
    before = f'{{"field_index":{field_index},"nodes":['
    behind = f'],"proof_version":"{PROOF_VERSION}","root_hash":"{root_hash}"}}'
    return b"".join((before.encode(), b",".join(written), behind.encode())), Digest(bytes.fromhex(root_hash))


def refuse_too_many(steps: Steps) -> None:
    """`StepsTooLarge` for more steps than fit, whatever they say."""
    if len(steps) > MAX_STEPS_OF_A_PROOF:
        raise StepsTooLarge
