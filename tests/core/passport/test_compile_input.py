"""The compile input: everything a passport is compiled from, read with every mistake named."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from bpc.core.canon import NotCanonical
from bpc.core.compile_input import CompileInput, InputInvalid, read_input, written_input
from bpc.core.timestamps import NotATime

GIVEN: dict[str, Any] = {
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


def read(given: Any) -> CompileInput:
    return read_input(json.dumps(given, indent=2).encode(), rules=b"rules", tests=b"tests")


def problems(given: Any) -> tuple[str, ...]:
    with pytest.raises(InputInvalid) as refused:
        read(given)
    assert refused.value.code == "VALIDATION_ERROR"
    assert refused.value.details == {"problems": list(refused.value.problems)}
    return refused.value.problems


def without(name: str) -> dict[str, Any]:
    return {other: value for other, value in GIVEN.items() if other != name}


def test_a_whole_input_is_read() -> None:
    found = read(GIVEN)

    assert str(found.tenant_id) == GIVEN["tenant_id"]
    assert found.product.as_json() == GIVEN["battery_product"]
    assert found.issued_at == datetime(2027, 2, 18, tzinfo=UTC)
    assert [(fact.fact_key, fact.payload) for fact in found.facts] == [("battery:SKU-123", {"mass_kg": "450"})]
    assert (found.rules, found.tests) == (b"rules", b"tests")


def test_what_was_read_is_written_so_that_it_reads_the_same() -> None:
    found = read(GIVEN)

    assert json.loads(written_input(found)) == GIVEN
    assert read_input(written_input(found), rules=b"rules", tests=b"tests") == found


@pytest.mark.parametrize("name", list(GIVEN))
def test_a_missing_member_is_named(name: str) -> None:
    assert problems(without(name)) == (f"`{name}` is missing",)


@pytest.mark.parametrize("name", list(GIVEN))
@pytest.mark.parametrize("value", [None, 1, True])
def test_a_member_of_another_type_is_named(name: str, value: Any) -> None:
    (problem,) = problems({**GIVEN, name: value})

    assert problem.startswith(f"`{name}` is not ")


@pytest.mark.parametrize("name", ["battery_product_id", "sku", "name"])
def test_a_missing_member_of_the_product_is_named(name: str) -> None:
    product = {other: value for other, value in GIVEN["battery_product"].items() if other != name}

    assert problems({**GIVEN, "battery_product": product}) == (f"`battery_product.{name}` is missing",)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"tenant_id": GIVEN["tenant_id"].upper()}, "`tenant_id`: `9F767C45"),
        ({"issued_at": "2027-02-18"}, "`issued_at`: `2027-02-18` is not a time"),
        ({"issued_at": "2027-02-30T00:00:00.000000Z"}, "`issued_at`: "),
        ({"compiler_build_id": ""}, "`compiler_build_id`: it has not 1 to 200 characters"),
        ({"compiler_build_id": "x" * 201}, "`compiler_build_id`: "),
        ({"signing_key_id": "a\0"}, "`signing_key_id`: "),
        ({"battery_product": {**GIVEN["battery_product"], "sku": "a\0b"}}, "`battery_product.sku`: it holds U+0000"),
        ({"battery_product": {**GIVEN["battery_product"], "gtin": ""}}, "`battery_product.gtin` is not a member"),
        ({"battery_product": []}, "`battery_product` is not an object"),
        ({"facts": {}}, "`facts` is not a list"),
        ({"facts": [GIVEN["facts"][0], 7]}, "`facts[1]`: a fact is an object"),
        ({"facts": [{**GIVEN["facts"][0], "payload": "x"}]}, "`facts[0]`: `payload` of fact `battery:SKU-123`"),
        ({"issuer": "me"}, "`issuer` is not a member"),
    ],
)
def test_a_wrong_member_is_named(change: dict[str, Any], problem: str) -> None:
    (found,) = problems({**GIVEN, **change})

    assert found.startswith(problem)


def test_all_mistakes_are_reported_together() -> None:
    wrong = {**without("tenant_id"), "issued_at": "yesterday", "facts": [7], "note": 1}

    found = problems(wrong)

    assert [problem.split("`")[1] for problem in found] == ["tenant_id", "note", "issued_at", "facts[0]"]


def test_a_build_called_unknown_is_a_build() -> None:
    assert read({**GIVEN, "compiler_build_id": "UNKNOWN"}).compiler_build_id == "UNKNOWN"


@pytest.mark.parametrize("data", [b"", b"{", b'{"a":1,"a":2}', b"\xff"])
def test_what_is_not_json_is_refused(data: bytes) -> None:
    with pytest.raises(NotCanonical):
        read_input(data, rules=b"")


def test_a_list_is_no_input() -> None:
    assert problems([GIVEN]) == ("it is not an object",)


def test_a_fraction_is_refused_with_its_path_and_a_way_out() -> None:
    text = json.dumps(GIVEN).replace('"450"', "450.5").encode()

    with pytest.raises(NotCanonical) as refused:
        read_input(text, rules=b"")

    assert refused.value.path == "$.facts[0].payload.mass_kg"
    assert refused.value.fix == "write it as a string"


@pytest.mark.parametrize("change", [{"compiler_build_id": ""}, {"signing_key_id": "\0"}, {"signing_key_id": "\ud800"}])
def test_an_input_made_in_code_is_held_to_the_same(change: dict[str, Any]) -> None:
    with pytest.raises(InputInvalid):
        replace(read(GIVEN), **change)


@pytest.mark.parametrize("change", [{"sku": "a\0"}, {"name": "\udfff"}])
def test_a_product_made_in_code_is_held_to_the_same(change: dict[str, Any]) -> None:
    with pytest.raises(InputInvalid):
        replace(read(GIVEN).product, **change)


def test_a_moment_without_time_zone_is_refused() -> None:
    with pytest.raises(NotATime):
        replace(read(GIVEN), issued_at=datetime(2027, 2, 18))


def test_a_message_with_many_mistakes_says_how_many_it_leaves_out() -> None:
    with pytest.raises(InputInvalid) as refused:
        read_input(b"{}", rules=b"")

    assert refused.value.says.startswith("the compile input: 10 mistakes: `tenant_id` is missing; ")
    assert refused.value.says.endswith("; and 2 more")
    assert len(refused.value.problems) == 10
