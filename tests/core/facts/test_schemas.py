"""Fact schemas: what was published stays, every data point has a place, names say their unit."""

import re

import pytest

from bpc.core.facts.schemas import SCHEMA_MEMBERS, SCHEMAS, STATE_MEMBERS
from bpc.core.language.types import BOOL, DATE, INT, TEXT, Dec, FactRecordType, List, Opt, Record, Type

BATTERY, COMPONENT, PCF, DUE_DILIGENCE = (
    FactRecordType("Battery", 1),
    FactRecordType("Component", 1),
    FactRecordType("PCF", 1),
    FactRecordType("DueDiligence", 1),
)
READING, READING_SERIES, FINDING, ATTACHMENT = (
    FactRecordType("Reading", 1),
    FactRecordType("ReadingSeries", 1),
    FactRecordType("Finding", 1),
    FactRecordType("Attachment", 1),
)
PUBLISHED: dict[FactRecordType, dict[str, Type]] = {
    BATTERY: {
        **dict.fromkeys(["sku", "name", "category", "chemistry"], TEXT),
        **dict.fromkeys(["capacity_kwh", "rated_capacity_ah", "mass_kg"], Dec(6)),
        "nominal_voltage_v": Dec(3),
        "manufactured_on": DATE,
    },
    COMPONENT: {
        **dict.fromkeys(["sku", "part", "material", "location"], TEXT),
        "mass_g": Dec(6),
        "critical": BOOL,
        **dict.fromkeys(["recycled_pre_pct", "recycled_post_pct"], Dec(2)),
    },
    PCF: {
        **dict.fromkeys(["sku", "study_url"], TEXT),
        **dict.fromkeys(
            ["total_gco2e", "raw_material_gco2e", "production_gco2e", "distribution_gco2e", "end_of_life_gco2e"],
            Dec(2),
        ),
    },
    DUE_DILIGENCE: {
        **dict.fromkeys(["sku", "supplier", "report_url"], TEXT),
        "audited_on": DATE,
        "conforms": BOOL,
    },
    READING: {
        **dict.fromkeys(["sku", "kind", "recorded_at", "text"], TEXT),
        "recorded_on": DATE,
        "number": Dec(6),
    },
    READING_SERIES: {
        **dict.fromkeys(["sku", "kind", "first_recorded_at", "last_recorded_at", "sha256"], TEXT),
        "count": INT,
    },
    FINDING: {
        **dict.fromkeys(["sku", "code", "severity", "fact_type", "fact_key", "message"], TEXT),
        "members": List(TEXT),
        "points": List(INT),
    },
    ATTACHMENT: {
        **dict.fromkeys(["sku", "title", "file_name", "mime_type", "sha256", "document_version_id"], TEXT),
        "data_point": INT,
        "size": INT,
    },
}
UNIT_ENDINGS = {
    "kg": Dec(6),
    "g": Dec(6),
    "kwh": Dec(6),
    "ah": Dec(6),
    "ohm": Dec(6),
    "v": Dec(3),
    "w": Dec(3),
    "degc": Dec(2),
    "months": INT,
    "on": DATE,
    "url": TEXT,
    "urls": List(TEXT),
}
ALL = [(fact, name, kind) for fact, members in SCHEMAS.items() for name, kind in members.items()]


@pytest.mark.parametrize("fact", PUBLISHED, ids=str)
def test_what_the_specification_names_is_there_with_its_type(fact: FactRecordType) -> None:
    assert {name: SCHEMAS[fact][name] for name in PUBLISHED[fact]} == PUBLISHED[fact]


def test_every_data_point_of_the_commission_has_a_member() -> None:
    served = {point for members in SCHEMA_MEMBERS.values() for member in members.values() for point in member.points}

    assert served == set(range(1, 72))


@pytest.mark.parametrize(
    ("point", "fact", "name"),
    [
        (1, BATTERY, "passport_uri"),
        (10, BATTERY, "mass_kg"),
        (11, BATTERY, "rated_capacity_ah"),
        (17, PCF, "total_gco2e"),
        (19, DUE_DILIGENCE, "report_url"),
        (33, BATTERY, "capacity_threshold_pct"),
        (46, COMPONENT, "part_number"),
        (61, BATTERY, "state_of_certified_energy_pct"),
        (67, BATTERY, "status"),
        (71, BATTERY, "state_of_charge_pct"),
    ],
)
def test_a_data_point_is_served_by_the_member_one_expects(point: int, fact: FactRecordType, name: str) -> None:
    assert point in SCHEMA_MEMBERS[fact][name].points


def test_a_state_is_a_member_of_the_battery_that_changes_in_use() -> None:
    assert SCHEMAS[BATTERY].keys() >= STATE_MEMBERS
    assert {"capacity_fade_pct", "status", "full_cycles", "temperature_records"} <= STATE_MEMBERS
    assert STATE_MEMBERS.isdisjoint({"state_recorded_on", "rated_capacity_ah", "expected_cycles", "warranty_until_on"})
    assert set().union(*(SCHEMA_MEMBERS[BATTERY][name].points for name in STATE_MEMBERS)) == {
        *range(52, 59),
        *range(61, 72),
    }


def test_names_are_snake_case_and_short_enough_for_the_language() -> None:
    assert [name for _, name, _ in ALL if not re.fullmatch("[a-z][a-z0-9]*(_[a-z0-9]+)*", name) or len(name) > 64] == []


def test_the_end_of_a_name_says_the_type() -> None:
    wrong = [(name, str(kind)) for _, name, kind in ALL if UNIT_ENDINGS.get(name.rpartition("_")[2], kind) != kind]

    assert wrong == []


def test_every_member_is_explained_in_a_few_words() -> None:
    says = [(name, member.description) for members in SCHEMA_MEMBERS.values() for name, member in members.items()]

    assert [name for name, words in says if not words or words.endswith(".") or len(words) > 80] == []


def test_every_member_of_a_listed_record_may_be_missing() -> None:
    listed = [(name, kind.item) for _, name, kind in ALL if isinstance(kind, List) and isinstance(kind.item, Record)]

    assert [name for name, record in listed if not all(isinstance(kind, Opt) for _, kind in record.members)] == []
    assert len(listed) >= 8
