"""The words of a template in English and German: titles, marks, types, help and citations. A table and its reading."""

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from bpc.core.documents.forms.german_names import GERMAN_NAMES, GERMAN_RECORD_NAMES
from bpc.core.exports.data_points import Category
from bpc.core.facts.schemas import SCHEMA_MEMBERS, SCHEMA_VERSION
from bpc.core.language.types import BOOL, DATE, INT, TEXT, Dec, FactRecordType, List, Type

Language: TypeAlias = Literal["en", "de"]
# How much a column is needed. `alternative`: it may be filled in instead of one that is mandatory.
Mark: TypeAlias = Literal["mandatory", "alternative", "conditional", "optional"]

LANGUAGES: Final[tuple[Language, ...]] = ("en", "de")
MARK_SIGNS: Final[Mapping[Mark, str]] = {"mandatory": "*", "alternative": "(*)", "conditional": "?", "optional": ""}


class TemplateWords(NamedTuple):
    """The texts of a template in one language, apart from the names of its columns."""

    title: str
    title_missing: str
    categories: Mapping[Category, str]
    marks: Mapping[Mark, str]
    mark_help: Mapping[Mark, str]
    cover_sheet: str
    steps: Sequence[str]
    step_missing: str
    legend: str
    sheets: str
    contents: tuple[str, str, str, str]
    data_point: str
    regulation: str
    label: str
    member: str
    instead: str
    instead_of: str
    types: Mapping[Type, str]
    decimals: str
    unit: str
    units: Mapping[str, str]
    list_of_texts: str
    one_of: str
    one_of_or_other: str
    yes: str
    no: str
    entry_title: str


