"""Step `proof_structure`: proof.json is one hash-linked computation of this payload, laid out as BPC-PROOF-1
and BPC-PROOF-2 say.

Pure. The proof lists every computation as a node; a node's hash covers the hashes of the nodes it uses. This step shows
that nothing changed since signing. That the rules give exactly this computation is the step `proof_steps`.

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

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, Final, NamedTuple

from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.language.reference.derive import DerivationNode
from bpc.core.passport.payload import get_at_path, nest_fields
from bpc.core.passport.proof import PROOF_VERSIONS
from bpc.core.verify import CheckFailed, canonical, format_count
from bpc.core.verify.canonical import (
    ObjectForm,
    OpenedBundle,
    Spelling,
    exactly,
    is_audience_list,
    is_count,
    require_form,
)

NODE_TYPES: Final = frozenset({"CONST", "FACT_GET", "FIELD_REF", "OP", "ASSERT", "COMPLIANCE_EMIT"})
ANYTHING: Final = Spelling(lambda _: True, "anything")
PROOF_FORM: Final[ObjectForm] = {
    "field_index": Spelling(
        lambda value: isinstance(value, dict) and all(map(is_count, value.values())), "an object of node ids"
    ),
    "nodes": canonical.LIST,
    "proof_version": Spelling(lambda value: value in PROOF_VERSIONS.values(), "`BPC-PROOF-1` or `BPC-PROOF-2`"),
    "root_hash": canonical.HASH,
}
FIELD_FORM: Final[ObjectForm] = {
    "access": Spelling(is_audience_list, "a list of audiences in order"),
    "op": exactly("field"),
    "path": canonical.TEXT,
    "salt": canonical.SALT,
    "type": canonical.TEXT,
    "value": ANYTHING,
}
ROOT_FORM: Final[ObjectForm] = {
    "access": Spelling(
        lambda value: isinstance(value, list) and all(map(is_audience_list, value)), "a list of the fields' audiences"
    ),
    "battery_product": canonical.PRODUCT,
    "facts_hash": canonical.HASH,
    "op": exactly("passport"),
}
_NODE_MEMBERS: Final = frozenset({"children", "data", "hash", "id", "type"})


class ParsedNode(NamedTuple):
    """A node as it stands in proof.json; `encoded` is its data's canonical bytes."""

    type: str
    data: Mapping[str, Any]
    encoded: bytes
    children: Sequence[int]
    hash: str


def check_proof_structure(bundle: OpenedBundle) -> str:
    proof = require_form("proof.json", bundle.proof, PROOF_FORM)  # 1
    nodes, count = parse_nodes(bundle)
    _check_layout(nodes, count)
    _check_sharing(nodes, count)
    _check_hashes(nodes, count)
    _check_root_hash(bundle, proof["root_hash"], nodes[count])
    _check_index(proof["field_index"], nodes[:count])
    _check_payload(bundle, nodes[:count])
    _check_product_and_facts(bundle, nodes[count])
    return (
        f"{format_count(len(nodes), 'node')} for {format_count(count, 'field')}, hash-linked up to {proof['root_hash']}"
    )


def parse_nodes(bundle: OpenedBundle) -> tuple[list[ParsedNode], int]:
    """The nodes and the number of fields, of a proof whose nodes have their form."""
    proof = require_form("proof.json", bundle.proof, PROOF_FORM)
    return [_parse_node(at, node) for at, node in enumerate(proof["nodes"])], len(proof["field_index"])


def _parse_node(at: int, node: Json) -> ParsedNode:
    if not isinstance(node, dict) or node.keys() != _NODE_MEMBERS:
        raise CheckFailed(f"node {at} of the proof has other members than {', '.join(sorted(_NODE_MEMBERS))}")
    kind, data, children, node_hash = node["type"], node["data"], node["children"], node["hash"]
    if type(node["id"]) is not int or node["id"] != at:
        raise CheckFailed(f"node {at} of the proof has an id that is not its position")
    if not isinstance(kind, str) or kind not in NODE_TYPES:
        raise CheckFailed(f"node {at} of the proof has an unknown type")
    if not isinstance(data, dict):
        raise CheckFailed(f"node {at} of the proof has `data` that is not an object")
    if not isinstance(children, list) or not all(map(is_count, children)):
        raise CheckFailed(f"node {at} of the proof has children that are not ids")
    if not isinstance(node_hash, str):
        raise CheckFailed(f"node {at} of the proof has a hash that is not a text")
    return ParsedNode(kind, data, canonical_json.encode_typed(data), children, node_hash)


def _check_layout(nodes: Sequence[ParsedNode], count: int) -> None:
    if len(nodes) <= count:
        raise CheckFailed(f"the proof has {len(nodes)} nodes, too few for {count} fields and a root")
    for at, node in enumerate(nodes[:count]):  # 2
        require_form(f"node {at} of the proof, a field", node.data, FIELD_FORM)
    for before, after in pairwise(nodes[:count]):
        if before.data["path"] >= after.data["path"]:
            raise CheckFailed(
                f"the proof's field nodes are not in order: `{after.data['path']}` is out of order or repeated"
            )
    _check_root(nodes, count)
    for at in range(count + 1, len(nodes)):  # 4
        if not all(count < child < at for child in nodes[at].children):
            raise CheckFailed(f"node {at} of the proof has a child that does not stand between the root and itself")
    _check_derivations(nodes, count)


