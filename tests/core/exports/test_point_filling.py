"""The Commission's data points: filled by fields that name them, or whose values are made of what they ask for."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from bpc.core.exports.data_points import STATUSES, get_category
from bpc.core.exports.disclosure import Audience, open_for_export
from bpc.core.exports.point_filling import export_data_points
from bpc.core.exports.point_parts import PARTS
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.passport.bundle import Bundle
from tests.core.exports.example_bundles import compile_bundle, compile_example
from tests.core.sample_passports import make_fact

BATTERY = 'requireSome(getFact("Battery", "battery:SKU-1"), "B000", "none")'
PAGE = Path(__file__).parents[3] / "docs" / "formats" / "data-points.md"


def export_points(bundle: Bundle, audience: Audience = "tenant") -> dict[str, Any]:
    return dict(json.loads(export_data_points(open_for_export(bundle), audience)))


def list_filled_points(rules: str, *facts: SnapshotFact, **members: Any) -> dict[int, list[str]]:
    """The points that are filled, each with its fields; `members` are the battery's."""
    battery = make_fact("Battery", "battery:SKU-1", sku="SKU-1", **members)
    document = export_points(compile_bundle(rules.replace("BATTERY", BATTERY), battery, *facts))
    return {
        point["number"]: [field["path"] for field in point["fields"]] for point in document["points"] if point["filled"]
    }


def test_a_field_fills_the_point_of_the_member_it_shows() -> None:
    rules = 'field a.chemistry @public: Opt(Text) = recordGet(BATTERY, "chemistry");'

    assert list_filled_points(rules, chemistry="LFP") == {12: ["a.chemistry"]}
    assert list_filled_points(rules) == {}


def test_what_decides_is_not_what_a_value_is_made_of() -> None:
    rules = """
    field a.heavy @public: Bool = unwrapOr(recordGet(BATTERY, "mass_kg"), 0) > 100;
    field a.kind @public: Text = if (isSome(recordGet(BATTERY, "chemistry"))) then "known" else "unknown";
    field a.name @public: Text =
      let b = BATTERY;
      assert(unwrapOr(recordGet(b, "mass_kg"), 0) > 0, "E1", "no mass");
      unwrapOr(recordGet(b, "model"), "none");
    """

    assert list_filled_points(rules, mass_kg="12", chemistry="LFP", model="M1") == {7: ["a.name"]}
    assert list_filled_points(rules, mass_kg="12", chemistry="LFP") == {}, "a default is not a value"


def test_members_that_are_read_inside_of_lambdas_count() -> None:
    rules = """
    field parts.cobalt @public: Dec(6) =
      sumDec(6, map(getFactsByPrefix("Component", "component:SKU-1:"), fn(p) =>
        let share = unwrapOr(recordGet(p, "recycled_post_pct"), 0);
        toDec(6, unwrapOr(recordGet(p, "cobalt_g"), 0) * share / 100)));
    field parts.critical @public: Int = count(filter(
      getFactsByPrefix("Component", "component:SKU-1:"), fn(p) => unwrapOr(recordGet(p, "critical"), false)));
    """
    part = make_fact("Component", "component:SKU-1:1", cobalt_g="5", recycled_post_pct="10", critical=True)

    assert list_filled_points(rules, part) == {20: ["parts.cobalt"]}, "recycled_post_pct alone would serve 20 to 23"
    assert list_filled_points(rules) == {}, "nothing was read of no parts"


def test_what_functions_read_inside_of_lambdas_counts() -> None:
    rules = """language 2;
    def parts = all Component for "SKU-1";
    def factor = (Battery for "SKU-1").mass_kg ?? 1;
    fn weigh(x: Dec(6), share: Dec(2)): Dec(6) = let x2 = x * share / 100; toDec(6, x2);
    fn scale(x: Dec(6)): Dec(6) = toDec(6, weigh(x, 10) * factor);
    field parts.cobalt @public: Dec(6) =
      sumDec(6, map(parts, fn(p) => weigh(p.cobalt_g ?? 0, p.recycled_post_pct ?? 0)));
    field parts.scaled @public: Dec(6) = sumDec(6, map(parts, fn(p) => let x = p.cobalt_g ?? 0; scale(x)));
    field parts.count @public: Dec(6) = sumDec(6, map(parts, fn(p) => scale(1)));
    """
    part = make_fact("Component", "component:SKU-1:1", cobalt_g="5", recycled_post_pct="10")

    filled = list_filled_points(rules, part, mass_kg="12")

    assert filled[20] == ["parts.cobalt", "parts.scaled"]
    assert filled[10] == ["parts.count", "parts.scaled"], "the mass is read by the function alone"


