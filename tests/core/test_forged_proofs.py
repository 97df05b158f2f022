"""Proofs of another shape than the format's: signed by the issuer himself, and refused by their structure."""

from contextlib import suppress
from random import Random  # noqa: TID251 (seeded)
from typing import Any

import pytest

from bpc.core import canon
from bpc.core.bundle import read_bundle
from bpc.core.verify.bundle import verify_bundle
from bpc.core.verify.proof import Node, described
from tests.core.forging import Change, assert_found, blamed, four_is_five, step
from tests.core.passports import (
    KEY,
    Draft,
    forged,
    rich,
)
from tests.measuring import effort

# The shape of the proof


def payload_differs(draft: Draft) -> None:
    draft.payload["fields"]["arithmetic"]["four"] = 5


def truth_for_a_number(draft: Draft) -> None:
    """To Python, True == 1."""
    draft.payload["fields"]["summary"]["parts"] = True
    draft.field("summary")["data"]["value"] = {"label": "Traction battery B", "parts": 1}


def field_without_proof(draft: Draft) -> None:
    draft.payload["fields"]["extra"] = 1


def audiences_without_proof(draft: Draft) -> None:
    draft.payload["access"]["extra"] = []


def audiences_differ(draft: Draft) -> None:
    draft.payload["access"]["arithmetic.four"] = ["public"]


def value_is_gone(draft: Draft) -> None:
    del draft.payload["fields"]["arithmetic"]


def ids_shifted(draft: Draft) -> None:
    for node in draft.nodes:
        node["id"] += 1


def id_twice(draft: Draft) -> None:
    draft.nodes[-1]["id"] -= 1


def id_is_true(draft: Draft) -> None:
    draft.nodes[1]["id"] = True


def forward_child(draft: Draft) -> None:
    at = draft.count + 1
    draft.nodes[at]["children"] = [at + 1]


def own_child(draft: Draft) -> None:
    node = draft.nodes[-1]
    node["children"].append(node["id"])


def cycle(draft: Draft) -> None:
    parent = draft.result("arithmetic.four")
    draft.nodes[parent["children"][0]]["children"] = [parent["id"]]


def child_among_the_fields(draft: Draft) -> None:
    draft.nodes[-1]["children"].append(0)


def child_that_is_not_there(draft: Draft) -> None:
    draft.nodes[-1]["children"].append(10**30)


def unreachable(draft: Draft) -> None:
    draft.add("CONST", {"type": "Int", "value": 12345}, [])


def stored_twice(draft: Draft) -> None:
    node = draft.result("arithmetic.four")
    again = draft.add("OP", dict(node["data"]), list(node["children"]))
    draft.nodes[draft.field("summary")["children"][0]]["children"].append(again)
    draft.relay()


def additional_member(draft: Draft) -> None:
    draft.nodes[3]["note"] = "trust me"


def additional_member_of_the_proof(draft: Draft) -> None:
    draft.proof["note"] = "trust me"


def additional_member_of_a_field(draft: Draft) -> None:
    draft.field("arithmetic.four")["data"]["note"] = "trust me"


def additional_member_of_the_root(draft: Draft) -> None:
    draft.root["data"]["note"] = "trust me"


def unknown_type(draft: Draft) -> None:
    draft.nodes[-1]["type"] = "TRUST"


def data_as_a_list(draft: Draft) -> None:
    draft.nodes[-1]["data"] = ["op"]


def path_relabelled(draft: Draft) -> None:
    draft.field("arithmetic.four")["data"]["path"] = "arithmetic.gour"


def index_permuted(draft: Draft) -> None:
    index = draft.proof["field_index"]
    index["arithmetic.four"], index["arithmetic.seven"] = index["arithmetic.seven"], index["arithmetic.four"]


def index_too_short(draft: Draft) -> None:
    del draft.proof["field_index"]["arithmetic.four"]


def index_too_long(draft: Draft) -> None:
    draft.proof["field_index"]["extra"] = 0


def fields_exchanged(draft: Draft) -> None:
    one, other = draft.nodes[0], draft.nodes[1]
    one["data"], other["data"] = other["data"], one["data"]


def shared_derivation(draft: Draft) -> None:
    draft.nodes[1]["children"] = draft.nodes[0]["children"]


