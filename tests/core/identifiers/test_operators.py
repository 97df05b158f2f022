"""Identifiers of operators: form and check digits, with numbers that registers publish as examples."""

import pytest

from bpc.core.identifiers.gs1 import BadIdentifier
from bpc.core.identifiers.operators import OperatorIdentifier, OperatorScheme

VALID: list[tuple[OperatorScheme, str, str]] = [
    ("GLN", "9521234-00000 6", "9521234000006"),
    ("LEI", "5493001KJTIIGC8Y1R12", "5493001KJTIIGC8Y1R12"),
    ("LEI", "529900t8bm49aursdo55", "529900T8BM49AURSDO55"),
    ("EORI", "DE1234567890123", "DE1234567890123"),
    ("EORI", "XI123456789000", "XI123456789000"),
    ("VAT", "DE 136 695 976", "DE136695976"),
    ("VAT", "BE0411905847", "BE0411905847"),
    ("VAT", "IT00743110157", "IT00743110157"),
    ("VAT", "HR33392005961", "HR33392005961"),
    ("VAT", "ATU13585627", "ATU13585627"),
    ("VAT", "NL004495445B01", "NL004495445B01"),
]
INVALID: list[tuple[OperatorScheme, str]] = [
    ("GLN", "9521234000007"),
    ("LEI", "5493001KJTIIGC8Y1R13"),
    ("LEI", "5493001KJTIIGC8Y1R1"),
    ("EORI", "US123456789"),
    ("EORI", "DE"),
    ("EORI", "EL123456789"),
    ("VAT", "DE136695977"),
    ("VAT", "DE13669597"),
    ("VAT", "BE0411905848"),
    ("VAT", "IT00743110158"),
    ("VAT", "US123456789"),
    ("VAT", ""),
]


def test_identifiers_have_one_spelling() -> None:
    for scheme, text, value in VALID:
        assert OperatorIdentifier.parse(scheme, text) == OperatorIdentifier(scheme, value)


def test_an_identifier_with_a_wrong_digit_or_form_is_refused() -> None:
    for scheme, text in INVALID:
        with pytest.raises(BadIdentifier) as refusal:
            OperatorIdentifier.parse(scheme, text)
        assert refusal.value.fix, (scheme, text)
