"""What a template asks for: what the category needs, where the law says it, in the language of the supplier."""

import pytest

from bpc.core.documents.fact_members import parse_column_name
from bpc.core.documents.forms.german_names import GERMAN_NAMES, GERMAN_RECORD_NAMES
from bpc.core.documents.forms.missing import list_missing_members
from bpc.core.documents.forms.template_plan import AskedMember, Template, TemplateColumn, build_template
from bpc.core.documents.forms.template_words import LANGUAGES, Language, cite_source
from bpc.core.documents.sheet_names import find_sheet_types
from bpc.core.exports.data_points import CATEGORIES, POINTS, Category
from bpc.core.exports.point_parts import PARTS
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.facts.schemas import SCHEMAS
from bpc.core.language.types import FactRecordType, List, Record

EACH = [(category, language) for category in CATEGORIES for language in LANGUAGES]


def list_columns_of(template: Template) -> dict[tuple[str, str], TemplateColumn]:
    return {(sheet.fact_type, column.name): column for sheet in template.sheets for column in sheet.columns}


def find_column(template: Template, name: str, fact_type: str = "Battery") -> TemplateColumn:
    return list_columns_of(template)[fact_type, name]


@pytest.mark.parametrize("category", CATEGORIES)
def test_a_template_that_is_filled_in_where_it_says_mandatory_lacks_nothing_mandatory(category: Category) -> None:
    columns = list_columns_of(build_template(category, "en"))
    battery: dict[str, object] = {}
    for (fact_type, name), column in columns.items():
        if fact_type == "Battery" and column.mark == "mandatory":
            member, _, rest = name.partition("[")
            inner = rest.partition("].")[2]
            if inner:
                records = battery.setdefault(member, [{}])
                assert isinstance(records, list)
                records[0][inner] = "x"
            else:
                battery[member] = "x"
    fact = SnapshotFact(fact_type="Battery", fact_key="battery:A", schema_version=1, payload=battery)  # type: ignore[arg-type]

    assert list_missing_members(category, [fact]) == ()


@pytest.mark.parametrize("category", CATEGORIES)
def test_what_is_not_to_be_filled_in_is_not_asked(category: Category) -> None:
    columns = list_columns_of(build_template(category, "en"))
    not_asked = {point.number for point in POINTS if point.get_status(category) in {"X", "P"}}

    assert not_asked.isdisjoint(number for column in columns.values() for number in column.points)
    assert {fact_type for fact_type, _ in columns} == {"Battery", "Component"}


@pytest.mark.parametrize("category", CATEGORIES)
def test_every_data_point_that_is_asked_for_has_a_column_and_its_mark(category: Category) -> None:
    columns = list_columns_of(build_template(category, "en")).values()

    for point in POINTS:
        marks = {column.mark for column in columns if point.number in column.points}
        status = point.get_status(category)
        if status == "M":
            assert "mandatory" in marks, point
        elif status == "C":
            assert marks & {"conditional", "mandatory"}, point
        elif status == "O":
            assert marks, point


def test_marks_differ_by_category() -> None:
    ev, lmt, industrial = (build_template(category, "en") for category in CATEGORIES)

    assert find_column(ev, "capacity_threshold_pct").mark == "mandatory"
    assert ("Battery", "capacity_threshold_pct") not in list_columns_of(lmt)
    assert find_column(industrial, "expected_cycles").mark == "conditional"
    assert ("Battery", "vehicle_category") in list_columns_of(ev)
    assert ("Battery", "vehicle_category") not in list_columns_of(lmt)


def test_another_way_to_say_something_mandatory_is_marked_as_such() -> None:
    template = build_template("ev", "en")

    assert find_column(template, "manufacturer_trade_mark").mark == "alternative"
    assert "May stand instead of: The manufacturer's name." in find_column(template, "manufacturer_trade_mark").comment
    assert "Or fill in instead: Registered trade name or trade mark." in (
        find_column(template, "manufacturer_name").comment
    )


@pytest.mark.parametrize(("category", "language"), EACH)
def test_sheets_are_in_the_order_of_annex_xiii_and_columns_in_that_of_data_points(
    category: Category, language: Language
) -> None:
    template = build_template(category, language)
    firsts = [sheet.columns[-1].points[0] for sheet in template.sheets if sheet.fact_type == "Battery"]

    assert firsts == sorted(firsts)
    for sheet in template.sheets:
        numbers = [column.points[0] for column in sheet.columns if column.points]
        assert numbers == sorted(numbers)


