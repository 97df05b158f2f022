"""Our own documents in public formats: every unit, every place, several of everything."""

import json
from typing import Any

import pytest

from bpc.core import canon
from bpc.core.documents import Read, Rejected, read_document
from bpc.core.documents.notes import MOST_KEPT, MOST_ROUNDINGS
from tests.core.documents.public_data import EXAMPLES, example, example_names

PER_KWH = {
    "gco2e_per_kwh": "130.000000",
    "raw_material_gco2e_per_kwh": "81.000000",
    "production_gco2e_per_kwh": "34.000000",
    "distribution_gco2e_per_kwh": "3.000000",
    "end_of_life_gco2e_per_kwh": "12.000000",
}


def read(kind: str, document: bytes | object) -> Read:
    content = document if isinstance(document, bytes) else json.dumps(document).encode()
    outcome = read_document(kind, "application/json", content)
    assert isinstance(outcome, Read), outcome
    return outcome


def problems(kind: str, document: object) -> list[tuple[str, str]]:
    outcome = read_document(kind, "application/json", json.dumps(document).encode())
    assert isinstance(outcome, Rejected), outcome
    return [(note.at, note.says) for note in outcome.problems.first]


def warnings(outcome: Read) -> list[tuple[str, str]]:
    return [(note.at, note.says) for note in outcome.warnings.first if note.at != "$"]


def payloads(outcome: Read) -> dict[str, dict[str, Any]]:
    return {fact.fact_key: canon.decode(fact.payload_canonical) for fact in outcome.facts}  # type: ignore[misc]


def changed(name: str, way: str, value: object) -> Any:
    """An example with another value at one place."""
    document = json.loads(example(name))
    *names, last = way.split(".")
    holder = document
    for step in names:
        holder = holder[int(step)] if isinstance(holder, list) else holder[step]
    holder[last] = value
    return document


def test_the_folder_says_what_each_example_is() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")

    assert [name for name in example_names() if f"`{name}.json`" not in page] == []


def test_a_catena_x_battery_pass() -> None:
    outcome = read("BOM", example("catena-x-battery-pass"))

    found = payloads(outcome)
    assert list(found) == [
        "battery:EX-75",
        "component:EX-75:cobalt",
        "component:EX-75:graphite",
        "pcf:EX-75",
        "dd:EX-75",
    ]
    battery = found["battery:EX-75"]
    assert battery["mass_kg"] == "450.500000"  # 0.4505 t
    assert battery["warranty_months"] == 96  # 8 years
    assert (battery["serial_number"], battery["batch_number"]) == ("EX-75-0001", "B-2027-03")
    assert (battery["mercury_pct"], battery["lead_pct"]) == ("0.000010", "0.000300")  # 0.1 and 3 ppm
    assert battery["critical_raw_materials"] == ["Cobalt", "Lithium", "cobalt", "graphite"]
    assert battery["extinguishing_agents"] == ["Water", "Dry powder"]
    assert battery["spare_part_sources"] == [{"name": "BPNL00000000EXMP", "part_numbers": ["EX-75-FUSE", "EX-75-BMS"]}]
    assert battery["state_recorded_on"] == "2027-03-01"
    assert found["component:EX-75:cobalt"]["mass_share_pct"] == "2.1000"  # 21 per thousand
    assert found["component:EX-75:cobalt"]["cas_number"] == "7440-48-4"  # the second of two identifiers
    assert PER_KWH.items() <= found["pcf:EX-75"].items()
    assert warnings(outcome) == [
        (
            "$.sustainability.carbonFootprint[5]",
            'is about the text "Acidification"; facts hold `Climate Change Total` only, and it was left out',
        )
    ]


def test_footprints_of_two_plants_are_two_facts_and_are_said_to_share_a_key() -> None:
    entries = json.loads(example("catena-x-battery-pass"))["sustainability"]["carbonFootprint"][:2]
    entries[1]["manufacturingPlant"] = [{"facility": "BPNA0000000EXMP2"}]

    outcome = read("PCF", changed("catena-x-battery-pass", "sustainability.carbonFootprint", entries))

    assert [(fact.fact_key, fact.source_path) for fact in outcome.facts if fact.fact_type == "PCF"] == [
        ("pcf:EX-75", "$.sustainability.carbonFootprint[0]"),
        ("pcf:EX-75", "$.sustainability.carbonFootprint[1]"),
    ]
    assert warnings(outcome)[-1][1].startswith("has the key of `$.sustainability.carbonFootprint[0]`")