def field_on_a_step(draft: Draft) -> None:
    draft.field("arithmetic.four")["children"] = [draft.result("arithmetic.four")["id"]]


def field_on_two_steps(draft: Draft) -> None:
    draft.field("arithmetic.four")["children"] *= 2


def root_without_a_field(draft: Draft) -> None:
    draft.root["children"].pop()


def root_with_other_audiences(draft: Draft) -> None:
    draft.root["data"]["access"][0] = ["public"]


def other_product(draft: Draft) -> None:
    draft.root["data"]["battery_product"]["name"] = "Another battery"


def no_nodes(draft: Draft) -> None:
    draft.replaced["proof.json"] = canon.encode({**draft.proof, "nodes": []})


def other_version(draft: Draft) -> None:
    draft.proof["proof_version"] = "BPC-PROOF-2"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (payload_differs, "`arithmetic.four` has another value in the payload than in its proof, where it is 4"),
        (truth_for_a_number, "`summary` has another value in the payload"),
        (field_without_proof, "the payload holds something in its fields that has no proof"),
        (audiences_without_proof, "the payload names the audiences of `extra`, which has no proof"),
        (audiences_differ, "the payload does not give `arithmetic.four` the audiences that its proof has"),
        (value_is_gone, "`arithmetic.four` has another value in the payload"),
        (ids_shifted, "node 0 of the proof does not have its place as its id"),
        (id_twice, "does not have its place as its id"),
        (id_is_true, "node 1 of the proof does not have its place as its id"),
        (forward_child, "has a child that does not stand between the root and itself"),
        (own_child, "has a child that does not stand between the root and itself"),
        (cycle, "has a child that does not stand between the root and itself"),
        (child_among_the_fields, "has a child that does not stand between the root and itself"),
        (child_that_is_not_there, "has a child that does not stand between the root and itself"),
        (unreachable, "of the proof belongs to nothing"),
        (stored_twice, "of the proof are the same step, stored twice"),
        (additional_member, "node 3 of the proof has other members than children, data, hash, id, type"),
        (additional_member_of_the_proof, "proof.json has a member `note`"),
        (additional_member_of_a_field, "a field has a member `note`"),
        (additional_member_of_the_root, "the root has a member `note`"),
        (unknown_type, "has a type that proofs do not have"),
        (path_relabelled, "`field_index` of the proof does not lead to node 0 for `arithmetic.gour`"),
        (index_permuted, "`field_index` of the proof does not lead to node 0 for `arithmetic.four`"),
        (index_too_short, "the root"),
        (index_too_long, "a field has no"),
        (fields_exchanged, "the proof's field nodes are not in order"),
        (shared_derivation, "nodes 0 and 1 of the proof, fields, share a derivation"),
        (field_on_a_step, "node 0 of the proof, a field, does not stand on a derivation"),
        (field_on_two_steps, "node 0 of the proof, a field, does not have one step as its child"),
        (root_without_a_field, "does not have exactly the fields as its children"),
        (root_with_other_audiences, "names other audiences than the fields"),
        (other_product, "the proof is of another battery product than the payload"),
        (no_nodes, "the proof has 0 nodes, too few"),
        (other_version, "`proof_version` is not `BPC-PROOF-1`"),
        (data_as_a_list, "has data that are not an object"),
    ],
)
def test_a_proof_of_another_shape_is_found(change: Change, says: str) -> None:
    found = verify_bundle(forged(rich(), change), pinned=[KEY])

    # The evaluator may find it too; the structure is blamed in any case, and first.
    assert blamed(found)[0] == "proof_structure", found
    assert says in step(found, "proof_structure").detail
    assert set(blamed(found)) <= {"proof_structure", "proof_steps"}


FIELDS = Draft.of(rich()).count
NODES = Draft.of(rich()).nodes