def test_what_nobody_sees_is_a_step_on_the_way_and_other_fields_stand_for_themselves() -> None:
    rules = """
    field hidden.mass: Opt(Dec(6)) = recordGet(BATTERY, "mass_kg");
    field shown.mass @public: Dec(6) = unwrapOr(field("hidden.mass"), 0);
    field shown.double @public: Dec(6) = toDec(6, field("shown.mass") * 2);
    field shown.again @public: Dec(6) = field("shown.mass");
    """

    assert list_filled_points(rules, mass_kg="12") == {10: ["hidden.mass", "shown.again", "shown.mass"]}


def test_a_code_names_the_point_of_a_value_that_is_computed() -> None:
    rules = """
    field a.fade @public: Dec(2) =
      let b = BATTERY;
      assert(unwrapOr(recordGet(b, "rated_capacity_ah"), 0) > 0, "DP52", "no rated capacity");
      toDec(2, 100 * (1 - unwrapOr(recordGet(b, "remaining_capacity_ah"), 0)
                          / unwrapOr(recordGet(b, "rated_capacity_ah"), 1)));
    """

    assert 52 in list_filled_points(rules, rated_capacity_ah="100", remaining_capacity_ah="90")


def test_what_only_goes_with_a_point_does_not_fill_it() -> None:
    rules = 'field a.year @public: Opt(Int) = recordGet(BATTERY, "recycled_content_year");'

    battery = make_fact("Battery", "battery:SKU-1", category="ev", recycled_content_year=2027)
    document = export_points(compile_bundle(rules.replace("BATTERY", BATTERY), battery))

    lead = document["points"][22]
    assert (lead["number"], lead["filled"], lead["fields"]) == (23, False, [{"path": "a.year", "value": 2027}])
    assert 23 in document["missing"]


@pytest.mark.parametrize(
    ("written", "category"), [("ev", "ev"), ("lmt", "lmt"), ("stationary", "industrial"), ("car", None), (None, None)]
)
def test_the_category_decides_what_is_mandatory(written: str | None, category: str | None) -> None:
    battery = make_fact("Battery", "battery:SKU-1", **({} if written is None else {"category": written}))

    document = export_points(compile_bundle('field a @public: Text = "x";', battery))

    assert (document["category"], get_category(written)) == (category, category)
    assert (document["counts"] is None) == (document["missing"] is None) == (category is None)
    assert {point["status"] for point in document["points"]} <= ({None} if category is None else set(STATUSES))


def test_the_reference_fills_what_it_says_it_fills() -> None:
    document = export_points(compile_example("reference-2"))

    assert document["category"] == "ev"
    assert document["counts"]["M"] == {"filled": 51, "says": "mandatory", "total": 51}
    assert document["missing"] == []
    assert document["counts"]["P"]["says"] == "not to be filled as of February 2027"
    by_number = {point["number"]: point for point in document["points"]}
    assert by_number[15]["fields"][0]["path"] == "materials.critical"
    assert {field["path"] for field in by_number[20]["fields"]} == {
        "circularity.recycled.cobalt.post",
        "circularity.recycled.cobalt.pre",
        "circularity.recycled.plant",
        "circularity.recycled.year",
    }


def test_attached_files_fill_the_point_that_their_key_names() -> None:
    by_number = {point["number"]: point for point in export_points(compile_example("reference-2"))["points"]}

    assert {
        number: [field["path"] for field in point["fields"] if field["path"].endswith("files")]
        for number, point in by_number.items()
        if any(field["path"].endswith("files") for field in point["fields"])
    } == {
        40: ["labels.separate_collection_files"],
        42: ["conformity.declaration_files"],
        43: ["waste.files"],
        48: ["circularity.dismantling.files"],
        49: ["circularity.safety_files"],
        50: ["conformity.test_report_files"],
    }


def test_an_audience_is_shown_the_points_that_are_meant_for_it() -> None:
    sizes = {
        audience: len(export_points(compile_example("reference-2"), audience)["points"])
        for audience in ("public", "interest", "authority", "tenant")
    }

    assert sizes == {"public": 44, "interest": 70, "authority": 50, "tenant": 71}


def test_equal_passports_give_equal_bytes() -> None:
    opened = open_for_export(compile_example("reference-2"))

    assert export_data_points(opened, "public") == export_data_points(opened, "public")


# Points that rules name

DEFINED = 'language 2; def battery = Battery for productSku() else missing("there is no data sheet");'
WASTE = ("waste_prevention", "separate_collection", "collection_systems", "waste_safety", "label_meaning")


