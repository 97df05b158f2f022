"""Rows of a file of batteries: which cells become members of the fact `Item`, and what is wrong with the others."""

from bpc.core.batteries.row_files import FileRow
from bpc.core.facts.item_schemas import ITEM
from bpc.core.formats.ids import BatteryId
from bpc.core.items.item_rows import ITEM_MEMBERS, RegisteredItem, build_members, read_item_cells
from tests.core.items.sample_layers import make_id


def test_cells_become_values_of_their_members() -> None:
    cells = {
        "serial_number": "A1",
        "remaining_capacity_ah": "9.5",
        "capacity_fade_pct": "-0.25",
        "full_cycles": "12",
        "warranty_until_on": "2031-01-02",
        "operator_name": "Acme",
    }

    members, faults = read_item_cells(FileRow(2, cells))

    assert faults == []
    assert members == {
        "remaining_capacity_ah": "9.500000",
        "capacity_fade_pct": "-0.25",
        "full_cycles": 12,
        "warranty_until_on": "2031-01-02",
        "operator_name": "Acme",
    }


def test_a_cell_that_is_no_value_is_named() -> None:
    cells = {
        "remaining_capacity_ah": "1.1234567",
        "full_cycles": "1.5",
        "warranty_until_on": "soon",
        "operator_name": "x" * 1001,
        "operator_address": "a\0b",
    }

    members, faults = read_item_cells(FileRow(7, cells))

    assert members == {}
    assert [(fault.line, fault.column) for fault in faults] == [(7, name) for name in cells]
    assert faults[0].says == "`1.1234567` is not a number with up to 6 decimals"


def test_what_is_on_record_counts_and_a_file_cannot_say_otherwise() -> None:
    item = RegisteredItem(
        battery_id=BatteryId(make_id(1)), serial_number="A1", address="/p/1", status="original", plant="GLN:1"
    )

    members = build_members(item, {"full_cycles": 3})

    assert members == {
        "full_cycles": 3,
        "serial_number": "A1",
        "passport_uri": "/p/1",
        "facility_id": "GLN:1",
        "status": "original",
    }
    assert set(members) <= set(ITEM)
    assert {"serial_number", "status", "negative_events"}.isdisjoint(ITEM_MEMBERS)
