"""Catena-X footprints and bills of materials: what our own examples and changes of them become."""

import json
from typing import Any

import pytest

from bpc.core.documents import MAX_NOTES, MAX_ROUNDINGS
from tests.core.documents.public.example_outcomes import (
    change_example,
    decode_payloads,
    list_problems,
    list_warnings,
    read_facts,
)
from tests.core.documents.public_files import read_example


@pytest.mark.parametrize(
    ("name", "unit", "scope"),
    [("catena-x-pcf-9", "1 piece", "Cradle-to-gate"), ("catena-x-pcf-7", "1 piece", "Cradle-to-grave")],
)
def test_a_catena_x_pcf_of_either_shape(name: str, unit: str, scope: str) -> None:
    footprint = decode_payloads(read_facts("PCF", read_example(name)))["pcf:EX-75"]

    assert footprint["total_gco2e"] == "4321500.00"
    assert footprint["functional_unit"] == f"{unit}, {scope}"
    assert footprint["year"] == 2026
    assert footprint["valid_until_on"] == "2029-12-31"
    assert footprint["facility_country"] == "DE"


def test_a_stage_that_is_not_included_is_left_out_and_reported() -> None:
    path = "productLifeCycleStagesAndEmissions.0.distributionStage.0.distributionStageIncluded"

    counted = read_facts("PCF", read_example("catena-x-pcf-9"))
    not_counted = read_facts("PCF", change_example("catena-x-pcf-9", path, False))

    assert decode_payloads(counted)["pcf:EX-75"]["distribution_gco2e"] == "12750.00"
    assert "distribution_gco2e" not in decode_payloads(not_counted)["pcf:EX-75"]
    assert any("says it is not included" in says for _, says in list_warnings(not_counted))


def test_several_footprints_come_as_a_list() -> None:
    one, other = json.loads(read_example("catena-x-pcf-9")), json.loads(read_example("catena-x-pcf-7"))
    other["productIds"] = ["EX-80"]

    outcome = read_facts("PCF", [one, other])

    assert [(fact.fact_key, fact.source_path) for fact in outcome.facts] == [
        ("pcf:EX-75", "$[0]"),
        ("pcf:EX-80", "$[1]"),
    ]
    assert list_problems("PCF", [one, {"sku": "A"}]) == [
        ("$[1]", "is not in the same format as the other items of the list")
    ]


def test_the_footprint_of_a_kilogram_of_a_part_is_not_that_of_the_part() -> None:
    outcome = read_facts("PCF", read_example("catena-x-component-pcf"))

    footprint = decode_payloads(outcome)["pcf:CATHODE-811"]
    assert not {"total_gco2e", "production_gco2e", "functional_unit"} & footprint.keys()
    assert {(lost.place, lost.says) for lost in outcome.facts[0].unreadable if lost.member == "total_gco2e"} == {
        (
            "$.pcfValues.sharesPerStage.absPcfValue.stageValue",
            "is for 1 kg of the part, not for one piece; ask for the figure of a piece",
        )
    }
    assert not any("add up" in says for _, says in list_warnings(outcome))


def test_a_footprint_of_a_part_says_what_it_is_of() -> None:
    path = "pcfValues.sharesPerStage.declaredUnit"
    piece = decode_payloads(read_facts("PCF", change_example("catena-x-component-pcf", path, "CO2KG/piece")))[
        "pcf:CATHODE-811"
    ]

    assert (piece["total_gco2e"], piece["functional_unit"]) == ("24500.00", "1 piece of the part")
    assert list_problems("PCF", change_example("catena-x-component-pcf", path, "CO2KG/box")) == [
        (
            "$.pcfValues.sharesPerStage.declaredUnit",
            'is the text "CO2KG/box"; it must be `CO2KG/KG` or `CO2KG/piece`',
        )
    ]


def test_a_bill_of_materials_counts_pieces_and_masses_as_often_as_their_item() -> None:
    outcome = read_facts("BOM", read_example("catena-x-bom-as-specified"))

    facts = decode_payloads(outcome)
    assert list(facts) == [
        "battery:EX-75",
        "component:EX-75:EX-CELL",
        "component:EX-75:EX-HOUSING",
        "component:EX-75:EX-COOLANT",
        "component:EX-75:EX-CELL#2",
    ]
    assert facts["component:EX-75:EX-CELL"]["quantity"] == 96
    assert facts["component:EX-75:EX-CELL#2"]["quantity"] == 6  # 3 in each of 2 sets
    assert facts["component:EX-75:EX-HOUSING"]["mass_g"] == "38250.000000"
    assert list_warnings(outcome) == [
        (
            "$.item[0].part[2].partQuantity",
            'is 2.5 "unit:litre", neither a number of pieces nor a mass; the part was read without a quantity',
        )
    ]


