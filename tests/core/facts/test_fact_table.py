"""Facts: read against their schema before any rule runs, named exactly where they do not fit."""

import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpc.core.facts.fact_table import FactInvalid, FactTable, SnapshotFact, read_members
from bpc.core.facts.member_readers import is_day
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.language.types import FactRecordType

BATTERY, COMPONENT = FactRecordType("Battery", 1), FactRecordType("Component", 1)


def make_fact(kind: str, key: str, payload: Mapping[str, Json] | None = None, *, version: int = 1) -> SnapshotFact:
    return SnapshotFact(fact_type=kind, fact_key=key, schema_version=version, payload=payload or {})


def read_member(name: str, value: Json, kind: FactRecordType = BATTERY) -> Any:
    return read_members(kind, "battery:SKU-1", {name: value})[name]


# Values


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("75.5", 75_500_000),
        ("75", 75_000_000),
        (75, 75_000_000),
        (-3, -3_000_000),
        ("-0.000001", -1),
        ("-0.0", 0),
        ("007.50", 7_500_000),
        ("999999999999999999999999999999999999.999999", 10**42 - 1),
    ],
)
def test_a_decimal_is_held_as_a_count_of_its_smallest_step(value: Json, expected: int) -> None:
    assert read_member("capacity_kwh", value) == expected


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("75.1234567", "has 7 decimals, and there is room for 6"),
        ("1.0000000", "has 7 decimals, and there is room for 6"),
        ("1e5", 'is `1e5`, not a plain decimal number like "75.5"'),
        (" 1", 'is ` 1`, not a plain decimal number like "75.5"'),
        ("+1", 'is `+1`, not a plain decimal number like "75.5"'),
        ("1.", 'is `1.`, not a plain decimal number like "75.5"'),
        (".5", 'is `.5`, not a plain decimal number like "75.5"'),
        ("", 'is ``, not a plain decimal number like "75.5"'),
        ("٣", 'is `٣`, not a plain decimal number like "75.5"'),
        ("1\n", 'is `1\n`, not a plain decimal number like "75.5"'),
        ("1" * 37, "is not below 10^36"),
        (10**36, "is not below 10^36"),
        (True, 'is a truth value, not a number written as text, like "75.5"'),
        ([], 'is a list, not a number written as text, like "75.5"'),
        ({}, 'is an object, not a number written as text, like "75.5"'),
    ],
)
def test_what_is_no_decimal_of_its_scale_is_refused_with_the_reason(value: Json, reason: str) -> None:
    with pytest.raises(
        FactInvalid, match=f"^{re.escape(f'fact `battery:SKU-1` (Battery): `capacity_kwh` {reason}')}$"
    ) as error:
        read_member("capacity_kwh", value)

    assert error.value.code == "VALIDATION_ERROR"
    assert error.value.details == {"fact_type": "Battery", "fact_key": "battery:SKU-1", "member": "capacity_kwh"}


def test_a_long_number_is_not_read_at_all() -> None:
    with pytest.raises(FactInvalid, match="not a plain decimal number"):
        read_member("capacity_kwh", "0" * 10_000_000)


@given(st.integers(-(10**42) + 1, 10**42 - 1))
def test_a_decimal_as_it_is_written_out_is_read_back(count: int) -> None:
    integer, fraction = divmod(abs(count), 10**6)

    assert read_member("capacity_kwh", f"{'-' if count < 0 else ''}{integer}.{fraction:06}") == count


@pytest.mark.parametrize("day", ["2027-02-18", "0001-01-01", "9999-12-31", "2028-02-29"])
def test_a_day_of_the_calendar_is_a_date(day: str) -> None:
    assert is_day(day)
    assert read_member("manufactured_on", day) == day


@pytest.mark.parametrize(
    "text", ["2027-02-30", "2027-2-8", "0000-01-01", "7172-75-08", "2027-02-18T00:00:00Z", "20270218", "２０２７-02-18"]
)
def test_any_other_text_is_not_a_date(text: str) -> None:
    assert not is_day(text)
    with pytest.raises(FactInvalid, match="not a day written like 2027-02-18"):
        read_member("manufactured_on", text)


