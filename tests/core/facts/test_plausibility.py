"""Plausibility: every check fires on what it is for, says the numbers, and is silent on a sound product."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bpc.core.documents.reader import DocumentFacts, read_document
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.facts.findings import SEVERITIES, Finding, build_finding_facts
from bpc.core.facts.plausibility import find_implausible
from bpc.core.facts.plausibility_table import CHECKS
from bpc.core.facts.schemas import SCHEMA_MEMBERS, SCHEMAS
from bpc.core.language.types import BOOL, DATE, INT, TEXT, Dec, FactRecordType, List, Opt, Record, Type
from tests.core.facts.implausible_changes import CASES
from tests.core.facts.plausible_product import BATTERY, COMPONENT, READING, find_in_product, list_messages, make_product
from tests.core.sample_passports import make_fact
from tests.measurements import choose_effort

PUBLIC_DATA = Path(__file__).parents[4] / "shared" / "domain" / "data"


def test_a_sound_product_has_no_findings() -> None:
    assert list_messages(find_implausible(make_product())) == []


@pytest.mark.parametrize(
    ("code", "changes", "says"), CASES, ids=[f"{index}-{case[0]}" for index, case in enumerate(CASES)]
)
def test_what_is_implausible_is_named_with_its_numbers(code: str, changes: Mapping[str, Any], says: str) -> None:
    findings = find_in_product(**changes)

    messages = [finding.says for finding in findings if finding.code == code]
    assert len(messages) == 1, list_messages(findings)
    assert says in messages[0]
    finding = next(finding for finding in findings if finding.code == code)
    assert finding.severity == CHECKS[code].severity
    known = SCHEMA_MEMBERS[FactRecordType(finding.fact_type, 1)]
    assert set(finding.members) <= set(known)
    assert set(CHECKS[code].points) <= set(finding.points) <= set(range(1, 72))


def test_every_check_of_the_table_has_a_case() -> None:
    assert {code for code, _, _ in CASES} == set(CHECKS)
    assert {check.severity for check in CHECKS.values()} == set(SEVERITIES)


@pytest.mark.parametrize(
    "changes",
    [
        {"battery": {"passport_uri": "urn:epc:id:sgtin:9506000.013435.A1"}},
        {"battery": {"passport_uri": "did:web:acme-cells.eu:a1"}},
        {"battery": {"instructions_url": "https://93.184.216.34/manual"}},
        {"battery": {"instructions_url": "https://müller-akku.de/anleitung"}},
        {"battery": {"instructions_url": "HTTPS://WWW.ACME-CELLS.EU"}},
        {"component": {"location": "module 3, between the busbars"}},
        {"footprint": {"end_of_life_gco2e": "-47600", "production_gco2e": "1283200"}},
        {"battery": {"self_discharge_evolution_pct": "150"}},
        {"battery": {"remaining_capacity_ah": "195", "capacity_fade_pct": "-2"}, "reading": {}},
    ],
)
def test_what_is_unusual_and_right_is_not_an_error(changes: Mapping[str, Any]) -> None:
    assert [finding for finding in find_in_product(**changes) if finding.severity == "error"] == []


@pytest.mark.parametrize(
    ("pre", "post", "total", "is_sum"),
    [
        ("5", "4", "9", True),
        ("5", "4", "8", False),
        ("0", "6", "10", False),
        ("5.25", "4.5", "9.75", True),
        ("5.25", "4.5", "9.8", True),
        ("5.25", "4.5", "10", True),
        ("5.25", "4.5", "9", False),
        ("33.33", "33.33", "66.67", True),
        ("33.3", "33.3", "66.8", False),
        ("33", "33", "66.6", True),
        ("33", "33", "67.5", False),
    ],
)
def test_sums_are_exact_for_whole_numbers_and_allow_for_rounding_else(
    pre: str, post: str, total: str, *, is_sum: bool
) -> None:
    shares = {"recycled_cobalt_pre_pct": pre, "recycled_cobalt_post_pct": post, "recycled_cobalt_pct": total}

    assert (list_messages(find_in_product(battery=shares)) == []) == is_sum


@pytest.mark.parametrize(
    ("code", "part", "member", "limit", "beyond", "others"),
    [
        ("ENERGY_CAPACITY", "battery", "capacity_kwh", "87.4", "87.41", {"power_to_energy_ratio": None}),
        ("ENERGY_CONTRADICTION", "battery", "capacity_kwh", "152", "152.01", {"power_to_energy_ratio": None}),
        ("USABLE_ENERGY", "battery", "certified_energy_kwh", "76", "76.01", {"state_of_certified_energy_pct": None}),
        ("POWER_TO_ENERGY", "battery", "power_to_energy_ratio", "2.68421", "2.684211", {}),
        ("POWER_TO_ENERGY", "battery", "power_to_energy_ratio", "1.578948", "1.578947", {}),
        (
            "POWER_RESISTANCE",
            "battery",
            "initial_pack_resistance_ohm",
            "0.297794",
            "0.297795",
            {"internal_resistance_ohm": None},
        ),
        (
            "VOLTAGE_DROP",
            "battery",
            "initial_pack_resistance_ohm",
            "0.164705",
            "0.164706",
            {"internal_resistance_ohm": None, "minimum_voltage_v": "380"},
        ),
        ("POWER_LIMIT", "battery", "maximum_power_w", "150000", "149999.999", {"power_to_energy_ratio": None}),
        ("STATE_MISMATCH", "battery", "capacity_fade_pct", "6", "6.01", {}),
        ("STATE_MISMATCH", "battery", "capacity_fade_pct", "4", "3.99", {}),
        ("STATE_ABOVE_NEW", "battery", "remaining_capacity_ah", "199.5", "199.51", {"capacity_fade_pct": None}),
        ("COMPONENT_SHARE", "component", "mass_share_pct", "21", "21.01", {}),
        ("COMPONENT_MASS", "component", "mass_g", "450000", "450000.1", {"mass_share_pct": None}),
        ("METAL_MASS", "component", "mass_g", "48400", "48399.9", {"mass_share_pct": None}),
        ("RECYCLED_ABOVE_100", "component", "recycled_pre_pct", "89.75", "89.76", {}),
        ("FOOTPRINT_RATIO", "footprint", "gco2e_per_kwh", "144.375", "144.38", {}),
        ("SERVICE_LIFE_ENERGY", "footprint", "service_life_energy_kwh", "38016", "38016.1", {"gco2e_per_kwh": None}),
        (
            "FOOTPRINT_BAND",
            "footprint",
            "total_gco2e",
            "72000000",
            "72000000.01",
            {"gco2e_per_kwh": None, "production_gco2e": None},
        ),
        (
            "FOOTPRINT_BAND",
            "footprint",
            "total_gco2e",
            "72000",
            "71999.99",
            {"gco2e_per_kwh": None, "production_gco2e": None},
        ),
    ],
)
def test_a_tolerance_ends_where_the_table_says(
    code: str, part: str, member: str, limit: str, beyond: str, others: Mapping[str, Any]
) -> None:
    within = {finding.code for finding in find_in_product(**{part: {member: limit, **others}})}
    outside = {finding.code for finding in find_in_product(**{part: {member: beyond, **others}})}

    assert code not in within
    assert code in outside


def test_a_battery_for_light_means_of_transport_has_at_most_25_kg() -> None:
    def find_codes(mass: str) -> list[str]:
        battery = make_fact("Battery", "battery:SKU-1", category="lmt", mass_kg=mass)
        return [finding.code for finding in find_implausible([battery])]

    assert (find_codes("25"), find_codes("25.01")) == ([], ["CATEGORY_MASS"])


def test_a_footprint_per_kwh_of_capacity_is_noticed_by_the_expected_cycles() -> None:
    bare = {"total_gco2e": None, "service_life_energy_kwh": None, "cycles_per_year": None, "gco2e_per_kwh": "66000"}

    [finding] = find_in_product(footprint=bare)
    [blind] = find_implausible([make_fact("PCF", "pcf:SKU-1", gco2e_per_kwh="66000")])

    assert finding.says.startswith(
        "66 kg CO2e for each of 108000 kWh delivered are 99000 kg CO2e for each kWh of capacity"
    )
    assert blind.says.startswith(
        "66 kg CO2e for each kWh delivered, over 200 cycles, are 13200 kg CO2e for each kWh of"
    )
    assert find_implausible([make_fact("PCF", "pcf:SKU-1", gco2e_per_kwh="137.5")]) == []


def test_a_total_in_the_wrong_unit_is_noticed_by_the_capacity() -> None:
    stages = dict.fromkeys(["raw_material_gco2e", "production_gco2e", "gco2e_per_kwh"])

    [finding] = find_in_product(footprint={**stages, "total_gco2e": "4752"})

    assert finding.says == (
        "4.752 kg CO2e for 72 kWh of capacity are 0.066 kg CO2e for each kWh of capacity; plausible are 1 to 1000"
    )


def test_facts_of_several_products_are_told_apart() -> None:
    other = make_fact("Battery", "battery:SKU-2", sku="SKU-2", mass_kg="1")
    nameless = make_fact("Component", "component:SKU-2:cell", mass_g="1500")

    findings = find_implausible([*make_product(), other, nameless])

    assert [(finding.code, finding.fact_key) for finding in findings] == [("COMPONENT_MASS", "battery:SKU-2")]


@pytest.mark.parametrize(
    ("reading", "points"),
    [
        ({"number": "90"}, (68,)),
        ({"kind": "capacity_fade_pct", "number": "101"}, (52,)),
        ({"kind": "status", "number": None, "text": "lost"}, (67,)),
    ],
)
def test_a_finding_about_a_reading_concerns_the_points_of_its_state(
    reading: Mapping[str, Any], points: tuple[int, ...]
) -> None:
    [finding] = find_in_product(reading=reading)

    assert (finding.fact_key, finding.points) == ("reading:SKU-1:full_cycles:2", points)


def test_facts_that_no_schema_knows_are_not_looked_at() -> None:
    unknown = [make_fact("Blinding", "blinding:1", key="00"), make_fact("Provenance", "provenance:1", facts={})]
    newer = SnapshotFact(fact_type="Battery", fact_key="battery:1", schema_version=9, payload={"mass_kg": []})

    assert find_implausible([*unknown, newer]) == []


def test_findings_are_not_findings_about_findings() -> None:
    facts = build_finding_facts("SKU-1", find_in_product(battery={"mass_kg": "0"}))

    assert facts
    assert find_implausible(facts) == []


# What the public sample passports get wrong


def find_in_sample(name: str) -> list[Finding]:
    path = PUBLIC_DATA / name
    if not path.exists():
        pytest.skip("the public example files are not on this machine")
    outcome = read_document("BOM", "application/json", path.read_bytes())
    assert isinstance(outcome, DocumentFacts)
    return find_implausible(
        [make_fact(fact.fact_type, fact.fact_key, **json.loads(fact.payload_canonical)) for fact in outcome.facts]
    )


def test_the_public_ev_sample_contradicts_itself() -> None:
    messages = list_messages(find_in_sample("ev.source.json"))

    for metal, pre, post, total_parts, total in [
        ("cobalt", 0, 6, 6, 10),
        ("lithium", 5, 4, 9, 8),
        ("nickel", 0, 5, 5, 9),
    ]:
        says = (
            f"recycled {metal}: {pre} % from manufacturing waste and {post} % from post-consumer waste add up to "
            f"{total_parts} %, the declared share is {total} %"
        )
        assert ("RECYCLED_SUM", says) in messages
    stages = "the four stages add up to 69.3 kg CO2e per kWh, the declared total is 65 kg CO2e per kWh"
    assert ("FOOTPRINT_PER_KWH_SUM", stages) in messages
    assert {"FOOTPRINT_BAND", "POWER_RESISTANCE"} <= {code for code, _ in messages}


@pytest.mark.parametrize(
    ("name", "stages", "total", "power"),
    [("lmt.source.json", "30.1", "12", "500"), ("industrial-without-bms.source.json", "41.3", "30", "4000")],
)
def test_the_other_public_samples_contradict_themselves(name: str, stages: str, total: str, power: str) -> None:
    messages = list_messages(find_in_sample(name))

    says = f"the four stages add up to {stages} kg CO2e per kWh, the declared total is {total} kg CO2e per kWh"
    assert ("FOOTPRINT_PER_KWH_SUM", says) in messages
    assert ("POWER_LIMIT", f"the original power of 7200 W is above {power} W, the highest power it permits") in messages


# Any facts


def draw_values(kind: Type) -> st.SearchStrategy[Any]:
    match kind:
        case Dec(scale):
            digits = st.integers(-(10**20), 10**20) | st.integers(-1000, 1000)
            return digits.map(lambda count: _format_decimal(count, scale))
        case List(item):
            return st.lists(draw_values(item), max_size=3)
        case Record(members):
            return st.fixed_dictionaries({}, optional={name: draw_values(inner) for name, inner in members})
        case Opt(item):
            return st.none() | draw_values(item)
        case _:
            return _SCALARS[kind]


def _format_decimal(count: int, scale: int) -> str:
    digits = str(abs(count)).rjust(scale + 1, "0")
    return ("-" if count < 0 else "") + (f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits)


_SCALARS: dict[Type, st.SearchStrategy[Any]] = {
    BOOL: st.booleans(),
    INT: st.integers(-(10**20), 10**20) | st.integers(-5, 3000),
    TEXT: st.text(max_size=20)
    | st.sampled_from(["ev", "full_cycles", "SKU-1", "https://[::1]/", "http://a@b:1/", "a@b.c", "0-0-0", "12-34-5"]),
    DATE: st.dates().map(str),
}
KINDS = sorted(SCHEMAS, key=str)
VALUES = {kind: {name: draw_values(member) for name, member in SCHEMAS[kind].items()} for kind in KINDS}


@st.composite
def draw_fact(draw: st.DrawFn) -> SnapshotFact:
    """A fact of any schema with up to a dozen of its members."""
    kind = draw(st.sampled_from(KINDS))
    names = draw(st.lists(st.sampled_from(sorted(VALUES[kind])), max_size=12, unique=True))
    return SnapshotFact(
        fact_type=kind.name,
        fact_key=draw(st.sampled_from(["battery:SKU-1", "component:SKU-1:a", "x", ""])),
        schema_version=kind.version,
        payload={name: draw(VALUES[kind][name]) for name in names},
    )


@settings(deadline=None, max_examples=choose_effort(test=150, shown=5_000, campaign=50_000))
@given(st.lists(draw_fact(), max_size=4))
def test_any_facts_that_fit_their_schemas_are_checked(facts: list[SnapshotFact]) -> None:
    findings = find_implausible(facts)

    assert [finding for finding in findings if finding.code == "SCHEMA_MISFIT"] == []
    for sealed in build_finding_facts("SKU-1", findings):
        sealed.digest()  # which has a canonical form


@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(sorted(BATTERY)), st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.text())
    )
)
def test_a_fact_that_does_not_fit_its_schema_is_a_finding(changes: dict[str, Any]) -> None:
    findings = find_in_product(battery=changes)

    assert sum(finding.code == "SCHEMA_MISFIT" for finding in findings) <= 1


def count_calls(facts: list[SnapshotFact]) -> int:
    """The function calls that checking these facts takes: a measure that no other process disturbs."""
    calls = 0

    def count_event(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count_event)
    try:
        find_implausible(facts)
    finally:
        sys.setprofile(None)
    return calls


def test_effort_grows_with_the_number_of_facts_and_not_faster() -> None:
    parts = [make_fact("Component", f"component:SKU-1:{n}", **COMPONENT | {"part": str(n)}) for n in range(1_000)]
    readings = [
        make_fact("Reading", f"reading:SKU-1:full_cycles:{n}", **READING | {"number": str(1_000 - n)})
        for n in range(1_000)
    ]

    small = count_calls([*make_product(), *parts[:100], *readings[:100]])
    large = count_calls([*make_product(), *parts, *readings])

    assert 8 * small < large < 11 * small