def test_a_field_fills_the_point_that_its_rule_names() -> None:
    rules = f"""{DEFINED}
    field a.fade @public: Opt(Dec(6)) = battery.mass_kg about DP52 "Capacity fade";
    field a.also @public: Opt(Dec(6)) = battery.mass_kg;"""

    assert list_filled_points(rules, mass_kg="3") == {10: ["a.also"], 52: ["a.fade"]}


def test_a_point_that_rules_name_is_filled_by_the_fields_that_name_it_alone() -> None:
    rules = f"""{DEFINED}
    field a.mass @public: Opt(Dec(6)) = if battery.mass_kg ?? 0 > 5 then battery.mass_kg else none about DP10 "Mass";
    field a.shown @public: Opt(Dec(6)) = battery.mass_kg about "As written";"""

    assert list_filled_points(rules, mass_kg="3") == {}
    assert list_filled_points(rules, mass_kg="6") == {10: ["a.mass", "a.shown"]}


def test_a_field_is_listed_with_its_label() -> None:
    rules = 'language 2; field a.b @public: Int = 1 about DP31 "Cycles"; field a.c @public: Int = 2 about "C";'

    (point,) = [point for point in export_points(compile_bundle(rules))["points"] if point["fields"]]

    assert (point["number"], point["fields"]) == (31, [{"label": "Cycles", "path": "a.b", "value": 1}])


def test_a_point_whose_parts_are_named_is_filled_when_all_are() -> None:
    fields = "".join(
        f'field waste.{name} @public: Opt(Text) = battery.{name}_url about DP43.{number} "{name}";'
        for number, name in enumerate((*WASTE, "substance_impact"), 1)
    )
    members = {f"{name}_url": f"https://example.org/{name}" for name in (*WASTE, "substance_impact")}

    assert 43 in list_filled_points(DEFINED + fields, **members)
    assert 43 not in list_filled_points(DEFINED + fields, **{**members, "label_meaning_url": None})
    assert 43 not in list_filled_points(DEFINED + fields.rpartition("field ")[0], **members), "it names five of six"


def test_a_point_of_several_parts_that_is_named_as_a_whole_is_filled_when_the_facts_fill_all() -> None:
    rules = f'{DEFINED} field a.coldest @public: Opt(Dec(2)) = battery.idle_temperature_min_degc about DP34 "Range";'

    assert list_filled_points(rules, idle_temperature_min_degc="-20") == {}
    assert list_filled_points(rules, idle_temperature_min_degc="-20", idle_temperature_max_degc="60") == {
        34: ["a.coldest"]
    }


def test_what_goes_with_a_point_does_not_fill_it_and_what_is_computed_does() -> None:
    rules = f"""{DEFINED}
    field a.place @public: Opt(Text) = battery.manufacturing_place about DP8 "Place of manufacture";
    field a.country @public: Opt(Text) = battery.manufacturing_country about DP8 "Country of manufacture";
    field a.power @public: Opt(Dec(3)) = battery.original_power_w about DP53 "Power";"""

    assert list_filled_points(rules, manufacturing_country="DE") == {}
    assert list_filled_points(rules, manufacturing_country="DE", manufacturing_place="Ulm") == {
        8: ["a.country", "a.place"]
    }
    assert list_filled_points(rules, original_power_w="5") == {53: ["a.power"]}


@pytest.mark.parametrize(
    ("kind", "value", "point", "fills"),
    [
        ("List(Opt(Text))", "[none, none]", 14, False),
        ("List(Opt(Text))", '[none, some("CO2")]', 14, True),
        ("Opt(List(Text))", "some([])", 14, False),
        ("Opt(List(Text))", "some([])", 13, True),
        ("Opt(List(Text))", "none", 13, False),
        ("List(Text)", "[]", 13, False),
        ("Text", '" "', 8, False),
        ("Bool", "false", 8, True),
        ("Dec(2)", "0", 24, True),
        ("Record(a: Opt(Int), b: Opt(Text))", "{ a: none, b: none }", 14, False),
    ],
)
def test_nothing_but_a_value_fills_a_point(kind: str, value: str, point: int, fills: bool) -> None:
    rules = f'language 2; field a.b @public: {kind} = {value} about DP{point} "B";'

    assert list_filled_points(rules) == ({point: ["a.b"]} if fills else {})


def test_the_page_lists_the_points_of_several_parts() -> None:
    rows = re.findall(r"^\| ([0-9]+) \| ([0-9]+): ", PAGE.read_text(encoding="utf-8"), re.MULTILINE)

    assert {int(number): int(count) for number, count in rows} == {
        number: len(parts) for number, parts in PARTS.items() if len(parts) > 1
    }
