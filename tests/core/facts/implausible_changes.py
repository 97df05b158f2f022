"""Changes that make a sound product implausible: what is changed, the check that fires, and what it says."""

from collections.abc import Mapping
from typing import Any

CASES: list[tuple[str, Mapping[str, Any], str]] = [
    # Values of one member
    (
        "SHARE_RANGE",
        {"battery": {"renewable_content_pct": "100.01"}},
        "`renewable_content_pct` is 100.01 %; a share is",
    ),
    ("SHARE_RANGE", {"battery": {"mercury_pct": "-0.1"}}, "`mercury_pct` is -0.1 %;"),
    ("SHARE_RANGE", {"battery": {"power_fade_pct": "101", "power_w": None, "remaining_power_w": None}}, "is 101 %;"),
    ("SHARE_RANGE", {"component": {"renewable_pct": "250"}}, "`renewable_pct` is 250 %;"),
    ("SHARE_RANGE", {"footprint": {"primary_data_pct": "-1"}}, "`primary_data_pct` is -1 %;"),
    (
        "SHARE_RANGE",
        {"battery": {"hazardous_substances": [{"name": "a"}, {"concentration_pct": "100.5"}]}},
        "`hazardous_substances[1].concentration_pct` is 100.5 %;",
    ),
    ("SHARE_RANGE", {"reading": {"kind": "state_of_charge_pct", "number": "101"}}, "`state_of_charge_pct` is 101 %;"),
    (
        "CHANGE_RANGE",
        {"battery": {"self_discharge_evolution_pct": "-101"}},
        "`self_discharge_evolution_pct` is -101 %;",
    ),
    ("NOT_POSITIVE", {"battery": {"mass_kg": "0"}}, "`mass_kg` is 0; it must be above 0"),
    ("NOT_POSITIVE", {"battery": {"minimum_voltage_v": "-3"}}, "`minimum_voltage_v` is -3; it must be above 0"),
    ("NOT_POSITIVE", {"battery": {"expected_cycles": 0}}, "`expected_cycles` is 0; it must be above 0"),
    ("NOT_POSITIVE", {"component": {"quantity": 0}}, "`quantity` is 0; it must be above 0"),
    ("NEGATIVE", {"battery": {"warranty_months": -1}}, "`warranty_months` is -1; it must not be below 0"),
    ("NEGATIVE", {"component": {"lead_g": "-0.5"}}, "`lead_g` is -0.5; it must not be below 0"),
    ("ABSOLUTE_ZERO", {"battery": {"idle_temperature_min_degc": "-273.16"}}, "is -273.16 °C; no temperature is below"),
    (
        "TEMPERATURE_UNUSUAL",
        {"battery": {"idle_temperature_max_degc": "333.15"}},
        "is 333.15 °C; usual are -100 to 200",
    ),
    (
        "TEMPERATURE_UNUSUAL",
        {"battery": {"temperature_records": [{"recorded_at": "2027-06-01", "temperature_degc": "300"}]}},
        "`temperature_records[0].temperature_degc` is 300 °C;",
    ),
    ("VOLTAGE_UNUSUAL", {"battery": {"maximum_voltage_v": "4500"}}, "`maximum_voltage_v` is 4500 V; usual are at most"),
    ("YEAR_RANGE", {"battery": {"recycled_content_year": 26}}, "`recycled_content_year` is 26; a year is between"),
    ("YEAR_RANGE", {"footprint": {"year": 20260}}, "`year` is 20260; a year is between"),
    (
        "DATE_RANGE",
        {"battery": {"manufactured_on": "1927-01-04"}},
        "`manufactured_on` is 1927-01-04; a date is between",
    ),
    ("DATE_RANGE", {"due_diligence": {"report_published_on": "7172-05-08"}}, "`report_published_on` is 7172-05-08;"),
    (
        "DATE_FAR",
        {"footprint": {"valid_until_on": "2092-01-01"}},
        "`valid_until_on` is 2092-01-01, more than 40 years after 2026-05-12, the earliest date",
    ),
    (
        "TIME_FORM",
        {"battery": {"state_of_charge_records": [{"recorded_at": "yesterday", "state_of_charge_pct": "5"}]}},
        '`state_of_charge_records[0].recorded_at` is "yesterday", not a time like',
    ),
    (
        "UNKNOWN_VALUE",
        {"battery": {"category": "car"}},
        '`category` is "car", not one of `ev`, `lmt`, `industrial`, `stat',
    ),
    ("UNKNOWN_VALUE", {"battery": {"status": "broken"}}, '`status` is "broken", not one of `original`, `repurposed`'),
    ("UNKNOWN_VALUE", {"component": {"origin_country": "Korea"}}, '"Korea", not one of 249 values such as `AD`'),
    (
        "UNKNOWN_VALUE",
        {"reading": {"kind": "status", "text": "lost", "number": None}},
        '`status` is "lost", not one of',
    ),
    (
        "VALUE_SPELLING",
        {"battery": {"category": "Elektrofahrzeug"}},
        '`category` is "Elektrofahrzeug"; write it as `ev`',
    ),
    ("VALUE_SPELLING", {"footprint": {"facility_country": "Deutschland"}}, '"Deutschland"; write it as `DE`'),
    (
        "VALUE_SPELLING",
        {"due_diligence": {"materials": ["Kobalt"]}},
        '`materials[0]` is "Kobalt"; write it as `cobalt`',
    ),
    ("URL_FORM", {"battery": {"declaration_of_conformity_url": "see annex"}}, '"see annex", not a web address like'),
    ("URL_FORM", {"battery": {"passport_uri": "A1"}}, '`passport_uri` is "A1", not a web address'),
    ("URL_FORM", {"component": {"supplier_url": "ftp://acme-cells.eu"}}, '"ftp://acme-cells.eu", not a web address'),
    (
        "URL_NOT_PUBLIC",
        {"battery": {"passport_uri": "http://localhost:8000/p/1"}},
        "nobody can open it from the Internet",
    ),
    (
        "URL_NOT_PUBLIC",
        {"battery": {"test_report_urls": ["https://10.0.0.7/1.pdf"]}},
        '`test_report_urls[0]` is "https://10',
    ),
    ("URL_NOT_PUBLIC", {"battery": {"instructions_url": "https://fileserver/1.pdf"}}, "nobody can open it"),
    ("URL_EXAMPLE", {"due_diligence": {"report_url": "https://docs.example.com/1"}}, "reserved for examples"),
    ("PLACEHOLDER", {"battery": {"serial_number": "n/a"}}, "says nothing"),
    ("PLACEHOLDER", {"battery": {"cathode": "k.A."}}, "says nothing"),
    ("PLACEHOLDER", {"battery": {"model": "-"}}, "says nothing"),
    ("EMAIL_FORM", {"battery": {"manufacturer_email": "service(at)acme-cells.eu"}}, "not an e-mail address like"),
    (
        "EMAIL_FORM",
        {"battery": {"spare_part_sources": [{"email": "x@y"}]}},
        '`spare_part_sources[0].email` is "x@y", not',
    ),
    (
        "CAS_NUMBER",
        {"component": {"cas_number": "7440-48-5"}},
        '"7440-48-5", not a CAS number like 7439-93-2; its last digit would be 4',
    ),
    (
        "CAS_NUMBER",
        {"battery": {"hazardous_substances": [{"cas_number": "LiPF6"}]}},
        '`hazardous_substances[0].cas_number` is "LiPF6", not a CAS number like 7439-93-2',
    ),
    (
        "GS1_CHECK_DIGIT",
        {"battery": {"passport_uri": "https://id.acme-cells.eu/01/09506000134353/21/A1"}},
        "`passport_uri` has the number 09506000134353, whose last digit must be 2",
    ),
    (
        "GS1_CHECK_DIGIT",
        {"battery": {"operator_id": "https://id.acme-cells.eu/417/9506000134350"}},
        "`operator_id` has the number 9506000134350, whose last digit must be 2",
    ),
    # Members that belong together
    (
        "DATE_ORDER",
        {"battery": {"placed_on_market_on": "2026-12-31"}},
        "`placed_on_market_on` is 2026-12-31, before `manufactured_on`, which is 2027-01-04",
    ),
    (
        "DATE_ORDER",
        {"battery": {"negative_events": [{"occurred_on": "2026-06-01"}]}},
        "`negative_events[0].occurred_on` is 2026-06-01, before `manufactured_on`",
    ),
    (
        "DATE_ORDER",
        {"footprint": {"valid_until_on": "2026-01-01"}},
        "`valid_until_on` is 2026-01-01, before `verified_on`",
    ),
    ("DATE_ORDER", {"due_diligence": {"valid_until_on": "2026-01-01"}}, "2026-01-01, before `audited_on`"),
    (
        "DATE_ORDER",
        {"reading": {"recorded_at": "2026-09-01T10:00:00.000000Z", "recorded_on": "2026-09-01", "number": "90"}},
        "`recorded_on` is 2026-09-01, before `manufactured_on`, which is 2027-01-04",
    ),
    (
        "TEMPERATURE_ORDER",
        {"battery": {"idle_temperature_min_degc": "60"}},
        "`idle_temperature_min_degc` is 60 °C and `idle_temperature_max_degc` is 60 °C; the first must be below",
    ),
    ("TEMPERATURE_ORDER", {"battery": {"voltage_temperature_min_degc": "25.01"}}, "is 25.01 °C and"),
    (
        "TEMPERATURE_ORDER",
        {"battery": {"power_limits": [{"temperature_min_degc": "45", "temperature_max_degc": "0"}]}},
        "`power_limits[0].temperature_min_degc` is 45 °C and `power_limits[0].temperature_max_degc` is 0 °C",
    ),
    (
        "VOLTAGE_ORDER",
        {"battery": {"minimum_voltage_v": "400"}},
        "the minimum voltage of 400 V is not below the nominal voltage of 400 V",
    ),
    (
        "VOLTAGE_ORDER",
        {"battery": {"nominal_voltage_v": None, "minimum_voltage_v": "460"}},
        "the minimum voltage of 460 V is not below the maximum voltage of 450 V",
    ),
    (
        "RECYCLED_SUM",
        {"battery": {"recycled_cobalt_pre_pct": "0", "recycled_cobalt_post_pct": "6", "recycled_cobalt_pct": "10"}},
        (
            "recycled cobalt: 0 % from manufacturing waste and 6 % from post-consumer waste add up to 6 %, the "
            "declared share is 10 %"
        ),
    ),
    (
        "RECYCLED_PART",
        {"battery": {"recycled_lithium_pct": "4"}},
        "recycled lithium: `recycled_lithium_pre_pct` is 5 %, more than the declared share of 4 %",
    ),
    (
        "RECYCLED_ABOVE_100",
        {"component": {"recycled_pre_pct": "60", "recycled_post_pct": "40.01"}},
        "60 % from manufacturing waste and 40.01 % from post-consumer waste add up to 100.01 %, more than 100 %",
    ),
    (
        "POWER_LIMIT",
        {"battery": {"original_power_by_charge": [{"power_w": "180000"}, {"power_w": "175000"}, {}]}},
        "the original power of 180000 W is above 170000 W, the highest power it permits",
    ),
    (
        "POWER_LIMIT",
        {"battery": {"maximum_power_w": None, "original_power_by_charge": None}},
        "the original power of 150000 W is above 90000 W, the highest power it permits",
    ),
    (
        "POWER_RESISTANCE",
        {"battery": {"initial_pack_resistance_ohm": "50", "internal_resistance_ohm": "52.5"}},
        "170000 W cannot be had from 450 V through 50 ohm: at most 1012.5 W can; check that the resistance",
    ),
    (
        "VOLTAGE_DROP",
        {
            "battery": {
                "initial_pack_resistance_ohm": "0.2",
                "minimum_voltage_v": "380",
                "internal_resistance_ohm": "0.21",
            }
        },
        (
            "170000 W at 400 V is 425 A; through 0.2 ohm the voltage falls by 85 V, more than from the maximum to the "
            "minimum voltage (70 V)"
        ),
    ),
    (
        "ENERGY_CAPACITY",
        {"battery": {"capacity_kwh": "90", "power_to_energy_ratio": None}},
        "the rated energy is 90 kWh, but 190 Ah at 400 V are 76 kWh",
    ),
    (
        "ENERGY_CONTRADICTION",
        {"battery": {"capacity_kwh": "76000", "power_to_energy_ratio": None}},
        "the rated energy is 76000 kWh, but 190 Ah at 400 V are 76 kWh; check the units",
    ),
    (
        "USABLE_ENERGY",
        {"battery": {"usable_energy_kwh": "76.5"}},
        "`usable_energy_kwh` is 76.5 kWh, more than the rated",
    ),
    (
        "POWER_TO_ENERGY",
        {"battery": {"power_to_energy_ratio": "0.52"}},
        "the ratio of power to energy is 0.52 W/Wh, but 150000 W over 76 kWh are 1.97 W/Wh",
    ),
    ("CATEGORY_MASS", {"battery": {"category": "lmt"}}, "has at most 25 kg, this one has 450 kg"),
    # Masses
    (
        "COMPONENT_MASS",
        {"component": {"mass_g": "495000", "mass_share_pct": None}},
        "1 components have a mass of 495000 g together, 110 % of the battery's 450 kg",
    ),
    (
        "COMPONENT_SHARE",
        {"component": {"mass_share_pct": "21.5"}},
        "the share of the mass is 21.5 %, but 90000 g of 450 kg are 20 %",
    ),
    (
        "MASS_SHARE_SUM",
        {"battery": {"hazardous_substances": [{"concentration_pct": "60"}, {"concentration_pct": "41"}]}},
        "2 shares of the mass add up to 101 %, more than 100 %",
    ),
    (
        "METAL_MASS",
        {"component": {"nickel_g": "90000"}},
        "95400 g of cobalt, lithium, nickel and lead cannot be in a component of 90000 g",
    ),
    # Footprint
    (
        "FOOTPRINT_SUM",
        {"footprint": {"raw_material_gco2e": "3426400"}},
        "the four stages add up to 4852 kg CO2e, the declared total is 4752 kg CO2e",
    ),
    (
        "FOOTPRINT_PER_KWH_SUM",
        {
            "footprint": {
                "raw_material_gco2e_per_kwh": "96.3",
                "production_gco2e_per_kwh": "34.4",
                "distribution_gco2e_per_kwh": "5.5",
                "end_of_life_gco2e_per_kwh": "11.4",
            }
        },
        "the four stages add up to 0.1476 kg CO2e per kWh, the declared total is 0.1375 kg CO2e per kWh",
    ),
    (
        "FOOTPRINT_RATIO",
        {"footprint": {"gco2e_per_kwh": "66000"}},
        (
            "the declared footprint is 66 kg CO2e per kWh, but 4752 kg CO2e over 34560 kWh delivered in the "
            "service life are 0.1375 kg CO2e per kWh; it is probably a footprint per kWh of capacity"
        ),
    ),
    (
        "FOOTPRINT_BAND",
        {"footprint": {"gco2e_per_kwh": "66000", "total_gco2e": None}},
        (
            "66 kg CO2e for each of 34560 kWh delivered are 31680 kg CO2e for each kWh of capacity; plausible are 1 to "
            "1000; it is probably a footprint per kWh of capacity"
        ),
    ),
    (
        "SERVICE_LIFE_ENERGY",
        {"footprint": {"cycles_per_year": "30"}},
        "the energy delivered in the service life is 34560 kWh, but 72 kWh x 30 cycles a year x 8 years are 17280 kWh",
    ),
    # States
    (
        "STATE_ABOVE_NEW",
        {"battery": {"capacity_fade_pct": "-2", "remaining_capacity_ah": None}},
        "is -2 %, which is better",
    ),
    (
        "STATE_ABOVE_NEW",
        {"battery": {"half_life_round_trip_efficiency_pct": "96"}},
        (
            "`half_life_round_trip_efficiency_pct` is 96 %, which is better than when new "
            "(`initial_round_trip_efficiency_pct` is 95 %)"
        ),
    ),
    ("STATE_ABOVE_NEW", {"reading": {"kind": "state_of_certified_energy_pct", "number": "104"}}, "is 104 %, which is"),
    (
        "STATE_MISMATCH",
        {"battery": {"capacity_fade_pct": "12"}},
        "`capacity_fade_pct` is 12 %, but 180.5 Ah against 190 Ah when new is 5 %",
    ),
    (
        "STATE_MISMATCH",
        {"battery": {"internal_resistance_increase_pct": "50"}},
        "0.0525 ohm against 0.05 ohm when new is 5 %",
    ),
    (
        "STATE_MISMATCH",
        {"battery": {"state_of_certified_energy_pct": "90"}},
        "68.4 kWh against 72 kWh when new is 95 %",
    ),
    ("STATE_MISMATCH", {"battery": {"round_trip_efficiency_fade_pct": "7"}}, "93.1 % against 95 % when new is 2 %"),
    (
        "READING_KIND",
        {"reading": {"kind": "mass_kg"}},
        'it is a reading of "mass_kg", which is not a state of a battery',
    ),
    (
        "READING_TIME",
        {"reading": {"recorded_on": "2027-09-02"}},
        '"2027-09-01T10:00:00.000000Z" and `recorded_on` is 2027-09-02',
    ),
    (
        "COUNTER_FALLS",
        {"reading": {"number": "90"}},
        "`full_cycles` fell from 100 at 2027-08-01T10:00:00.000000Z to 90 at 2027-09-01T10:00:00.000000Z",
    ),
    # The fact as a whole
    (
        "SCHEMA_MISFIT",
        {"battery": {"mass_kg": "heavy"}},
        "fact `battery:SKU-1` (Battery): `mass_kg` is `heavy`, not a plain",
    ),
]