_ENGLISH: Final = TemplateWords(
    title="Battery passport: what we need from you",
    title_missing="Battery passport: what is still missing",
    categories={
        "ev": "Electric vehicle battery",
        "lmt": "Battery for light means of transport",
        "industrial": "Industrial battery",
    },
    marks={
        "mandatory": "mandatory",
        "alternative": "instead of a mandatory value",
        "conditional": "if it applies",
        "optional": "optional",
    },
    mark_help={
        "mandatory": "A passport of this category must have it.",
        "alternative": "Another way to say something mandatory; the comment of the column names the usual one.",
        "conditional": "Needed where it applies to your battery, for example because it has such a warranty.",
        "optional": "Helps, and nothing is missing without it.",
    },
    cover_sheet="# Instructions",
    steps=(
        "Write one row for each battery on every sheet; the article number says which battery it is.",
        "On the sheet of components, write one row for each part.",
        "Enter what you know. An empty cell says nothing; 0 means zero.",
        "Numbers are in the unit that the column names. Dates look like 2027-02-18.",
        "Point at a column's name to read what is meant and which article of the regulation asks for it.",
        "Keep the grey row of technical names: by it the file is read. You may move or remove columns and rows.",
        "Check the file before you send it: bpc check FILE.xlsx",
    ),
    step_missing="Only the cells with a frame are asked for; everything else is known already.",
    legend="Marks",
    sheets="Sheets",
    contents=("Sheet", "Columns", "mandatory", "Regulation"),
    data_point="Data point",
    regulation="Regulation (EU) 2023/1542",
    label="Value",
    member="Name",
    instead="Or fill in instead: {}.",
    instead_of="May stand instead of: {}.",
    types={BOOL: "yes or no", INT: "whole number", DATE: "date such as 2027-02-18", TEXT: "text"},
    decimals="number with at most {} decimals",
    unit="in {}",
    units={"ohm": "Ω", "g CO2e": "g CO₂e", "g CO2e/kWh": "g CO₂e/kWh"},
    list_of_texts="texts, separated by ;",
    one_of="One of: {}.",
    one_of_or_other="Usual: {}.",
    yes="yes",
    no="no",
    entry_title="How to fill it in",
)
_GERMAN: Final = TemplateWords(
    title="Batteriepass: was wir von Ihnen brauchen",
    title_missing="Batteriepass: was noch fehlt",
    categories={
        "ev": "Batterie für Elektrofahrzeuge",
        "lmt": "Batterie für leichte Verkehrsmittel",
        "industrial": "Industriebatterie",
    },
    marks={
        "mandatory": "Pflichtangabe",
        "alternative": "anstelle einer Pflichtangabe",
        "conditional": "falls zutreffend",
        "optional": "freiwillig",
    },
    mark_help={
        "mandatory": "Ein Pass dieser Kategorie muss sie enthalten.",
        "alternative": "Ein anderer Weg zu einer Pflichtangabe; der Kommentar der Spalte nennt den üblichen.",
        "conditional": "Nötig, wo sie auf Ihre Batterie zutrifft, etwa weil es eine solche Garantie gibt.",
        "optional": "Hilft; ohne sie fehlt nichts.",
    },
    cover_sheet="# Anleitung",
    steps=(
        "Schreiben Sie auf jedem Blatt eine Zeile je Batterie; die Artikelnummer sagt, welche gemeint ist.",
        "Auf dem Blatt der Bauteile schreiben Sie eine Zeile je Teil.",
        "Tragen Sie ein, was Sie wissen. Eine leere Zelle sagt nichts aus; 0 bedeutet null.",
        "Zahlen stehen in der Einheit, die die Spalte nennt. Ein Datum sieht so aus: 2027-02-18.",
        "Zeigen Sie auf den Namen einer Spalte: Dort steht, was gemeint ist und welcher Artikel es verlangt.",
        "Die graue Zeile mit technischen Namen bleibt: Nach ihr wird gelesen. Spalten und Zeilen dürfen wandern.",
        "Prüfen Sie die Datei vor dem Senden: bpc check DATEI.xlsx",
    ),
    step_missing="Gefragt sind nur die umrahmten Zellen; alles andere ist schon bekannt.",
    legend="Zeichen",
    sheets="Blätter",
    contents=("Blatt", "Spalten", "Pflicht", "Verordnung"),
    data_point="Datenpunkt",
    regulation="Verordnung (EU) 2023/1542",
    label="Angabe",
    member="Name",
    instead="Stattdessen möglich: {}.",
    instead_of="Kann anstelle stehen von: {}.",
    types={BOOL: "ja oder nein", INT: "ganze Zahl", DATE: "Datum wie 2027-02-18", TEXT: "Text"},
    decimals="Zahl mit höchstens {} Nachkommastellen",
    unit="in {}",
    units={
        "ohm": "Ω",
        "g CO2e": "g CO₂e",
        "g CO2e/kWh": "g CO₂e/kWh",
        "months": "Monate",
        "years": "Jahre",
        "minutes": "Minuten",
        "%/month": "%/Monat",
    },
    list_of_texts="Texte, getrennt durch ;",
    one_of="Eines von: {}.",
    one_of_or_other="Üblich: {}.",
    yes="ja",
    no="nein",
    entry_title="So wird es ausgefüllt",
)
WORDS: Final[Mapping[Language, TemplateWords]] = {"en": _ENGLISH, "de": _GERMAN}

