"""Headers mean members: by name or synonym, with their unit; two members that fit are not guessed between."""

import pytest

from bpc.core.documents.elements import FACT_TYPES
from bpc.core.documents.fact_members import fits_a_cell
from bpc.core.documents.header_names import build_synonym_index, build_target, list_member_names, match_header
from bpc.core.documents.header_synonyms import SYNONYMS
from bpc.core.documents.header_units import find_member_unit, is_unit
from bpc.core.facts.schemas import SCHEMAS
from bpc.core.language.types import INT, Dec, FactRecordType

ALL_TYPES = tuple(fact_type for types in FACT_TYPES.values() for fact_type in types)


@pytest.mark.parametrize(
    ("header", "member", "factor"),
    [
        ("mass_kg", "mass_kg", "1"),
        ("Mass kg", "mass_kg", "1"),
        ("Masse [g]", "mass_kg", "0.001"),
        ("MASSE (T)", "mass_kg", "1000"),
        ("Gewicht in kg", "mass_kg", "1"),
        ("waga w kg", "mass_kg", "1"),
        ("poids en g", "mass_kg", "0.001"),
        ("Weight, kg", "mass_kg", "1"),
        ("10. Masse [kg] *", "mass_kg", "1"),
        ("Mass [kg] (optional)", "mass_kg", "1"),
        ("capacity / Ah", "rated_capacity_ah", "1"),
        ("capacity / mAh", "rated_capacity_ah", "0.001"),
        ("Kapazitaet (kWh)", "capacity_kwh", "1"),
        ("Lagertemperatur min. °C", "idle_temperature_min_degc", "1"),
        ("Anfängliche Selbstentladung pro Monat [%]", "initial_self_discharge_pct_per_month", "1"),
        ("aktueller Innenwiderstand [mΩ]", "internal_resistance_ohm", "0.001"),
        ("Restkapazität [Ah]", "remaining_capacity_ah", "1"),
        ("Lebensdauer [Jahre]", "expected_life_years", "1"),
        ("Lebensdauer [Zyklen]", "expected_cycles", "1"),
        ("Zellwiderstand [MOhm]", "initial_cell_resistance_ohm", "None"),
        ("Zellwiderstand [M\u03a9]", "initial_cell_resistance_ohm", "None"),
        ("Zellwiderstand [m\u2126]", "initial_cell_resistance_ohm", "0.001"),
        ("Masse [ton]", "mass_kg", "None"),  # of 907, 1000 or 1016 kg
        ("State of certified energy (61)", "state_of_certified_energy_pct", "None"),
        ("mass_kg [g]", "mass_kg", "None"),
        ("mass_kg [kg]", "mass_kg", "1"),
        ("Dauer der Garantie (Monate)", None, ""),
        ("Capacity (aged) [Ah]", None, ""),
        ("Manufacturer (of the cell)", None, ""),
    ],
)
def test_a_header_is_the_member_and_the_unit_that_people_mean(header: str, member: str | None, factor: str) -> None:
    targets = match_header(header, ("Battery",)).targets

    assert [(target.name, str(target.factor)) for target in targets.values()] == ([(member, factor)] if member else [])


def test_a_name_that_fits_two_members_is_open() -> None:
    match = match_header("Kapazität", ("Battery",))

    assert (match.targets, match.options) == ({}, ("capacity_kwh", "rated_capacity_ah"))


EFFICIENCIES = (
    "initial_round_trip_efficiency_pct",
    "half_life_round_trip_efficiency_pct",
    "round_trip_efficiency_pct",
)
SELF_DISCHARGES = ("initial_self_discharge_pct_per_month", "self_discharge_pct_per_month")
RESISTANCES = ("initial_cell_resistance_ohm", "initial_pack_resistance_ohm", "internal_resistance_ohm")
PACK_RESISTANCES = RESISTANCES[1:]
POWERS = ("original_power_w", "maximum_power_w", "power_w")
POWER_CAPABILITIES = ("original_power_w", "remaining_power_w")
CYCLES = ("expected_cycles", "full_cycles")


