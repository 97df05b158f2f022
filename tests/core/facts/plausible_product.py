"""A product of which nothing is implausible, and what a change of its facts makes of it."""

from collections.abc import Mapping, Sequence
from typing import Any

from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.facts.findings import Finding
from bpc.core.facts.plausibility import find_implausible
from tests.core.sample_passports import make_fact

BATTERY: dict[str, Any] = {
    "sku": "SKU-1",
    "passport_uri": "https://id.acme-cells.eu/01/09506000134352/21/A1",
    "operator_id": "https://id.acme-cells.eu/417/9506000134352",
    "granularity": "item",
    "category": "ev",
    "vehicle_category": "M1",
    "manufacturer_email": "service@acme-cells.eu",
    "manufacturing_country": "DE",
    "manufactured_on": "2027-01-04",
    "placed_on_market_on": "2027-03-01",
    "put_into_service_on": "2027-03-15",
    "mass_kg": "450",
    "hazardous_substances": [
        {"name": "lithium hexafluorophosphate", "cas_number": "21324-40-3", "concentration_pct": "1.2"}
    ],
    "recycled_cobalt_pct": "16.5",
    "recycled_cobalt_pre_pct": "6.25",
    "recycled_cobalt_post_pct": "10.25",
    "recycled_lithium_pct": "9",
    "recycled_lithium_pre_pct": "5",
    "recycled_content_year": 2026,
    "capacity_kwh": "76",
    "usable_energy_kwh": "72",
    "certified_energy_kwh": "72",
    "rated_capacity_ah": "190",
    "minimum_voltage_v": "300",
    "nominal_voltage_v": "400",
    "maximum_voltage_v": "450",
    "voltage_temperature_min_degc": "25",
    "voltage_temperature_max_degc": "25",
    "original_power_w": "150000",
    "original_power_by_charge": [{"state_of_charge_pct": "80", "power_w": "150000"}],
    "maximum_power_w": "170000",
    "power_limits": [
        {"limit": "charging", "power_w": "90000", "temperature_min_degc": "0", "temperature_max_degc": "45"}
    ],
    "power_to_energy_ratio": "2",
    "initial_round_trip_efficiency_pct": "95",
    "half_life_round_trip_efficiency_pct": "93",
    "initial_pack_resistance_ohm": "0.05",
    "expected_cycles": 1500,
    "idle_temperature_min_degc": "-40",
    "idle_temperature_max_degc": "60",
    "warranty_until_on": "2035-03-15",
    "declaration_of_conformity_url": "https://www.acme-cells.eu/doc/1.pdf#page=2",
    "test_report_urls": ["https://www.acme-cells.eu/tests/1.pdf"],
    "state_recorded_on": "2027-09-01",
    "capacity_fade_pct": "5",
    "power_fade_pct": "2",
    "power_w": "147000",
    "remaining_power_w": "147000",
    "internal_resistance_ohm": "0.0525",
    "internal_resistance_increase_pct": "5",
    "round_trip_efficiency_pct": "93.1",
    "round_trip_efficiency_fade_pct": "2",
    "remaining_energy_kwh": "68.4",
    "state_of_certified_energy_pct": "95",
    "remaining_capacity_ah": "180.5",
    "status": "original",
    "full_cycles": 120,
    "negative_events": [{"occurred_on": "2027-06-01", "event": "deep discharge"}],
    "temperature_records": [{"recorded_at": "2027-06-01T12:00:00Z", "temperature_degc": "21.5"}],
}
COMPONENT: dict[str, Any] = {
    "sku": "SKU-1",
    "part": "cathode",
    "location": "cathode",
    "origin_country": "FI",
    "cas_number": "7440-48-4",
    "mass_g": "90000",
    "mass_share_pct": "20",
    "cobalt_g": "5400",
    "nickel_g": "43000",
    "recycled_pre_pct": "6.25",
    "recycled_post_pct": "10.25",
    "supplier_url": "https://cathodes.acme-cells.eu",
}
FOOTPRINT: dict[str, Any] = {
    "sku": "SKU-1",
    "facility_country": "DE",
    "year": 2026,
    "total_gco2e": "4752000",
    "raw_material_gco2e": "3326400",
    "production_gco2e": "1188000",
    "distribution_gco2e": "190000",
    "end_of_life_gco2e": "47600",
    "service_life_energy_kwh": "34560",
    "cycles_per_year": "60",
    "service_life_years": "8",
    "gco2e_per_kwh": "137.5",
    "verified_on": "2026-11-02",
    "valid_until_on": "2029-11-02",
}
DUE_DILIGENCE: dict[str, Any] = {
    "sku": "SKU-1",
    "materials": ["cobalt", "natural graphite"],
    "report_url": "https://www.acme-cells.eu/diligence/2027.pdf",
    "audited_on": "2026-05-12",
    "valid_until_on": "2028-05-12",
}
READING: dict[str, Any] = {
    "sku": "SKU-1",
    "kind": "full_cycles",
    "recorded_at": "2027-08-01T10:00:00.000000Z",
    "recorded_on": "2027-08-01",
    "number": "100",
}
LATER_READING: dict[str, Any] = {
    **READING,
    "recorded_at": "2027-09-01T10:00:00.000000Z",
    "recorded_on": "2027-09-01",
    "number": "120",
}


def make_product(
    battery: Mapping[str, Any] | None = None,
    component: Mapping[str, Any] | None = None,
    footprint: Mapping[str, Any] | None = None,
    due_diligence: Mapping[str, Any] | None = None,
    reading: Mapping[str, Any] | None = None,
) -> list[SnapshotFact]:
    """The facts of a product, with members changed; None takes a member away."""
    return [
        make_fact("Battery", "battery:SKU-1", **{**BATTERY, **(battery or {})}),
        make_fact("Component", "component:SKU-1:cathode", **{**COMPONENT, **(component or {})}),
        make_fact("PCF", "pcf:SKU-1", **{**FOOTPRINT, **(footprint or {})}),
        make_fact("DueDiligence", "dd:SKU-1", **{**DUE_DILIGENCE, **(due_diligence or {})}),
        make_fact("Reading", "reading:SKU-1:full_cycles:1", **READING),
        make_fact("Reading", "reading:SKU-1:full_cycles:2", **{**LATER_READING, **(reading or {})}),
    ]


def list_messages(findings: Sequence[Finding]) -> list[tuple[str, str]]:
    return [(finding.code, finding.says) for finding in findings]


def find_in_product(**changes: Mapping[str, Any]) -> list[Finding]:
    return find_implausible(make_product(**changes))
