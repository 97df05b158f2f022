"""What is printed: headings and labels from paths, words from values, and nothing but texts."""

from dataclasses import replace
from typing import Any

import pytest

from bpc.core.catalogue.po_file import PoEntry
from bpc.core.catalogue.wording import Wording, build_catalogue
from bpc.core.exports.disclosure import (
    Audience,
    DisclosedField,
    ExportRefused,
    disclose,
    disclose_opened,
    open_for_export,
    parse_type,
)
from bpc.core.exports.sheet import build_sheet
from bpc.core.exports.sheet_values import ValueWriter, draw_qr_svg, format_path
from bpc.core.language.checking.requirements import REQUIREMENTS_PATH
from bpc.core.passport.qr import encode_qr_modules
from tests.core.exports.example_bundles import CASES, compile_bundle, compile_example
from tests.core.sample_passports import make_fact


@pytest.mark.parametrize(
    ("kind", "value", "printed"),
    [
        ("Bool", True, "Yes"),
        ("Int", -12, "-12"),
        ("Int", 2027, "2027"),
        ("Int", 12345, "12,345"),
        ("Date", "2027-02-18", "18 February 2027"),
        ("Dec(6)", "75.500000", "75.5"),
        ("Dec(2)", "100.00", "100"),
        ("Dec(0)", "100", "100"),
        ("Dec(18)", "0.142543859649122807", "0.142543…"),
        ("Dec(18)", "0.142543000000000000", "0.142543"),
        ("Qty(pct)", {"unit": "pct", "value": "5.4"}, "5.4\xa0%"),
        ("Qty(gCO2e_per_kWh)", {"unit": "gCO2e_per_kWh", "value": "7"}, "7\xa0g CO₂e/kWh"),
        ("Qty(each)", {"unit": "each", "value": "7"}, "7"),
        ("Qty(kWh)", {"unit": "kWh", "value": "-0.5"}, "−0.5\xa0kWh"),
        ("Opt(Text)", None, "–"),
        ("List(Text)", [], "–"),
        ("List(Text)", ["a", "b"], "a, b"),
        ("Map(Text, Int)", {"x": 1, "y": 2}, "x: 1, y: 2"),
        ("Record(a_b: Int, c: Opt(Text))", {"a_b": 1, "c": None}, "A b: 1, C: –"),
        ("List(Record(a: Int))", [{"a": 1}, {"a": 2}], "A: 1; A: 2"),
    ],
)
def test_a_value_in_words(kind: str, value: Any, printed: str) -> None:
    field = DisclosedField("a.b", parse_type(kind), ("public",), value, 0)

    assert ValueWriter(Wording("en")).format_field(field, None) == printed


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
    assert format_path(path) == label


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
    rows = [row for section in printed["sections"] for row in section["rows"]]
    unsaid = [label for section in printed["sections"] for label in section["empty"].split(", ") if label]
    fields = [field for field in disclosed_passport.fields if field.path != REQUIREMENTS_PATH]
    without_rows = [field for field in fields if field.value in (None, [], "", {})]
    assert len(fields) - len(without_rows) <= len(rows) <= len(disclosed_passport.fields)
    assert len(unsaid) <= len(without_rows)


@pytest.mark.parametrize(
    ("audience", "says"),
    [
        ("public", "everybody (85 of 151 fields)"),
        ("interest", "persons with a legitimate interest ("),
        ("tenant", "All 151 fields, with the restricted ones. Not for handing on."),
    ],
)
def test_a_sheet_says_whom_it_is_for(audience: Audience, says: str) -> None:
    assert build_sheet(disclose(compile_example("reference-2"), audience))["head"][-1]["value"].startswith(says)


def test_what_a_reader_looks_for_first_stands_first() -> None:
    figures = build_sheet(disclose(compile_example("reference-2"), "tenant"))["figures"]

    assert [(figure["label"], figure["value"]) for figure in figures[:4]] == [
        ("Energy", "84\xa0kWh"),
        ("Chemistry", "NMC811"),
        ("Rated capacity", "210\xa0Ah"),
        ("Voltage · nominal", "400\xa0V"),
    ]


def test_what_is_too_long_for_a_figure_stands_with_the_others_only() -> None:
    disclosed_passport = disclose(compile_bundle(f'field a.chemistry @public: Text = "{"x" * 60}";'), "public")

    assert build_sheet(disclosed_passport)["figures"] == []
    assert build_sheet(disclosed_passport)["sections"][0]["rows"][0]["values"] == [{"text": "x" * 60, "href": ""}]


