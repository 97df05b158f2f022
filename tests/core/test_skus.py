"""Article numbers: what looks the same is the same."""

import pytest

from bpc.core.skus import fault_of


@pytest.mark.parametrize("sku", ["EB-500-36", "größe 5", "電池-1", " A", "09521234010012/EV-1", "a\u0301"])
def test_what_can_be_read_is_one(sku: str) -> None:
    assert fault_of(sku) is None


@pytest.mark.parametrize("sku", ["", " ", "\u3000 ", "A\x01", "A\u200b", "A\u202eB", "\ufeffA", "A\uffff", "A\nB"])
def test_what_cannot_be_seen_is_refused(sku: str) -> None:
    assert fault_of(sku) is not None
