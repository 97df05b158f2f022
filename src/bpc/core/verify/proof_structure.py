"""Step `proof_structure`: proof.json is one hash-linked computation, laid out as BPC-PROOF-1 says, of this payload.

Pure. This shows that nothing changed since signing. That the computation is the one the rules ask for is another step
(bpc.core.verify.steps).

Checks:
   1. proof.json and every node have exactly their members, of the right kinds; a node's id is its place
   2. k fields: nodes 0…k−1 are the field nodes by path, each with the members of one
   3. node k is the root; its children are 0…k−1, and it repeats their access
   4. the others are steps; a step's children stand between the root and itself, so there are no cycles
   5. a field's one child is a derivation step, and no two fields share it
   6. equal nodes are stored once
   7. every node but the root is some node's child
   8. every node has the hash of its type, data, id and children's hashes
   9. the root's hash is `root_hash`, and the receipt names it
  10. `field_index` leads to exactly the field nodes
  11. the payload's fields and access are exactly those of the field nodes
  12. the root's product is the payload's and its facts_hash that of facts.jsonl
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from bpc.core import canon
from bpc.core.canon import Json
from bpc.core.digest import sha256, to_hex
from bpc.core.payload import at_path, nested
from bpc.core.verify.forms import (
    HASH,
    LIST,
    PRODUCT,
    SALT,
    TEXT,
    Form,
    Spelling,
    exactly,
    formed,
    is_audience_list,
    is_count,
)
from bpc.core.verify.report import Wrong, counted
from bpc.core.verify.structure import Opened

TYPES: Final = frozenset({"CONST", "FACT_GET", "FIELD_REF", "OP", "ASSERT", "COMPLIANCE_EMIT"})
ANYTHING: Final = Spelling(lambda _: True, "anything")
PROOF: Final[Form] = {
    "field_index": Spelling(
        lambda value: isinstance(value, dict) and all(map(is_count, value.values())), "an object of node ids"
    ),
    "nodes": LIST,
    "proof_version": exactly("BPC-PROOF-1"),
    "root_hash": HASH,
}
FIELD: Final[Form] = {
    "access": Spelling(is_audience_list, "a list of audiences in order"),
    "op": exactly("field"),
    "path": TEXT,
    "salt": SALT,
    "type": TEXT,
    "value": ANYTHING,
}
ROOT: Final[Form] = {
    "access": Spelling(
        lambda value: isinstance(value, list) and all(map(is_audience_list, value)), "a list of the fields' audiences"
    ),
    "battery_product": PRODUCT,
    "facts_hash": HASH,
    "op": exactly("passport"),
}
_NODE: Final = frozenset({"children", "data", "hash", "id", "type"})


class Node(NamedTuple):
    """A node as it stands in proof.json; `encoded` is its data's canonical bytes."""

    type: str
    data: Mapping[str, Any]
    encoded: bytes
    children: Sequence[int]
    hash: str


def check_proof_structure(opened: Opened) -> str:
    proof = formed("proof.json", opened.proof, PROOF)  # 1
    nodes = [_node(at, node) for at, node in enumerate(proof["nodes"])]
    count = len(proof["field_index"])
    _check_layout(nodes, count)
    _check_sharing(nodes, count)
    _check_hashes(nodes, count)
    _check_root_hash(opened, proof["root_hash"], nodes[count])
    _check_index(proof["field_index"], nodes[:count])
    _check_payload(opened, nodes[:count])
    _check_origin(opened, nodes[count])
    return f"{counted(len(nodes), 'node')} for {counted(count, 'field')}, hash-linked up to {proof['root_hash']}"


def nodes_of(opened: Opened) -> tuple[list[Node], int]:
    """The nodes and the number of fields, of a proof whose nodes have their form."""
    proof = formed("proof.json", opened.proof, PROOF)
    return [_node(at, node) for at, node in enumerate(proof["nodes"])], len(proof["field_index"])


def _node(at: int, node: Json) -> Node:
    if not isinstance(node, dict) or node.keys() != _NODE:
        raise Wrong(f"node {at} of the proof has other members than {', '.join(sorted(_NODE))}")
    kind, data, children, hashed = node["type"], node["data"], node["children"], node["hash"]
    if type(node["id"]) is not int or node["id"] != at:
        raise Wrong(f"node {at} of the proof does not have its place as its id")
    if not isinstance(kind, str) or kind not in TYPES:
        raise Wrong(f"node {at} of the proof has a type that proofs do not have")
    if not isinstance(data, dict):
        raise Wrong(f"node {at} of the proof has data that are not an object")
    if not isinstance(children, list) or not all(map(is_count, children)):
        raise Wrong(f"node {at} of the proof has children that are not ids")
    if not isinstance(hashed, str):
        raise Wrong(f"node {at} of the proof has a hash that is not a text")
    return Node(kind, data, canon.encode_typed(data), children, hashed)