def _check_root(nodes: Sequence[ParsedNode], count: int) -> None:
    root = nodes[count]
    require_form(f"node {count} of the proof, the root", root.data, ROOT_FORM)  # 3
    if root.type != "OP" or root.children != list(range(count)):
        raise CheckFailed(f"node {count} of the proof, the root, does not have exactly the fields as its children")
    if root.data["access"] != [node.data["access"] for node in nodes[:count]]:
        raise CheckFailed(f"node {count} of the proof, the root, names other audiences than the fields")


def _check_derivations(nodes: Sequence[ParsedNode], count: int) -> None:
    owners: dict[int, int] = {}
    for at, node in enumerate(nodes[:count]):  # 5
        if node.type != "OP" or len(node.children) != 1 or not count < node.children[0] < len(nodes):
            raise CheckFailed(f"node {at} of the proof, a field, does not have one step as its child")
        derivation = node.children[0]
        if nodes[derivation].type != "OP" or nodes[derivation].data.get("op") != "derivation":
            raise CheckFailed(f"node {at} of the proof, a field, does not have a derivation as its child")
        if derivation in owners:
            raise CheckFailed(f"nodes {owners[derivation]} and {at} of the proof, fields, share a derivation")
        owners[derivation] = at


def _check_sharing(nodes: Sequence[ParsedNode], count: int) -> None:
    seen: dict[tuple[str, bytes, tuple[int, ...]], int] = {}
    for at, node in enumerate(nodes):  # 6
        first_at = seen.setdefault((node.type, node.encoded, tuple(node.children)), at)
        if first_at != at:
            raise CheckFailed(f"nodes {first_at} and {at} of the proof are identical; equal nodes must be stored once")
    used_ids = {child for node in nodes for child in node.children}
    for at in range(len(nodes)):  # 7
        if at not in used_ids and at != count:
            raise CheckFailed(f"node {at} of the proof is not used by any other node")


def _check_hashes(nodes: Sequence[ParsedNode], count: int) -> None:
    for at in order_steps_first(len(nodes), count):  # 8
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
            raise CheckFailed(f"node {at} of the proof ({describe_node(node)}) does not have the hash it claims")


def order_steps_first(total: int, count: int) -> Iterable[int]:
    """The nodes as they are evaluated: the steps, then the fields that stand on them, then the root."""
    return chain(range(count + 1, total), range(count + 1))


def _check_root_hash(bundle: OpenedBundle, claimed_hash: str, root: ParsedNode) -> None:
    if root.hash != claimed_hash:  # 9
        raise CheckFailed(f"the proof's root has the hash {root.hash}, and `root_hash` says {claimed_hash}")
    receipt_root_hash = to_hex(bundle.receipt.proof_root_hash)
    if receipt_root_hash != claimed_hash:
        raise CheckFailed(f"the proof has the root hash {claimed_hash}, and the receipt names {receipt_root_hash}")


def _check_index(index: Mapping[str, int], fields: Sequence[ParsedNode]) -> None:
    for at, node in enumerate(fields):  # 10
        path = node.data["path"]
        if index.get(path) != at:
            raise CheckFailed(f"`field_index` of the proof does not lead to node {at} for `{path}`")


def _check_payload(bundle: OpenedBundle, fields: Sequence[ParsedNode]) -> None:
    payload = bundle.payload
    for node in fields:  # 11
        path = node.data["path"]
        if payload["access"].get(path) != node.data["access"]:
            raise CheckFailed(f"the payload does not give `{path}` the audiences that its proof has")
        payload_value = get_at_path(payload["fields"], path)
        if not payload_value or canonical_json.encode_typed(payload_value[0]) != canonical_json.encode_typed(
            node.data["value"]
        ):
            value_text = canonical_json.encode_typed(node.data["value"])[:80].decode(errors="replace")
            raise CheckFailed(f"`{path}` has another value in the payload than in its proof, where it is {value_text}")
    if len(payload["access"]) != len(fields):
        extra = min(payload["access"].keys() - {node.data["path"] for node in fields})
        raise CheckFailed(f"the payload names the audiences of `{extra[:80]}`, which has no proof")
    proven_values = {node.data["path"]: node.data["value"] for node in fields}
    if canonical_json.encode_typed(nest_fields(proven_values)) != canonical_json.encode_typed(payload["fields"]):
        raise CheckFailed("the payload holds something in its fields that has no proof")


def _check_product_and_facts(bundle: OpenedBundle, root: ParsedNode) -> None:
    if root.data["battery_product"] != bundle.payload["battery_product"]:  # 12
        raise CheckFailed("the proof is of another battery product than the payload")
    if root.data["facts_hash"] != to_hex(sha256(bundle.entries["facts.jsonl"])):
        raise CheckFailed("facts.jsonl does not have the hash that the proof's root names")


def describe_node(node: ParsedNode | DerivationNode) -> str:
    """A node in a few words, as sentences name it."""
    op = node.data.get("op")
    return f"{node.type} `{op[:40]}`" if isinstance(op, str) else node.type