@pytest.mark.parametrize(
    ("unit", "member", "value"),
    [
        ("g CO2-eq / kWh", "raw_material_gco2e_per_kwh", "0.081000"),
        ("kgCO2e/kWh", "raw_material_gco2e_per_kwh", "81.000000"),
        ("kg CO₂ eq per kWh", "raw_material_gco2e_per_kwh", "81.000000"),
        ("kg CO2", "raw_material_gco2e", "81.00"),
        ("t CO2e", "raw_material_gco2e", "81000.00"),
    ],
)
def test_a_footprint_in_another_unit(unit: str, member: str, value: str) -> None:
    outcome = read("PCF", changed("catena-x-battery-pass", "sustainability.carbonFootprint.0.unit", unit))

    assert payloads(outcome)["pcf:EX-75"][member] == value


def test_a_footprint_in_no_unit_of_footprints_is_a_problem() -> None:
    document = changed("catena-x-battery-pass", "sustainability.carbonFootprint.0.unit", "kg/m2")

    assert problems("PCF", document) == [
        (
            "$.sustainability.carbonFootprint[0].unit",
            'is the text "kg/m2", not a unit of footprints; known are `kg CO2 / kWh` and `kg CO2`, also in g or t',
        )
    ]


@pytest.mark.parametrize(
    ("name", "unit", "scope"),
    [("catena-x-pcf-9", "1 piece", "Cradle-to-gate"), ("catena-x-pcf-7", "450.5 kilogram", "Cradle-to-grave")],
)
def test_a_catena_x_pcf_of_either_shape(name: str, unit: str, scope: str) -> None:
    footprint = payloads(read("PCF", example(name)))["pcf:EX-75"]

    assert footprint["total_gco2e"] == "4321500.00"
    assert footprint["functional_unit"] == f"{unit}, {scope}"
    assert footprint["year"] == 2026
    assert footprint["valid_until_on"] == "2029-12-31"
    assert footprint["facility_country"] == "DE"


def test_a_stage_that_is_not_included_is_left_out_and_said() -> None:
    way = "productLifeCycleStagesAndEmissions.0.distributionStage.0.distributionStageIncluded"

    counted = read("PCF", example("catena-x-pcf-9"))
    not_counted = read("PCF", changed("catena-x-pcf-9", way, False))

    assert payloads(counted)["pcf:EX-75"]["distribution_gco2e"] == "12750.00"
    assert "distribution_gco2e" not in payloads(not_counted)["pcf:EX-75"]
    assert any("says that it is not included" in says for _, says in warnings(not_counted))


def test_several_footprints_come_as_a_list() -> None:
    one, other = json.loads(example("catena-x-pcf-9")), json.loads(example("catena-x-pcf-7"))
    other["productIds"] = ["EX-80"]

    outcome = read("PCF", [one, other])

    assert [(fact.fact_key, fact.source_path) for fact in outcome.facts] == [
        ("pcf:EX-75", "$[0]"),
        ("pcf:EX-80", "$[1]"),
    ]
    assert problems("PCF", [one, {"sku": "A"}]) == [("$[1]", "is not in the format of the others of this list")]


def test_the_footprint_of_a_part_adds_up() -> None:
    outcome = read("PCF", example("catena-x-component-pcf"))

    footprint = payloads(outcome)["pcf:CATHODE-811"]
    assert (footprint["total_gco2e"], footprint["functional_unit"]) == ("24500.00", "1 kg of the part")
    assert not any("add up" in says for _, says in warnings(outcome))


