"""The compile input: everything a passport is compiled from, read with every mistake named."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from bpc.core.formats.canonical_json import NotCanonical
from bpc.core.formats.timestamps import NotATime
from bpc.core.passport.compile_input import CompileInput, InputInvalid, encode_input, read_input

INPUT_DOCUMENT: dict[str, Any] = {
    "tenant_id": "9f767c45-1111-4111-8111-b791bde5c099",
    "passport_id": "1b4e28ba-2fa1-41d2-883f-0016d3cca427",
    "passport_version_id": "6fa459ea-ee8a-4ca4-894e-db77e160355e",
    "battery_product": {
        "battery_product_id": "16fd2706-8baf-433b-82eb-8c7fada847da",
        "sku": "SKU-123",
        "name": "Pack 75 é",
    },
    "snapshot_id": "c386bbc4-0000-4000-8000-3c5f414c343c",
    "rule_package_version_id": "886313e1-3b8a-4372-9b90-0c9aee199e5d",
    "issued_at": "2027-02-18T00:00:00.000000Z",
    "compiler_build_id": "bpc-0.1.0",
    "signing_key_id": "key-1",
    "facts": [
        {"fact_type": "Battery", "fact_key": "battery:SKU-123", "schema_version": 1, "payload": {"mass_kg": "450"}}
    ],
}


def read_document(document: Any) -> CompileInput:
    return read_input(json.dumps(document, indent=2).encode(), rules=b"rules", tests=b"tests")


def list_problems(document: Any) -> tuple[str, ...]:
    with pytest.raises(InputInvalid) as error:
        read_document(document)
    assert error.value.code == "VALIDATION_ERROR"
    assert error.value.details == {"problems": list(error.value.problems)}
    return error.value.problems


def drop_member(name: str) -> dict[str, Any]:
    return {other: value for other, value in INPUT_DOCUMENT.items() if other != name}


def test_a_whole_input_is_read() -> None:
    compile_input = read_document(INPUT_DOCUMENT)

    assert str(compile_input.tenant_id) == INPUT_DOCUMENT["tenant_id"]
    assert compile_input.product.as_json() == INPUT_DOCUMENT["battery_product"]
    assert compile_input.issued_at == datetime(2027, 2, 18, tzinfo=UTC)
    assert [(fact.fact_key, fact.payload) for fact in compile_input.facts] == [("battery:SKU-123", {"mass_kg": "450"})]
    assert (compile_input.rules, compile_input.tests) == (b"rules", b"tests")


def test_what_was_read_is_written_so_that_it_reads_the_same() -> None:
    compile_input = read_document(INPUT_DOCUMENT)

    assert json.loads(encode_input(compile_input)) == INPUT_DOCUMENT
    assert read_input(encode_input(compile_input), rules=b"rules", tests=b"tests") == compile_input


@pytest.mark.parametrize("name", list(INPUT_DOCUMENT))
def test_a_missing_member_is_named(name: str) -> None:
    assert list_problems(drop_member(name)) == (f"`{name}` is missing",)


@pytest.mark.parametrize("name", list(INPUT_DOCUMENT))
@pytest.mark.parametrize("value", [None, 1, True])
def test_a_member_of_another_type_is_named(name: str, value: Any) -> None:
    (problem,) = list_problems({**INPUT_DOCUMENT, name: value})

    assert problem.startswith(f"`{name}` is not ")


@pytest.mark.parametrize("name", ["battery_product_id", "sku", "name"])
def test_a_missing_member_of_the_product_is_named(name: str) -> None:
    product = {other: value for other, value in INPUT_DOCUMENT["battery_product"].items() if other != name}

    assert list_problems({**INPUT_DOCUMENT, "battery_product": product}) == (f"`battery_product.{name}` is missing",)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"tenant_id": INPUT_DOCUMENT["tenant_id"].upper()}, "`tenant_id`: `9F767C45"),
        ({"issued_at": "2027-02-18"}, "`issued_at`: `2027-02-18` is not a time"),
        ({"issued_at": "2027-02-30T00:00:00.000000Z"}, "`issued_at`: "),
        ({"compiler_build_id": ""}, "`compiler_build_id`: a name must have 1 to 200 characters"),
        ({"compiler_build_id": "x" * 201}, "`compiler_build_id`: "),
        ({"signing_key_id": "a\0"}, "`signing_key_id`: "),
        (
            {"battery_product": {**INPUT_DOCUMENT["battery_product"], "sku": "a\0b"}},
            "`battery_product.sku`: it holds U+0000",
        ),
        (
            {"battery_product": {**INPUT_DOCUMENT["battery_product"], "gtin": ""}},
            "`battery_product.gtin` is not a known member",
        ),
        ({"battery_product": []}, "`battery_product` is not an object"),
        ({"facts": {}}, "`facts` is not a list"),
        ({"facts": [INPUT_DOCUMENT["facts"][0], 7]}, "`facts[1]`: a fact must be an object"),
        (
            {"facts": [{**INPUT_DOCUMENT["facts"][0], "payload": "x"}]},
            "`facts[0]`: `payload` of fact `battery:SKU-123`",
        ),
        ({"issuer": "me"}, "`issuer` is not a known member"),
    ],
)
def test_a_wrong_member_is_named(change: dict[str, Any], problem: str) -> None:
    (actual,) = list_problems({**INPUT_DOCUMENT, **change})

    assert actual.startswith(problem)


def test_all_mistakes_are_reported_together() -> None:
    wrong = {**drop_member("tenant_id"), "issued_at": "yesterday", "facts": [7], "note": 1}

    problems = list_problems(wrong)

    assert [problem.split("`")[1] for problem in problems] == ["tenant_id", "note", "issued_at", "facts[0]"]


def test_a_build_called_unknown_is_a_build() -> None:
    assert read_document({**INPUT_DOCUMENT, "compiler_build_id": "UNKNOWN"}).compiler_build_id == "UNKNOWN"


@pytest.mark.parametrize("data", [b"", b"{", b'{"a":1,"a":2}', b"\xff"])
def test_what_is_not_json_is_refused(data: bytes) -> None:
    with pytest.raises(NotCanonical):
        read_input(data, rules=b"")


def test_a_list_is_no_input() -> None:
    assert list_problems([INPUT_DOCUMENT]) == ("it is not an object",)


def test_a_fraction_is_refused_with_its_path_and_a_way_out() -> None:
    text = json.dumps(INPUT_DOCUMENT).replace('"450"', "450.5").encode()

    with pytest.raises(NotCanonical) as error:
        read_input(text, rules=b"")

    assert error.value.path == "$.facts[0].payload.mass_kg"
    assert error.value.fix == "write it as a string"


@pytest.mark.parametrize("change", [{"compiler_build_id": ""}, {"signing_key_id": "\0"}, {"signing_key_id": "\ud800"}])
def test_an_input_made_in_code_is_held_to_the_same(change: dict[str, Any]) -> None:
    with pytest.raises(InputInvalid):
        replace(read_document(INPUT_DOCUMENT), **change)


@pytest.mark.parametrize("change", [{"sku": "a\0"}, {"name": "\udfff"}])
def test_a_product_made_in_code_is_held_to_the_same(change: dict[str, Any]) -> None:
    with pytest.raises(InputInvalid):
        replace(read_document(INPUT_DOCUMENT).product, **change)


def test_a_moment_without_time_zone_is_refused() -> None:
    with pytest.raises(NotATime):
        replace(read_document(INPUT_DOCUMENT), issued_at=datetime(2027, 2, 18))


def test_a_message_with_many_mistakes_says_how_many_it_leaves_out() -> None:
    with pytest.raises(InputInvalid) as error:
        read_input(b"{}", rules=b"")

    assert error.value.says.startswith("the compile input has 10 mistakes: `tenant_id` is missing; ")
    assert error.value.says.endswith("; and 2 more")
    assert len(error.value.problems) == 10
