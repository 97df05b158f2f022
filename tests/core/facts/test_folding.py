"""Folding: spellings that a reader takes for one word become one text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpc.core.facts.folding import fold_text


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("Réutilisée ", "reutilisee"),
        ("RE-USED", "re used"),
        ("re‑used", "re used"),
        ("Straße", "strasse"),
        ("PRZEMYSŁOWA", "przemyslowa"),
        ("Côte d'Ivoire", "cote d ivoire"),
        ("Co\u0302te d’Ivoire", "cote d ivoire"),
        ("  light\tmeans_of  transport (LMT)", "light means of transport lmt"),
        ("中国", "中国"),
        ("--", ""),
    ],
)
def test_spellings_of_a_word_become_one_text(text: str, folded: str) -> None:
    assert fold_text(text) == folded


@given(st.text())
def test_folding_twice_changes_nothing(text: str) -> None:
    assert fold_text(fold_text(text)) == fold_text(text)