def test_a_footprint_of_a_part_says_what_it_is_of() -> None:
    way = "pcfValues.sharesPerStage.declaredUnit"
    piece = payloads(read("PCF", changed("catena-x-component-pcf", way, "CO2KG/piece")))["pcf:CATHODE-811"]

    assert piece["functional_unit"] == "1 piece of the part"
    assert problems("PCF", changed("catena-x-component-pcf", way, "CO2KG/box")) == [
        (
            "$.pcfValues.sharesPerStage.declaredUnit",
            'is the text "CO2KG/box"; it says what the figures are of: `CO2KG/KG` or `CO2KG/piece`',
        )
    ]


def test_a_bill_of_materials_counts_pieces_and_masses_as_often_as_their_item() -> None:
    outcome = read("BOM", example("catena-x-bom-as-specified"))

    found = payloads(outcome)
    assert list(found) == [
        "battery:EX-75",
        "component:EX-75:EX-CELL",
        "component:EX-75:EX-HOUSING",
        "component:EX-75:EX-COOLANT",
        "component:EX-75:EX-CELL#2",
    ]
    assert found["component:EX-75:EX-CELL"]["quantity"] == 96
    assert found["component:EX-75:EX-CELL#2"]["quantity"] == 6  # 3 in each of 2 sets
    assert found["component:EX-75:EX-HOUSING"]["mass_g"] == "38250.000000"
    assert warnings(outcome) == [
        (
            "$.item[0].part[2].partQuantity",
            'is 2.5 "unit:litre", neither a number of pieces nor a mass; the part was read without it',
        )
    ]


@pytest.mark.parametrize("unit", [{}, {"measurementUnit": None}, {"measurementUnit": ""}])
def test_a_quantity_without_a_unit_is_left_out_and_said(unit: dict[str, object]) -> None:
    document = changed("catena-x-bom-as-specified", "item.0.part.0.partQuantity", {"quantityNumber": 96.5, **unit})

    outcome = read("BOM", document)

    assert "quantity" not in payloads(outcome)["component:EX-75:EX-CELL"]
    assert warnings(outcome)[0] == (
        "$.item[0].part[0].partQuantity",
        "is 96.5 without a `measurementUnit`; the part was read without it",
    )


def test_how_often_an_item_is_there_is_said_to_be_left_out_where_it_counts_nothing() -> None:
    part = {"ownerPartId": "EX-CELL"}

    outcome = read("BOM", {"identifier": "EX-75", "item": [{"quantity": 2, "part": [part]}]})

    assert [note.says for note in outcome.warnings.first] == [
        "was read as a Catena-X BomAsSpecified; no fact has a place for `item[].quantity`, which were left out"
    ]


def bill(parts: int) -> dict[str, Any]:
    """A bill of materials of so many parts, each with a mass of more decimals than the fact has."""
    mass = {"quantityNumber": 1.23456789, "measurementUnit": "unit:gram"}
    made = [{"ownerPartId": f"P{number}", "partQuantity": mass} for number in range(parts)]
    return {"identifier": "EX-75", "item": [{"part": made}]}


def test_every_rounding_is_said_however_many_there_are() -> None:
    outcome = read("BOM", bill(150))

    rounded = [at for at, says in warnings(outcome) if says.endswith("it was rounded to 1.234568")]
    assert rounded == [f"$.item[0].part[{number}].partQuantity.quantityNumber" for number in range(150)]
    assert outcome.warnings.total == 150


def test_other_warnings_do_not_crowd_roundings_out() -> None:
    document = bill(150)
    lost = {"ownerPartId": "P", "partQuantity": {"quantityNumber": 1, "measurementUnit": "litre"}}
    document["item"] = [{"part": [lost] * 200}, *document["item"], {"part": [lost]}]

    outcome = read("BOM", document)

    assert outcome.warnings.total == 351
    assert len(outcome.warnings.first) == MOST_KEPT + 150
    assert sum("it was rounded to" in note.says for note in outcome.warnings.first) == 150


def test_more_roundings_than_can_be_said_are_a_problem() -> None:
    assert len(read("BOM", bill(MOST_ROUNDINGS)).warnings.first) == MOST_ROUNDINGS
    assert problems("BOM", bill(MOST_ROUNDINGS + 5)) == [
        (
            "$.item[0].part[1000].partQuantity.quantityNumber",
            (
                "is one of more than 1,000 numbers with more decimals than their facts have, too many to name each"
                " rounding; send this one with at most 6 decimals and the others likewise, or split the document"
            ),
        )
    ]


