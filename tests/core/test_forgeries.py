"""Forgeries: an issuer who signs whatever he wants is found out by any stranger with the bundle, and at the right step.

Every forgery here is hash-consistent and signed with the right key, unless it says otherwise; so what finds it is not
a hash but the check that is meant to.
"""

import pytest

from bpc.core import canon
from bpc.core.digest import sha256, to_hex
from bpc.core.verify import steps
from bpc.core.verify.bundle import verify_bundle
from tests.core.forging import Change, assert_found, blamed, four_is_five, step
from tests.core.passports import (
    KEY,
    Draft,
    audited,
    forged,
    rich,
    small,
)


def test_the_forger_changes_nothing_but_what_he_wants_to() -> None:
    for honest in (small(), rich(), audited()):
        assert forged(honest, lambda draft: None) == honest


# The computation


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
