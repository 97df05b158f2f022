"""Our own documents in public formats: what is true of all of them."""

import json
import time

import pytest

from bpc.core.documents.reader import PUBLIC_FORMATS, DocumentFacts, read_document, recognise_format
from tests.core.documents.public.example_outcomes import (
    KINDS,
    change_example,
    decode_payloads,
    list_faults,
    list_problems,
    read_facts,
)
from tests.core.documents.public_files import EXAMPLES, list_example_names, read_example
from tests.measurements import allow_seconds


def test_the_folder_says_what_each_example_is() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")

    assert [name for name in list_example_names() if f"`{name}.json`" not in page] == []


@pytest.mark.parametrize("name", list_example_names())
def test_an_example_is_read_the_same_way_whatever_the_order_of_its_members(name: str) -> None:
    def reverse_members(value: object) -> object:
        if isinstance(value, dict):
            return {key: reverse_members(part) for key, part in reversed(value.items())}
        return [reverse_members(part) for part in value] if isinstance(value, list) else value

    document = json.loads(read_example(name))
    kind = "PCF" if "pcf" in name or "footprint" in name else "BOM"

    assert decode_payloads(read_facts(kind, document)) == decode_payloads(read_facts(kind, reverse_members(document)))


@pytest.mark.parametrize(
    ("name", "path", "value", "at", "says"),
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
            "contains an invalid character: U+0000 or half of a surrogate pair",
        ),
        (
            "catena-x-battery-pass",
            "identification.identification.type",
            {},
            "$.identification.identification.type.manufacturerPartId",
            "is missing; it identifies the product",
        ),
        (
            "catena-x-battery-pass",
            "identification.identification.type.manufacturerPartId",
            "x" * 201,
            "$.identification.identification.type.manufacturerPartId",
            "must identify a product in 1 to 200 characters",
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
            "is missing; it identifies the part",
        ),
        ("catena-x-bom-as-specified", "item", [], "$.item", "has no parts"),
        (
            "batterypass-ready",
            "LMT.PerformanceAndDurability.NominalVoltage.volt",
            "furlong",
            "$.LMT.PerformanceAndDurability.NominalVoltage.volt",
            (
                'is the text "furlong"; the value needs a known unit, such as `mV`, `2Z`,'
                " `millivolt`, `V`, `v`, `VLT`, `volt`, `kV`, `KVT`, `kilovolt`"
            ),
        ),
        (
            "epcis-state-of-health",
            "epcisBody.eventList",
            [],
            "$",
            "has no event about the state of a battery or an accident",
        ),
        ("epcis-state-of-health", "epcisBody", {}, "$.epcisBody.eventList", "is missing; it holds the events"),
        (
            "epcis-state-of-health",
            "epcisBody.eventList.0.epcList",
            None,
            "$.epcisBody.eventList[0].epcList",
            "is missing; it identifies the battery",
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
def test_a_problem_is_reported_at_its_place(name: str, path: str, value: object, at: str, says: str) -> None:
    assert list_faults("BOM", change_example(name, path, value)) == [(at, says)]


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({"openapi": "3.0.3", "paths": {}}, "is an OpenAPI description of an interface"),
        ({"assetAdministrationShells": []}, "is an Asset Administration Shell environment"),
        ({"@graph": [], "@context": {}}, "is a vocabulary or graph"),
        ({"type": "object", "properties": {}}, "is a JSON Schema"),
        (
            {"batteryIdentification": {}, "electrochemicalProperties": {}},
            "is a Catena-X BatteryPass of version 3 or older",
        ),
    ],
)
def test_a_known_file_that_is_no_document_is_named(document: object, says: str) -> None:
    ((at, message),) = list_problems("BOM", document)

    assert (at, message[: len(says)]) == ("$", says)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", list_example_names())
def test_every_example_ends_in_facts_or_in_reasons(name: str, kind: str) -> None:
    outcome = read_document(kind, "application/json", read_example(name))

    assert outcome.facts if isinstance(outcome, DocumentFacts) else outcome.problems.total


@pytest.mark.parametrize("name", list_example_names())
def test_an_example_is_recognised_as_one_format_only(name: str) -> None:
    document = json.loads(read_example(name))

    names = [public_format.name for public_format in PUBLIC_FORMATS if public_format.matches(document)]

    assert names[0] == getattr(recognise_format(document), "name", None)
    # A flat passport also has members of some aspects; the passport comes first.
    assert len(names) == 1 or names[1:] == ["aspects of the BatteryPassDataModel"]


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("catena-x-pcf-9", "BOM", "is a Catena-X Pcf of version 9; upload it as a document of kind PCF, not BOM"),
        ("catena-x-pcf-7", "BOM", "is a Catena-X Pcf of version 7 or 8; upload it as a document of kind PCF, not BOM"),
        (
            "catena-x-component-pcf",
            "BOM",
            "is a Catena-X PcfForBatteryComponentSupplier; upload it as a document of kind PCF, not BOM",
        ),
        (
            "catena-x-bom-as-specified",
            "PCF",
            "is a Catena-X BomAsSpecified; upload it as a document of kind BOM, not PCF",
        ),
        (
            "epcis-state-of-health",
            "DUE_DILIGENCE",
            "is an EPCIS document; upload it as a document of kind BOM, not DUE_DILIGENCE",
        ),
    ],
)
def test_a_format_under_the_wrong_kind_names_the_right_one(name: str, kind: str, says: str) -> None:
    assert list_problems(kind, json.loads(read_example(name))) == [("$", says)]


@pytest.mark.parametrize("name", list_example_names())
def test_an_example_is_read_in_a_moment(name: str) -> None:
    content = read_example(name)
    read_document("BOM", "application/json", content)

    started = time.perf_counter()
    read_document("BOM", "application/json", content)

    assert time.perf_counter() - started < allow_seconds(0.5)