def test_a_flat_passport_in_other_units_is_the_same_battery() -> None:
    outcome = read("BOM", example("openepcis-passport"))

    found = payloads(outcome)
    battery = found["battery:09521234010012"]
    expected = {
        "mass_kg": "450.500000",
        "capacity_kwh": "75.500000",
        "rated_capacity_ah": "190.000000",
        "nominal_voltage_v": "400.000",
        "maximum_power_w": "150000.000",
        "initial_pack_resistance_ohm": "0.062000",
        "category": "ev",
        "name": "Example Traction 75",
        "manufactured_on": "2027-02-01",
    }
    assert expected.items() <= battery.items()
    assert PER_KWH.items() <= found["pcf:09521234010012"].items()
    assert found["component:09521234010012:Cobalt"]["location"] == "cathode"
    assert found["component:09521234010012:Cobalt#2"]["location"] == "casing"
    assert ("$.manufacturingDate", 'is "2027-02"; the fact holds the day 2027-02-01') in warnings(outcome)


def test_a_footprint_that_is_not_per_kwh_is_one_of_the_whole_battery() -> None:
    way = "carbonFootprintDeclaration.functionalUnit"

    footprint = payloads(read("PCF", changed("openepcis-passport", way, "1 battery")))["pcf:09521234010012"]

    assert footprint["total_gco2e"] == "130.00"
    assert "gco2e_per_kwh" not in footprint


def test_a_grouped_passport_under_any_root() -> None:
    found = payloads(read("BOM", example("batterypass-ready")))

    assert list(found) == ["battery:EX-BIKE-500", "pcf:EX-BIKE-500", "dd:EX-BIKE-500"]
    expected = {
        "mass_kg": "2.900000",
        "rated_capacity_ah": "14.000000",
        "warranty_months": 24,
        "expected_cycles": 800,
        "chemistry": "NMC622",
        "category": "lmt",
        "negative_events": [{"event": "none"}],
    }
    assert expected.items() <= found["battery:EX-BIKE-500"].items()


@pytest.mark.parametrize("kind", ["BOM", "PCF", "DUE_DILIGENCE"])
def test_all_aspects_together_are_one_battery(kind: str) -> None:
    outcome = read(kind, example("batterypass-aspects"))

    assert [(fact.fact_key, fact.source_path) for fact in outcome.facts] == [
        ("battery:EX-75", "$"),
        ("pcf:EX-75", "$.carbonFootprint"),
        ("component:EX-75:Cobalt", "$.materialComposition.batteryMaterials[0]"),
        ("component:EX-75:Graphite", "$.materialComposition.batteryMaterials[1]"),
        ("dd:EX-75", "$.supplyChainDueDiligence"),
    ]
    found = payloads(outcome)
    expected = {
        "maximum_power_w": "150000.000",
        "recycled_lead_post_pct": "85.00",
        "status": "re-used",
        "manufactured_on": "2027-02-20",
        "state_recorded_on": "2027-03-01",
        "full_cycles": 12,
        "separate_collection_label_url": "https://www.examplecells.example/bin.svg",
        "dismantling_url": "https://www.examplecells.example/dismantling.pdf",
    }
    assert expected.items() <= found["battery:EX-75"].items()
    assert found["component:EX-75:Cobalt"]["mass_g"] == "9460.500000"
    assert PER_KWH.items() <= found["pcf:EX-75"].items()
    assert found["pcf:EX-75"]["total_gco2e"] == "4321500.00"


ALONE = {
    "CarbonFootprintForBatteries": ("PCF", "carbonFootprint"),
    "Circularity": ("BOM", "circularity"),
    "MaterialComposition": ("BOM", "materialComposition"),
    "Labeling": ("BOM", "labels"),
    "PerformanceAndDurability": ("BOM", "performance"),
    "SupplyChainDueDiligence": ("DUE_DILIGENCE", "supplyChainDueDiligence"),
}


