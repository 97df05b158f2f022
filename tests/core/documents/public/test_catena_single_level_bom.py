"""Catena-X bills of materials of one level: what our own example and other versions become."""

import pytest

from tests.core.documents.public.example_outcomes import (
    change_example,
    decode_payloads,
    list_problems,
    list_warnings,
    read_facts,
)
from tests.core.documents.public_files import read_example

NAME = "catena-x-single-level-bom-as-built"


def test_a_bill_of_materials_as_built() -> None:
    outcome = read_facts("BOM", read_example(NAME))

    assert decode_payloads(outcome) == {
        "battery:EX-75": {"sku": "EX-75"},
        "component:EX-75:11111111-2222-4333-8444-555555555501": {
            "sku": "EX-75",
            "part": "11111111-2222-4333-8444-555555555501",
            "supplier": "BPNL00000000EX01",
            "quantity": 96,
        },
        "component:EX-75:11111111-2222-4333-8444-555555555502": {
            "sku": "EX-75",
            "part": "11111111-2222-4333-8444-555555555502",
            "supplier": "BPNL00000000EX02",
            "mass_g": "12500.000000",
        },
    }
    assert (
        "$.childItems[1]",
        "has alternatives: a battery may have another part instead of this one",
    ) in list_warnings(outcome)


@pytest.mark.parametrize(
    "child",
    [
        {"catenaXId": "urn:uuid:aa", "quantity": {"quantityNumber": 2.0, "measurementUnit": "unit:piece"}},
        {"childCatenaXId": "aa", "quantity": {"quantityNumber": 2, "measurementUnit": {"lexicalValue": "piece"}}},
        {
            "item": [
                {"ownerItemId": "urn:uuid:aa", "itemQuantity": {"quantityNumber": 2, "measurementUnit": "unit:piece"}}
            ]
        },
    ],
)
def test_other_versions_name_the_same_in_other_ways(child: dict[str, object]) -> None:
    facts = decode_payloads(read_facts("BOM", {"catenaXId": "urn:uuid:bb", "childItems": [child]}))

    assert facts["component:bb:aa"]["quantity"] == 2


@pytest.mark.parametrize(
    ("path", "value", "at", "says"),
    [
        ("childItems", [], "$.childItems", "has no parts"),
        (
            "childItems.0.globalAssetId",
            None,
            "$.childItems[0].globalAssetId",
            "is missing; it identifies the part",
        ),
        ("childItems.0.quantity.value", "many", "$.childItems[0].quantity.value", 'is the text "many", not a number'),
    ],
)
def test_a_problem_is_reported_at_its_place(path: str, value: object, at: str, says: str) -> None:
    assert list_problems("BOM", change_example(NAME, path, value)) == [(at, says)]
