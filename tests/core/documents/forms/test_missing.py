"""What is missing: according to facts, to a readiness report, and to the data points of a passport."""

import json

from bpc.core.documents.forms.missing import (
    MissingProduct,
    list_missing_parts,
    read_missing_list,
    read_missing_products,
)
from bpc.core.documents.forms.template_plan import AskedMember
from bpc.core.facts.fact_table import SnapshotFact


def make_battery(**members: str) -> SnapshotFact:
    return SnapshotFact(fact_type="Battery", fact_key="battery:A", schema_version=1, payload={"sku": "A", **members})


def test_a_point_of_several_parts_lacks_those_that_nothing_fills() -> None:
    missing = list_missing_parts("ev", [make_battery(idle_temperature_min_degc="-20.00")])

    assert [part.members for part in missing if part.number == 34] == [
        (AskedMember("Battery", "idle_temperature_max_degc"),)
    ]
    assert not [part for part in missing if part.number in {17, 35}]  # pending, and conditional


def test_a_readiness_report_names_what_is_missing_or_could_not_be_read() -> None:
    report = {
        "products": [
            {
                "sku": "A",
                "category": "ev",
                "issues": [
                    {"kind": "missing", "severity": "error", "fact_type": "Battery", "members": ["mass_kg"]},
                    {"kind": "unreadable", "severity": "warning", "fact_type": "PCF", "members": ["total_gco2e"]},
                    {"kind": "missing", "severity": "note", "fact_type": "Battery", "members": ["warranty_months"]},
                    {"kind": "implausible", "severity": "error", "fact_type": "Battery", "members": ["model"]},
                    {"kind": "missing", "severity": "error", "fact_type": None, "members": [], "points": [12]},
                ],
            }
        ]
    }

    assert read_missing_list(report) == [  # type: ignore[arg-type]
        MissingProduct(
            "A",
            "ev",
            (AskedMember("Battery", "mass_kg"), AskedMember("PCF", "total_gco2e"), AskedMember("Battery", "chemistry")),
        )
    ]


def test_the_data_points_of_a_passport_name_what_is_missing() -> None:
    exported = {
        "data_points_version": "BPC-DATA-POINTS-1",
        "category": "industrial",
        "battery_product": {"sku": "A"},
        "missing": [34],
    }

    [product] = read_missing_products(json.dumps(exported).encode()) or []

    assert (product.sku, product.category) == ("A", "industrial")
    assert [member.member for member in product.members] == ["idle_temperature_min_degc", "idle_temperature_max_degc"]


def test_a_document_lacks_what_its_category_needs_and_it_does_not_say() -> None:
    content = json.dumps({"battery": {"sku": "A", "category": "Elektrofahrzeug", "mass_kg": 10}}).encode()

    [product] = read_missing_products(content) or []

    assert product.category == "ev"
    assert AskedMember("Battery", "mass_kg") not in product.members
    assert AskedMember("Battery", "chemistry") in product.members


def test_the_category_of_a_document_that_names_none_can_be_given() -> None:
    content = b'{"battery": {"sku": "A"}}'

    assert read_missing_products(content) == [MissingProduct("A", None, ())]
    [product] = read_missing_products(content, "lmt") or []
    assert product.category == "lmt"
    assert product.members


def test_any_other_file_is_no_list() -> None:
    assert read_missing_products(b'{"products": [1]}') is None
    assert read_missing_products(b"{") is None
    assert read_missing_products(b"sku,total_gco2e\nA,5\n") is None
