"""Who may have an attached file: whoever may see a field that holds its hash."""

from typing import Any

import pytest

from bpc.core.exports.attached_files import list_disclosed_hashes
from bpc.core.exports.disclosure import Audience

PUBLIC, RESTRICTED, OWN = "a" * 64, "b" * 64, "c" * 64
PAYLOAD: dict[str, Any] = {
    "access": {"papers.all": ["public"], "papers.some": ["authority", "interest"], "own": [], "text": ["public"]},
    "fields": {
        "papers": {"all": [{"sha256": PUBLIC, "title": "x"}], "some": {"deep": [[RESTRICTED]]}},
        "own": OWN,
        "text": f"the hash is {OWN}, {'d' * 63} and {'E' * 64}",
    },
}


@pytest.mark.parametrize(
    ("audience", "hashes"),
    [
        ("public", {PUBLIC}),
        ("interest", {PUBLIC, RESTRICTED}),
        ("authority", {PUBLIC, RESTRICTED}),
        ("tenant", {PUBLIC, RESTRICTED, OWN}),
    ],
)
def test_an_audience_has_the_files_of_the_fields_that_it_may_see(audience: Audience, hashes: set[str]) -> None:
    assert list_disclosed_hashes(PAYLOAD, audience) == hashes