# Where the description of the schema needs the line above it to be understood.
_ENGLISH_NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "Battery": {
        "hazardous_substances": "hazardous substance (other than Hg, Cd, Pb)",
        "original_power_by_charge": "original power at a state of charge",
        "power_limits": "power limit",
        "labels": "further label",
        "spare_part_sources": "source of replacement parts",
        "negative_events": "accident or other harmful event",
        "temperature_records": "temperature of its environment",
        "state_of_charge_records": "state of charge over time",
        "operator_name": "name of the operator responsible for the passport",
        "operator_address": "postal address of that operator",
        "half_life_round_trip_efficiency_pct": "round trip energy efficiency at half of the cycle life",
        "expected_cycles_test": "reference test of the expected lifetime in cycles",
        "cycle_test_c_rate": "C-rate of the cycle-life test",
        "idle_temperature_test": "reference test of the temperatures when not in use",
        "warranty_until_on": "last day of the commercial warranty",
        "separate_collection_url": "what users can do for separate collection, Art. 74(1)(b)",
        "collection_systems_url": "collection, second life and treatment at hand, Art. 74(1)(c)",
        "waste_safety_url": "handling waste batteries safely, Art. 74(1)(d)",
        "label_meaning_url": "what labels and symbols mean, Art. 74(1)(e)",
        "substance_impact_url": "what its substances do to health and environment, Art. 74(1)(f)",
        "state_recorded_on": "day the state was recorded",
        "round_trip_efficiency_fade_pct": "fade of the round trip energy efficiency",
        **{
            f"recycled_{metal}_{origin}_pct": f"{metal} recovered from {waste}"
            for metal in ("cobalt", "lithium", "nickel", "lead")
            for origin, waste in (("pre", "manufacturing waste"), ("post", "post-consumer waste"))
        },
    },
    "PCF": {
        "facility_country": "country of the plant, two letters",
        "total_gco2e": "footprint over the whole life cycle",
        "raw_material_gco2e": "footprint of raw material acquisition and pre-processing",
        "production_gco2e": "footprint of the main product's production",
        "distribution_gco2e": "footprint of distribution",
        "end_of_life_gco2e": "footprint of end of life and recycling",
        "raw_material_gco2e_per_kwh": "raw materials' footprint per kWh provided",
        "production_gco2e_per_kwh": "production's footprint per kWh provided",
        "distribution_gco2e_per_kwh": "distribution's footprint per kWh provided",
        "end_of_life_gco2e_per_kwh": "end of life's footprint per kWh provided",
    },
    "DueDiligence": {
        "risks": "risk",
        "net_turnover_eur": "net turnover of the operator, Art. 47",
        "notified_body_number": "number of the notified body",
        "approval_decision": "number of the notified body's approval decision",
        "report_year": "year of the public report",
        "report_published_on": "day the public report was published",
    },
}
_ARTICLE: Final = re.compile(r"Art\. ([0-9]+)\(([0-9]+)\)")
_LABEL_ANNEX: Final = re.compile(r"Annex VI A\(([0-9]+)\)")
_ANNEX: Final = re.compile(r"Annex XIII ([0-9])(?:\(([a-z])\))?")


_CAPITALS: Final = str.maketrans("abcdefghijklmnopqrstuvwxyzäöü", "ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÜ")


def capitalize_first(text: str) -> str:
    """A text that begins with a capital, as a sentence or a heading does."""
    return text[:1].translate(_CAPITALS) + text[1:]


def name_column(fact_type: str, column: str, language: Language) -> str:
    """What a column is called: `mass_kg` is `Mass`, `labels[1].url` is `Further labels 1: url`."""
    member, _, rest = column.partition("[")
    number, _, inner = rest.partition("].")
    if language == "de":
        name, inner_name = GERMAN_NAMES[fact_type][member], GERMAN_RECORD_NAMES.get(inner, "")
    else:
        schema = SCHEMA_MEMBERS[FactRecordType(fact_type, SCHEMA_VERSION)]
        name = _ENGLISH_NAMES.get(fact_type, {}).get(member, schema[member].description.replace("`", ""))
        inner_name = _strip_unit(inner).replace("_", " ")
    name = capitalize_first(name)
    return f"{name} {number}: {inner_name}" if inner else name


def _strip_unit(member: str) -> str:
    for suffix in ("_pct", "_w", "_degc", "_on", "_at"):
        member = member.removesuffix(suffix)
    return member


def describe_type(kind: Type, words: TemplateWords) -> str:
    """How a value is written: `number with at most 3 decimals`."""
    match kind:
        case Dec(scale):
            return words.decimals.format(scale)
        case List():
            return words.list_of_texts
        case _:
            return words.types[kind]


def cite_source(source: str, language: Language) -> str:
    """A legal source as the language cites it: `Annex XIII 1(h)` is `Anhang XIII Nr. 1 Buchst. h`."""
    if language == "en":
        return source
    if article := _ARTICLE.fullmatch(source):
        return f"Art. {article[1]} Abs. {article[2]}"
    if label := _LABEL_ANNEX.fullmatch(source):
        return f"Anhang VI Teil A Nr. {label[1]}"
    if annex := _ANNEX.fullmatch(source):
        return f"Anhang XIII Nr. {annex[1]}" + (f" Buchst. {annex[2]}" if annex[2] else "")
    return source