def _check_layout(nodes: Sequence[Node], count: int) -> None:
    if len(nodes) <= count:
        raise Wrong(f"the proof has {len(nodes)} nodes, too few for {count} fields and a root")
    for at, node in enumerate(nodes[:count]):  # 2
        formed(f"node {at} of the proof, a field", node.data, FIELD)
    for before, after in pairwise(nodes[:count]):
        if before.data["path"] >= after.data["path"]:
            raise Wrong(f"the proof's field nodes are not in order: `{after.data['path']}` stands too late or twice")
    _check_root(nodes, count)
    for at in range(count + 1, len(nodes)):  # 4
        if not all(count < child < at for child in nodes[at].children):
            raise Wrong(f"node {at} of the proof has a child that does not stand between the root and itself")
    _check_derivations(nodes, count)


def _check_root(nodes: Sequence[Node], count: int) -> None:
    root = nodes[count]
    formed(f"node {count} of the proof, the root", root.data, ROOT)  # 3
    if root.type != "OP" or root.children != list(range(count)):
        raise Wrong(f"node {count} of the proof, the root, does not have exactly the fields as its children")
    if root.data["access"] != [node.data["access"] for node in nodes[:count]]:
        raise Wrong(f"node {count} of the proof, the root, names other audiences than the fields")


def _check_derivations(nodes: Sequence[Node], count: int) -> None:
    owners: dict[int, int] = {}
    for at, node in enumerate(nodes[:count]):  # 5
        if node.type != "OP" or len(node.children) != 1 or not count < node.children[0] < len(nodes):
            raise Wrong(f"node {at} of the proof, a field, does not have one step as its child")
        derivation = node.children[0]
        if nodes[derivation].type != "OP" or nodes[derivation].data.get("op") != "derivation":
            raise Wrong(f"node {at} of the proof, a field, does not stand on a derivation")
        if derivation in owners:
            raise Wrong(f"nodes {owners[derivation]} and {at} of the proof, fields, share a derivation")
        owners[derivation] = at


def _check_sharing(nodes: Sequence[Node], count: int) -> None:
    seen: dict[tuple[str, bytes, tuple[int, ...]], int] = {}
    for at, node in enumerate(nodes):  # 6
        first = seen.setdefault((node.type, node.encoded, tuple(node.children)), at)
        if first != at:
            raise Wrong(f"nodes {first} and {at} of the proof are the same step, stored twice")
    used = {child for node in nodes for child in node.children}
    for at in range(len(nodes)):  # 7
        if at not in used and at != count:
            raise Wrong(f"node {at} of the proof belongs to nothing")


def _check_hashes(nodes: Sequence[Node], count: int) -> None:
    for at in _children_first(len(nodes), count):  # 8
        node = nodes[at]
        # The canonical object, put together from canonical parts: hashes that are compared below, and known types.
        children = b",".join([b'"%b"' % nodes[child].hash.encode() for child in node.children])
        preimage = b'{"children_hashes":[%b],"data":%b,"id":%d,"type":"%b"}' % (
            children,
            node.encoded,
            at,
            node.type.encode(),
        )
        if to_hex(sha256(preimage)) != node.hash:
            raise Wrong(f"node {at} of the proof ({described(node)}) does not have the hash it claims")


def _children_first(total: int, count: int) -> Iterator[int]:
    yield from range(count + 1, total)
    yield from range(count)
    yield count


def _check_root_hash(opened: Opened, claimed: str, root: Node) -> None:
    if root.hash != claimed:  # 9
        raise Wrong(f"the proof's root has the hash {root.hash}, and `root_hash` says {claimed}")
    named = to_hex(opened.receipt.proof_root_hash)
    if named != claimed:
        raise Wrong(f"the proof has the root hash {claimed}, and the receipt names {named}")


def _check_index(index: Mapping[str, int], fields: Sequence[Node]) -> None:
    for at, node in enumerate(fields):  # 10
        path = node.data["path"]
        if index.get(path) != at:
            raise Wrong(f"`field_index` of the proof does not lead to node {at} for `{path}`")


def _check_payload(opened: Opened, fields: Sequence[Node]) -> None:
    payload = opened.payload
    for node in fields:  # 11
        path = node.data["path"]
        if payload["access"].get(path) != node.data["access"]:
            raise Wrong(f"the payload does not give `{path}` the audiences that its proof has")
        found = at_path(payload["fields"], path)
        if not found or canon.encode_typed(found[0]) != canon.encode_typed(node.data["value"]):
            shown = canon.encode_typed(node.data["value"])[:80].decode(errors="replace")
            raise Wrong(f"`{path}` has another value in the payload than in its proof, where it is {shown}")
    if len(payload["access"]) != len(fields):
        extra = min(payload["access"].keys() - {node.data["path"] for node in fields})
        raise Wrong(f"the payload names the audiences of `{extra[:80]}`, which has no proof")
    proven = {node.data["path"]: node.data["value"] for node in fields}
    if canon.encode_typed(nested(proven)) != canon.encode_typed(payload["fields"]):
        raise Wrong("the payload holds something in its fields that has no proof")


def _check_origin(opened: Opened, root: Node) -> None:
    if root.data["battery_product"] != opened.payload["battery_product"]:  # 12
        raise Wrong("the proof is of another battery product than the payload")
    if root.data["facts_hash"] != to_hex(sha256(opened.entries["facts.jsonl"])):
        raise Wrong("facts.jsonl does not have the hash that the proof's root names")


def described(node: Node) -> str:
    """A node in a few words, as sentences name it."""
    op = node.data.get("op")
    return f"{node.type} `{op[:40]}`" if isinstance(op, str) else node.type