@pytest.mark.parametrize("aspect", ALONE)
def test_an_aspect_alone_needs_to_say_which_battery_it_is_about(aspect: str) -> None:
    kind, member = ALONE[aspect]
    alone = json.loads(example("batterypass-aspects"))[member]

    (problem,) = problems(kind, alone)
    named = read(kind, {"productIdentifier": "EX-75", **alone})

    assert problem == (
        "$",
        (
            f"is the aspect {aspect}, which does not say which battery it is about; put `productIdentifier` beside its"
            " members, or GeneralProductInformation into the same document"
        ),
    )
    assert {fact.fact_key.split(":")[1] for fact in named.facts} == {"EX-75"}


def test_general_product_information_alone_is_a_battery() -> None:
    general = json.loads(example("batterypass-aspects"))["generalProductInformation"]

    assert list(payloads(read("BOM", general))) == ["battery:EX-75"]
    assert problems("PCF", general) == [
        (
            "$",
            (
                "is aspects of the BatteryPassDataModel, which is read as a document of kind BOM;"
                " this one is of kind PCF"
            ),
        )
    ]


def test_the_latest_of_an_items_events_counts_and_accidents_stay() -> None:
    found = payloads(read("BOM", example("epcis-state-of-health")))

    first, second = found["battery:09521234010012/EX-75-0001"], found["battery:09521234010012/EX-75-0002"]
    assert first["remaining_capacity_ah"] == "182.400000"  # in mAh there
    assert first["state_of_charge_pct"] == "78.50"
    assert [record["state_of_charge_pct"] for record in first["state_of_charge_records"]] == ["40.00", "78.50"]
    assert first["state_recorded_on"] == "2028-06-15"
    accident = {
        "event": "Flooding: Stood in water.",
        "occurred_on": "2028-01-10",
        "report_url": "https://www.examplecells.example/incidents/1.pdf",
    }
    assert first["negative_events"] == second["negative_events"] == [accident]
    assert second["serial_number"] == "EX-75-0002"  # from urn:epc:id:sgtin


def test_an_event_about_thousands_of_batteries_with_thousands_of_readings_is_refused() -> None:
    report = {"type": "Temperature", "value": "20", "uom": "CEL"}
    items = [f"https://id.gs1.org/01/09521234010012/21/{number}" for number in range(500)]
    event = {
        "eventTime": "2028-01-10T09:30:00Z",
        "epcList": items,
        "sensorElementList": [{"sensorReport": [report] * 500}],
    }

    assert problems("BOM", {"epcisBody": {"eventList": [event]}}) == [
        (
            "$.epcisBody.eventList[0]",
            "makes more than 200,000 records of single batteries; split the document",
        )
    ]


@pytest.mark.parametrize("name", example_names())
def test_an_example_is_read_the_same_way_whatever_the_order_of_its_members(name: str) -> None:
    def turned(value: object) -> object:
        if isinstance(value, dict):
            return {key: turned(part) for key, part in reversed(value.items())}
        return [turned(part) for part in value] if isinstance(value, list) else value

    document = json.loads(example(name))
    kind = "PCF" if "pcf" in name or "footprint" in name else "BOM"

    assert payloads(read(kind, document)) == payloads(read(kind, turned(document)))


def test_a_battery_pass_of_version_5_names_its_materials_elsewhere() -> None:
    document = json.loads(example("catena-x-battery-pass"))
    del document["specVersion"]
    document["conformity"]["declarationOfConformityId"] = document["conformity"]["declarationOfConformity"]
    document["handling"]["spareParts"] = document["handling"].pop("content")
    document["materials"]["composition"] = [
        {
            "name": {"name": "cobalt", "type": "IUPAC"},
            "id": [{"type": "CAS", "id": "7440-48-4"}],
            "concentration": 2,
            "unit": "unit:percent",
            "critical": True,
        }
    ]

    found = payloads(read("BOM", document))

    assert found["component:EX-75:cobalt"] == {
        "sku": "EX-75",
        "part": "cobalt",
        "material": "cobalt",
        "cas_number": "7440-48-4",
        "mass_share_pct": "2.0000",
        "critical": True,
    }
    battery = found["battery:EX-75"]
    assert battery["spare_part_sources"][0]["part_numbers"] == ["EX-75-FUSE", "EX-75-BMS"]
    assert "declaration_of_conformity_id" not in battery


