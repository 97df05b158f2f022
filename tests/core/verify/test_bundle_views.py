"""Forged views, by somebody without the key and by the issuer himself."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from bpc.core import canon
from bpc.core.bundle import read_bundle
from bpc.core.digest import sha256, to_hex
from bpc.core.receipt import signed
from bpc.core.verify.bundle import verify_bundle, verify_view
from bpc.core.view import make_view
from tests.core.forging import blamed, four_is_five, step
from tests.core.passports import (
    KEY,
    OTHER_SEED,
    SEED,
    forged,
    rich,
    small,
)

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
