"""Forgeries: an issuer who signs whatever he wants is found out by any stranger with the bundle, and at the right step.

Every forgery here is hash-consistent and signed with the right key, unless it says otherwise; so what finds it is not
a hash but the check that is meant to. A forgery of a view is made by somebody without the key.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from random import Random  # noqa: TID251 (seeded)
from typing import Any
from uuid import UUID

import pytest

from bpc.core import canon
from bpc.core.bundle import Bundle, read_bundle, write_bundle
from bpc.core.digest import sha256, to_hex
from bpc.core.events import EMPTY, Event, Said, Stream
from bpc.core.ids import ActorId, AggregateId
from bpc.core.qr import qr_png
from bpc.core.receipt import signed
from bpc.core.signing import to_base64
from bpc.core.verify import steps
from bpc.core.verify.bundle import verify_bundle, verify_view
from bpc.core.verify.proof import Node, described
from bpc.core.verify.report import Report, Step
from bpc.core.view import make_view
from tests.core.passports import (
    ISSUED,
    KEY,
    OTHER_KEY,
    OTHER_SEED,
    SEED,
    Draft,
    audited,
    chain,
    compile_input,
    event_line,
    forged,
    rich,
    small,
)
from tests.measuring import effort

Change = Callable[[Draft], object]


def blamed(report: Report) -> list[str]:
    """The steps that were checked and do not hold."""
    return [step.name for step in report.steps if not step.ok and not step.detail.startswith("not checked")]


def step(report: Report, name: str) -> Step:
    return next(step for step in report.steps if step.name == name)


def assert_found(report: Report, name: str, says: str) -> None:
    assert not report.ok
    assert blamed(report) == [name], report
    assert says in step(report, name).detail


def test_the_forger_changes_nothing_but_what_he_wants_to() -> None:
    for honest in (small(), rich(), audited()):
        assert forged(honest, lambda draft: None) == honest


# The computation


def four_is_five(draft: Draft) -> None:
    draft.result("arithmetic.four")["data"]["value"] = 5
    draft.set_value("arithmetic.four", 5)


def constant_for_a_computation(draft: Draft) -> None:
    derivation = draft.nodes[draft.field("pcf.per_kwh")["children"][0]]
    derivation["children"] = [draft.add("CONST", {"type": "Dec(2)", "value": "80.00"}, [])]
    draft.relay()


def times_for_plus(draft: Draft) -> None:
    draft.result("arithmetic.four")["data"]["op"] = "*"


def assertion_for_plus(draft: Draft) -> None:
    draft.result("arithmetic.four")["type"] = "ASSERT"


def at_most_for_below(draft: Draft) -> None:
    draft.result("arithmetic.seven")["data"]["op"] = "<="


def comparison_of_texts(draft: Draft) -> None:
    draft.result("arithmetic.seven")["data"]["of"] = "Text"


def another_result_and_class(draft: Draft) -> None:
    """Consistently better: every node that follows from the number says what follows from it."""
    for node in draft.nodes:
        if node["data"].get("value") == "80.00":
            node["data"]["value"] = "60.00"
    draft.set_value("pcf.per_kwh", "60.00")


def swapped_operands(draft: Draft) -> None:
    node = draft.result("arithmetic.seven")
    node["children"].reverse()


def other_branch(draft: Draft) -> None:
    draft.node(op="if", branch="then")["data"]["branch"] = "else"


def another_place_of_the_lambda(draft: Draft) -> None:
    draft.node(op="map")["data"]["fn"][0] += 1


def additional_data(draft: Draft) -> None:
    draft.result("arithmetic.four")["data"]["note"] = "trust me"


def assertion_left_out(draft: Draft) -> None:
    derivation = draft.nodes[draft.field("pcf.per_kwh")["children"][0]]
    assertion = draft.nodes[derivation["children"][0]]
    derivation["children"][0] = assertion["children"][1]
    draft.relay()


def unused_let_left_out(draft: Draft) -> None:
    derivation = draft.nodes[draft.field("battery.capacity_kwh")["children"][0]]
    del derivation["children"][1:]
    draft.relay()


def another_message(draft: Draft) -> None:
    draft.node(op="assert")["data"]["message"] = "all is well"


def another_type(draft: Draft) -> None:
    draft.field("arithmetic.four")["data"]["type"] = "Dec(0)"


def salt_of_a_field(draft: Draft) -> None:
    draft.field("arithmetic.four")["data"]["salt"] = "0" * 32


def salt_of_a_derivation(draft: Draft) -> None:
    draft.nodes[draft.field("arithmetic.four")["children"][0]]["data"]["salt"] = "0" * 32


def salt_of_the_payload(draft: Draft) -> None:
    draft.payload["salt"] = "0" * 32


def everybody_may_see(draft: Draft) -> None:
    draft.field("arithmetic.four")["data"]["access"] = ["public"]
    draft.payload["access"]["arithmetic.four"] = ["public"]
    draft.relay()


def field_left_out(draft: Draft) -> None:
    draft.nodes.remove(draft.field("arithmetic.seven"))
    for at, node in enumerate(draft.nodes):
        node["children"] = [child - (child > 1) for child in node["children"] if child != 1]
        node["id"] = at
    del draft.payload["fields"]["arithmetic"]["seven"]
    del draft.payload["access"]["arithmetic.seven"]
    draft.relay()


def field_made_up(draft: Draft) -> None:
    constant = draft.add("CONST", {"type": "Int", "value": 1}, [])
    derivation = draft.add("OP", {"op": "derivation", "salt": "0" * 32}, [constant])
    data = {"access": [], "op": "field", "path": "made.up", "salt": "0" * 32, "type": "Int", "value": 1}
    draft.add("OP", data, [derivation])
    draft.payload["fields"]["made"] = {"up": 1}
    draft.payload["access"]["made.up"] = []
    draft.relay()


def path_relabelled_everywhere(draft: Draft) -> None:
    draft.field("arithmetic.four")["data"]["path"] = "arithmetic.vier"
    draft.payload["fields"]["arithmetic"]["vier"] = draft.payload["fields"]["arithmetic"].pop("four")
    draft.payload["access"]["arithmetic.vier"] = draft.payload["access"].pop("arithmetic.four")
    draft.relay()


def compliance_left_out(draft: Draft) -> None:
    draft.payload["compliance"].pop()


def compliance_made_better(draft: Draft) -> None:
    draft.payload["compliance"][1]["status"] = "WARN"


def compliance_made_up(draft: Draft) -> None:
    entry = {"code": "ISO", "field": "duties.qr", "message": "certified", "status": "PASS"}
    draft.payload["compliance"].append(entry)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (four_is_five, "field `arithmetic.four`, node 15 (rules.bpc:10:43): 2 + 2 is 4, not 5"),
        (constant_for_a_computation, "field `pcf.per_kwh`"),
        (times_for_plus, "the rules make OP `+` here, and the proof has OP `*`"),
        (assertion_for_plus, "the rules make OP `+` here, and the proof has ASSERT `+`"),
        (at_most_for_below, "the rules make OP `<` here, and the proof has OP `<=`"),
        (comparison_of_texts, 'the `of` of OP `<` is "Int", not "Text"'),
        (another_result_and_class, '"80.00", not "60.00"'),
        (swapped_operands, "OP `<` is made from nodes"),
        (other_branch, 'the `branch` of OP `if` is "then", not "else"'),
        (another_place_of_the_lambda, "the `fn` of OP `map` is"),
        (additional_data, "has a `note` in the proof, which does not belong there"),
        (assertion_left_out, "field `pcf.per_kwh`"),
        (unused_let_left_out, "field `battery.capacity_kwh`"),
        (another_message, "the `message` of ASSERT `assert`"),
        (another_type, 'the `type` of OP `field` is "Int", not "Dec(0)"'),
        (salt_of_a_field, "the `salt` of OP `field`"),
        (salt_of_a_derivation, "the `salt` of OP `derivation`"),
        (salt_of_the_payload, "`salt` is not made from the snapshot's secret"),
        (everybody_may_see, 'the `access` of OP `field` is ["authority"], not ["public"]'),
        (field_left_out, "field `arithmetic.seven` is in the rules and not in the proof"),
        (field_made_up, "field `made.up` is in the proof and not in the rules"),
        (path_relabelled_everywhere, "field `arithmetic.four` is in the rules and not in the proof"),
        (compliance_left_out, "compliance entry 1, `MASS` of field `duties.qr`"),
        (compliance_made_better, "compliance entry 1, `MASS` of field `duties.qr`"),
        (compliance_made_up, "compliance entry 2 of the payload, `ISO`, does not come from the rules"),
    ],
)
def test_a_computation_that_the_rules_do_not_ask_for_is_found(change: Change, says: str) -> None:
    assert_found(verify_bundle(forged(rich(), change), pinned=[KEY]), "proof_steps", says)


def first_step_changed(draft: Draft) -> None:
    draft.nodes[draft.count + 1]["data"]["value"] = 3


def node_added(draft: Draft) -> None:
    draft.add("CONST", {"type": "Int", "value": 12345}, [])


def node_left_out(draft: Draft) -> None:
    draft.replaced["proof.json"] = canon.encode({**draft.proof, "nodes": draft.nodes[:-1]})


def member_left_out(draft: Draft) -> None:
    del draft.result("arithmetic.seven")["data"]["of"]


def value_and_operands(draft: Draft) -> None:
    node = draft.result("arithmetic.seven")
    node["data"]["value"] = False
    node["children"].reverse()


def value_of_a_comparison(draft: Draft) -> None:
    draft.result("arithmetic.seven")["data"]["value"] = False


def value_of_a_division(draft: Draft) -> None:
    draft.node(op="/")["data"]["value"] = "81"


def product_of_the_root(draft: Draft) -> None:
    draft.root["data"]["battery_product"]["name"] = "Another battery"


def all_compliance_left_out(draft: Draft) -> None:
    draft.payload["compliance"].clear()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (first_step_changed, "field `arithmetic.four`, node 14 (rules.bpc:10:41): the value of CONST is 2, not 3"),
        (node_added, f"node {len(Draft.of(rich()).nodes)}: the rules make no such node, and the proof has CONST"),
        (node_left_out, f"node {len(Draft.of(rich()).nodes) - 1} (rules.bpc:"),
        (node_left_out, ": the proof ends before it"),
        (member_left_out, "OP `<` has no `of` in the proof"),
        (value_and_operands, "the `value` of OP `<` is true, not false"),
        (value_of_a_comparison, "the value of OP `<` is true, not false"),
        (value_of_a_division, 'the value of OP `/` is "80.000000000000000000", not "81"'),
        (product_of_the_root, "the passport itself, node 13: the `battery_product` of OP `passport` is {"),
        (all_compliance_left_out, "compliance entry 0, `QR` of field `duties.qr`, is not in the payload"),
    ],
)
def test_the_first_difference_is_named(change: Change, says: str) -> None:
    assert says in step(verify_bundle(forged(rich(), change)), "proof_steps").detail


def test_operands_are_named_in_their_order() -> None:
    honest = Draft.of(rich()).result("arithmetic.seven")["children"]
    one, other = honest

    found = step(verify_bundle(forged(rich(), swapped_operands)), "proof_steps")

    assert found.detail.endswith(f"OP `<` is made from nodes {one}, {other}, not from {other}, {one}")


def test_rules_that_make_far_more_than_the_proof_has_are_stopped() -> None:
    def change(draft: Draft) -> None:
        draft.entries["rules.bpc"] = (
            b"field x: Int = let t = [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16];\n"
            b'  count(map(t, fn(a) => concat("%b", ""))) + count(map(t, fn(a) => concat("", "%b")));\n'
        ) % (b"a" * 40_000, b"b" * 40_000)

    assert_found(verify_bundle(forged(small(), change)), "proof_steps", "the rules make more nodes than the proof has")


def test_where_the_rules_make_somewhat_more_than_the_proof_has_the_difference_is_named() -> None:
    def change(draft: Draft) -> None:
        draft.entries["rules.bpc"] = b'field x: Text = concat("%b", "b");\n' % (b"a" * 40_000)

    found = verify_bundle(forged(small(), change))

    assert_found(found, "proof_steps", "field `x` is in the rules and not in the proof")


def test_long_lists_and_values_are_cut_in_a_report() -> None:
    assert steps._listed([]) == "none"
    assert steps._listed([7]) == "7"
    assert steps._listed(range(12)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11"
    assert steps._listed(range(13)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 …"
    assert steps._shown("a" * 78) == f'"{"a" * 78}"'
    assert steps._shown("a" * 79) == f'"{"a" * 76}…'


# The facts


def fact_of_another_key(draft: Draft) -> None:
    spare = next(line for line in draft.facts if line["fact_key"] == "battery:SKU-2")
    node = draft.node("FACT_GET", fact_type="Battery")
    node["data"]["payload_hash"] = to_hex(sha256(canon.encode(spare["payload"])))


def another_capacity(draft: Draft) -> None:
    next(line for line in draft.facts if line["fact_key"] == "battery:SKU-1")["payload"]["capacity_kwh"] = "76.0"


def payloads_exchanged(draft: Draft) -> None:
    one, other = [line for line in draft.facts if line["fact_type"] == "Battery"]
    one["payload"], other["payload"] = other["payload"], one["payload"]


def version_exchanged(draft: Draft) -> None:
    draft.node("FACT_GET", fact_type="Battery")["data"]["schema_version"] = 2


def element_dropped(draft: Draft) -> None:
    draft.facts.remove(next(line for line in draft.facts if line["fact_key"] == "component:SKU-1:foil"))


def results_reordered(draft: Draft) -> None:
    draft.node(op="map")["data"]["values"].reverse()


def result_dropped(draft: Draft) -> None:
    draft.node(op="map")["data"]["values"].pop()


def other_elements_kept(draft: Draft) -> None:
    draft.node(op="filter")["data"]["kept"] = [0, 2]


def fact_without_its_type(draft: Draft) -> None:
    next(line for line in draft.facts if line["fact_key"] == "pcf:SKU-1")["payload"]["total_gco2e"] = "much"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (fact_of_another_key, "the `payload_hash` of FACT_GET"),
        (another_capacity, "the `payload_hash` of FACT_GET"),
        (payloads_exchanged, "the `payload_hash` of FACT_GET"),
        (version_exchanged, "the `schema_version` of FACT_GET is 1, not 2"),
        (element_dropped, "the `count` of FACT_GET is 2, not 3"),
        (results_reordered, "the `values` of OP `map`"),
        (result_dropped, "the `values` of OP `map`"),
        (other_elements_kept, "the `kept` of OP `filter` is [0,1], not [0,2]"),
        (fact_without_its_type, "fact `pcf:SKU-1` (PCF): `total_gco2e` is `much`"),
    ],
)
def test_a_computation_over_other_facts_is_found(change: Change, says: str) -> None:
    assert_found(verify_bundle(forged(rich(), change), pinned=[KEY]), "proof_steps", says)


def test_a_fact_that_is_not_the_snapshots_is_found() -> None:
    found = verify_bundle(forged(small(), another_capacity, keep={"snapshot"}))

    assert "facts" in blamed(found)
    assert "`battery:SKU-1` does not have the hash" in step(found, "facts").detail


def test_a_fact_left_out_of_the_file_is_found() -> None:
    found = verify_bundle(forged(rich(), element_dropped, keep={"snapshot"}))

    assert "facts" in blamed(found)


def test_facts_in_another_order_are_found_though_everything_is_signed_anew() -> None:
    found = verify_bundle(forged(rich(), lambda draft: draft.facts.reverse()))

    assert "snapshot" in blamed(found)
    assert "is not in order" in step(found, "snapshot").detail


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda draft: draft.facts.insert(0, draft.facts.pop(1)),
            "facts.jsonl line 1 is `battery:SKU-2`, and the snapshot has `battery:SKU-1` there",
        ),
        (
            lambda draft: draft.facts[1].update(fact_type="Cell"),
            "facts.jsonl line 2 is `battery:SKU-2`, and the snapshot has `battery:SKU-2` there",
        ),
        (
            lambda draft: draft.facts[1]["payload"].update(sku="SKU-3"),
            "facts.jsonl line 2: `battery:SKU-2` does not have the hash the snapshot names",
        ),
        (lambda draft: draft.facts.pop(), "facts.jsonl holds 7 facts, and the snapshot names 8"),
        (lambda draft: draft.facts.append(draft.facts[0]), "facts.jsonl holds 9 facts, and the snapshot names 8"),
        (lambda draft: draft.snapshot["facts"][1].update(note=1), "snapshot.json: fact 1 has a member `note`"),
    ],
)
def test_facts_that_are_not_those_of_the_snapshot_are_found(change: Change, says: str) -> None:
    found = verify_bundle(forged(rich(), change, keep={"snapshot"}))

    assert "facts" in blamed(found)
    assert says in step(found, "facts").detail


def test_facts_that_are_not_in_order_are_named() -> None:
    found = verify_bundle(forged(rich(), lambda draft: draft.facts.insert(0, draft.facts.pop(1))))

    assert_found(found, "snapshot", "snapshot.json is not in order: `battery:SKU-1` stands behind `battery:SKU-2`")


def test_two_facts_of_one_name_are_found() -> None:
    found = verify_bundle(forged(rich(), lambda draft: draft.facts.insert(1, {**draft.facts[0], "payload": {}})))

    assert "snapshot" in blamed(found)
    assert "two facts `battery:SKU-1` of type `Battery`" in step(found, "snapshot").detail


def test_the_schema_version_of_a_fact_that_no_rule_reads_is_pinned_by_the_proof() -> None:
    def change(draft: Draft) -> None:
        next(line for line in draft.facts if line["fact_type"] == "Invoice")["schema_version"] = 2

    found = verify_bundle(forged(rich(), change, keep={"facts_hash"}))

    assert blamed(found) == ["proof_structure", "proof_steps"]
    assert "facts.jsonl does not have the hash that the proof's root names" in step(found, "proof_structure").detail


def test_a_secret_that_is_none_is_found() -> None:
    def change(draft: Draft) -> None:
        next(line for line in draft.facts if line["fact_type"] == "Blinding")["payload"] = {"key": "short"}

    assert_found(verify_bundle(forged(rich(), change)), "proof_steps", "is not a secret of a snapshot")


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


def test_any_change_of_any_node_is_found_though_everything_is_signed_anew() -> None:
    rng = Random(7)
    honest = rich()
    proof = read_bundle(honest).entries["proof.json"]
    for _ in range(effort(test=300, shown=10_000, campaign=100_000)):
        with suppress(StopIteration):  # there is no root any more, and so nothing to sign
            changed = forged(honest, lambda draft: anything(draft, rng))
            same = read_bundle(changed).entries["proof.json"] == proof
            report = verify_bundle(changed, pinned=[KEY])
            assert report.ok == same
            assert same or set(blamed(report)) <= {"proof_structure", "proof_steps"}, report


# Bytes that say the same


def with_entry(data: bytes, name: str, content: bytes) -> bytes:
    return write_bundle(Bundle({**read_bundle(data).entries, name: content}))


@pytest.mark.parametrize("name", ["manifest.json", "payload.json", "proof.json", "receipt.json", "snapshot.json"])
@pytest.mark.parametrize(
    "otherwise",
    [
        lambda text: text.replace(b":", b": ", 1),
        lambda text: text + b"\n",
        lambda text: json.dumps(dict(reversed(json.loads(text).items())), separators=(",", ":")).encode(),
        lambda text: text.replace(b"BPC", b"\\u0042PC", 1),
        lambda text: text[:-1] + b',"zzz":1,"zzz":1}',
    ],
    ids=["blank", "line end", "order", "escape", "doubled"],
)
def test_the_same_json_in_other_bytes_is_found(name: str, otherwise: Callable[[bytes], bytes]) -> None:
    entry = read_bundle(small()).entries[name]
    changed = otherwise(entry)
    assert changed != entry

    found = verify_bundle(with_entry(small(), name, changed))

    assert "canonical" in blamed(found)


@pytest.mark.parametrize(
    ("entry", "change", "says"),
    [
        ("receipt", lambda receipt: receipt | {"payload_hash": receipt["payload_hash"].upper()}, "`payload_hash`"),
        ("receipt", lambda receipt: receipt | {"tenant_id": receipt["tenant_id"].replace("-", "")}, "`tenant_id`"),
        ("receipt", lambda receipt: receipt | {"issued_at": "2027-02-18T09:30:00Z"}, "`issued_at`"),
        ("receipt", lambda receipt: receipt | {"signature": receipt["signature"].rstrip("=")}, "`signature`"),
        ("receipt", lambda receipt: receipt | {"signature": receipt["signature"][:-3] + "B=="}, "`signature`"),
        ("receipt", lambda receipt: {k: v for k, v in receipt.items() if k != "signature"}, "has no `signature`"),
        ("receipt", lambda receipt: receipt | {"note": "trust me"}, "`note`"),
        ("receipt", lambda receipt: receipt | {"signature_alg": "none"}, "`signature_alg`"),
        ("manifest", lambda manifest: manifest | {"public_key": manifest["public_key"].rstrip("=")}, "`public_key`"),
        ("manifest", lambda manifest: manifest | {"note": "trust me"}, "manifest"),
        ("manifest", lambda manifest: manifest | {"bundle_version": "BPC-BUNDLE-2"}, "BPC-BUNDLE-1"),
        ("payload", lambda payload: payload | {"note": "trust me"}, "payload.json has a member `note`"),
        ("payload", lambda payload: payload | {"salt": payload["salt"].upper()}, "`salt` is not 32 lower-case"),
        ("payload", lambda payload: payload | {"compliance": [{}]}, "`compliance` is not"),
        ("payload", lambda payload: payload | {"access": {"a": ["public", "authority"]}}, "`access` is not"),
        ("snapshot", lambda snapshot: snapshot | {"snapshot_version": 1}, "`snapshot_version` is not"),
    ],
)
def test_another_spelling_or_member_is_found(entry: str, change: Callable[[Any], Any], says: str) -> None:
    value = json.loads(read_bundle(small()).entries[f"{entry}.json"])

    found = verify_bundle(with_entry(small(), f"{entry}.json", canon.encode(change(value))))

    assert "canonical" in blamed(found)
    assert says in step(found, "canonical").detail


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda lines: lines.removesuffix(b"\n"), "does not end with a line feed"),
        (lambda lines: lines + b"\n", "facts.jsonl line 4: "),
        (lambda lines: lines.replace(b"\n", b"\r\n", 1), "facts.jsonl line 1: "),
        (lambda lines: lines.replace(b'"schema_version":1', b'"schema_version":0', 1), "facts.jsonl line 1: "),
        (lambda lines: lines.replace(b'"schema_version":1', b'"schema_version":true', 1), "facts.jsonl line 1: "),
        (lambda lines: lines.replace(b'"schema_version":1', b'"schema_version":1,"z":1', 1), "facts.jsonl line 1: "),
    ],
)
def test_facts_in_other_bytes_are_found(change: Callable[[bytes], bytes], says: str) -> None:
    facts = read_bundle(small()).entries["facts.jsonl"]

    found = verify_bundle(with_entry(small(), "facts.jsonl", change(facts)))

    assert "canonical" in blamed(found)
    assert says in step(found, "canonical").detail


@pytest.mark.parametrize(
    ("count", "more"),
    [(1, ""), (5, ""), (6, "; and 1 more"), (8, "; and 3 more")],
)
def test_what_is_wrong_is_listed_up_to_a_limit(count: int, more: str) -> None:
    names = ["payload.json", "snapshot.json", "manifest.json", "receipt.json", "proof.json", "facts.jsonl"]
    broken = dict.fromkeys([*names, "events.jsonl", "qr.txt"][:count], b"\xff")

    found = step(verify_bundle(write_bundle(Bundle({**read_bundle(audited()).entries, **broken}))), "canonical")

    shown, *rest = found.detail.partition("; and ")
    assert len(shown.split("; ")) == min(count, 5)
    assert "".join(rest) == more
    assert found.detail.startswith("payload.json: ")


# Receipt, key, QR code, events


def test_another_key_is_found_by_whoever_knows_the_right_one() -> None:
    by_another = forged(small(), lambda draft: None, seed=OTHER_SEED)

    assert_found(verify_bundle(by_another, pinned=[KEY]), "signature", f"{to_base64(OTHER_KEY)} is not one of those")
    assert verify_bundle(by_another, pinned=[KEY]).issuer == "unpinned"
    unpinned = verify_bundle(by_another)
    assert (unpinned.ok, unpinned.issuer) == (True, "unpinned")
    assert "the issuer was not checked" in step(unpinned, "signature").detail


def test_the_right_key_in_the_manifest_does_not_make_a_signature() -> None:
    found = verify_bundle(forged(small(), lambda draft: None, seed=OTHER_SEED, keep={"manifest"}), pinned=[KEY])

    assert_found(found, "signature", "the signature does not belong to this content and key")


def test_a_key_under_which_anybody_can_sign_is_found() -> None:
    def change(draft: Draft) -> None:
        draft.manifest["public_key"] = to_base64(bytes([1] + [0] * 31))
        draft.receipt["signature"] = to_base64(bytes([1] + [0] * 63))

    found = verify_bundle(forged(small(), change, keep={"signature", "manifest"}))

    assert_found(found, "signature", "of small order")


def test_another_key_name_in_the_manifest_is_found() -> None:
    def change(draft: Draft) -> None:
        draft.manifest["signing_key_id"] = "issuer-2028"

    assert_found(verify_bundle(forged(small(), change)), "signature", "the manifest names the key `issuer-2028`")


@pytest.mark.parametrize("member", ["passport_id", "passport_version_id", "issued_at", "battery_product_id"])
def test_a_receipt_of_another_passport_is_found(member: str) -> None:
    def change(draft: Draft) -> None:
        other = "2027-02-18T09:30:00.000001Z" if member == "issued_at" else "99999999-0000-4000-8000-000000000009"
        draft.receipt[member] = other

    found = verify_bundle(forged(small(), change))

    assert "receipt_hash" in blamed(found)
    assert f"payload.json has the {member}" in step(found, "receipt_hash").detail


def test_a_manifest_of_another_passport_is_found() -> None:
    def change(draft: Draft) -> None:
        draft.manifest["passport_version_id"] = "99999999-0000-4000-8000-000000000009"

    assert_found(verify_bundle(forged(small(), change)), "receipt_hash", "manifest.json is of another passport version")


def test_a_receipt_signed_anew_is_not_the_one_on_the_battery() -> None:
    def change(draft: Draft) -> None:
        draft.receipt["compiler_build_id"] = "bpc-other"

    found = verify_bundle(forged(small(), change, keep={"qr"}))

    assert blamed(found) == ["receipt_hash", "qr"]


def test_other_rules_than_those_signed_are_found() -> None:
    def change(draft: Draft) -> None:
        draft.entries["rules.bpc"] = draft.entries["rules.bpc"].replace(b"toDec(6, cap)", b"toDec(6, cap + 1)")

    assert_found(verify_bundle(forged(small(), change)), "proof_steps", "field `battery.capacity_kwh`")
    assert blamed(verify_bundle(forged(small(), change, keep={"receipt"}))) == ["rules", "proof_steps"]


def test_other_tests_than_those_signed_are_found() -> None:
    def change(draft: Draft) -> None:
        draft.entries["tests.bpc"] = b""

    found = verify_bundle(forged(small(), change, keep={"receipt"}))

    assert_found(found, "rules", "tests.bpc has the hash")


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        (b"field x: Int = ;", "rules.bpc is not a rule package without errors"),
        (b"\xff\xfe", "rules.bpc is not a rule package without errors"),
        (b"field x: Dec(18) = 1 / 0;", "field `x` (rules.bpc:1:"),
        (b'field x: Int = assert(false, "E9", "never"); 1;', "the rules give no value: E9: never"),
        (b"", "is in the proof and not in the rules"),
    ],
)
def test_rules_that_give_no_passport_are_found(rules: bytes, says: str) -> None:
    def change(draft: Draft) -> None:
        draft.entries["rules.bpc"] = rules

    assert_found(verify_bundle(forged(small(), change)), "proof_steps", says)


def test_the_snapshot_of_another_id_is_found() -> None:
    def change(draft: Draft) -> None:
        draft.snapshot["snapshot_id"] = "99999999-0000-4000-8000-000000000009"

    assert_found(verify_bundle(forged(small(), change)), "snapshot", "another snapshot than the receipt names")


def test_the_qr_code_of_another_passport_is_found() -> None:
    text = read_bundle(rich()).entries["qr.txt"]

    found = verify_bundle(with_entry(small(), "qr.txt", text))
    assert blamed(found) == ["receipt_hash", "qr"]

    found = verify_bundle(with_entry(small(), "qr.png", qr_png(text.decode())))
    assert_found(found, "qr", "pixel row")


def test_a_broken_qr_text_is_blamed_on_the_qr_code() -> None:
    for text in (b"", b"BPC1|", b"\xff", read_bundle(small()).entries["qr.txt"] + b"\n"):
        found = verify_bundle(with_entry(small(), "qr.txt", text))
        assert set(blamed(found)) <= {"canonical", "qr"}
        assert not found.ok


AUDITED = compile_input(b"field answer @public: Int = 6 * 7;\n", [])


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([], "events.jsonl holds no event"),
        ([1, 2], "event 2: version 1 is missing before it"),
        ([0, 2], "event 3: version 2 is missing before it"),
        ([1, 0, 2], "is missing before it"),
        ([0, 0], "version 2 is missing before it"),
    ],
)
def test_a_chain_with_gaps_is_found(lines: list[int], says: str) -> None:
    events = chain(AUDITED)

    found = verify_bundle(with_entry(audited(), "events.jsonl", b"".join(event_line(events[at]) for at in lines)))

    assert_found(found, "events", says)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda line: line.replace(b'"number":1', b'"number":7'), "event 2: its payload does not have the hash"),
        (lambda line: line.replace(b"STEP_1", b"STEP_9"), "event 2: its members do not give its event hash"),
        (lambda line: line.replace(b'"tenant_id":"1', b'"tenant_id":"2'), "events.jsonl line 2 is of"),
        (lambda line: line.replace(b"PassportVersion", b"Passport"), "events.jsonl line 2 is of"),
        (lambda line: line.replace(b'"actor_id":null,', b""), "events.jsonl line 2 has no `actor_id`"),
        (lambda line: line.replace(b'"actor_id":null', b'"actor_id":"me"'), "`actor_id` is not"),
        (
            lambda line: line.replace(b'"aggregate_version":2', b'"aggregate_version":true'),
            "`aggregate_version` is not",
        ),
        (lambda line: b"[]\n", "events.jsonl line 2 is not an object"),
    ],
)
def test_a_changed_event_is_found(change: Callable[[bytes], bytes], says: str) -> None:
    lines = [event_line(event) for event in chain(AUDITED)]
    lines[1] = change(lines[1])

    found = verify_bundle(with_entry(audited(), "events.jsonl", b"".join(lines)))

    assert_found(found, "events", says)


def test_a_chain_with_somebody_acting_holds() -> None:
    actor = ActorId(UUID("88888888-0000-4000-8000-000000000008"))
    stream = Stream(AUDITED.tenant_id, "PassportVersion", AggregateId(AUDITED.passport_version_id))
    said = Said(event_type="ISSUED", payload={}, actor_id=actor, occurred_at=ISSUED)

    line = event_line(Event.following(EMPTY, stream, said))

    found = step(verify_bundle(with_entry(audited(), "events.jsonl", line)), "events")
    assert found == ("events", True, "1 event, each linked to the one before")


def test_the_chain_of_another_passport_is_found() -> None:
    lines = b"".join(map(event_line, chain(AUDITED)))
    other = {**read_bundle(small()).entries, "events.jsonl": lines.replace(b"44444444", b"44444445")}

    assert_found(verify_bundle(write_bundle(Bundle(other))), "events", "events.jsonl line 1 is of PassportVersion")


# Views


def view_of(audience: str) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(make_view(read_bundle(rich()), audience))
    return made


def relabelled(view: dict[str, Any]) -> None:
    view["fields"][0]["data"]["path"] = "battery.aapacity_kwh"


def changed_value(view: dict[str, Any]) -> None:
    view["fields"][0]["data"]["value"] = "99.000000"


def changed_type(view: dict[str, Any]) -> None:
    view["fields"][0]["data"]["type"] = "Text"


def changed_salt(view: dict[str, Any]) -> None:
    view["fields"][0]["data"]["salt"] = "0" * 32


def changed_child(view: dict[str, Any]) -> None:
    view["fields"][0]["child"] = "0" * 64


def omitted(view: dict[str, Any]) -> None:
    del view["fields"][1]


def hidden(view: dict[str, Any]) -> None:
    """Left out, and the root says that it is not for this audience."""
    view["root"]["data"]["access"][view["fields"][1]["id"]] = []
    del view["fields"][1]


def hidden_by_its_own_word(view: dict[str, Any]) -> None:
    view["fields"][1]["data"]["access"] = []


def product_renamed(view: dict[str, Any]) -> None:
    view["root"]["data"]["battery_product"]["name"] = "Better battery"


def another_audience(view: dict[str, Any]) -> None:
    view["audience"] = "authority"


def smaller_audience(view: dict[str, Any]) -> None:
    view["audience"] = "interest"


def one_field_twice(view: dict[str, Any]) -> None:
    view["fields"].insert(1, view["fields"][0])


def in_another_order(view: dict[str, Any]) -> None:
    view["fields"].reverse()


def fewer_children(view: dict[str, Any]) -> None:
    view["root"]["children"].pop()


def another_id(view: dict[str, Any]) -> None:
    view["root"]["id"] += 1


def field_of_no_root(view: dict[str, Any]) -> None:
    view["fields"][-1]["id"] = 1000


def receipt_of_another(view: dict[str, Any]) -> None:
    view["receipt"] = json.loads(read_bundle(small()).entries["receipt.json"])


def receipt_changed(view: dict[str, Any]) -> None:
    view["receipt"]["compiler_build_id"] = "bpc-other"


def receipt_of_another_key(view: dict[str, Any]) -> None:
    view["receipt"] = json.loads(signed(canon.encode(view["receipt"]), OTHER_SEED))


def product_of_another_receipt(view: dict[str, Any]) -> None:
    """Signed by the issuer himself."""
    receipt = view["receipt"] | {"battery_product_id": "99999999-0000-4000-8000-000000000009"}
    view["receipt"] = json.loads(signed(canon.encode(receipt), SEED))


def additional(view: dict[str, Any]) -> None:
    view["note"] = "trust me"


def additional_in_a_field(view: dict[str, Any]) -> None:
    view["fields"][0]["data"]["note"] = "trust me"


def additional_in_the_root(view: dict[str, Any]) -> None:
    view["root"]["data"]["note"] = "trust me"


def no_such_audience(view: dict[str, Any]) -> None:
    view["audience"] = "everybody"


def unsigned(view: dict[str, Any]) -> None:
    del view["receipt"]["signature"]


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        (relabelled, ["fields"]),
        (changed_value, ["fields"]),
        (changed_type, ["fields"]),
        (changed_salt, ["fields"]),
        (changed_child, ["fields"]),
        (omitted, ["completeness"]),
        (hidden, ["root"]),
        (hidden_by_its_own_word, ["fields"]),
        (product_renamed, ["root"]),
        (another_audience, ["completeness"]),
        (smaller_audience, ["completeness"]),
        (one_field_twice, ["completeness", "fields"]),
        (in_another_order, ["completeness", "fields"]),
        (fewer_children, ["root"]),
        (another_id, ["root"]),
        (field_of_no_root, ["completeness", "fields"]),
        (receipt_of_another, ["root"]),
        (receipt_changed, ["signature"]),
        (receipt_of_another_key, ["signature"]),
        (product_of_another_receipt, ["product"]),
        (additional, ["canonical"]),
        (additional_in_a_field, ["canonical"]),
        (no_such_audience, ["canonical"]),
        (unsigned, ["canonical"]),
    ],
)
def test_a_forged_view_is_found(change: Callable[[dict[str, Any]], None], failing: list[str]) -> None:
    view = view_of("public")
    change(view)

    assert blamed(verify_view(canon.encode(view), pinned=[KEY])) == failing


def resigned(view: dict[str, Any]) -> bytes:
    """By the issuer himself: every hash and the receipt are made anew."""
    root = view["root"]
    for field in view["fields"]:
        if field["id"] < len(root["children"]):
            root["children"][field["id"]] = _hashed(field["id"], field["data"], [field["child"]])
    receipt = view["receipt"] | {"proof_root_hash": _hashed(root["id"], root["data"], root["children"])}
    view["receipt"] = json.loads(signed(canon.encode(receipt), SEED))
    return canon.encode(view)


def _hashed(at: int, data: dict[str, Any], children: list[str]) -> str:
    return to_hex(sha256(canon.encode({"children_hashes": children, "data": data, "id": at, "type": "OP"})))


def id_too_large(view: dict[str, Any]) -> None:
    view["root"]["id"] += 1


def child_too_many(view: dict[str, Any]) -> None:
    view["root"]["children"].append("0" * 64)


def access_too_short(view: dict[str, Any]) -> None:
    """The last two are not for this audience."""
    view["root"]["data"]["access"].pop()


def last_field_without_access(view: dict[str, Any]) -> None:
    del view["root"]["data"]["access"][view["fields"][-1]["id"] :]


def last_field_without_child(view: dict[str, Any]) -> None:
    del view["root"]["children"][view["fields"][-1]["id"] :]


def behind_the_last_field(view: dict[str, Any]) -> None:
    view["fields"][-1]["id"] = view["root"]["id"]


def one_path_twice(view: dict[str, Any]) -> None:
    view["fields"][1]["data"]["path"] = view["fields"][0]["data"]["path"]


def paths_exchanged(view: dict[str, Any]) -> None:
    one, other = view["fields"][0]["data"], view["fields"][1]["data"]
    one["path"], other["path"] = other["path"], one["path"]


def two_left_out(view: dict[str, Any]) -> None:
    del view["fields"][1:3]


def shown_to_more(view: dict[str, Any]) -> None:
    """The audience is smaller than what is shown to it."""
    view["audience"] = "public"


@pytest.mark.parametrize(
    ("change", "failing", "says"),
    [
        (id_too_large, ["root"], "the root's id, its children and its access sets do not agree"),
        (child_too_many, ["root"], "the root's id, its children and its access sets do not agree"),
        (access_too_short, ["root"], "the root's id, its children and its access sets do not agree"),
        (last_field_without_access, ["fields", "completeness", "root"], "field 11, `pcf.per_kwh`, is not one of"),
        (last_field_without_child, ["fields", "root"], "field 11, `pcf.per_kwh`, is not one of the root's"),
        (behind_the_last_field, ["fields", "completeness"], "field 13, `pcf.per_kwh`, is not one of the root's"),
        (one_path_twice, ["fields"], "the fields are not in order: `arithmetic.four` stands too late or twice"),
        (paths_exchanged, ["fields"], "the fields are not in order: `arithmetic.four` stands too late or twice"),
        (hidden_by_its_own_word, ["fields"], "field 2, `battery.capacity_kwh`, does not have the audiences that"),
        (additional_in_the_root, ["canonical"], "the data of the view's root has a member `note`"),
        (two_left_out, ["completeness"], "field 2 is for the audience `authority` and is missing"),
        (shown_to_more, ["completeness"], "field 0 is not for the audience `public`"),
        (one_field_twice, ["completeness", "fields"], "not in the order of their ids, or one is there twice"),
    ],
)
def test_a_view_forged_by_the_issuer_is_found(
    change: Callable[[dict[str, Any]], None], failing: list[str], says: str
) -> None:
    view = view_of("authority")
    change(view)

    found = verify_view(resigned(view), pinned=[KEY])

    assert set(blamed(found)) == set(failing), found
    assert says in step(found, failing[0]).detail


def test_the_issuer_may_sign_a_view_anew() -> None:
    assert resigned(view_of("authority")) == make_view(read_bundle(rich()), "authority")


def test_a_view_in_other_bytes_is_found() -> None:
    view = make_view(read_bundle(rich()), "public")

    for changed in (view + b"\n", view.replace(b":", b": ", 1), view.replace(b"BPC-VIEW", b"BPC\\u002dVIEW")):
        assert blamed(verify_view(changed, pinned=[KEY])) == ["canonical"]


def test_of_a_view_an_issuer_who_signs_a_wrong_passport_is_not_found_out() -> None:
    """That takes the bundle; documented, so that nobody believes otherwise."""
    wrong = forged(rich(), four_is_five)

    assert verify_view(make_view(read_bundle(wrong), "authority"), pinned=[KEY]).ok
    assert not verify_bundle(wrong, pinned=[KEY]).ok
