"""JSON-LD exports: any processor expands them to absolute names and typed values, with no network at hand."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyld import jsonld  # type: ignore[import-untyped]

from bpc.core.exports.disclosure import disclose
from bpc.core.exports.json_ld import XSD, encode_context_document, export_json_ld
from bpc.core.formats import canonical_json
from tests.core.exports.example_bundles import CASES, compile_bundle, compile_example

PAGE = Path(__file__).parents[3] / "docs" / "formats" / "passport.jsonld"


def refuse_network(url: str, _: object) -> Any:
    raise AssertionError(f"{url} was asked for")


def expand(document: bytes) -> dict[str, Any]:
    (node,) = jsonld.expand(json.loads(document), {"documentLoader": refuse_network})
    return dict(node)


def get_value(node: dict[str, Any], path: str) -> Any:
    (value_object,) = node[f"urn:bpc:field:{path}"]
    return value_object


@pytest.mark.parametrize("name", CASES)
def test_every_name_becomes_absolute_and_no_field_is_lost(name: str) -> None:
    disclosed_passport = disclose(compile_example(name), "tenant")

    node = expand(export_json_ld(disclosed_passport))

    assert {key.partition("urn:bpc:field:")[2] for key in node if key.startswith("urn:bpc:field:")} == {
        field.path for field in disclosed_passport.fields if field.value is not None
    }
    assert [key for key in node if not key.startswith(("@", "urn:bpc:"))] == []
    assert node["@id"] == f"urn:uuid:{disclosed_passport.receipt.passport_version_id}"


@pytest.mark.parametrize("waived", [None, 0, 3])
def test_it_says_how_many_entries_were_waived_if_that_is_known(waived: int | None) -> None:
    node = expand(export_json_ld(replace(disclose(compile_example("example-first"), "public"), waived=waived)))

    number = [{"@type": f"{XSD}integer", "@value": str(waived)}]
    assert node.get("urn:bpc:passport:waived_entries") == (None if waived is None else number)


REQUIRED = """language 2;
field a @public: Int = 1;
require R1 "at least 16 %": 15 >= 16 else "{share: 15} % is less than {least: 16} %";
require R2 "at least 20 %" in force from date("2099-01-01"): false;
"""


def test_an_entry_of_a_requirement_says_its_verdict_and_its_arguments() -> None:
    node = expand(export_json_ld(disclose(compile_bundle(REQUIRED), "tenant")))

    [entries] = node["urn:bpc:passport:compliance"]
    first, second = entries["@list"]
    assert first["urn:bpc:passport:args"] == [{"@type": "@json", "@value": {"least": "16", "share": "15"}}]
    assert second["urn:bpc:passport:verdict"] == [{"@value": "not_yet_in_force"}]


def test_values_carry_their_types() -> None:
    node = expand(export_json_ld(disclose(compile_example("reference-2"), "tenant")))

    assert get_value(node, "general.category") == {"@type": f"{XSD}string", "@value": "ev"}
    assert get_value(node, "general.manufacturing.on") == {"@type": f"{XSD}date", "@value": "2027-06-01"}
    assert get_value(node, "duties.qr") == {"@type": f"{XSD}boolean", "@value": "true"}
    assert get_value(node, "state.full_cycles")["@type"] == f"{XSD}integer"
    assert get_value(node, "performance.voltage.nominal") == {
        "@type": ["urn:bpc:passport:Quantity"],
        "urn:bpc:passport:unit": [{"@type": f"{XSD}string", "@value": "V"}],
        "urn:bpc:passport:value": [{"@type": f"{XSD}decimal", "@value": "400"}],
    }
    critical = get_value(node, "materials.critical")["@list"]
    assert critical[0]["urn:bpc:member:material"] == [{"@type": f"{XSD}string", "@value": "NMC811"}]
    (receipt,) = node["urn:bpc:passport:receipt"]
    assert receipt["urn:bpc:passport:payload_hash"][0]["@type"] == f"{XSD}hexBinary"


def test_it_is_data_for_a_graph() -> None:
    quads = jsonld.to_rdf(
        json.loads(export_json_ld(disclose(compile_example("example-first"), "tenant"))),
        {"documentLoader": refuse_network, "format": "application/n-quads"},
    )

    assert f'<urn:bpc:field:battery.capacity_kwh> "75.500000"^^<{XSD}decimal> .' in quads


def test_texts_are_data_whatever_they_look_like() -> None:
    disclosed_passport = disclose(compile_example("texts"), "tenant")

    node = expand(export_json_ld(disclosed_passport))

    texts = {field.path: field.value for field in disclosed_passport.fields if isinstance(field.value, str)}
    assert texts
    for path, text in texts.items():
        assert get_value(node, path)["@value"] == text


def test_equal_passports_give_equal_bytes_and_the_context_comes_first() -> None:
    once, again = (export_json_ld(disclose(compile_example("reference-2"), "interest")) for _ in range(2))

    assert once == again
    assert once.startswith(b'{"@context":{"@version":1.1,')
    without = json.loads(once)
    context = without.pop("@context")
    assert once.endswith(canonical_json.encode(without)[1:])
    assert context == json.loads(encode_context_document())["@context"]


def test_the_published_context_is_the_one_in_the_documentation() -> None:
    assert PAGE.read_bytes() == encode_context_document() + b"\n"