@pytest.mark.parametrize(
    ("name", "kind", "value", "message"),
    [
        ("sku", BATTERY, 7, "is a number, not a Text"),
        ("has_bms", BATTERY, 1, "is a number, not a Bool"),
        ("expected_cycles", BATTERY, "800", "is a text, not an Int"),
        ("expected_cycles", BATTERY, True, "is a truth value, not an Int"),
        ("expected_cycles", BATTERY, 10**36, "is not below 10^36"),
        ("manufactured_on", BATTERY, 20270218, "is a number, not a Date"),
        ("extinguishing_agents", BATTERY, "water", "is a text, not a list"),
        ("extinguishing_agents[1]", BATTERY, ["water", 7], "is a number, not a Text"),
        ("negative_events", BATTERY, {}, "is an object, not a list"),
        ("negative_events[0]", BATTERY, ["fire"], "is a text, not an object"),
        ("negative_events[0].occurred_on", BATTERY, [{"occurred_on": "soon"}], "is `soon`, not a day"),
        ("extinguishing_agents[0]", BATTERY, [None], "is null, not a Text"),
    ],
)
def test_a_value_of_the_wrong_kind_is_named_down_to_its_place(
    name: str, kind: FactRecordType, value: Json, message: str
) -> None:
    with pytest.raises(FactInvalid) as error:
        read_member(re.split(r"[.\[]", name)[0], value, kind)

    assert f"`{name}` {message}" in error.value.says


def test_null_is_absent_and_what_no_schema_knows_is_not_looked_at() -> None:
    members = read_members(BATTERY, "battery:SKU-1", {"sku": None, "colour": {"any": ["thing"]}})

    assert members["sku"] is None
    assert "colour" not in members
    assert set(members.values()) == {None}


def test_records_in_lists_hold_every_member_of_their_type() -> None:
    events = read_member("negative_events", [{"event": "crash"}, {"occurred_on": "2027-05-01", "colour": 1}])

    assert events == [
        {"event": "crash", "occurred_on": None, "report_url": None},
        {"event": None, "occurred_on": "2027-05-01", "report_url": None},
    ]


# Tables


def test_facts_are_found_by_key_and_missing_ones_are_none() -> None:
    table = FactTable.from_facts([make_fact("Battery", "battery:A", {"sku": "A"})], [BATTERY])

    record = table.get(BATTERY, "battery:A")
    assert record is not None
    assert (record.key, record.members["sku"]) == ("battery:A", "A")
    assert table.get(BATTERY, "battery:B") is None


def test_a_fact_record_knows_the_hash_of_its_payload() -> None:
    table = FactTable.from_facts([make_fact("Battery", "battery:A", {"sku": "A"})], [BATTERY])

    record = table.get(BATTERY, "battery:A")
    assert record is not None
    assert record.payload_hash == to_hex(sha256(b'{"sku":"A"}'))


KEYS = st.lists(st.text(st.sampled_from("ab:Zé😀\ufffd"), max_size=4), unique=True)


@given(KEYS, st.text(st.sampled_from("ab:Zé😀\ufffd"), max_size=2))
def test_a_prefix_finds_its_facts_in_the_order_of_their_keys_bytes(keys: list[str], prefix: str) -> None:
    table = FactTable.from_facts([make_fact("Component", key) for key in keys], [COMPONENT])

    matching_keys = [record.key for record in table.find_by_prefix(COMPONENT, prefix)]

    assert matching_keys == sorted((key for key in keys if key.startswith(prefix)), key=str.encode)


def test_facts_of_types_no_rule_names_are_not_looked_at() -> None:
    broken = [make_fact("Battery", "battery:A", {"sku": 7}), make_fact("Poem", "p", version=9)]

    assert FactTable.from_facts(broken, [COMPONENT]).find_by_prefix(COMPONENT, "") == []


def test_a_fact_of_a_version_no_rule_names_is_refused_and_not_silently_absent() -> None:
    with pytest.raises(FactInvalid) as error:
        FactTable.from_facts([make_fact("Battery", "battery:A", version=2)], [BATTERY])

    assert error.value.says == "fact `battery:A` is a Battery of schema version 2, and the rules read version 1"
    assert error.value.fix is not None
    assert '"Battery@2"' in error.value.fix


@given(st.lists(st.text("ab:", max_size=4), unique=True, max_size=12), st.text("ab:", max_size=3))
def test_a_prefix_finds_what_starts_with_it_in_order(keys: list[str], prefix: str) -> None:
    table = FactTable.from_facts([make_fact("Component", key) for key in keys], [COMPONENT])

    for _ in range(2):
        records = table.find_by_prefix(COMPONENT, prefix)
        assert [record.key for record in records] == sorted(key for key in keys if key.startswith(prefix))


def test_the_first_member_that_does_not_fit_is_named_whatever_the_order_of_the_payload() -> None:
    payloads: list[dict[str, Json]] = [{"mass_g": "x", "material": 1}, {"material": 1, "mass_g": "x"}]
    for payload in payloads:
        with pytest.raises(FactInvalid, match="`mass_g` is"):
            read_members(COMPONENT, "component:1", payload)
