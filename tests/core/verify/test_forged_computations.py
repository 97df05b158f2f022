"""Forgeries: an issuer who signs whatever he wants is found out by any stranger with the bundle, and at the right step.

Every forgery here is hash-consistent and signed with the right key, unless it says otherwise; so what finds it is not
a hash but the check that is meant to.
"""

import pytest

from bpc.core.formats import canonical_json
from bpc.core.verify import proof_steps
from bpc.core.verify.bundle import verify_bundle
from tests.core.sample_passports import (
    KEY,
    BundleDraft,
    forge_bundle,
    make_audited_bundle,
    make_rich_bundle,
    make_small_bundle,
)
from tests.core.verify.forging import Change, assert_detected, claim_four_is_five, get_step


def test_a_forged_bundle_differs_only_by_its_change() -> None:
    for honest in (make_small_bundle(), make_rich_bundle(), make_audited_bundle()):
        assert forge_bundle(honest, lambda draft: None) == honest


def replace_computation_by_constant(draft: BundleDraft) -> None:
    derivation = draft.nodes[draft.find_field("pcf.per_kwh")["children"][0]]
    derivation["children"] = [draft.add_node("CONST", {"type": "Dec(2)", "value": "80.00"}, [])]
    draft.sort_nodes()


def replace_plus_by_times(draft: BundleDraft) -> None:
    draft.find_result("arithmetic.four")["data"]["op"] = "*"


def replace_plus_by_assertion(draft: BundleDraft) -> None:
    draft.find_result("arithmetic.four")["type"] = "ASSERT"


def replace_below_by_at_most(draft: BundleDraft) -> None:
    draft.find_result("arithmetic.seven")["data"]["op"] = "<="


def compare_texts(draft: BundleDraft) -> None:
    draft.find_result("arithmetic.seven")["data"]["of"] = "Text"


def change_result_and_class(draft: BundleDraft) -> None:
    """Consistently better: every node that follows from the number says what follows from it."""
    for node in draft.nodes:
        if node["data"].get("value") == "80.00":
            node["data"]["value"] = "60.00"
    draft.set_value("pcf.per_kwh", "60.00")


def swap_operands(draft: BundleDraft) -> None:
    node = draft.find_result("arithmetic.seven")
    node["children"].reverse()


def take_other_branch(draft: BundleDraft) -> None:
    draft.find_node(op="if", branch="then")["data"]["branch"] = "else"


def move_lambda(draft: BundleDraft) -> None:
    draft.find_node(op="map")["data"]["fn"][0] += 1


def add_data(draft: BundleDraft) -> None:
    draft.find_result("arithmetic.four")["data"]["note"] = "trust me"


def drop_assertion(draft: BundleDraft) -> None:
    derivation = draft.nodes[draft.find_field("pcf.per_kwh")["children"][0]]
    assertion = draft.nodes[derivation["children"][0]]
    derivation["children"][0] = assertion["children"][1]
    draft.sort_nodes()


def drop_unused_let(draft: BundleDraft) -> None:
    derivation = draft.nodes[draft.find_field("battery.capacity_kwh")["children"][0]]
    del derivation["children"][1:]
    draft.sort_nodes()


def change_message(draft: BundleDraft) -> None:
    draft.find_node(op="assert")["data"]["message"] = "all is well"


def change_type(draft: BundleDraft) -> None:
    draft.find_field("arithmetic.four")["data"]["type"] = "Dec(0)"


def change_field_salt(draft: BundleDraft) -> None:
    draft.find_field("arithmetic.four")["data"]["salt"] = "0" * 32


def change_derivation_salt(draft: BundleDraft) -> None:
    draft.nodes[draft.find_field("arithmetic.four")["children"][0]]["data"]["salt"] = "0" * 32


def change_payload_salt(draft: BundleDraft) -> None:
    draft.payload["salt"] = "0" * 32


def open_to_everybody(draft: BundleDraft) -> None:
    draft.find_field("arithmetic.four")["data"]["access"] = ["public"]
    draft.payload["access"]["arithmetic.four"] = ["public"]
    draft.sort_nodes()