@pytest.mark.parametrize(
    ("at", "members", "says"),
    [
        (20, {"children": "14"}, "node 20 of the proof has children that are not ids"),
        (20, {"children": {}}, "node 20 of the proof has children that are not ids"),
        (20, {"children": [-1]}, "node 20 of the proof has children that are not ids"),
        (20, {"children": [True]}, "node 20 of the proof has children that are not ids"),
        (20, {"children": ["14"]}, "node 20 of the proof has children that are not ids"),
        (20, {"children": [FIELDS]}, "node 20 of the proof has a child that does not stand between"),
        (20, {"children": [20]}, "node 20 of the proof has a child that does not stand between"),
        (20, {"type": ["OP"]}, "node 20 of the proof has a type that proofs do not have"),
        (20, {"type": None}, "node 20 of the proof has a type that proofs do not have"),
        (20, {"type": "op"}, "node 20 of the proof has a type that proofs do not have"),
        (20, {"data": None}, "node 20 of the proof has data that are not an object"),
        (20, {"data": "op"}, "node 20 of the proof has data that are not an object"),
        (20, {"hash": None}, "node 20 of the proof has a hash that is not a text"),
        (20, {"hash": 0}, "node 20 of the proof has a hash that is not a text"),
        (20, {"id": "20"}, "node 20 of the proof does not have its place as its id"),
        (20, {"id": 21}, "node 20 of the proof does not have its place as its id"),
        (FIELDS, {"type": "CONST"}, "the root, does not have exactly the fields as its children"),
        (0, {"type": "CONST"}, "node 0 of the proof, a field, does not have one step as its child"),
        (0, {"children": []}, "node 0 of the proof, a field, does not have one step as its child"),
        (0, {"children": [1]}, "node 0 of the proof, a field, does not have one step as its child"),
        (0, {"children": [FIELDS]}, "node 0 of the proof, a field, does not have one step as its child"),
        (0, {"children": [len(NODES)]}, "node 0 of the proof, a field, does not have one step as its child"),
        (NODES[0]["children"][0], {"type": "ASSERT"}, "node 0 of the proof, a field, does not stand on a derivation"),
        (1, {"data": NODES[0]["data"]}, "the proof's field nodes are not in order: `arithmetic.four` stands too late"),
    ],
)
def test_a_node_of_another_shape_is_found(at: int, members: dict[str, Any], says: str) -> None:
    nodes = [*NODES[:at], {**NODES[at], **members}, *NODES[at + 1 :]]

    def change(draft: Draft) -> None:
        draft.replaced["proof.json"] = canon.encode({**draft.proof, "nodes": nodes})

    assert says in step(verify_bundle(forged(rich(), change)), "proof_structure").detail


@pytest.mark.parametrize("node", [None, 0, [], {}, "children data hash id type"])
def test_a_node_that_is_none_is_found(node: object) -> None:
    def change(draft: Draft) -> None:
        draft.replaced["proof.json"] = canon.encode({**draft.proof, "nodes": [*NODES[:20], node, *NODES[21:]]})

    assert "node 20 of the proof has other members" in step(verify_bundle(forged(rich(), change)), "proof_steps").detail


@pytest.mark.parametrize("kept", [FIELDS, FIELDS - 1])
def test_a_proof_without_a_root_is_found(kept: int) -> None:
    def change(draft: Draft) -> None:
        draft.replaced["proof.json"] = canon.encode({**draft.proof, "nodes": NODES[:kept]})

    found = step(verify_bundle(forged(rich(), change)), "proof_structure")

    assert found.detail == f"the proof has {kept} nodes, too few for {FIELDS} fields and a root"


@pytest.mark.parametrize("at", [0, FIELDS - 1, FIELDS, FIELDS + 1, len(NODES) - 1])
def test_a_node_with_a_hash_of_its_own_is_found(at: int) -> None:
    def change(draft: Draft) -> None:
        draft.nodes[at]["hash"] = "0" * 64
        draft.proof["root_hash"] = draft.root["hash"]

    found = verify_bundle(forged(rich(), change, keep={"hashes"}))

    assert f"node {at} of the proof (" in step(found, "proof_structure").detail
    assert "does not have the hash it claims" in step(found, "proof_structure").detail


def test_a_root_hash_that_is_not_the_roots_is_found() -> None:
    def change(draft: Draft) -> None:
        draft.proof["root_hash"] = "0" * 64

    found = verify_bundle(forged(rich(), change, keep={"hashes"}))

    assert_found(found, "proof_structure", f"and `root_hash` says {'0' * 64}")


