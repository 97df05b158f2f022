"""Spreadsheets with one trap each: what must not be guessed, and what is read beside it."""

from collections.abc import Mapping, Sequence
from typing import Any

from bpc.core.documents.number_texts import NumberLocale
from tests.core.documents.supplier_tables import Formula, Percentage, Row, SupplierTable

OPEN_POINT = "which is 1 in English and 1000 in German"


def _build_cell(
    name: str,
    header: str,
    cell: Any,
    *,
    member: str = "",
    value: Any = None,
    says: str = "",
    locale: NumberLocale | None = None,
) -> SupplierTable:
    """A battery with one more cell, which is read as a value or is unreadable."""
    facts: list[Mapping[str, Any]] = [{"sku": "P-1", **({member: value} if member else {})}]
    return SupplierTable(
        name=name,
        kind="BOM",
        locale=locale,
        sheets={"Battery": [["sku", "name", header], ["P-1", "x", cell]]},
        facts=[{**facts[0], "name": "x"}],
        unreadable={"Battery!C2": says} if says else None,
    )


def _build_sheet(name: str, rows: Sequence[Row], **expected: Any) -> SupplierTable:
    return SupplierTable(name=name, kind="BOM", sheets={"Battery": rows}, **expected)


CELL_TRAPS = (
    _build_cell(
        "95 % in a share", "state_of_charge_pct", Percentage(0.95), member="state_of_charge_pct", value="95.00"
    ),
    _build_cell(
        "a share of 29 % is not 28.999 %",
        "state_of_charge_pct",
        Percentage(0.29, "0%"),
        member="state_of_charge_pct",
        value="29.00",
    ),
    _build_cell(
        "a quoted % is no percent format",
        "state_of_charge_pct",
        Percentage(95, '0.0" %"'),
        member="state_of_charge_pct",
        value="95.00",
    ),
    _build_cell("95 % in a mass", "mass_kg", Percentage(0.95), says="is 95 %, but `mass_kg` is not a percentage"),
    _build_cell("95 % as a text", "state_of_charge_pct", "95 %", member="state_of_charge_pct", value="95.00"),
    _build_cell("95,5% as a text", "Ladezustand", "95,5%", member="state_of_charge_pct", value="95.50"),
    _build_cell(
        "a percentage a month",
        "self_discharge_pct_per_month",
        Percentage(0.015),
        member="self_discharge_pct_per_month",
        value="1.5000",
    ),
    _build_cell("1.000 cycles", "Zyklenlebensdauer", "1.000", says=OPEN_POINT),
    _build_cell("1,000 cycles", "Cycle life", "1,000", says="which is 1000 in English and 1 in German"),
    _build_cell(
        "1.000 cycles in German", "Zyklenlebensdauer", "1.000", member="expected_cycles", value=1000, locale="comma"
    ),
    _build_cell("1,000 cycles in English", "Cycle life", "1,000", member="expected_cycles", value=1000, locale="point"),
    _build_cell("18.200,5 in German", "mass_kg", "18.200,5", member="mass_kg", value="18200.500000", locale="comma"),
    _build_cell("21,4 in German", "mass_kg", "21,4", member="mass_kg", value="21.400000", locale="comma"),
    _build_cell(
        "75.5 in German contradicts", "mass_kg", "75.5", says="declared to have decimal commas", locale="comma"
    ),
    _build_cell(
        "21,4 in English contradicts", "mass_kg", "21,4", says="declared to have decimal points", locale="point"
    ),
    _build_cell("21,4 can only be a decimal comma", "mass_kg", "21,4", member="mass_kg", value="21.400000"),
    _build_cell("1 234,5 with a thin blank", "mass_kg", "1\u2009234,5", member="mass_kg", value="1234.500000"),
    _build_cell("1 234 with a no-break blank", "mass_kg", "1\u00a0234", member="mass_kg", value="1234.000000"),
    _build_cell("Swiss thousands", "mass_kg", "1\u2019234.5", member="mass_kg", value="1234.500000"),
    _build_cell("a number stored as a number is never open", "mass_kg", 1.0, member="mass_kg", value="1.000000"),
    _build_cell("a number with its unit", "mass_kg", "75,5 kg", member="mass_kg", value="75.500000"),
    _build_cell("a number with another unit", "mass_kg", "75500 g", member="mass_kg", value="75.500000"),
    _build_cell(
        "a number whose unit contradicts the header", "Masse [kg]", "75500 g", says="its column has the unit `kg`"
    ),
    _build_cell("a unit that does not fit", "mass_kg", "75 V", says="`mass_kg` is in kg"),
    _build_cell("an error value", "mass_kg", Formula("=1/0", "#DIV/0!"), says="is #DIV/0!; correct the formula"),
    _build_cell("an error value in German", "mass_kg", "#BEZUG!", says="is #BEZUG!; correct the formula"),
    _build_cell("a formula written as text", "mass_kg", "=SUM(A1:A9)", says="a formula written as text"),
    _build_cell("a formula with its result", "mass_kg", Formula("=2*3", 6), member="mass_kg", value="6.000000"),
    _build_cell(
        "a day with two meanings",
        "manufactured_on",
        "03/04/2027",
        says="2027-04-03 if the day comes first and 2027-03-04",
    ),
    _build_cell(
        "the same with a decimal comma",
        "manufactured_on",
        "03/04/2027",
        member="manufactured_on",
        value="2027-04-03",
        locale="comma",
    ),
    _build_cell(
        "a day with one meaning", "manufactured_on", "04/18/2027", member="manufactured_on", value="2027-04-18"
    ),
    _build_cell("a day with dots", "manufactured_on", "3.4.2027", member="manufactured_on", value="2027-04-03"),
    _build_cell("a year of two digits", "manufactured_on", "18.02.27", says="not a date written like 2027-02-18"),
    _build_cell("a mass without a unit", "Masse", 5, says="is 5 without a unit"),
    _build_cell("grams", "Masse [g]", 450250, member="mass_kg", value="450.250000"),
    _build_cell("pounds are exact", "Weight (lb)", 1, says="which is 0.45359237 kg, but `mass_kg` has 6 decimals"),
    _build_cell("milligrams are not rounded", "Mass [mg]", 1.5, says="it is not rounded"),
    _build_cell("a unit of another quantity", "Masse [V]", 5, says="the unit `V`, but `mass_kg` is in kg"),
    _build_cell("a unit that nobody knows", "Mass (stone)", 5, says="the unit `stone`, but `mass_kg` is in kg"),
    _build_cell("milliohms", "Zellwiderstand [mΩ]", 1.1, member="initial_cell_resistance_ohm", value="0.001100"),
)