@pytest.mark.parametrize("unit", [{}, {"measurementUnit": None}, {"measurementUnit": ""}])
def test_a_quantity_without_a_unit_is_left_out_and_reported(unit: dict[str, object]) -> None:
    document = change_example(
        "catena-x-bom-as-specified", "item.0.part.0.partQuantity", {"quantityNumber": 96.5, **unit}
    )

    outcome = read_facts("BOM", document)

    assert "quantity" not in decode_payloads(outcome)["component:EX-75:EX-CELL"]
    assert list_warnings(outcome)[0] == (
        "$.item[0].part[0].partQuantity",
        "is 96.5 without a unit; the part was read without a quantity",
    )


def test_an_item_quantity_that_multiplies_nothing_is_reported_as_left_out() -> None:
    part = {"ownerPartId": "EX-CELL"}

    outcome = read_facts("BOM", {"identifier": "EX-75", "item": [{"quantity": 2, "part": [part]}]})

    assert [note.says for note in outcome.warnings.first] == [
        "was read as a Catena-X BomAsSpecified; these members were left out because no fact has them: `item[].quantity`"
    ]


def make_bill(parts: int) -> dict[str, Any]:
    """A bill of materials of so many parts, each with a mass of more decimals than the fact has."""
    mass = {"quantityNumber": 1.23456789, "measurementUnit": "unit:gram"}
    part_list = [{"ownerPartId": f"P{number}", "partQuantity": mass} for number in range(parts)]
    return {"identifier": "EX-75", "item": [{"part": part_list}]}


def test_every_rounding_is_reported_however_many_there_are() -> None:
    outcome = read_facts("BOM", make_bill(150))

    rounded = [at for at, says in list_warnings(outcome) if says.endswith("it was rounded to 1.234568")]
    assert rounded == [f"$.item[0].part[{number}].partQuantity.quantityNumber" for number in range(150)]
    assert outcome.warnings.total == 150


def test_other_warnings_do_not_crowd_roundings_out() -> None:
    document = make_bill(150)
    lost = {"ownerPartId": "P", "partQuantity": {"quantityNumber": 1, "measurementUnit": "litre"}}
    document["item"] = [{"part": [lost] * (MAX_NOTES + 100)}, *document["item"], {"part": [lost]}]

    outcome = read_facts("BOM", document)

    assert outcome.warnings.total == MAX_NOTES + 251
    assert len(outcome.warnings.first) == MAX_NOTES + 150 + 1
    assert outcome.warnings.first[-1].says == "has 10,251 warnings; 10,150 of them are listed"
    assert sum("it was rounded to" in note.says for note in outcome.warnings.first) == 150


def test_more_roundings_than_can_be_reported_are_a_problem() -> None:
    assert len(read_facts("BOM", make_bill(MAX_ROUNDINGS)).warnings.first) == MAX_ROUNDINGS
    assert list_problems("BOM", make_bill(MAX_ROUNDINGS + 5)) == [
        (
            "$.item[0].part[1000].partQuantity.quantityNumber",
            (
                "is one of more than 1,000 numbers with more decimals than their facts have; send this one with at most"
                " 6 decimals, round the others too, or split the document"
            ),
        )
    ]


def test_a_footprint_of_a_litre_cannot_be_read_and_a_urn_is_shortened_to_a_sku() -> None:
    product = "companyAndProductInformation.0.productInformation.0"
    document = change_example("catena-x-pcf-9", f"{product}.declaredUnitOfMeasurement", "liter")
    document["companyAndProductInformation"][0]["productInformation"][0]["productIds"] = ["urn:example:product-id:4017"]

    outcome = read_facts("PCF", document)

    at = "$.companyAndProductInformation[0].productInformation[0]"
    assert "total_gco2e" not in decode_payloads(outcome)["pcf:4017"]
    assert [lost.says for lost in outcome.facts[0].unreadable if lost.member == "total_gco2e"] == [
        "is for 1 liter, not for one product; ask for the figure of one product"
    ]
    assert {
        (
            f"{at}.productIds[0]",
            'is "urn:example:product-id:4017"; the SKU is "4017": a SKU cannot contain a colon or a URL',
        ),
    } <= set(list_warnings(outcome))


def test_the_footprint_of_a_part_whose_stages_do_not_add_up_is_read_with_a_warning() -> None:
    path = "pcfValues.sharesPerStage.absPcfValue.stageValue"

    outcome = read_facts("PCF", change_example("catena-x-component-pcf", path, 1))

    [warning] = [says for at, says in list_warnings(outcome) if at == "$.pcfValues.sharesPerStage"]
    assert warning.startswith("has a total of 1000 g CO2e, but its four stages add up to ")