def test_what_nobody_reads_to_its_end_is_cut_visibly() -> None:
    rules = f"""
    field a.text @public: Text = "{"x" * 10_005}";
    field a.parts @public: List(Record(part: Opt(Text))) =
      map(getFactsByPrefix("Component", "component:"), fn(p) => {{ part: recordGet(p, "part") }});
    """
    parts = [make_fact("Component", f"component:{number}", part=str(number)) for number in range(1_003)]

    cells, text = build_sheet(disclose(compile_bundle(rules, *parts), "public"))["sections"][0]["rows"]

    assert text["values"][0]["text"] == "x" * 10_000 + "… (and 5 more characters)"
    assert (len(cells["cells"]), cells["cells"][-1]) == (1_001, [{"text": "… and 3 more", "href": ""}])


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
        (1, "Checks that failed and that the issuer waived, with a reason on record: 1"),
        (1200, "Checks that failed and that the issuer waived, with a reason on record: 1,200"),
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


DESCRIBED = """language 2;
field battery.mass_kg @public: Opt(Dec(3)) = some(412.5)
  about DP10 "Mass of the battery" group "General information" order 10 cite "Annex VI, Part A, point 5" unit "kg";
field battery.cells @public: List(Int) = [96, 2] about "Cells" group "Composition" order 40 unit "pieces";
field battery.maker @public: Opt(Text) = none about DP3 "Manufacturer" group "General information" order 3;
field battery.model @public: Text = "P1" about DP7 "Model" group "General information";
field battery.energy @public: Qty(kWh) = qty(75, kWh) about DP11 "Energy" group "General information" order 11 unit "x";
field battery.warranty @public: Int = 1 about DP35 "Warranty" unit "months";
field battery.substances @public: Opt(List(Text)) = some([]) about DP13 "Hazardous substances" group "Composition";
field battery.category @public: Text = "lmt" about DP6 "Category" group "General information" order 1;
field battery.certified @interest: Opt(Dec(2)) = none about DP61 "Certified energy" group "State";
field battery.symbols @public: List(Text) = ["Cd"] about DP41 "Symbols" group "Labels";
field battery.link @public: Text = "https://example.com/a" about DP1 "Address" group "General information" order 0;
field battery.rows @public: List(Record(mass_g: Int, note: Opt(Text), location: Text)) =
  [{ mass_g: 1, note: none, location: "anode" }] about DP45 "Rows" group "Composition" cite "Annex XIII";
field summary @public: Text = "all";
require DP10 "the mass": true cite "Article 13(1)";
require DP11 "the energy": false;
"""
NOT_ASKED = """language 2;
field recycled.cobalt @public: Opt(Dec(2)) = none about DP20 "Recycled cobalt" group "Recycled content";
field recycled.nickel @public: Opt(Dec(2)) = none about DP22 "Recycled nickel" group "Recycled content";
require DP20 "the cobalt" when false: true;
require DP22 "the nickel": false;
"""


def list_rows(section: dict[str, Any]) -> list[tuple[str, str]]:
    """The labels of a section and the first line of each value; "" for a table."""
    return [(row["label"], row["values"][0]["text"] if "values" in row else "") for row in section["rows"]]


def test_fields_are_grouped_ordered_and_labelled_as_their_rules_say() -> None:
    sections = build_sheet(disclose(compile_bundle(DESCRIBED), "tenant"))["sections"]

    assert [
        (
            section["title"],
            [(row["label"], row["values"][0]["text"] if "values" in row else "") for row in section["rows"]],
        )
        for section in sections
    ] == [
        (
            "General information",
            [
                ("Address", "https://example.com/a"),
                ("Category", "Battery for light means of transport"),
                ("Mass of the battery", "412.5\xa0kg"),
                ("Energy", "75\xa0kWh"),
                ("Model", "P1"),
            ],
        ),
        ("Composition", [("Cells", "96\xa0pieces, 2\xa0pieces"), ("Rows", ""), ("Hazardous substances", "None")]),
        ("Performance and durability", [("Warranty", "1\xa0month")]),
        ("Labels", [("Symbols", "Cd")]),
        ("Summary", [("Summary", "all")]),
    ]
    assert sections[0]["empty"] == "Manufacturer"
    assert sections[0]["rows"][2]["cite"] == "Annex VI, Part A, point 5"
    assert sections[0]["rows"][0]["values"] == [{"text": "https://example.com/a", "href": "https://example.com/a"}]


