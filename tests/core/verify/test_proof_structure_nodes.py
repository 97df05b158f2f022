"""A proof with a node of another shape, or of another root, is found and named."""

from typing import Any

import pytest

from bpc.core.formats import canonical_json
from bpc.core.verify.bundle import verify_bundle
from bpc.core.verify.proof_structure import ParsedNode, describe_node
from tests.core.sample_passports import BundleDraft, forge_bundle, make_rich_bundle
from tests.core.verify.forging import Change, assert_detected, claim_four_is_five, get_step, list_failed_steps

FIELDS = BundleDraft.from_bundle(make_rich_bundle()).field_count
NODES = BundleDraft.from_bundle(make_rich_bundle()).nodes


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
        (20, {"type": ["OP"]}, "node 20 of the proof has an unknown type"),
        (20, {"type": None}, "node 20 of the proof has an unknown type"),
        (20, {"type": "op"}, "node 20 of the proof has an unknown type"),
        (20, {"data": None}, "node 20 of the proof has `data` that is not an object"),
        (20, {"data": "op"}, "node 20 of the proof has `data` that is not an object"),
        (20, {"hash": None}, "node 20 of the proof has a hash that is not a text"),
        (20, {"hash": 0}, "node 20 of the proof has a hash that is not a text"),
        (20, {"id": "20"}, "node 20 of the proof has an id that is not its position"),
        (20, {"id": 21}, "node 20 of the proof has an id that is not its position"),
        (FIELDS, {"type": "CONST"}, "the root, does not have exactly the fields as its children"),
        (0, {"type": "CONST"}, "node 0 of the proof, a field, does not have one step as its child"),
        (0, {"children": []}, "node 0 of the proof, a field, does not have one step as its child"),
        (0, {"children": [1]}, "node 0 of the proof, a field, does not have one step as its child"),
        (0, {"children": [FIELDS]}, "node 0 of the proof, a field, does not have one step as its child"),
        (0, {"children": [len(NODES)]}, "node 0 of the proof, a field, does not have one step as its child"),
        (
            NODES[0]["children"][0],
            {"type": "ASSERT"},
            "node 0 of the proof, a field, does not have a derivation as its child",
        ),
        (
            1,
            {"data": NODES[0]["data"]},
            "the proof's field nodes are not in order: `arithmetic.four` is out of order or repeated",
        ),
    ],
)
def test_a_node_of_another_shape_is_found(at: int, members: dict[str, Any], says: str) -> None:
    nodes = [*NODES[:at], {**NODES[at], **members}, *NODES[at + 1 :]]

    def change(draft: BundleDraft) -> None:
        draft.replaced["proof.json"] = canonical_json.encode({**draft.proof, "nodes": nodes})

    assert says in get_step(verify_bundle(forge_bundle(make_rich_bundle(), change)), "proof_structure").detail


@pytest.mark.parametrize("node", [None, 0, [], {}, "children data hash id type"])
def test_something_that_is_not_a_node_is_found(node: object) -> None:
    def change(draft: BundleDraft) -> None:
        draft.replaced["proof.json"] = canonical_json.encode({**draft.proof, "nodes": [*NODES[:20], node, *NODES[21:]]})

    assert (
        "node 20 of the proof has other members"
        in get_step(verify_bundle(forge_bundle(make_rich_bundle(), change)), "proof_steps").detail
    )


@pytest.mark.parametrize("kept", [FIELDS, FIELDS - 1])
def test_a_proof_without_a_root_is_found(kept: int) -> None:
    def change(draft: BundleDraft) -> None:
        draft.replaced["proof.json"] = canonical_json.encode({**draft.proof, "nodes": NODES[:kept]})

    step_result = get_step(verify_bundle(forge_bundle(make_rich_bundle(), change)), "proof_structure")

    assert step_result.detail == f"the proof has {kept} nodes, too few for {FIELDS} fields and a root"


@pytest.mark.parametrize("at", [0, FIELDS - 1, FIELDS, FIELDS + 1, len(NODES) - 1])
def test_a_node_with_a_hash_of_its_own_is_found(at: int) -> None:
    def change(draft: BundleDraft) -> None:
        draft.nodes[at]["hash"] = "0" * 64
        draft.proof["root_hash"] = draft.root["hash"]

    report = verify_bundle(forge_bundle(make_rich_bundle(), change, keep={"hashes"}))

    assert f"node {at} of the proof (" in get_step(report, "proof_structure").detail
    assert "does not have the hash it claims" in get_step(report, "proof_structure").detail


def test_a_root_hash_that_is_not_the_roots_is_found() -> None:
    def change(draft: BundleDraft) -> None:
        draft.proof["root_hash"] = "0" * 64

    report = verify_bundle(forge_bundle(make_rich_bundle(), change, keep={"hashes"}))

    assert_detected(report, "proof_structure", f"and `root_hash` says {'0' * 64}")


def test_a_value_where_the_payload_has_a_folder_is_found() -> None:
    def change(draft: BundleDraft) -> None:
        draft.payload["fields"]["arithmetic"] = 4

    assert_detected(
        verify_bundle(forge_bundle(make_rich_bundle(), change)),
        "proof_structure",
        "`arithmetic.four` has another value",
    )


def test_what_is_long_is_cut_in_a_report() -> None:
    def value(draft: BundleDraft) -> None:
        draft.find_field("battery.name")["data"]["value"] = "n" * 100

    def audiences(draft: BundleDraft) -> None:
        draft.payload["access"]["n" * 81] = []

    def compliance(draft: BundleDraft) -> None:
        draft.payload["compliance"].append({"code": "n" * 81, "field": "x", "message": "", "status": "PASS"})

    def member(draft: BundleDraft) -> None:
        draft.find_result("arithmetic.four")["data"]["n" * 81] = 1

    def path(draft: BundleDraft) -> None:
        draft.find_field("arithmetic.four")["data"]["path"] = "N" * 81
        draft.entries["rules.bpc"] = b""

    def detail(change: Change, name: str) -> str:
        return get_step(verify_bundle(forge_bundle(make_rich_bundle(), change)), name).detail

    assert detail(value, "proof_structure").endswith(f'where it is "{"n" * 79}')
    assert f"the audiences of `{'n' * 80}`," in detail(audiences, "proof_structure")
    assert f", `{'n' * 80}`, does not come from the rules" in detail(compliance, "proof_steps")
    assert f"has a `{'n' * 80}` in the proof" in detail(member, "proof_steps")
    assert f"field `{'N' * 80}` is in the proof and not in the rules" in detail(path, "proof_steps")


def test_nodes_are_named_in_a_few_words() -> None:
    def node(kind: str, **data: Any) -> ParsedNode:
        return ParsedNode(kind, data, b"", [], "")

    assert describe_node(node("CONST", value=1)) == "CONST"
    assert describe_node(node("OP", op=1)) == "OP"
    assert describe_node(node("OP", op="n" * 40)) == f"OP `{'n' * 40}`"
    assert describe_node(node("OP", op="n" * 41)) == f"OP `{'n' * 40}`"


def test_a_proof_of_another_root_hash_than_the_receipt_names_is_found() -> None:
    report = verify_bundle(forge_bundle(make_rich_bundle(), claim_four_is_five, keep={"receipt", "qr"}))

    assert "and the receipt names" in get_step(report, "proof_structure").detail
    assert list_failed_steps(report) == ["payload_hash", "proof_structure", "proof_steps"]