def drop_field(draft: BundleDraft) -> None:
    draft.nodes.remove(draft.find_field("arithmetic.seven"))
    for at, node in enumerate(draft.nodes):
        node["children"] = [child - (child > 1) for child in node["children"] if child != 1]
        node["id"] = at
    del draft.payload["fields"]["arithmetic"]["seven"]
    del draft.payload["access"]["arithmetic.seven"]
    draft.sort_nodes()


def invent_field(draft: BundleDraft) -> None:
    constant = draft.add_node("CONST", {"type": "Int", "value": 1}, [])
    derivation = draft.add_node("OP", {"op": "derivation", "salt": "0" * 32}, [constant])
    data = {"access": [], "op": "field", "path": "made.up", "salt": "0" * 32, "type": "Int", "value": 1}
    draft.add_node("OP", data, [derivation])
    draft.payload["fields"]["made"] = {"up": 1}
    draft.payload["access"]["made.up"] = []
    draft.sort_nodes()


def relabel_path(draft: BundleDraft) -> None:
    draft.find_field("arithmetic.four")["data"]["path"] = "arithmetic.vier"
    draft.payload["fields"]["arithmetic"]["vier"] = draft.payload["fields"]["arithmetic"].pop("four")
    draft.payload["access"]["arithmetic.vier"] = draft.payload["access"].pop("arithmetic.four")
    draft.sort_nodes()


def drop_compliance(draft: BundleDraft) -> None:
    draft.payload["compliance"].pop()


def improve_compliance(draft: BundleDraft) -> None:
    draft.payload["compliance"][1]["status"] = "WARN"


def invent_compliance(draft: BundleDraft) -> None:
    entry = {"code": "ISO", "field": "duties.qr", "message": "certified", "status": "PASS"}
    draft.payload["compliance"].append(entry)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (claim_four_is_five, "field `arithmetic.four`, node 15 (rules.bpc:10:43): 2 + 2 is 4, not 5"),
        (replace_computation_by_constant, "field `pcf.per_kwh`"),
        (replace_plus_by_times, "expected OP `+`, but the proof has OP `*`"),
        (replace_plus_by_assertion, "expected OP `+`, but the proof has ASSERT `+`"),
        (replace_below_by_at_most, "expected OP `<`, but the proof has OP `<=`"),
        (compare_texts, 'the `of` of OP `<` is "Int", not "Text"'),
        (change_result_and_class, '"80.00", not "60.00"'),
        (swap_operands, "OP `<` is made from nodes"),
        (take_other_branch, 'the `branch` of OP `if` is "then", not "else"'),
        (move_lambda, "the `fn` of OP `map` is"),
        (add_data, "has a `note` in the proof, which the rules do not give"),
        (drop_assertion, "field `pcf.per_kwh`"),
        (drop_unused_let, "field `battery.capacity_kwh`"),
        (change_message, "the `message` of ASSERT `assert`"),
        (change_type, 'the `type` of OP `field` is "Int", not "Dec(0)"'),
        (change_field_salt, "the `salt` of OP `field`"),
        (change_derivation_salt, "the `salt` of OP `derivation`"),
        (change_payload_salt, "`salt` is not made from the snapshot's secret"),
        (open_to_everybody, 'the `access` of OP `field` is ["authority"], not ["public"]'),
        (drop_field, "field `arithmetic.seven` is in the rules and not in the proof"),
        (invent_field, "field `made.up` is in the proof and not in the rules"),
        (relabel_path, "field `arithmetic.four` is in the rules and not in the proof"),
        (drop_compliance, "compliance entry 1, `MASS` of field `duties.qr`"),
        (improve_compliance, "compliance entry 1, `MASS` of field `duties.qr`"),
        (invent_compliance, "compliance entry 2 of the payload, `ISO`, does not come from the rules"),
    ],
)
def test_a_computation_that_the_rules_do_not_ask_for_is_found(change: Change, says: str) -> None:
    assert_detected(verify_bundle(forge_bundle(make_rich_bundle(), change), pins=[KEY]), "proof_steps", says)


def change_first_step(draft: BundleDraft) -> None:
    draft.nodes[draft.field_count + 1]["data"]["value"] = 3