TABLE_TRAPS = (
    _build_sheet(
        "a capacity that may be in kWh or in Ah is not guessed",
        [["sku", "name", "Kapazität"], ["P-1", "x", 5]],
        facts=[{"sku": "P-1", "name": "x"}],
        warnings={"Battery!C1": "may be `capacity_kwh` or `rated_capacity_ah`"},
    ),
    _build_sheet(
        "cycles that may be done or expected are not guessed",
        [["sku", "name", "Zyklenzahl"], ["P-1", "x", 1500]],
        facts=[{"sku": "P-1", "name": "x"}],
        warnings={"Battery!C1": "may be `expected_cycles` or `full_cycles`"},
    ),
    SupplierTable(
        name="tonnes of something else than CO2",
        kind="PCF",
        sheets={"PCF": [["sku", "Produktion [t]", "CO2-Fußabdruck [kg]"], ["P-1", 5000, 79]]},
        facts=[{"sku": "P-1", "total_gco2e": "79000.00"}],
        unreadable={"PCF!B2": "the unit `t`, but `production_gco2e` is in g CO2e"},
    ),
    _build_sheet(
        "all of forty unknown columns are named",
        [["sku", "name", *(f"Spalte {number}" for number in range(40))], ["P-1", "x"]],
        facts=[{"sku": "P-1", "name": "x"}],
        warnings={f"Battery!{letters}1": "was left out" for letters in ("C", "Z", "AP")},
    ),
    _build_sheet(
        "a row of units below the header",
        [["sku", "Masse", "Nennspannung", "name"], [None, "kg", "V", "-"], ["P-1", 5, 48, "x"]],
        facts=[{"sku": "P-1", "mass_kg": "5.000000", "nominal_voltage_v": "48.000", "name": "x"}],
    ),
    _build_sheet(
        "names of members below names that people read",
        [["Artikelnummer", "Masse [kg]"], ["sku", "mass_kg"], ["P-1", 5], ["sku", "mass_kg"], ["P-2", 6]],
        facts=[{"sku": "P-1", "mass_kg": "5.000000"}, {"sku": "P-2", "mass_kg": "6.000000"}],
        warnings={"Battery!1": "is above the header", "Battery!4": "repeats the header"},
    ),
    _build_sheet(
        "names that people read below names of members",
        [["sku", "mass_kg"], ["Artikelnummer", "Masse [kg]"], ["P-1", 5]],
        facts=[{"sku": "P-1", "mass_kg": "5.000000"}],
        warnings={"Battery!2": "repeats the header"},
    ),
    _build_sheet(
        "two columns for one member",
        [["sku", "Masse [kg]", "mass_kg"], ["P-1", 5, 6]],
        problems={"Battery!C1": "is `mass_kg`, and so is the column"},
    ),
    _build_sheet(
        "a product that cannot be read",
        [["sku", "name"], [Formula("=NA()", "#N/A"), "x"]],
        problems={"Battery!A2": "is #N/A; correct the formula"},
    ),
    _build_sheet(
        "two products side by side in a data sheet",
        [["Property", "Value"], ["sku", "P-1", "P-2"], ["Category", "ev", "lmt"], ["Mass [kg]", 450, 5]],
        facts=[
            {"sku": "P-1", "category": "ev", "mass_kg": "450.000000"},
            {"sku": "P-2", "category": "lmt", "mass_kg": "5.000000"},
        ],
    ),
    SupplierTable(
        name="a hidden sheet is not evidence",
        kind="BOM",
        sheets={"Battery": [["sku", "name"], ["P-1", "x"]], "Components": [["part", "mass_g"], ["cell", 1]]},
        hidden=frozenset({"Components"}),
        facts=[{"sku": "P-1", "name": "x"}],
        warnings={"Components": "is a hidden sheet and was not read"},
    ),
    SupplierTable(
        name="batteries and components in one table, each with its mass",
        kind="BOM",
        sheets={"Stückliste": [["Artikelnummer", "Bauteil", "Masse [kg]"], ["P-1", None, 450], ["P-1", "Zelle", 0.5]]},
        facts=[{"sku": "P-1", "mass_kg": "450.000000"}, {"sku": "P-1", "part": "Zelle", "mass_g": "500.000000"}],
    ),
    SupplierTable(
        name="a footprint per kWh beside the total",
        kind="PCF",
        sheets={"PCF": [["sku", "Carbon footprint [kg CO2e]", "Carbon footprint [kg CO2e/kWh]"], ["P-1", 79, 0.081]]},
        facts=[{"sku": "P-1", "total_gco2e": "79000.00", "gco2e_per_kwh": "81.000000"}],
        places={"total_gco2e": "B2", "gco2e_per_kwh": "C2"},
    ),
)
