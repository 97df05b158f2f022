"""What the package does with each of the 71 data points, in each category, is what the Commission's table says."""

import json
from functools import cache
from typing import Any

import pytest

from bpc.core.exports.data_points import CATEGORIES, POINTS, Category, read_point_code
from bpc.core.facts.schemas import SCHEMA_VERSION, SCHEMAS
from bpc.core.language import typed
from bpc.core.language.types import BOOL, DATE, INT, TEXT, Dec, FactRecordType, List, Opt, Record, Type
from tests.core.documents.public_files import PUBLISHED_FOLDER
from tests.rules.shipped_package import Passport, compile_facts, make_fact, make_machine

pytestmark = pytest.mark.every_case

GUIDANCE = PUBLISHED_FOLDER / "ec-guidance-datapoints.json"
STATUS_NAMES = {"mandatory": "M", "conditional": "C", "optional": "O", "notToBeFilled": "X", "pending": "P"}
AUDIENCES = {
    "public": ("public",),
    "legitimateInterest": {"Annex XIII 2": ("authority", "interest"), "Annex XIII 4": ("interest",)},
    "notifiedBodiesAndAuthorities": ("authority",),
}
CASES = [(point.number, category) for point in POINTS for category in CATEGORIES]


def fill(kind: Type) -> Any:
    """Some value of a type, as a document would state it."""
    match kind:
        case Dec():
            return "1"
        case List(item):
            return [fill(item)]
        case Record(members):
            return {name: fill(inner) for name, inner in members}
        case Opt(item):
            return fill(item)
        case _:
            values: dict[Type, Any] = {TEXT: "x", INT: 1, BOOL: True, DATE: "2027-01-15"}
            return values[kind]


@cache
def compile_full(category: Category) -> Passport:
    """A passport of which everything is said that facts can say."""
    keys = {"Battery": "battery:S", "PCF": "pcf:S", "DueDiligence": "dd:S", "Component": "component:S:a"}
    stated = {"category": category, "status": "original", "chemistry": "NMC, Pb"}
    facts = []
    for name, key in keys.items():
        members = SCHEMAS[FactRecordType(name, SCHEMA_VERSION)]
        payload = {member: fill(kind) for member, kind in members.items()}
        facts.append(make_fact(name, key, payload | stated if name == "Battery" else payload))
    return compile_facts(facts)


@cache
def compile_silent(category: Category) -> Passport:
    """A passport of which nobody said more than the category."""
    return compile_facts([make_fact("Battery", "battery:S", {"category": category})])


@cache
def compile_excepted(category: Category, number: int) -> Passport:
    """A passport that states what excepts a battery from a point: no cadmium and lead, or no management system."""
    exception = {"cadmium_pct": "0", "lead_pct": "0"} if number == 41 else {"has_bms": False}
    return compile_facts([make_fact("Battery", "battery:S", {"category": category, **exception})])


def find_status(number: int, category: Category) -> str:
    """The status that the rules give a point: by what is shown if all is said, and by what fails if nothing is.

    What fails only until an exception is stated is conditional.
    """
    fields = [field for field in make_machine().program.fields if field.about and field.about.point_number == number]
    full, silent, excepted = compile_full(category), compile_silent(category), compile_excepted(category, number)
    shown = [field.path for field in fields if field.access and full.get_value(field.path) not in (None, [])]
    computed = [field.path for field in fields if full.get_value(field.path) not in (None, [])]
    entry = silent.entries.get(f"DP{number:02}")
    if not shown:
        return "P" if computed else "X"
    if entry is None:
        return "O"
    statuses = {passport.entries[f"DP{number:02}"]["status"] for passport in (silent, excepted)}
    return "M" if statuses == {"FAIL"} else "C"


@pytest.mark.parametrize(("number", "category"), CASES)
def test_a_point_has_the_status_of_the_table(number: int, category: Category) -> None:
    point = POINTS[number - 1]

    if number == 6:  # a passport without a category fails in all of them
        assert compile_facts([make_fact("Battery", "battery:S", {})]).entries["DP06"]["status"] == "FAIL"
        return
    assert find_status(number, category) == point.get_status(category)


@pytest.mark.parametrize("number", [point.number for point in POINTS])
def test_a_point_is_shown_to_those_whom_article_77_names(number: int) -> None:
    fields = [field for field in make_machine().program.fields if field.about and field.about.point_number == number]

    assert bool(fields) == (number not in {16, 25})
    assert {field.access for field in fields if field.access} <= {POINTS[number - 1].access}


def test_a_silent_passport_passes_nothing() -> None:
    for category in CATEGORIES:
        passed = set(compile_silent(category).list_codes("PASS"))
        assert passed == {"DP06", "CATEGORY"}, category


def test_our_table_is_that_of_the_commission() -> None:
    if not GUIDANCE.exists():
        pytest.skip("the transcription of the Commission's guidance is not on this machine")
    for row in json.loads(GUIDANCE.read_bytes())["dataPoints"]:
        point = POINTS[row["nr"] - 1]
        statuses = "".join(STATUS_NAMES[row["applicability"][category]["status"]] for category in CATEGORIES)
        tier = AUDIENCES[row["accessTier"]]
        access = tier[point.source[:12]] if isinstance(tier, dict) else tier
        assert (point.statuses, point.access) == (statuses, access), row["nr"]


def test_every_visible_field_says_what_it_is() -> None:
    for field in make_machine().program.fields:
        if field.access:
            assert field.about is not None, field.path
            assert field.about.group, field.path
            assert field.about.citation, field.path


def test_every_requirement_cites_the_regulation() -> None:
    fields = {field.path: field for field in make_machine().program.fields}
    requirements = fields["requirements.met"].body
    assert isinstance(requirements, typed.RequirementsMet)
    checks = requirements.items
    assert len(checks) > 80
    assert [check.code for check in checks if not check.cite] == []
    points = {number for check in checks if (number := read_point_code(check.code)) is not None}
    assert points == {point.number for point in POINTS} - {5, 16, 17, 18, 19, 25, 44}
