"""Catena-X ChemicalMaterialPassport: the substances of a material, each by itself."""

import json

from tests.core.documents.public.example_outcomes import (
    change_example,
    decode_payloads,
    list_problems,
    list_warnings,
    read_facts,
)
from tests.core.documents.public_files import read_example

NAME = "catena-x-chemical-material-passport"


def test_substances_are_components_of_the_material_and_no_battery_is_invented() -> None:
    outcome = read_facts("BOM", read_example(NAME))

    assert decode_payloads(outcome) == {
        "component:EX-ELY-1:lithium hexafluorophosphate": {
            "sku": "EX-ELY-1",
            "part": "lithium hexafluorophosphate",
            "material": "lithium hexafluorophosphate",
            "cas_number": "21324-40-3",
            "location": "electrolyte",
            "mass_share_pct": "12.5000",
            "critical": True,
            "hazardous": True,
            "hazard_class": "Acute toxicity",
            "hazard_impact": "Toxic if swallowed.",
            "renewable_pct": "0.00",
            "supplier": "BPNL00000000EX04",
        },
        "component:EX-ELY-1:ethylene carbonate": {
            "sku": "EX-ELY-1",
            "part": "ethylene carbonate",
            "material": "ethylene carbonate",
            "cas_number": "96-49-1",
            "mass_share_pct": "30.0000",
            "critical": False,
            "renewable_pct": "5.00",
            "supplier": "BPNL00000000EX04",
        },
    }
    says = "is the article number of a material; its substances are components of `EX-ELY-1`, not of a battery"
    assert ("$.generic.identification.type.manufacturerPartId", says) in list_warnings(outcome)


def test_version_1_calls_the_generic_part_unspecific() -> None:
    document = json.loads(read_example(NAME))
    document["unspecific"] = document.pop("generic")

    assert len(decode_payloads(read_facts("BOM", document))) == 2


def test_a_part_that_does_not_apply_is_not_read() -> None:
    document = change_example(NAME, "generic.materials.substancesOfConcern.applicable", False)

    facts = decode_payloads(read_facts("BOM", document))

    assert "hazardous" not in facts["component:EX-ELY-1:lithium hexafluorophosphate"]


def test_a_passport_without_substances_is_refused() -> None:
    assert list_problems("BOM", change_example(NAME, "generic.materials", {})) == [
        ("$.generic.materials", "has no substances: `materialComposition.content` is missing")
    ]