def test_a_value_where_the_payload_has_a_folder_is_found() -> None:
    def change(draft: Draft) -> None:
        draft.payload["fields"]["arithmetic"] = 4

    assert_found(verify_bundle(forged(rich(), change)), "proof_structure", "`arithmetic.four` has another value")


def test_what_is_long_is_cut_in_a_report() -> None:
    def value(draft: Draft) -> None:
        draft.field("battery.name")["data"]["value"] = "n" * 100

    def audiences(draft: Draft) -> None:
        draft.payload["access"]["n" * 81] = []

    def compliance(draft: Draft) -> None:
        draft.payload["compliance"].append({"code": "n" * 81, "field": "x", "message": "", "status": "PASS"})

    def member(draft: Draft) -> None:
        draft.result("arithmetic.four")["data"]["n" * 81] = 1

    def path(draft: Draft) -> None:
        draft.field("arithmetic.four")["data"]["path"] = "N" * 81
        draft.entries["rules.bpc"] = b""

    def detail(change: Change, name: str) -> str:
        return step(verify_bundle(forged(rich(), change)), name).detail

    assert detail(value, "proof_structure").endswith(f'where it is "{"n" * 79}')
    assert f"the audiences of `{'n' * 80}`," in detail(audiences, "proof_structure")
    assert f", `{'n' * 80}`, does not come from the rules" in detail(compliance, "proof_steps")
    assert f"has a `{'n' * 80}` in the proof" in detail(member, "proof_steps")
    assert f"field `{'N' * 80}` is in the proof and not in the rules" in detail(path, "proof_steps")


def test_nodes_are_named_in_a_few_words() -> None:
    def node(kind: str, **data: Any) -> Node:
        return Node(kind, data, b"", [], "")

    assert described(node("CONST", value=1)) == "CONST"
    assert described(node("OP", op=1)) == "OP"
    assert described(node("OP", op="n" * 40)) == f"OP `{'n' * 40}`"
    assert described(node("OP", op="n" * 41)) == f"OP `{'n' * 40}`"


def test_a_proof_of_another_root_hash_than_the_receipt_names_is_found() -> None:
    found = verify_bundle(forged(rich(), four_is_five, keep={"receipt", "qr"}))

    assert "and the receipt names" in step(found, "proof_structure").detail
    assert blamed(found) == ["payload_hash", "proof_structure", "proof_steps"]


JUNK: list[Any] = [
    None,
    True,
    0,
    1,
    -1,
    2**70,
    "",
    "0",
    "0.00",
    "PASS",
    "then",
    [],
    [0],
    {},
    {"unit": "kg", "value": "1"},
]


def anything(draft: Draft, rng: Random) -> None:
    """One thing in one node becomes another."""
    node = rng.choice(draft.nodes)
    choice = rng.random()
    if choice < 0.6 and node["data"]:
        node["data"][rng.choice([*sorted(node["data"]), "value", "note"])] = rng.choice(JUNK)
    elif choice < 0.7 and node["data"]:
        del node["data"][rng.choice(sorted(node["data"]))]
    elif choice < 0.8:
        node["type"] = rng.choice(["CONST", "FACT_GET", "FIELD_REF", "OP", "ASSERT", "COMPLIANCE_EMIT"])
    elif choice < 0.9 and node["children"]:
        node["children"][rng.randrange(len(node["children"]))] = rng.randrange(len(draft.nodes))
    else:
        node["children"] = [*node["children"], rng.randrange(len(draft.nodes))][rng.randint(0, 1) :]


@pytest.mark.repeats
def test_any_change_of_any_node_is_found_though_everything_is_signed_anew() -> None:
    rng = Random(7)
    honest = rich()
    proof = read_bundle(honest).entries["proof.json"]
    for _ in range(effort(test=150, shown=10_000, campaign=100_000)):
        with suppress(StopIteration):  # there is no root any more, and so nothing to sign
            changed = forged(honest, lambda draft: anything(draft, rng))
            same = read_bundle(changed).entries["proof.json"] == proof
            report = verify_bundle(changed, pinned=[KEY])
            assert report.ok == same
            assert same or set(blamed(report)) <= {"proof_structure", "proof_steps"}, report