@pytest.mark.parametrize(
    ("options", "unit", "names"),
    [
        (CYCLES, "", "number of cycles; Zyklenzahl; nombre de cycles; número de ciclos; numero di cicli; liczba cykli"),
        (SELF_DISCHARGES, "[%/month]", "self-discharge rate; Selbstentladung; autodécharge; autodescarga"),
        (SELF_DISCHARGES, "[%/month]", "autoscarica; samorozładowanie"),
        (EFFICIENCIES, "[%]", "round trip efficiency; Wirkungsgrad; rendement; eficiencia; efficienza; sprawność"),
        (RESISTANCES, "[mΩ]", "internal resistance; Innenwiderstand; résistance interne; resistencia interna"),
        (RESISTANCES, "[mΩ]", "resistenza interna; rezystancja wewnętrzna"),
        (PACK_RESISTANCES, "[mΩ]", "pack resistance; Innenwiderstand der Batterie; résistance interne du pack"),
        (PACK_RESISTANCES, "[mΩ]", "resistencia interna del paquete; resistenza interna del pacco"),
        (PACK_RESISTANCES, "[mΩ]", "rezystancja wewnętrzna pakietu"),
        (POWERS, "[kW]", "power; Leistung; puissance; potencia; potenza; moc"),
        (POWER_CAPABILITIES, "[kW]", "power capability; Leistungsfähigkeit"),
    ],
)
def test_a_state_and_what_a_battery_had_when_new_are_not_mixed_up_in_any_language(
    options: tuple[str, ...], unit: str, names: str
) -> None:
    for name in names.split("; "):
        match = match_header(f"{name} {unit}".strip(), ("Battery",))

        assert (dict(match.targets), set(match.options)) == ({}, set(options)), name


@pytest.mark.parametrize("header", ["Position", "Lage", "posizione"])
def test_the_number_of_a_row_is_no_location(header: str) -> None:
    assert not match_header(header, ("Component",)).targets


def test_a_unit_that_does_not_fit_is_a_fault_that_names_both() -> None:
    target = match_header("Masse [V]", ("Battery",)).targets["Battery"]

    assert target.fault == "is in a column with the unit `V`, but `mass_kg` is in kg; correct the header"


def test_a_share_per_month_is_not_one_of_an_unknown_time() -> None:
    assert match_header("Selbstentladung [%]", ("Battery",)).targets["Battery"].fault is not None


def test_every_synonym_belongs_to_a_member_that_fits_a_cell() -> None:
    for member in SYNONYMS:
        targets = [build_target(fact_type, (member,), None) for fact_type in ALL_TYPES]
        assert any(target is not None and fits_a_cell(target.kind) for target in targets), member


def test_every_name_of_a_member_is_found_or_open_between_members_that_share_it() -> None:
    for fact_type in ALL_TYPES:
        index = build_synonym_index(fact_type)
        for member in SCHEMAS[FactRecordType(fact_type, 1)]:
            for name in list_member_names(member):
                match = match_header(name, (fact_type,))
                names = {target.name for target in match.targets.values()} | set(match.options)
                assert member in names or not fits_a_cell(SCHEMAS[FactRecordType(fact_type, 1)][member]), (name, names)
        assert all(members for members in index.values())


OPEN_GROUPS = (CYCLES, EFFICIENCIES, SELF_DISCHARGES, RESISTANCES, PACK_RESISTANCES, POWERS, POWER_CAPABILITIES)


def test_members_that_share_a_name_differ_in_their_units_or_are_left_open() -> None:
    """Otherwise no header could tell them apart. Cycles may be expected or done; only a clearer name tells."""
    for fact_type in ALL_TYPES:
        for name, members in build_synonym_index(fact_type).items():
            units = [find_member_unit(member) for member in members]
            differ = len({None if unit is None else unit.symbol for unit in units}) == len(members)
            assert differ or members in OPEN_GROUPS, (name, members)


def test_every_number_that_names_a_unit_has_one() -> None:
    endings = ("_kg", "_g", "_kwh", "_ah", "_v", "_w", "_ohm", "_pct", "_degc", "_gco2e", "_months", "_years", "_eur")
    for fact_type in ALL_TYPES:
        for member, kind in SCHEMAS[FactRecordType(fact_type, 1)].items():
            if (isinstance(kind, Dec) or kind == INT) and member.endswith(endings):
                unit = find_member_unit(member)
                assert unit is not None
                assert is_unit(unit.symbol), unit.symbol
