"""What is printed: headings and labels from paths, words from values, and nothing but texts."""

from dataclasses import replace
from typing import Any

import pytest

from bpc.core.exports.disclosure import (
    Audience,
    ExportRefused,
    disclose,
    disclose_opened,
    open_for_export,
    parse_type,
)
from bpc.core.exports.sheet import _format_label, _format_value, build_sheet, draw_qr_svg
from bpc.core.passport.qr import encode_qr_modules
from tests.core.exports.example_bundles import CASES, compile_bundle, compile_example
from tests.core.sample_passports import make_fact


@pytest.mark.parametrize(
    ("kind", "value", "printed"),
    [
        ("Bool", True, "Yes"),
        ("Int", -12, "-12"),
        ("Date", "2027-02-18", "2027-02-18"),
        ("Dec(6)", "75.500000", "75.5"),
        ("Dec(2)", "100.00", "100"),
        ("Dec(0)", "100", "100"),
        ("Dec(18)", "0.142543859649122807", "0.142543…"),
        ("Dec(18)", "0.142543000000000000", "0.142543"),
        ("Qty(pct)", {"unit": "pct", "value": "5.4"}, "5.4 %"),
        ("Qty(gCO2e_per_kWh)", {"unit": "gCO2e_per_kWh", "value": "7"}, "7 g CO₂e/kWh"),
        ("Qty(each)", {"unit": "each", "value": "7"}, "7"),
        ("Qty(kWh)", {"unit": "kWh", "value": "-0.5"}, "-0.5 kWh"),
        ("Opt(Text)", None, "–"),
        ("List(Text)", [], "–"),
        ("List(Text)", ["a", "b"], "a, b"),
        ("Map(Text, Int)", {"x": 1, "y": 2}, "x: 1, y: 2"),
        ("Record(a_b: Int, c: Opt(Text))", {"a_b": 1, "c": None}, "A b: 1, C: –"),
        ("List(Record(a: Int))", [{"a": 1}, {"a": 2}], "A: 1; A: 2"),
    ],
)
def test_a_value_in_words(kind: str, value: Any, printed: str) -> None:
    assert _format_value(parse_type(kind), value) == printed


@pytest.mark.parametrize(
    ("path", "label"),
    [
        ("battery.capacity_kwh", "Capacity kWh"),
        ("general.manufacturer.trade_mark", "Manufacturer · trade mark"),
        ("general.passport_uri", "Passport URI"),
        ("duties.qr", "QR"),
        ("summary", "Summary"),
    ],
)
def test_a_path_in_words(path: str, label: str) -> None:
    assert _format_label(path) == label


def _contains_only_texts(value: Any) -> bool:
    match value:
        case dict():
            return all(map(_contains_only_texts, value.values()))
        case list():
            return all(map(_contains_only_texts, value))
        case _:
            return isinstance(value, str | bool)


@pytest.mark.parametrize("name", CASES)
def test_a_sheet_is_texts_and_has_every_field_that_may_be_seen(name: str) -> None:
    disclosed_passport = disclose(compile_example(name), "tenant")

    printed = build_sheet(disclosed_passport)

    assert _contains_only_texts(dict(printed))
    assert sum(len(section["rows"]) for section in printed["sections"]) == len(disclosed_passport.fields)


@pytest.mark.parametrize(
    ("audience", "says"),
    [
        ("public", "For everybody: 85 of the passport's 151 fields."),
        ("interest", "For persons with a legitimate interest: "),
        ("tenant", "Holds all 151 fields of the passport, restricted ones among them. Not for handing on."),
    ],
)
def test_a_sheet_says_whom_it_is_for(audience: Audience, says: str) -> None:
    assert build_sheet(disclose(compile_example("example-reference"), audience))["audience"].startswith(says)


def test_what_a_reader_looks_for_first_stands_first() -> None:
    figures = build_sheet(disclose(compile_example("example-reference"), "tenant"))["figures"]

    assert [(figure["label"], figure["value"]) for figure in figures[:4]] == [
        ("Category", "ev"),
        ("Chemistry", "NMC811"),
        ("Energy", "84 kWh"),
        ("Rated capacity", "210 Ah"),
    ]


def test_what_is_too_long_for_a_figure_stands_with_the_others_only() -> None:
    disclosed_passport = disclose(compile_bundle(f'field a.chemistry @public: Text = "{"x" * 60}";'), "public")

    assert build_sheet(disclosed_passport)["figures"] == []
    assert build_sheet(disclosed_passport)["sections"][0]["rows"][0]["value"] == "x" * 60


def test_what_nobody_reads_to_its_end_is_cut_visibly() -> None:
    rules = f"""
    field a.text @public: Text = "{"x" * 10_005}";
    field a.parts @public: List(Record(part: Opt(Text))) =
      map(getFactsByPrefix("Component", "component:"), fn(p) => {{ part: recordGet(p, "part") }});
    """
    parts = [make_fact("Component", f"component:{number}", part=str(number)) for number in range(1_003)]

    cells, text = build_sheet(disclose(compile_bundle(rules, *parts), "public"))["sections"][0]["rows"]

    assert text["value"] == "x" * 10_000 + "… (and 5 more characters)"
    assert (len(cells["cells"]), cells["cells"][-1]) == (1_001, ["… and 3 more"])


