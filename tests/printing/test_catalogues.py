"""The shipped catalogues: six languages complete, the others ready to fill, every finding of the package in words."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

from bpc.core.catalogue.checking import CatalogueReport, check_catalogue
from bpc.core.catalogue.extraction import list_source_texts
from bpc.core.catalogue.number_format import LANGUAGES
from bpc.core.catalogue.po_file import PoEntry, list_arguments, parse_po
from bpc.core.catalogue.product_texts import list_product_texts
from bpc.core.language.package import read_program
from bpc.printing.catalogues import FOLDER_NAME, WORDS, list_shipped_keys, load_wording
from tests.rules.shipped_package import EXAMPLES, FOLDER, compile_facts, read_facts, read_rules

COMPLETE = ("de", "en", "es", "fr", "it", "pl")
TO_FILL = tuple(language for language in LANGUAGES if language not in COMPLETE)
PACKS = sorted(file.stem for file in (EXAMPLES / "eu-battery").glob("*.json"))


@cache
def list_package_texts() -> list[PoEntry]:
    known = list_shipped_keys(but=FOLDER)
    return [text for text in list_source_texts(read_program(read_rules())) if text.key not in known]


@cache
def check(language: str, which: str) -> CatalogueReport:
    folder, texts = {
        "words": (WORDS, list_product_texts()),
        "eu-battery": (FOLDER / FOLDER_NAME, list_package_texts()),
    }[which]
    return check_catalogue(language, parse_po((folder / f"{language}.po").read_bytes()), texts)


@pytest.mark.parametrize("which", ["words", "eu-battery"])
def test_there_is_a_catalogue_for_every_official_language(which: str) -> None:
    assert {language: check(language, which).total for language in LANGUAGES} == dict.fromkeys(
        LANGUAGES, check("en", which).total
    )


@pytest.mark.parametrize("which", ["words", "eu-battery"])
@pytest.mark.parametrize("language", COMPLETE)
def test_six_languages_are_complete(language: str, which: str) -> None:
    report = check(language, which)

    assert list(report.problems) == []
    assert report.filled_count == report.total


@pytest.mark.parametrize("which", ["words", "eu-battery"])
@pytest.mark.parametrize("language", TO_FILL)
def test_the_others_have_every_text_to_fill_and_nothing_wrong(language: str, which: str) -> None:
    assert {problem.kind for problem in check(language, which).problems} == {"missing"}


@pytest.mark.parametrize("which", ["words", "eu-battery"])
def test_translations_have_the_arguments_of_their_english_texts(which: str) -> None:
    folder = WORDS if which == "words" else FOLDER / FOLDER_NAME
    for language in COMPLETE:
        for entry in parse_po((folder / f"{language}.po").read_bytes()):
            if entry.translation and entry.source:
                assert set(list_arguments(entry.translation)) == set(list_arguments(entry.source)), entry


@cache
def compile_pack(name: str) -> Mapping[str, Mapping[str, Any]]:
    return compile_facts(read_facts((EXAMPLES / "eu-battery" / f"{name}.json").read_bytes())).entries


@cache
def compile_nothing() -> Mapping[str, Mapping[str, Any]]:
    """A battery of which nothing is known but its category: most checks fail."""
    facts = read_facts(json.dumps({"battery": {"sku": "EX-1", "name": "Empty", "category": "ev"}}).encode())
    return compile_facts(facts).entries


@pytest.mark.parametrize("language", [language for language in COMPLETE if language != "en"])
@pytest.mark.parametrize("pack", [*PACKS, "nothing"])
def test_every_finding_of_the_package_is_said_in_every_complete_language(pack: str, language: str) -> None:
    wording, entries = load_wording(language), compile_nothing() if pack == "nothing" else compile_pack(pack)

    assert len(entries) > 80
    for code, entry in entries.items():
        assert wording.translate_finding(entry) != entry["message"], code


def test_the_numbers_of_a_finding_are_written_as_the_language_writes_them() -> None:
    entry = {
        "code": "FOOTPRINT_STAGES",
        "status": "FAIL",
        "message": "the stages add up to 1069.3, the declared total is 65 (kg CO2e per kWh)",
        "args": {"stages": "1069.3", "declared": "65"},
    }

    assert load_wording("de").translate_finding(entry) == (
        "die Phasen ergeben zusammen 1.069,3, angegeben sind insgesamt 65 (kg CO₂-Äq. je kWh)"
    )
    assert load_wording("en").translate_finding(entry).startswith("the stages add up to 1,069.3")
    assert load_wording("el").translate_finding(entry) == entry["message"], "not filled: English as a whole"


def test_what_a_message_lists_is_translated_as_well() -> None:
    sums = "Co 0.5 + 6 = 6.5, not 10; Li 5 + 4 = 9, not 8"
    message = (
        "recycled shares from manufacturing and post-consumer waste do not add up to the declared ones, in %: " + sums
    )
    entry = {"code": "RECYCLED_SUM", "status": "FAIL", "message": message, "args": {"sums": sums}}

    assert load_wording("de").translate_finding(entry).endswith("Co 0,5 + 6 = 6,5, nicht 10; Li 5 + 4 = 9, nicht 8")


def test_an_own_catalogue_answers_before_the_shipped_ones() -> None:
    own = b'msgid ""\nmsgstr "Language: de\\n"\n\nmsgctxt "sheet"\nmsgid "Checks"\nmsgstr "Pr\xc3\xbcfliste"\n'

    assert load_wording("de", [own]).translate("sheet", "Checks") == "Prüfliste"
    assert load_wording("de").translate("sheet", "Checks") == "Prüfungen"
