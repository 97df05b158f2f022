"""Forged views, by somebody without the key and by the issuer himself."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from bpc.core.exports.disclosure import make_view
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.passport.bundle import read_bundle
from bpc.core.passport.receipt import sign_receipt
from bpc.core.verify.bundle import verify_bundle, verify_view
from tests.core.sample_passports import KEY, OTHER_SEED, SEED, forge_bundle, make_rich_bundle, make_small_bundle
from tests.core.verify.forging import claim_four_is_five, get_step, list_failed_steps


def create_view(audience: str) -> dict[str, Any]:
    view: dict[str, Any] = json.loads(make_view(read_bundle(make_rich_bundle()), audience))
    return view


def relabel_field(view: dict[str, Any]) -> None:
    view["fields"][0]["data"]["path"] = "battery.aapacity_kwh"


def change_value(view: dict[str, Any]) -> None:
    view["fields"][0]["data"]["value"] = "99.000000"


def change_type(view: dict[str, Any]) -> None:
    view["fields"][0]["data"]["type"] = "Text"


def change_salt(view: dict[str, Any]) -> None:
    view["fields"][0]["data"]["salt"] = "0" * 32


def change_child(view: dict[str, Any]) -> None:
    view["fields"][0]["child"] = "0" * 64


def omit_field(view: dict[str, Any]) -> None:
    del view["fields"][1]


def hide_field(view: dict[str, Any]) -> None:
    """Left out, and the root says that it is not for this audience."""
    view["root"]["data"]["access"][view["fields"][1]["id"]] = []
    del view["fields"][1]


def hide_field_in_its_data(view: dict[str, Any]) -> None:
    view["fields"][1]["data"]["access"] = []


def rename_product(view: dict[str, Any]) -> None:
    view["root"]["data"]["battery_product"]["name"] = "Better battery"


def change_audience(view: dict[str, Any]) -> None:
    view["audience"] = "authority"


def shrink_audience(view: dict[str, Any]) -> None:
    view["audience"] = "interest"


def repeat_field(view: dict[str, Any]) -> None:
    view["fields"].insert(1, view["fields"][0])


def reorder_fields(view: dict[str, Any]) -> None:
    view["fields"].reverse()


def remove_child(view: dict[str, Any]) -> None:
    view["root"]["children"].pop()


def change_root_id(view: dict[str, Any]) -> None:
    view["root"]["id"] += 1


def add_unknown_field(view: dict[str, Any]) -> None:
    view["fields"][-1]["id"] = 1000


def replace_receipt(view: dict[str, Any]) -> None:
    view["receipt"] = json.loads(read_bundle(make_small_bundle()).entries["receipt.json"])


def change_receipt(view: dict[str, Any]) -> None:
    view["receipt"]["compiler_build_id"] = "bpc-other"


def sign_with_other_key(view: dict[str, Any]) -> None:
    view["receipt"] = json.loads(sign_receipt(canonical_json.encode(view["receipt"]), OTHER_SEED))


def replace_receipt_product(view: dict[str, Any]) -> None:
    """Signed by the issuer himself."""
    receipt = view["receipt"] | {"battery_product_id": "99999999-0000-4000-8000-000000000009"}
    view["receipt"] = json.loads(sign_receipt(canonical_json.encode(receipt), SEED))


def add_member(view: dict[str, Any]) -> None:
    view["note"] = "trust me"


def add_member_to_field(view: dict[str, Any]) -> None:
    view["fields"][0]["data"]["note"] = "trust me"


def add_member_to_root(view: dict[str, Any]) -> None:
    view["root"]["data"]["note"] = "trust me"


def set_unknown_audience(view: dict[str, Any]) -> None:
    view["audience"] = "everybody"


def remove_signature(view: dict[str, Any]) -> None:
    del view["receipt"]["signature"]


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        (relabel_field, ["fields"]),
        (change_value, ["fields"]),
        (change_type, ["fields"]),
        (change_salt, ["fields"]),
        (change_child, ["fields"]),
        (omit_field, ["completeness"]),
        (hide_field, ["root"]),
        (hide_field_in_its_data, ["fields"]),
        (rename_product, ["root"]),
        (change_audience, ["completeness"]),
        (shrink_audience, ["completeness"]),
        (repeat_field, ["completeness", "fields"]),
        (reorder_fields, ["completeness", "fields"]),
        (remove_child, ["root"]),
        (change_root_id, ["root"]),
        (add_unknown_field, ["completeness", "fields"]),
        (replace_receipt, ["root"]),
        (change_receipt, ["signature"]),
        (sign_with_other_key, ["signature"]),
        (replace_receipt_product, ["product"]),
        (add_member, ["canonical"]),
        (add_member_to_field, ["canonical"]),
        (set_unknown_audience, ["canonical"]),
        (remove_signature, ["canonical"]),
    ],
)
def test_a_forged_view_is_found(change: Callable[[dict[str, Any]], None], failing: list[str]) -> None:
    view = create_view("public")
    change(view)

    assert list_failed_steps(verify_view(canonical_json.encode(view), pins=[KEY])) == failing


def sign_again(view: dict[str, Any]) -> bytes:
    """By the issuer himself: every hash and the receipt are made anew."""
    root = view["root"]
    for field in view["fields"]:
        if field["id"] < len(root["children"]):
            root["children"][field["id"]] = _hash_node(field["id"], field["data"], [field["child"]])
    receipt = view["receipt"] | {"proof_root_hash": _hash_node(root["id"], root["data"], root["children"])}
    view["receipt"] = json.loads(sign_receipt(canonical_json.encode(receipt), SEED))
    return canonical_json.encode(view)


def _hash_node(at: int, data: dict[str, Any], children: list[str]) -> str:
    return to_hex(sha256(canonical_json.encode({"children_hashes": children, "data": data, "id": at, "type": "OP"})))


def enlarge_root_id(view: dict[str, Any]) -> None:
    view["root"]["id"] += 1


def add_child(view: dict[str, Any]) -> None:
    view["root"]["children"].append("0" * 64)


def shorten_access(view: dict[str, Any]) -> None:
    """The last two are not for this audience."""
    view["root"]["data"]["access"].pop()


def remove_last_access(view: dict[str, Any]) -> None:
    del view["root"]["data"]["access"][view["fields"][-1]["id"] :]


def remove_last_child(view: dict[str, Any]) -> None:
    del view["root"]["children"][view["fields"][-1]["id"] :]


def move_behind_last_field(view: dict[str, Any]) -> None:
    view["fields"][-1]["id"] = view["root"]["id"]


def repeat_path(view: dict[str, Any]) -> None:
    view["fields"][1]["data"]["path"] = view["fields"][0]["data"]["path"]


def exchange_paths(view: dict[str, Any]) -> None:
    one, other = view["fields"][0]["data"], view["fields"][1]["data"]
    one["path"], other["path"] = other["path"], one["path"]


def omit_two_fields(view: dict[str, Any]) -> None:
    del view["fields"][1:3]


def name_smaller_audience(view: dict[str, Any]) -> None:
    """The audience is smaller than what is shown to it."""
    view["audience"] = "public"


@pytest.mark.parametrize(
    ("change", "failing", "says"),
    [
        (enlarge_root_id, ["root"], "the root's id, its children and its access sets do not agree"),
        (add_child, ["root"], "the root's id, its children and its access sets do not agree"),
        (shorten_access, ["root"], "the root's id, its children and its access sets do not agree"),
        (remove_last_access, ["fields", "completeness", "root"], "field 11, `pcf.per_kwh`, is not one of"),
        (remove_last_child, ["fields", "root"], "field 11, `pcf.per_kwh`, is not one of the root's"),
        (move_behind_last_field, ["fields", "completeness"], "field 13, `pcf.per_kwh`, is not one of the root's"),
        (repeat_path, ["fields"], "the fields are not in order: `arithmetic.four` is out of order or repeated"),
        (exchange_paths, ["fields"], "the fields are not in order: `arithmetic.four` is out of order or repeated"),
        (hide_field_in_its_data, ["fields"], "field 2, `battery.capacity_kwh`, does not have the audiences that"),
        (add_member_to_root, ["canonical"], "the data of the view's root has an unknown member `note`"),
        (omit_two_fields, ["completeness"], "field 2 is for the audience `authority` and is missing"),
        (name_smaller_audience, ["completeness"], "field 0 is not for the audience `public`"),
        (repeat_field, ["completeness", "fields"], "not in the order of their ids, or one is there twice"),
    ],
)
def test_a_view_forged_by_the_issuer_is_found(
    change: Callable[[dict[str, Any]], None], failing: list[str], says: str
) -> None:
    view = create_view("authority")
    change(view)

    report = verify_view(sign_again(view), pins=[KEY])

    assert set(list_failed_steps(report)) == set(failing), report
    assert says in get_step(report, failing[0]).detail


def test_the_issuer_may_sign_a_view_anew() -> None:
    assert sign_again(create_view("authority")) == make_view(read_bundle(make_rich_bundle()), "authority")


def test_a_view_in_other_bytes_is_found() -> None:
    view = make_view(read_bundle(make_rich_bundle()), "public")

    for changed in (view + b"\n", view.replace(b":", b": ", 1), view.replace(b"BPC-VIEW", b"BPC\\u002dVIEW")):
        assert list_failed_steps(verify_view(changed, pins=[KEY])) == ["canonical"]


def test_of_a_view_an_issuer_who_signs_a_wrong_passport_is_not_found_out() -> None:
    """That takes the bundle; documented, so that nobody believes otherwise."""
    wrong = forge_bundle(make_rich_bundle(), claim_four_is_five)

    assert verify_view(make_view(read_bundle(wrong), "authority"), pins=[KEY]).ok
    assert not verify_bundle(wrong, pins=[KEY]).ok
