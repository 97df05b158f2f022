"""The Commission's data points: each filled by the fields whose values are made of what it asks for."""

import json
from pathlib import Path
from typing import Any

import pytest

from bpc.core.bundle import Bundle
from bpc.core.exports.data_points import data_points
from bpc.core.exports.disclosed import Audience, opened_for_export
from bpc.core.exports.points import CATEGORIES, POINTS, STATUSES, category_of
from bpc.core.facts import SnapshotFact
from tests.core.exports.examples import example, passport
from tests.core.passports import fact

PUBLIC_DATA = Path(__file__).parents[4] / "shared" / "domain" / "data" / "ec-guidance-datapoints.json"
BATTERY = 'requireSome(getFact("Battery", "battery:SKU-1"), "B000", "none")'


def listed(bundle: Bundle, audience: Audience = "tenant") -> dict[str, Any]:
    return dict(json.loads(data_points(opened_for_export(bundle), audience)))


def filled(rules: str, *facts: SnapshotFact, **members: Any) -> dict[int, list[str]]:
    """The points that are filled, each with its fields; `members` are the battery's."""
    battery = fact("Battery", "battery:SKU-1", sku="SKU-1", **members)
    found = listed(passport(rules.replace("BATTERY", BATTERY), battery, *facts))
    return {point["number"]: [each["path"] for each in point["fields"]] for point in found["points"] if point["filled"]}


def test_the_table_has_71_points_and_the_commissions_counts() -> None:
    counts = {
        category: {status: sum(point.status(category) == status for point in POINTS) for status in STATUSES}
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

    for point, said in zip(POINTS, json.loads(PUBLIC_DATA.read_bytes())["dataPoints"], strict=True):
        statuses = [words[said["applicability"][category]["status"]] for category in CATEGORIES]
        assert (point.number, point.statuses) == (said["nr"], "".join(statuses))
        assert point.dynamic == (said["lifecycle"] == "dynamic")
        assert ("public" in point.access) == (said["accessTier"] == "public")


def test_a_field_fills_the_point_of_the_member_it_shows() -> None:
    rules = 'field a.chemistry @public: Opt(Text) = recordGet(BATTERY, "chemistry");'

    assert filled(rules, chemistry="LFP") == {12: ["a.chemistry"]}
    assert filled(rules) == {}


def test_what_decides_is_not_what_a_value_is_made_of() -> None:
    rules = """
    field a.heavy @public: Bool = unwrapOr(recordGet(BATTERY, "mass_kg"), 0) > 100;
    field a.kind @public: Text = if (isSome(recordGet(BATTERY, "chemistry"))) then "known" else "unknown";
    field a.name @public: Text =
      let b = BATTERY;
      assert(unwrapOr(recordGet(b, "mass_kg"), 0) > 0, "E1", "no mass");
      unwrapOr(recordGet(b, "model"), "none");
    """

    assert filled(rules, mass_kg="12", chemistry="LFP", model="M1") == {7: ["a.name"]}
    assert filled(rules, mass_kg="12", chemistry="LFP") == {}, "a default is not a value"


def test_members_that_are_read_inside_of_lambdas_count() -> None:
    rules = """
    field parts.cobalt @public: Dec(6) =
      sumDec(6, map(getFactsByPrefix("Component", "component:SKU-1:"), fn(p) =>
        let share = unwrapOr(recordGet(p, "recycled_post_pct"), 0);
        toDec(6, unwrapOr(recordGet(p, "cobalt_g"), 0) * share / 100)));
    field parts.critical @public: Int = count(filter(
      getFactsByPrefix("Component", "component:SKU-1:"), fn(p) => unwrapOr(recordGet(p, "critical"), false)));
    """
    part = fact("Component", "component:SKU-1:1", cobalt_g="5", recycled_post_pct="10", critical=True)

    assert filled(rules, part) == {20: ["parts.cobalt"]}, "recycled_post_pct alone would serve 20 to 23"
    assert filled(rules) == {}, "nothing was read of no parts"


def test_what_nobody_sees_is_a_step_on_the_way_and_other_fields_stand_for_themselves() -> None:
    rules = """
    field hidden.mass: Opt(Dec(6)) = recordGet(BATTERY, "mass_kg");
    field shown.mass @public: Dec(6) = unwrapOr(field("hidden.mass"), 0);
    field shown.double @public: Dec(6) = toDec(6, field("shown.mass") * 2);
    field shown.again @public: Dec(6) = field("shown.mass");
    """

    assert filled(rules, mass_kg="12") == {10: ["hidden.mass", "shown.again", "shown.mass"]}


def test_a_code_names_the_point_of_a_value_that_is_computed() -> None:
    rules = """
    field a.fade @public: Dec(2) =
      let b = BATTERY;
      assert(unwrapOr(recordGet(b, "rated_capacity_ah"), 0) > 0, "DP52", "no rated capacity");
      toDec(2, 100 * (1 - unwrapOr(recordGet(b, "remaining_capacity_ah"), 0)
                          / unwrapOr(recordGet(b, "rated_capacity_ah"), 1)));
    """

    assert 52 in filled(rules, rated_capacity_ah="100", remaining_capacity_ah="90")


def test_what_only_goes_with_a_point_does_not_fill_it() -> None:
    rules = 'field a.year @public: Opt(Int) = recordGet(BATTERY, "recycled_content_year");'

    battery = fact("Battery", "battery:SKU-1", category="ev", recycled_content_year=2027)
    found = listed(passport(rules.replace("BATTERY", BATTERY), battery))

    lead = found["points"][22]
    assert (lead["number"], lead["filled"], lead["fields"]) == (23, False, [{"path": "a.year", "value": 2027}])
    assert 23 in found["missing"]


@pytest.mark.parametrize(
    ("written", "category"), [("ev", "ev"), ("lmt", "lmt"), ("stationary", "industrial"), ("car", None), (None, None)]
)
def test_the_category_decides_what_is_mandatory(written: str | None, category: str | None) -> None:
    battery = fact("Battery", "battery:SKU-1", **({} if written is None else {"category": written}))

    found = listed(passport('field a @public: Text = "x";', battery))

    assert (found["category"], category_of(written)) == (category, category)
    assert (found["counts"] is None) == (found["missing"] is None) == (category is None)
    assert {point["status"] for point in found["points"]} <= ({None} if category is None else set(STATUSES))


def test_the_reference_fills_what_it_says_it_fills() -> None:
    found = listed(example("example-reference"))

    assert found["category"] == "ev"
    assert found["counts"]["M"] == {"filled": 47, "says": "mandatory", "total": 51}
    assert found["missing"] == [23, 52, 54, 56]
    assert found["counts"]["P"]["says"] == "not to be filled as of February 2027"
    by_number = {point["number"]: point for point in found["points"]}
    assert by_number[15]["fields"][0]["path"] == "materials.critical"
    assert {each["path"] for each in by_number[20]["fields"]} == {
        "circularity.recycled.cobalt.post",
        "circularity.recycled.cobalt.pre",
        "circularity.recycled.plant",
        "circularity.recycled.year",
    }


def test_an_audience_is_shown_the_points_that_are_meant_for_it() -> None:
    sizes = {
        audience: len(listed(example("example-reference"), audience)["points"])
        for audience in ("public", "interest", "authority", "tenant")
    }

    assert sizes == {"public": 44, "interest": 70, "authority": 50, "tenant": 71}


def test_equal_passports_give_equal_bytes() -> None:
    opened = opened_for_export(example("example-reference"))

    assert data_points(opened, "public") == data_points(opened, "public")
