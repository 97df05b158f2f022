"""Texts that have a form: which web addresses are public, and which check digits are right."""

import pytest

from bpc.core.facts.plausibility import find_implausible
from bpc.core.facts.text_checks import compute_cas_digit, compute_gs1_digit
from tests.core.sample_passports import make_fact


def find_codes(member: str, text: str) -> list[str]:
    return [finding.code for finding in find_implausible([make_fact("Battery", "battery:SKU-1", **{member: text})])]


@pytest.mark.parametrize(
    ("url", "codes"),
    [
        ("https://www.acme-cells.eu/doc.pdf", []),
        ("http://acme-cells.eu:8080", []),
        ("https://acme-cells.eu./a?b=c#d", []),
        ("https://user@acme-cells.eu/a", []),
        ("https://8.8.8.8/", []),
        ("https://[2606:4700::1111]/", []),
        ("https://akku-müller.de/ä", []),
        ("https://localhost/", ["URL_NOT_PUBLIC"]),
        ("https://LOCALHOST:8443/", ["URL_NOT_PUBLIC"]),
        ("https://printer.local", ["URL_NOT_PUBLIC"]),
        ("https://wiki.corp/a", ["URL_NOT_PUBLIC"]),
        ("https://user@intranet/a", ["URL_NOT_PUBLIC"]),
        ("https://127.0.0.1", ["URL_NOT_PUBLIC"]),
        ("https://192.168.1.5/a", ["URL_NOT_PUBLIC"]),
        ("https://[::1]/", ["URL_NOT_PUBLIC"]),
        ("https://[fe80::1]/", ["URL_NOT_PUBLIC"]),
        ("https://example.com", ["URL_EXAMPLE"]),
        ("https://docs.acme.example/a", ["URL_EXAMPLE"]),
        ("https://notexample.com", []),
        ("https://2130706433/", ["URL_FORM"]),
        ("https://a..b/", ["URL_FORM"]),
        ("https:///path", ["URL_FORM"]),
        ("www.acme-cells.eu", ["URL_FORM"]),
        ("mailto:service@acme-cells.eu", ["URL_FORM"]),
        ("https://acme-cells.eu/a b", ["URL_FORM"]),
        ("", ["URL_FORM"]),
    ],
)
def test_a_web_address_is_public_or_named(url: str, codes: list[str]) -> None:
    assert find_codes("instructions_url", url) == codes


@pytest.mark.parametrize(
    ("email", "is_sound"),
    [
        ("service@acme-cells.eu", True),
        ("a.b+c@mail.acme-cells.eu", True),
        ("service@acme", False),
        ("service.acme-cells.eu", False),
        ("Service <service@acme-cells.eu>", False),
        ("a@b.eu, c@d.eu", False),
    ],
)
def test_an_email_address_has_a_name_and_a_host(email: str, *, is_sound: bool) -> None:
    assert find_codes("manufacturer_email", email) == ([] if is_sound else ["EMAIL_FORM"])


@pytest.mark.parametrize(
    "number", ["7439-93-2", "7440-48-4", "7440-02-0", "21324-40-3", "96-49-1", "7782-42-5", "7732-18-5"]
)
def test_published_cas_numbers_have_the_right_digit(number: str) -> None:
    assert compute_cas_digit(number[:-2].replace("-", "")) == number[-1]


@pytest.mark.parametrize("number", ["09506000134352", "9506000134352", "614141007349", "96385074"])
def test_published_gs1_numbers_have_the_right_digit(number: str) -> None:
    assert compute_gs1_digit(number[:-1]) == number[-1]


def test_a_folder_of_a_link_is_not_taken_for_a_gtin() -> None:
    assert find_codes("passport_uri", "https://acme-cells.eu/01/2027/passport") == []