@pytest.mark.parametrize(("category", "language"), EACH)
def test_the_reader_knows_every_sheet_and_every_column(category: Category, language: Language) -> None:
    everything = [AskedMember(fact.name, member) for fact, members in SCHEMAS.items() for member in members]
    kinds = {"Battery": "BOM", "Component": "BOM", "PCF": "PCF", "DueDiligence": "DUE_DILIGENCE"}
    wanted = {"A": [member for member in everything if member.fact_type in kinds]}

    for template in (build_template(category, language), build_template(category, language, wanted)):
        for sheet in template.sheets:
            assert find_sheet_types(kinds[sheet.fact_type], sheet.label) == (sheet.fact_type,)
            assert len(sheet.label) <= 31
            assert all(parse_column_name(column.name) for column in sheet.columns)


def test_every_member_has_a_german_name() -> None:
    for fact_type, names in GERMAN_NAMES.items():
        schema = SCHEMAS[FactRecordType(fact_type, 1)]

        assert names.keys() == schema.keys()
        inner = {
            name
            for kind in schema.values()
            if isinstance(kind, List) and isinstance(kind.item, Record)
            for name, _ in kind.item.members
        }
        assert inner <= GERMAN_RECORD_NAMES.keys()


def test_a_comment_says_how_to_write_the_value_and_which_law_asks_for_it() -> None:
    english, german = (build_template("ev", language) for language in LANGUAGES)

    assert find_column(english, "minimum_voltage_v").comment == (
        "Minimum voltage (mandatory)\nNumber with at most 3 decimals, in V.\nData point 26: Annex XIII 1(h)\n"
        "Regulation (EU) 2023/1542"
    )
    assert find_column(german, "minimum_voltage_v").comment == (
        "Mindestspannung (Pflichtangabe)\nZahl mit höchstens 3 Nachkommastellen, in V.\n"
        "Datenpunkt 26: Anhang XIII Nr. 1 Buchst. h\nVerordnung (EU) 2023/1542"
    )


@pytest.mark.parametrize(
    ("source", "german"),
    [
        ("Art. 77(3)", "Art. 77 Abs. 3"),
        ("Annex VI A(10)", "Anhang VI Teil A Nr. 10"),
        ("Annex XIII 1(h)", "Anhang XIII Nr. 1 Buchst. h"),
        ("Annex XIII 3", "Anhang XIII Nr. 3"),
    ],
)
def test_every_citation_has_a_german_form(source: str, german: str) -> None:
    assert cite_source(source, "de") == german
    assert all(cite_source(point.source, "de") != point.source for point in POINTS)


def test_values_to_choose_from_are_offered() -> None:
    english, german = (build_template("ev", language) for language in LANGUAGES)

    assert find_column(english, "has_bms").choices == ("yes", "no")
    assert find_column(german, "has_bms").choices == ("ja", "nein")
    assert find_column(german, "category").choices == ("ev", "lmt", "industrial", "stationary")
    assert "DE" in find_column(german, "manufacturing_country").choices
    assert find_column(english, "location", "Component").is_open


def test_only_what_is_missing_is_asked_of_the_products_that_lack_it() -> None:
    wanted = {
        "B": [AskedMember("Battery", "mass_kg"), AskedMember("PCF", "total_gco2e")],
        "A": [AskedMember("Battery", "spare_part_sources.name"), AskedMember("Component", "part_number")],
    }

    template = build_template("lmt", "en", wanted)

    sheets = {sheet.title: sheet for sheet in template.sheets}
    assert {title: [column.name for column in sheet.columns] for title, sheet in sheets.items()} == {
        "Identity and label data": ["sku", "mass_kg"],
        "Dismantling and tests": ["sku", "spare_part_sources[1].name", "spare_part_sources[2].name"],
        "Components": ["sku", "part", "part_number"],
        "PCF": ["sku", "total_gco2e"],
    }
    assert [row.sku for row in sheets["Identity and label data"].rows] == ["B"]
    assert sheets["Components"].rows[0].asked == {"part", "part_number"}


def test_a_state_that_is_missing_is_asked_with_its_day() -> None:
    template = build_template("ev", "en", {"A": [AskedMember("Battery", "capacity_fade_pct")]})

    [sheet] = template.sheets
    assert [column.name for column in sheet.columns] == ["sku", "state_recorded_on", "capacity_fade_pct"]
    assert sheet.rows[0].asked == {"state_recorded_on", "capacity_fade_pct"}


def test_what_a_list_says_is_missing_is_asked_even_if_the_category_does_not_need_it() -> None:
    template = build_template("lmt", "en", {"A": [AskedMember("Battery", "capacity_threshold_pct")]})

    assert find_column(template, "capacity_threshold_pct").mark == "optional"
    assert PARTS[33][0].ways[0].members == ("capacity_threshold_pct",)