def add_extra_node(draft: BundleDraft) -> None:
    draft.add_node("CONST", {"type": "Int", "value": 12345}, [])


def drop_node(draft: BundleDraft) -> None:
    draft.replaced["proof.json"] = canonical_json.encode({**draft.proof, "nodes": draft.nodes[:-1]})


def drop_member(draft: BundleDraft) -> None:
    del draft.find_result("arithmetic.seven")["data"]["of"]


def change_value_and_operands(draft: BundleDraft) -> None:
    node = draft.find_result("arithmetic.seven")
    node["data"]["value"] = False
    node["children"].reverse()


def change_comparison_value(draft: BundleDraft) -> None:
    draft.find_result("arithmetic.seven")["data"]["value"] = False


def change_division_value(draft: BundleDraft) -> None:
    draft.find_node(op="/")["data"]["value"] = "81"


def change_root_product(draft: BundleDraft) -> None:
    draft.root["data"]["battery_product"]["name"] = "Another battery"


def drop_all_compliance(draft: BundleDraft) -> None:
    draft.payload["compliance"].clear()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (change_first_step, "field `arithmetic.four`, node 14 (rules.bpc:10:41): the value of CONST is 2, not 3"),
        (
            add_extra_node,
            f"node {len(BundleDraft.from_bundle(make_rich_bundle()).nodes)}: the proof has CONST",
        ),
        (drop_node, f"node {len(BundleDraft.from_bundle(make_rich_bundle()).nodes) - 1} (rules.bpc:"),
        (drop_node, ": the proof ends before it"),
        (drop_member, "OP `<` has no `of` in the proof"),
        (change_value_and_operands, "the `value` of OP `<` is true, not false"),
        (change_comparison_value, "the value of OP `<` is true, not false"),
        (change_division_value, 'the value of OP `/` is "80.000000000000000000", not "81"'),
        (change_root_product, "the passport itself, node 13: the `battery_product` of OP `passport` is {"),
        (drop_all_compliance, "compliance entry 0, `QR` of field `duties.qr`, is not in the payload"),
    ],
)
def test_the_first_difference_is_named(change: Change, says: str) -> None:
    assert says in get_step(verify_bundle(forge_bundle(make_rich_bundle(), change)), "proof_steps").detail


def test_operands_are_named_in_their_order() -> None:
    honest = BundleDraft.from_bundle(make_rich_bundle()).find_result("arithmetic.seven")["children"]
    one, other = honest

    detail = get_step(verify_bundle(forge_bundle(make_rich_bundle(), swap_operands)), "proof_steps")

    assert detail.detail.endswith(f"OP `<` is made from nodes {one}, {other}, not from {other}, {one}")


def test_rules_that_make_far_more_than_the_proof_has_are_stopped() -> None:
    def change(draft: BundleDraft) -> None:
        draft.entries["rules.bpc"] = (
            b"field x: Int = let t = [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16];\n"
            b'  count(map(t, fn(a) => concat("%b", ""))) + count(map(t, fn(a) => concat("", "%b")));\n'
        ) % (b"a" * 40_000, b"b" * 40_000)

    assert_detected(
        verify_bundle(forge_bundle(make_small_bundle(), change)),
        "proof_steps",
        "the rules give more nodes than the proof has",
    )


def test_where_the_rules_make_somewhat_more_than_the_proof_has_the_difference_is_named() -> None:
    def change(draft: BundleDraft) -> None:
        draft.entries["rules.bpc"] = b'field x: Text = concat("%b", "b");\n' % (b"a" * 40_000)

    report = verify_bundle(forge_bundle(make_small_bundle(), change))

    assert_detected(report, "proof_steps", "field `x` is in the rules and not in the proof")


def test_long_lists_and_values_are_cut_in_a_report() -> None:
    assert proof_steps._format_ids([]) == "none"
    assert proof_steps._format_ids([7]) == "7"
    assert proof_steps._format_ids(range(12)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11"
    assert proof_steps._format_ids(range(13)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 …"
    assert proof_steps._format_value("a" * 78) == f'"{"a" * 78}"'
    assert proof_steps._format_value("a" * 79) == f'"{"a" * 76}…'
