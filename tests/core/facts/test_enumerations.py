"""Enumerations: words in six languages mean one value; what is unknown is not guessed."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpc.core.facts.countries import COUNTRIES
from bpc.core.facts.enumerations import ENUMERATIONS, normalize_value
from bpc.core.facts.folding import fold_text
from bpc.core.facts.schemas import SCHEMAS
from bpc.core.language.types import TEXT, FactRecordType, List


@pytest.mark.parametrize(
    ("member", "value", "words"),
    [
        (
            "category",
            "ev",
            "EV|Elektrofahrzeug|electric vehicle|Véhicule électrique|vehículo eléctrico|veicolo elettrico",
        ),
        ("category", "ev", "pojazd elektryczny"),
        ("category", "lmt", "LMT|leichte Verkehrsmittel|moyens de transport légers|lekkie środki transportu"),
        ("category", "lmt", "medios de transporte ligeros|mezzi di trasporto leggeri"),
        ("category", "industrial", "Industriebatterie|industrielle|industrial|industriale|przemysłowa"),
        ("category", "stationary", "stationär|stationnaire|estacionaria|stazionaria|stacjonarna"),
        ("status", "original", "Original|neu|neuf|nuevo|nuovo|nowa"),
        (
            "status",
            "re-used",
            "reused|RE-USED|re‑used|wiederverwendet|réutilisée|reutilizada|riutilizzata|ponownie użyta",
        ),
        ("status", "repurposed", "umgenutzt|réaffectée|adaptada|riconvertita|o zmienionym przeznaczeniu"),
        ("status", "remanufactured", "wiederaufgearbeitet|remanufacturée|refabricado|rifabbricata|regenerowana"),
        ("status", "waste", "Abfall|déchet|residuo|rifiuto|odpad"),
        ("granularity", "batch", "Charge|lot|lote|lotto|partia|batch"),
        ("granularity", "item", "Einzelstück|exemplaire|unidad|articolo|sztuka"),
        ("granularity", "model", "Modell|modèle|modelo|modello|model"),
        ("vehicle_category", "M1", "m1|M1"),
        ("vehicle_category", "L3e-A1", "l3e-a1|L3E A1"),
        ("manufacturing_country", "DE", "de|DEU|Germany|Deutschland|Allemagne|Alemania|Germania|Niemcy"),
        ("manufacturing_country", "AT", "Österreich|OSTERREICH|Austria"),
        ("manufacturing_country", "CI", "Côte d’Ivoire|Ivory Coast"),
        ("manufacturing_country", "CD", "DR Congo|Demokratische Republik Kongo"),
        ("manufacturing_country", "US", "USA|U.S.A.|United States|Vereinigte Staaten|Stany Zjednoczone"),
    ],
)
def test_words_in_six_languages_mean_one_value(member: str, value: str, words: str) -> None:
    assert {normalize_value("Battery", member, word) for word in words.split("|")} == {value}


@pytest.mark.parametrize(
    ("member", "text"),
    [
        ("category", "car"),
        ("status", "broken"),
        ("manufacturing_country", "Korea"),
        ("manufacturing_country", "Congo"),
        ("vehicle_category", "M9"),
        ("category", ""),
    ],
)
def test_an_unknown_word_is_not_guessed(member: str, text: str) -> None:
    assert normalize_value("Battery", member, text) is None


def test_a_member_that_takes_any_text_has_no_values() -> None:
    assert normalize_value("Battery", "name", "ev") is None


def test_there_are_249_countries_each_with_two_and_three_letters() -> None:
    assert len(COUNTRIES) == 249
    assert len({names[0] for names in COUNTRIES.values()}) == 249
    assert all(re.fullmatch("[A-Z]{2}", code) and re.fullmatch("[A-Z]{3}", COUNTRIES[code][0]) for code in COUNTRIES)


def test_no_name_of_a_country_is_shared() -> None:
    names = [name for code, row in COUNTRIES.items() for name in {fold_text(text) for text in (code, *row)}]

    assert sorted(name for name in set(names) if names.count(name) > 1) == []


@pytest.mark.parametrize(("fact_type", "member"), ENUMERATIONS, ids=lambda text: text)
def test_every_value_means_itself_and_every_word_a_value(fact_type: str, member: str) -> None:
    enumeration = ENUMERATIONS[fact_type, member]

    assert SCHEMAS[FactRecordType(fact_type, 1)][member] in (TEXT, List(TEXT))
    assert all(normalize_value(fact_type, member, value) == value for value in enumeration.values)
    assert set(enumeration.words.values()) == set(enumeration.values)
    assert all(word == fold_text(word) for word in enumeration.words)


@given(st.sampled_from(sorted(ENUMERATIONS)), st.text())
def test_normalizing_is_total_and_repeating_it_changes_nothing(name: tuple[str, str], text: str) -> None:
    value = normalize_value(*name, text)

    assert value is None or normalize_value(*name, value) == value