@pytest.mark.parametrize("audience", ["public", "tenant"])
def test_what_the_rules_do_not_ask_of_a_battery_is_not_applicable_and_not_unsaid(audience: Audience) -> None:
    sheet = build_sheet(disclose(compile_bundle(NOT_ASKED), audience))

    assert [(section["empty"], section["exempt"]) for section in sheet["sections"]] == [
        ("Recycled nickel", "Recycled cobalt")
    ]
    assert sheet["words"]["not_applicable"] == "Not applicable"


def test_a_table_has_the_columns_that_say_something() -> None:
    sections = build_sheet(disclose(compile_bundle(DESCRIBED), "tenant"))["sections"]

    rows = next(row for section in sections for row in section["rows"] if row["label"] == "Rows")

    assert rows["columns"] == ["Location", "Mass g"]
    assert [[cell["text"] for cell in row] for row in rows["cells"]] == [["Anode", "1"]]


def test_the_head_says_what_it_is_and_which_symbols_it_bears() -> None:
    sheet = build_sheet(disclose(compile_bundle(DESCRIBED), "public"))

    assert (sheet["category"], sheet["model"]) == ("Battery for light means of transport", "P1")
    assert sheet["symbols"] == {"metals": ["Cd"], "says": ["Contains more than 0.002 % cadmium by weight."]}
    assert [code["href"] for code in sheet["codes"]] == ["https://example.com/a", ""]
    assert {"label": "Mass of the battery", "value": "412.5\xa0kg"} in sheet["figures"]


def test_restricted_points_are_named_without_a_value_and_only_where_they_are_due() -> None:
    hidden = build_sheet(disclose(compile_bundle(DESCRIBED), "public"))["hidden"]

    points = " ".join(group["points"] for group in hidden["groups"])
    assert hidden["count"] == "Fields of this passport that are not in this print: 2"
    assert "Remaining capacity" in points
    assert "State of certified energy" not in points, "it is not to be filled for light means of transport"
    assert build_sheet(disclose(compile_bundle(DESCRIBED), "tenant"))["hidden"]["groups"] == []


def test_checks_stand_in_the_order_of_their_weight_with_what_they_cite() -> None:
    sheet = build_sheet(disclose(compile_bundle(DESCRIBED), "tenant"))

    assert [(entry["says"], entry["code"], entry["cite"]) for entry in sheet["checks"]] == [
        ("Not met", "DP11", ""),
        ("Met", "DP10", "Article 13(1)"),
    ]
    assert sheet["state"]["says"] == "Checks that failed: 1"
    assert sheet["state"]["counts"].startswith("2 checks: 1 met, 0 with a warning, 1 not met")


def test_labels_of_rules_that_the_receipt_does_not_name_are_not_shown() -> None:
    bundle = compile_bundle(DESCRIBED)
    entries = {**bundle.entries, "rules.bpc": DESCRIBED.replace("Mass of", "Price of").encode()}

    with pytest.raises(ExportRefused, match=r"rules\.bpc has the hash"):
        disclose(replace(bundle, entries=entries), "public")


GERMAN = build_catalogue(
    "de",
    [
        PoEntry(context="point 10", source="Mass of the battery", translation="Gewicht der Batterie"),
        PoEntry(context="group", source="General information", translation="Allgemeine Angaben"),
        PoEntry(context="finding DP10 title", source="the mass", translation="das Gewicht"),
        PoEntry(context="sheet", source="Battery passport", translation="Batteriepass"),
    ],
)


def test_a_sheet_is_in_its_language_and_what_has_no_translation_is_english() -> None:
    passport = disclose(compile_bundle(DESCRIBED), "tenant")

    sheet = build_sheet(passport, Wording("de", (GERMAN,)))

    general = next(section for section in sheet["sections"] if section["title"] == "Allgemeine Angaben")
    assert ("Gewicht der Batterie", "412,5\xa0kg") in [
        (row["label"], row["values"][0]["text"]) for row in general["rows"]
    ]
    assert [entry["message"] for entry in sheet["checks"]] == ["the energy", "das Gewicht"]
    assert (sheet["words"]["passport"], sheet["words"]["checks"]) == ("Batteriepass", "Checks")


def test_a_label_in_the_rules_is_used_where_no_catalogue_has_another() -> None:
    rules = DESCRIBED.replace("order 10 cite", 'order 10 label de "Masse" cite')
    passport = disclose(compile_bundle(rules), "public")

    labels = {
        catalogue: {row["label"] for section in build_sheet(passport, wording)["sections"] for row in section["rows"]}
        for catalogue, wording in {"none": Wording("de"), "own": Wording("de", (GERMAN,))}.items()
    }

    assert "Masse" in labels["none"]
    assert "Gewicht der Batterie" in labels["own"]
