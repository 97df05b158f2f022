"""What fills a data point: every part of it, each in one of the ways the table names."""

from typing import Any

import pytest

from bpc.core.exports.data_points import POINTS, DataPoint
from bpc.core.exports.point_parts import (
    FILE_POINTS,
    PARTS,
    FillingWay,
    find_open_parts,
    is_filled,
    list_filling_members,
)
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.facts.schemas import SCHEMA_MEMBERS
from bpc.core.language.types import FactRecordType, List, Record
from tests.core.sample_passports import make_fact

WAYS = [
    pytest.param(point, index, way, id=f"{point.number}.{index + 1}-{way.fact_type}.{'+'.join(way.members)}")
    for point in POINTS
    for index, part in enumerate(PARTS[point.number])
    for way in part.ways
]
DISMANTLING = {
    "exploded_diagram_url": "https://acme.eu/diagram",
    "disassembly_sequence_url": "https://acme.eu/sequence",
    "fastenings": ["12 screws M6"],
    "disassembly_tools": ["torx 30"],
    "disassembly_warnings": ["busbar under voltage"],
    "cell_count": 96,
    "cell_layout": "96s1p",
}


def get_point(number: int) -> DataPoint:
    return POINTS[number - 1]


def make_battery(**members: Any) -> SnapshotFact:
    return make_fact("Battery", "battery:SKU-1", **members)


def list_open_names(number: int, *facts: SnapshotFact) -> list[str]:
    return [part.name for part in find_open_parts(facts)[number]]


def make_filling_fact(way: FillingWay, value: Any = "x") -> SnapshotFact:
    """A fact that has the members of a way and nothing else."""
    payload: dict[str, Any] = {} if way.location is None else {"location": way.location}
    for member in way.members:
        name, _, inner = member.partition(".")
        payload[name] = [{inner: value}] if inner else value
    return make_fact(way.fact_type, "key", **payload)


def test_each_point_has_parts_and_each_part_a_way() -> None:
    assert list(PARTS) == [point.number for point in POINTS]
    assert all(parts and all(part.ways for part in parts) for parts in PARTS.values())
    assert {number: len(parts) for number, parts in PARTS.items() if len(parts) > 2} == {
        16: 3,
        17: 8,
        43: 6,
        45: 3,
        48: 6,
    }


@pytest.mark.parametrize(("point", "index", "way"), WAYS)
def test_a_member_that_fills_a_point_serves_it_in_the_schema(point: DataPoint, index: int, way: FillingWay) -> None:
    schema = SCHEMA_MEMBERS[FactRecordType(way.fact_type, 1)]

    for member in way.members:
        name, _, inner = member.partition(".")
        kind = schema[name].type
        assert not inner or (
            isinstance(kind, List) and isinstance(kind.item, Record) and inner in dict(kind.item.members)
        )
        # Point 16 repeats 12, 13 and 15. Article number and battery model stand in for what was not written apart.
        stands_in = point.number == 16 or (point.number, name) in {(7, "sku"), (17, "model")}
        assert point.number in schema[name].points or stands_in


@pytest.mark.parametrize(("point", "index", "way"), WAYS)
def test_each_way_fills_its_part_and_a_blank_does_not(point: DataPoint, index: int, way: FillingWay) -> None:
    part = PARTS[point.number][index]

    assert part in find_open_parts([])[point.number]
    assert part not in find_open_parts([make_filling_fact(way)])[point.number]
    assert part in find_open_parts([make_filling_fact(way, " ")])[point.number]
    assert part in find_open_parts([make_filling_fact(way, None)])[point.number]


def test_a_point_of_six_parts_is_not_filled_by_five() -> None:
    assert is_filled(get_point(48), [make_battery(**DISMANTLING)])

    for member in DISMANTLING:
        rest = {name: value for name, value in DISMANTLING.items() if name != member}
        assert not is_filled(get_point(48), [make_battery(**rest)])
    assert list_open_names(48, make_battery(**(DISMANTLING | {"cell_layout": None}))) == ["number and layout of cells"]


def test_one_link_does_not_stand_for_the_parts_it_may_contain() -> None:
    assert len(list_open_names(48, make_battery(dismantling_url="https://acme.eu/all"))) == 6


def test_parts_may_be_filled_by_different_facts() -> None:
    anode = make_fact("Component", "component:SKU-1:a", material="graphite", location="Anode")
    salt = make_fact("Component", "component:SKU-1:e", material="LiPF6", location="electrolyte")

    assert is_filled(get_point(45), [make_battery(cathode="NMC811"), anode, salt])
    assert list_open_names(45, make_battery(cathode="NMC811"), anode) == ["electrolyte"]
    assert list_open_names(45, make_fact("Component", "key", material="steel", location="casing")) == [
        "cathode",
        "anode",
        "electrolyte",
    ]


def test_members_of_a_way_must_be_in_one_fact() -> None:
    cobalt = make_fact("Component", "component:SKU-1:a", cobalt_g="5")
    share = make_fact("Component", "component:SKU-1:b", recycled_post_pct="10")

    assert not is_filled(get_point(20), [cobalt, share])
    assert is_filled(get_point(20), [make_fact("Component", "key", cobalt_g="5", recycled_post_pct="10")])
    assert not is_filled(get_point(20), [make_battery(recycled_cobalt_pre_pct="5")])


@pytest.mark.parametrize(
    ("number", "member"),
    [(13, "hazardous_substances"), (15, "critical_raw_materials"), (69, "negative_events")],
)
def test_an_empty_list_says_that_there_are_none(number: int, member: str) -> None:
    assert is_filled(get_point(number), [make_battery(**{member: []})])
    assert not is_filled(get_point(number), [make_battery()])


def test_an_empty_list_does_not_fill_what_cannot_be_none() -> None:
    assert not is_filled(get_point(50), [make_battery(test_report_urls=[])])
    assert not is_filled(get_point(46), [make_battery(spare_part_sources=[])])


def test_zero_and_false_are_values() -> None:
    assert is_filled(get_point(68), [make_battery(full_cycles=0)])
    assert is_filled(get_point(52), [make_battery(capacity_fade_pct="0")])
    assert is_filled(get_point(15), [make_fact("Component", "key", critical=False)])


def test_a_reading_fills_the_state_it_is_of() -> None:
    reading = make_fact("Reading", "reading:SKU-1:1", kind="capacity_fade_pct", number="3.5")

    assert is_filled(get_point(52), [reading])
    assert not is_filled(get_point(54), [reading])
    assert not is_filled(get_point(52), [make_fact("Reading", "key", kind="capacity_fade_pct")])


@pytest.mark.parametrize("number", sorted(FILE_POINTS))
def test_a_file_fills_a_point_of_one_part(number: int) -> None:
    attachment = make_fact("Attachment", "attachment:SKU-1", data_point=number)

    assert is_filled(get_point(number), [attachment]) == (len(PARTS[number]) == 1)
    assert not is_filled(get_point(10), [make_fact("Attachment", "key", data_point=10)])


def test_the_members_that_can_fill_a_point_are_listed_once() -> None:
    assert list_filling_members(29) == [("Battery", "original_power_w"), ("Battery", "original_power_by_charge")]
    assert list_filling_members(20)[-3:] == [
        ("Component", "cobalt_g"),
        ("Component", "recycled_pre_pct"),
        ("Component", "recycled_post_pct"),
    ]