@pytest.mark.parametrize(
    ("name", "way", "value", "at", "says"),
    [
        (
            "catena-x-battery-pass",
            "performance",
            "good",
            "$.performance",
            'is the text "good", not an object',
        ),
        (
            "catena-x-battery-pass",
            "performance.rated.voltage.min",
            "low",
            "$.performance.rated.voltage.min",
            'is the text "low", not a number',
        ),
        (
            "catena-x-battery-pass",
            "performance.rated.energy.value",
            10**36,
            "$.performance.rated.energy.value",
            "is not below 10^36",
        ),
        (
            "catena-x-battery-pass",
            "identification.chemistry",
            ["NMC"],
            "$.identification.chemistry",
            "is a list, not a text",
        ),
        (
            "catena-x-battery-pass",
            "identification.chemistry",
            "NMC\u0000",
            "$.identification.chemistry",
            "has a character that is none: U+0000 or half of a surrogate pair",
        ),
        (
            "catena-x-battery-pass",
            "identification.identification.type",
            {},
            "$.identification.identification.type.manufacturerPartId",
            "is missing; it says which product this is about",
        ),
        (
            "catena-x-battery-pass",
            "identification.identification.type.manufacturerPartId",
            "x" * 201,
            "$.identification.identification.type.manufacturerPartId",
            "does not name a product in 1 to 200 characters",
        ),
        (
            "catena-x-battery-pass",
            "materials.composition.0.critical",
            3,
            "$.materials.composition[0].critical",
            "is a number, not true or false",
        ),
        (
            "catena-x-bom-as-specified",
            "item.0.part.0.ownerPartId",
            None,
            "$.item[0].part[0].ownerPartId",
            "is missing; it says which part this is",
        ),
        ("catena-x-bom-as-specified", "item", [], "$.item", "has no parts"),
        (
            "batterypass-ready",
            "LMT.PerformanceAndDurability.NominalVoltage.volt",
            "furlong",
            "$.LMT.PerformanceAndDurability.NominalVoltage.volt",
            (
                'is the text "furlong", and the value cannot be converted without a unit we know, such as `mV`, `2Z`,'
                " `millivolt`, `V`, `v`, `VLT`, `volt`, `kV`, `KVT`, `kilovolt`"
            ),
        ),
        (
            "epcis-state-of-health",
            "epcisBody.eventList",
            [],
            "$",
            "has no event that says how a battery is or what happened to it",
        ),
        ("epcis-state-of-health", "epcisBody", {}, "$.epcisBody.eventList", "is missing; it holds what happened"),
        (
            "epcis-state-of-health",
            "epcisBody.eventList.0.epcList",
            None,
            "$.epcisBody.eventList[0].epcList",
            "is missing; it says which battery this is about",
        ),
        (
            "batterypass-aspects",
            "carbonFootprint.carbonFootprintPerLifecycleStage.0.lifecycleStage",
            "Marketing",
            "$.carbonFootprint.carbonFootprintPerLifecycleStage[0].lifecycleStage",
            'is the text "Marketing", not a stage of Art. 7',
        ),
    ],
)
def test_what_is_wrong_is_said_where_it_stands(name: str, way: str, value: object, at: str, says: str) -> None:
    assert problems("BOM", changed(name, way, value)) == [(at, says)]


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({"openapi": "3.0.3", "paths": {}}, "is a description of an interface (OpenAPI)"),
        ({"assetAdministrationShells": []}, "is an Asset Administration Shell environment"),
        ({"@graph": [], "@context": {}}, "is a vocabulary or graph"),
        ({"type": "object", "properties": {}}, "is a JSON Schema"),
        (
            {"batteryIdentification": {}, "electrochemicalProperties": {}},
            "is a Catena-X BatteryPass of version 3 or older",
        ),
    ],
)
def test_what_is_known_and_not_read_is_told_by_name(document: object, says: str) -> None:
    ((at, said),) = problems("BOM", document)

    assert (at, said[: len(says)]) == ("$", says)
