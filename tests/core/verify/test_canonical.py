"""Every member has one spelling, and a report says what was counted and how to mend what can be mended."""

from functools import partial
from typing import Any

import pytest

from bpc.core.errors import Refusal
from bpc.core.verify import (
    CheckFailed,
    artifacts,
    canonical,
    format_count,
    proof_structure,
    run_step,
)
from bpc.core.verify.bundle import (
    VIEW_FIELD_FORM,
    VIEW_FORM,
    VIEW_ROOT_FORM,
)

UUID = "55555555-0000-4000-8000-000000000005"
ENTRY = {"code": "QR", "field": "duties.qr", "message": "due", "status": "PASS"}
PRODUCT = {"battery_product_id": UUID, "name": "Traction battery", "sku": "SKU-1"}
NO_TEXTS: list[Any] = [None, True, 0, [], {}, ["a"], {"a": 1}]
NO_COUNTS: list[Any] = [-1, True, False, "0", None, [], {}]
NO_AUDIENCES: list[Any] = [None, 0, {}, "public", ["public", "authority"], ["public", "public"], ["everybody"], [0]]


@pytest.mark.parametrize(
    ("spelling", "right", "wrong"),
    [
        (canonical.TEXT, ["", "a"], NO_TEXTS),
        (canonical.OBJECT, [{}, {"a": 1}], [None, 0, "", []]),
        (canonical.LIST, [[], [1]], [None, 0, "", {}]),
        (canonical.ID, [UUID], [UUID.upper().replace("5", "A"), UUID.replace("-", ""), "", *NO_TEXTS]),
        (canonical.HASH, ["0f" * 32], ["0F" * 32, "0f" * 31, "0f" * 33, "0g" * 32, "", *NO_TEXTS]),
        (canonical.SALT, ["0f" * 16], ["0F" * 16, "0f" * 15, "0f" * 17, "0f" * 16 + "\n", "", *NO_TEXTS]),
        (canonical.TIME, ["2027-02-18T00:00:00.000000Z"], ["2027-02-18T00:00:00Z", "2027-02-18", "", *NO_TEXTS]),
        (canonical.exactly("a"), ["a"], ["b", "", "aa", *NO_TEXTS]),
        (canonical.ACCESS, [{}, {"a": [], "b": ["public"]}], [None, 0, [], "", *({"a": bad} for bad in NO_AUDIENCES)]),
        (
            canonical.PAYLOAD_FORM["access"],
            [{"a": ["authority", "interest", "public"]}],
            [{"a": ["public", "interest"]}],
        ),
        (
            canonical.COMPLIANCE,
            [[], [ENTRY], [ENTRY, ENTRY]],
            [
                *(None, 0, {}, "", [None], [0], [[]], [{}]),
                *([{name: text for name, text in ENTRY.items() if name != left_out}] for left_out in ENTRY),
                *([{**ENTRY, name: 0}] for name in ENTRY),
                *(
                    [ENTRY, {**ENTRY, **change}]
                    for change in ({"status": "pass"}, {"status": ""}, {"note": "trust me"})
                ),
            ],
        ),
        (
            canonical.PRODUCT,
            [PRODUCT],
            [
                *(None, 0, [], "", {}),
                *({name: text for name, text in PRODUCT.items() if name != left_out} for left_out in PRODUCT),
                *({**PRODUCT, name: wrong} for name in PRODUCT for wrong in (0, None)),
                *({**PRODUCT, **change} for change in ({"battery_product_id": "5"}, {"note": "trust me"})),
            ],
        ),
        (
            proof_structure.PROOF_FORM["field_index"],
            [{}, {"a": 0, "b": 7}],
            [None, 0, [], "", *({"a": bad} for bad in NO_COUNTS)],
        ),
        (proof_structure.FIELD_FORM["access"], [[], ["public"], ["authority", "interest"]], NO_AUDIENCES),
        (
            proof_structure.ROOT_FORM["access"],
            [[], [[]], [["public"], []]],
            [None, 0, {}, "", *([bad] for bad in NO_AUDIENCES)],
        ),
        (VIEW_FORM["audience"], ["public", "interest", "authority"], ["", "Public", "publi", *NO_TEXTS]),
        (VIEW_ROOT_FORM["children"], [[], ["0f" * 32]], [None, 0, {}, "", [0], [""], ["0f" * 32, "0F" * 32]]),
        (VIEW_ROOT_FORM["id"], [0, 1, 10**30], NO_COUNTS),
        (VIEW_FIELD_FORM["id"], [0, 1, 10**30], NO_COUNTS),
        (artifacts.EVENT_FORM["aggregate_version"], [0, 1, 10**30], NO_COUNTS),
        (artifacts.EVENT_FORM["actor_id"], [None, UUID], ["", UUID.replace("-", ""), 0, [], {}]),
        (artifacts.EVENT_FORM["prev_event_hash"], [None, "0f" * 32], ["", "0F" * 32, 0, [], {}]),
    ],
    ids=lambda value: value.description if isinstance(value, canonical.Spelling) else "",
)
def test_a_member_has_one_spelling(spelling: canonical.Spelling, right: list[Any], wrong: list[Any]) -> None:
    assert [value for value in right if not spelling.accepts(value)] == []
    assert [value for value in wrong if spelling.accepts(value)] == []


def test_a_member_that_does_not_belong_there_is_named_and_its_name_cut() -> None:
    for name, shown_name in (("n" * 80, "n" * 80), ("n" * 81, "n" * 80)):
        with pytest.raises(CheckFailed, match=f"here has an unknown member `{shown_name}`"):
            canonical.require_form("here", {name: 1}, {})


def test_what_was_done_is_counted() -> None:
    assert [format_count(number, "fact") for number in (0, 1, 2, 1_000)] == [
        "0 facts",
        "1 fact",
        "2 facts",
        "1,000 facts",
    ]


def test_a_report_says_how_to_mend_what_can_be_mended() -> None:
    def refuse(*, fix: str | None) -> str:
        raise Refusal("that is too much", fix=fix)

    assert run_step("qr", partial(refuse, fix=None))[:3] == ("qr", False, "that is too much")
    assert run_step("qr", partial(refuse, fix="make it less"))[:3] == ("qr", False, "that is too much; make it less")
