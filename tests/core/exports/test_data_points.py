"""The table of the Commission's data points."""

import json
from pathlib import Path

import pytest

from bpc.core.exports.data_points import CATEGORIES, POINTS, STATUSES

PUBLIC_DATA = Path(__file__).parents[4] / "shared" / "domain" / "data" / "ec-guidance-datapoints.json"


def test_the_table_has_71_points_and_the_commissions_counts() -> None:
    counts = {
        category: {status: sum(point.get_status(category) == status for point in POINTS) for status in STATUSES}
        for category in CATEGORIES
    }

    assert [point.number for point in POINTS] == list(range(1, 72))
    assert counts == {
        "ev": {"M": 51, "C": 8, "O": 1, "X": 7, "P": 4},
        "lmt": {"M": 54, "C": 8, "O": 1, "X": 4, "P": 4},
        "industrial": {"M": 36, "C": 26, "O": 1, "X": 4, "P": 4},
    }
    assert sum("public" in point.access for point in POINTS) == 44


def test_the_table_says_what_the_guidance_says() -> None:
    if not PUBLIC_DATA.exists():
        pytest.skip("the public example files are not on this machine")
    words = {"mandatory": "M", "conditional": "C", "optional": "O", "notToBeFilled": "X", "pending": "P"}

    for point, guidance_point in zip(POINTS, json.loads(PUBLIC_DATA.read_bytes())["dataPoints"], strict=True):
        statuses = [words[guidance_point["applicability"][category]["status"]] for category in CATEGORIES]
        assert (point.number, point.statuses) == (guidance_point["nr"], "".join(statuses))
        assert point.dynamic == (guidance_point["lifecycle"] == "dynamic")
        assert ("public" in point.access) == (guidance_point["accessTier"] == "public")