DESCRIBED = """language 2;
field battery.mass_kg @public: Opt(Dec(3)) = some(412.5)
  about DP10 "Mass of the battery" group "General information" order 10 cite "Annex VI, Part A, point 5" unit "kg";
field battery.cells @public: List(Int) = [96, 2] about "Cells" group "Composition" order 40 unit "pieces";
field battery.maker @public: Opt(Text) = none about DP3 "Manufacturer" group "General information" order 3 unit "kg";
field battery.model @public: Text = "P1" about DP7 "Model" group "General information";
field battery.energy @public: Qty(kWh) = qty(75, kWh) about DP11 "Energy" group "General information" order 11 unit "x";
field battery.plant @public: Text = "Ulm" about DP8 "Place of manufacture";
field battery.rows @public: List(Record(a: Int)) = [{ a: 1 }] about DP45 "Rows" group "Composition" cite "Annex XIII";
field summary @public: Text = "all";
require DP10 "the mass": true cite "Article 13(1)";
require DP11 "the energy": false;
"""


def test_fields_are_grouped_ordered_and_labelled_as_their_rules_say() -> None:
    sections = build_sheet(disclose(compile_bundle(DESCRIBED), "tenant"))["sections"]

    assert [
        (section["title"], [(row["label"], row.get("value", row.get("cells"))) for row in section["rows"]])
        for section in sections
    ] == [
        (
            "General information",
            [("Manufacturer", "–"), ("Mass of the battery", "412.5 kg"), ("Energy", "75 kWh"), ("Model", "P1")],
        ),
        ("Composition", [("Cells", "96, 2 pieces"), ("Rows", [["1"]])]),
        ("Battery", [("Place of manufacture", "Ulm")]),
        ("Requirements", [("Met", "No")]),
        ("Summary", [("Summary", "all")]),
    ]
    assert {row["label"]: (row["point"], row["citation"]) for section in sections for row in section["rows"]} == {
        "Manufacturer": ("3", ""),
        "Mass of the battery": ("10", "Annex VI, Part A, point 5"),
        "Energy": ("11", ""),
        "Model": ("7", ""),
        "Cells": ("", ""),
        "Rows": ("45", "Annex XIII"),
        "Place of manufacture": ("8", ""),
        "Met": ("", ""),
        "Summary": ("", ""),
    }


def test_key_figures_have_the_labels_of_their_rules() -> None:
    figures = build_sheet(disclose(compile_bundle(DESCRIBED), "public"))["figures"]

    assert ("Mass of the battery", "412.5 kg") in [(figure["label"], figure["value"]) for figure in figures]


def test_an_entry_of_a_requirement_says_what_it_cites() -> None:
    entries = build_sheet(disclose(compile_bundle(DESCRIBED), "tenant"))["compliance"]

    assert [(entry["code"], entry["field"]) for entry in entries] == [
        ("DP10", "Article 13(1)"),
        ("DP11", "Requirement"),
    ]


def test_labels_of_rules_that_the_receipt_does_not_name_are_not_shown() -> None:
    bundle = compile_bundle(DESCRIBED)
    entries = {**bundle.entries, "rules.bpc": DESCRIBED.replace("Mass of", "Price of").encode()}

    with pytest.raises(ExportRefused, match=r"rules\.bpc has the hash"):
        disclose(replace(bundle, entries=entries), "public")


def test_the_code_is_drawn_module_by_module() -> None:
    rows = encode_qr_modules("BPC1|test")

    svg = draw_qr_svg("BPC1|test")

    dark = sum(row.count(0) for row in rows)
    runs = [int(part.split("v")[0]) for part in svg.split("h")[1:] if "v1" in part]
    assert f'viewBox="0 0 {len(rows)} {len(rows)}"' in svg
    assert sum(runs) == dark


@pytest.mark.parametrize(
    ("waived", "says"),
    [
        (0, ""),
        (1, "The issuer waived 1 compliance entry of this passport, with a reason on record."),
        (1200, "The issuer waived 1,200 compliance entries of this passport, with a reason on record."),
    ],
)
def test_every_audience_reads_how_many_entries_were_waived(waived: int, says: str) -> None:
    opened = open_for_export(compile_example("example-first"))

    for audience in ("public", "interest", "authority", "tenant"):
        assert build_sheet(disclose_opened(opened, audience, waived))["waived"] == says


def test_what_the_rules_weaken_is_printed_with_the_reason() -> None:
    rules = """\
language 2;
const LIMIT = 25;
field a @public: Int = LIMIT;
override "ours is lower" const LIMIT = 20;
override "computed otherwise" field a @public: Int = LIMIT + 1;
"""

    sheet = build_sheet(disclose(compile_bundle(rules), "public"))

    assert sheet["weakened"] == [{"label": "const LIMIT", "value": "ours is lower"}]
    assert build_sheet(disclose(compile_bundle("field a @public: Int = 1;"), "public"))["weakened"] == []
