"""PACT footprints: what our own example and changes of it become."""

import json

import pytest

from tests.core.documents.public.example_outcomes import (
    change_example,
    decode_payloads,
    list_faults,
    list_problems,
    list_warnings,
    read_facts,
)
from tests.core.documents.public_files import read_example

NAME = "pact-footprint-3"


def test_a_footprint_with_its_share_of_primary_data_and_its_verification() -> None:
    outcome = read_facts("PCF", read_example(NAME))

    assert decode_payloads(outcome) == {
        "pcf:EX-75": {
            "sku": "EX-75",
            "model": "Example pack 75",
            "facility_country": "DE",
            "year": 2026,  # the period ends as 2027 begins
            "valid_until_on": "2029-12-31",
            "total_gco2e": "4875250.00",
            "distribution_gco2e": "37500.00",
            "primary_data_pct": "56.12",
            "method": "ISO14067; PACT-3.0",
            "verified_by": "Example Auditors",
            "verified_on": "2027-01-15",
            "functional_unit": "1 piece",
        }
    }
    says = "rates the data quality 1.5 for technology, 2 for geography, 1 for time; no fact has ratings, so they were"
    assert ("$.pcf.dqi", f"{says} left out") in list_warnings(outcome)


@pytest.mark.parametrize(("end", "year"), [("2026-12-31T23:59:59Z", 2026), ("2027-01-01T00:00:00.000Z", 2026)])
def test_the_year_is_the_one_the_period_ends_in(end: str, year: int) -> None:
    document = change_example(NAME, "pcf.referencePeriodEnd", end)

    assert decode_payloads(read_facts("PCF", document))["pcf:EX-75"]["year"] == year


@pytest.mark.parametrize(("country", "code"), [("de", "DE"), ("Germany", "DE"), ("Atlantis", "Atlantis")])
def test_a_country_in_words_is_a_code_and_one_that_is_not_known_stays_as_it_is(country: str, code: str) -> None:
    document = change_example(NAME, "pcf.geographyCountry", country)

    assert decode_payloads(read_facts("PCF", document))["pcf:EX-75"]["facility_country"] == code


@pytest.mark.parametrize(
    ("path", "value", "at", "says"),
    [
        ("pcf.dqi.temporalDQR", "7.5", "$.pcf.dqi.temporalDQR", "is 7.5, not a rating from 1 to 5"),
        (
            "status",
            "Deprecated",
            "$.status",
            "means that its sender has replaced this footprint; ask for the current one",
        ),
        (
            "pcf.declaredUnitAmount",
            "10",
            "$.pcf.declaredUnitAmount",
            "means that the figures are for 10 piece; they were divided by 10",
        ),
    ],
)
def test_what_an_officer_should_know_is_a_warning(path: str, value: object, at: str, says: str) -> None:
    assert (at, says) in list_warnings(read_facts("PCF", change_example(NAME, path, value)))


@pytest.mark.parametrize(
    ("path", "value", "unit"),
    [
        ("pcf.declaredUnitOfMeasurement", "kilogram", "1 kilogram"),
        ("pcf.declaredUnitOfMeasurement", "kilowatt hour", "1 kilowatt hour"),
        ("pcf.declaredUnitAmount", "7", "7 piece"),  # the total divided by 7 has no end
        ("pcf.declaredUnitAmount", "0", "0 piece"),
    ],
)
def test_figures_that_are_not_for_one_product_cannot_be_read(path: str, value: str, unit: str) -> None:
    document = change_example(NAME, path, value)

    says = f"is for {unit}, not for one product; ask for the figure of one product"
    assert list_faults("PCF", document) == [
        ("$.pcf.pcfExcludingBiogenicUptake", says),
        ("$.pcf.outboundLogisticsGhgEmissions", says),
    ]
    assert not {"total_gco2e", "distribution_gco2e", "functional_unit"} & set(
        decode_payloads(read_facts("PCF", document))["pcf:EX-75"]
    )


@pytest.mark.parametrize(
    "wrap", [lambda footprint: {"data": [footprint]}, lambda footprint: {"data": {"pfs": [footprint]}}]
)
def test_the_answer_of_a_service_holds_footprints(wrap: object) -> None:
    document = wrap(json.loads(read_example(NAME)))  # type: ignore[operator]

    assert list(decode_payloads(read_facts("PCF", document))) == ["pcf:EX-75"]


def test_a_footprint_of_version_2_has_other_names() -> None:
    footprint = {
        "specVersion": "2.2.0",
        "productIds": ["urn:example:EX-75"],
        "pcf": {
            "declaredUnit": "piece",
            "unitaryProductAmount": "2",
            "pCfExcludingBiogenic": "+10.5",
            "crossSectoralStandardsUsed": ["GHG Protocol Product standard"],
            "assurance": {"providerName": "Example Auditors"},
        },
    }

    assert decode_payloads(read_facts("PCF", footprint))["pcf:EX-75"] == {
        "sku": "EX-75",
        "total_gco2e": "5250.00",
        "method": "GHG Protocol Product standard",
        "verified_by": "Example Auditors",
        "functional_unit": "1 piece",
    }


def test_a_footprint_without_a_figure_is_refused() -> None:
    document = change_example(NAME, "pcf.pcfExcludingBiogenicUptake", None)

    assert list_problems("PCF", document) == [("$", "has no footprint: `pcfExcludingBiogenicUptake` is missing")]
