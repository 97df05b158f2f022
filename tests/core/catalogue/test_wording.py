"""Wording: a translation is shown where it is of exactly this sentence, else the English one as a whole."""

from typing import Any

import pytest

from bpc.core.catalogue.po_file import CatalogueUnreadable, PoEntry, build_header, format_po
from bpc.core.catalogue.wording import Wording, build_catalogue, count_translations, read_catalogue
from bpc.core.errors import Invalid

GERMAN = (
    PoEntry(
        context="finding CFP message",
        source="stages add up to {stages}, the declared total is {declared}, from {day}",
        translation="die Summe der Phasen ist {stages}, angegeben sind {declared}, ab {day}",
        notes=("{stages}: number", "{declared}: quantity", "{day}: day"),
    ),
    PoEntry(
        context="finding CFP title", source="stages and total agree", translation="Phasen und Summe stimmen überein"
    ),
    PoEntry(context="finding BOTH message", source="{a} and {b}", translation="{b} und {a}", is_fuzzy=True),
    PoEntry(context="missing DP11", source="no capacity", translation="keine Kapazität"),
    PoEntry(context="point 10", source="Mass", translation="Gewicht"),
    PoEntry(context="enum Metal", source="COBALT", translation="Kobalt"),
    PoEntry(
        context="finding METAL message",
        source="{metal} of {sku}: {sums}",
        translation="{metal} von {sku}: {sums}",
        notes=("{metal}: Metal", "{sku}: text", "{sums}: text"),
    ),
    PoEntry(context="word", source="not", translation="nicht"),
    *(PoEntry(context="citation", source=en, translation=de) for en, de in [("Annex", "Anhang"), ("Part", "Teil")]),
)
WORDING = Wording("de", (build_catalogue("de", GERMAN),))


def make_entry(code: str, message: str, **args: str) -> dict[str, Any]:
    return {"code": code, "message": message, "status": "FAIL", "verdict": "assessed", "args": args}


def test_a_finding_is_said_with_its_numbers_as_the_language_writes_them() -> None:
    message = "stages add up to 1069.3, the declared total is 65 kg, from 2027-02-18"
    entry = make_entry("CFP", message, stages="1069.3", declared="65 kg", day="2027-02-18")

    says = WORDING.translate_finding(entry)

    assert says == "die Summe der Phasen ist 1.069,3, angegeben sind 65\xa0kg, ab 18. Februar 2027"


@pytest.mark.parametrize(
    "entry",
    [
        make_entry("CFP", "stages add up to 2, the declared total is 3, from 4", stages="2", declared="3", day="5"),
        make_entry("CFP", "stages add up to 2", stages="2"),
        make_entry("OTHER", "stages and total agree"),
        make_entry("BOTH", "1 and 2", a="1", b="2"),
        {"code": "CFP", "message": "of an old passport", "status": "PASS"},
    ],
    ids=["other arguments", "an argument is missing", "another code", "to be looked at again", "level 1"],
)
def test_a_sentence_that_nobody_translated_is_english_as_a_whole(entry: dict[str, Any]) -> None:
    assert WORDING.translate_finding(entry) == entry["message"]


def test_what_is_missing_is_said_under_the_code_of_the_requirement_that_needs_it() -> None:
    assert WORDING.translate_finding(make_entry("SOMETHING", "no capacity")) == "keine Kapazität"


@pytest.mark.parametrize(
    ("sums", "written"),
    [
        ("Co 0.5 + 6 = 6.5, not 10", "Co 0,5 + 6 = 6,5, nicht 10"),
        ("Co 15.99 < 16; Ni 20.5 > 10", "Co 15,99 < 16; Ni 20,5 > 10"),
        ("Co 0.01; Pb 85", "Co 0,01; Pb 85"),
        ("lithium 5.5, not nickel", "lithium 5.5, not nickel"),
        ("6.2.2", "6.2.2"),
        ("4711.5", "4711.5"),
    ],
)
def test_an_argument_is_translated_as_what_it_is(sums: str, written: str) -> None:
    entry = make_entry("METAL", f"COBALT of SKU-1234: {sums}", metal="COBALT", sku="SKU-1234", sums=sums)

    assert WORDING.translate_finding(entry) == f"Kobalt von SKU-1234: {written}"


def test_english_findings_have_their_numbers_written_too() -> None:
    english = Wording("en", (build_catalogue("en", [entry for entry in GERMAN if "CFP" in entry.context]),))
    untranslated = Wording("en", (build_catalogue("en", [PoEntry(context=GERMAN[0].context, source=GERMAN[0].source,
                                                                 notes=GERMAN[0].notes)]),))  # fmt: skip
    message = "stages add up to 1069.3, the declared total is 65 kg, from 2027-02-18"
    entry = make_entry("CFP", message, stages="1069.3", declared="65 kg", day="2027-02-18")

    assert untranslated.translate_finding(entry).startswith("stages add up to 1,069.3")
    assert english.translate_finding(entry).startswith("die Summe")


def test_the_first_catalogue_that_knows_a_text_wins() -> None:
    own = build_catalogue("de", [PoEntry(context="point 10", source="Mass", translation="Masse")])

    wording = Wording("de", (own, *WORDING.catalogues))

    assert wording.translate("point 10", "Mass") == "Masse"
    assert wording.translate("point 11", "Capacity") == "Capacity"


def test_a_data_point_keeps_its_name_if_only_one_field_serves_it() -> None:
    assert WORDING.translate_label("point 10", "Weight", is_only=True) == "Gewicht"
    assert WORDING.translate_label("point 10", "Weight without lid", is_only=False) == "Weight without lid"


def test_a_citation_is_translated_if_all_its_words_are_known() -> None:
    assert WORDING.translate_citation("Annex VI, Part A") == "Anhang VI, Teil A"
    assert WORDING.translate_citation("Annex XIII(1)(h)") == "Anhang XIII(1)(h)"
    assert WORDING.translate_citation("Annex VI, point 5") == "Annex VI, point 5"


def test_a_file_is_read_and_its_translations_are_counted() -> None:
    data = format_po([build_header("de", "test"), *GERMAN])

    assert read_catalogue(data).language == "de"
    assert count_translations("de", data) == len(GERMAN) - 1


def test_a_catalogue_for_another_language_is_refused() -> None:
    data = format_po([build_header("de", "test")])

    with pytest.raises(Invalid, match="is for `de`, not for `fr`"):
        count_translations("fr", data)
    with pytest.raises(Invalid, match="`xx` is not an official language"):
        count_translations("xx", data)
    with pytest.raises(CatalogueUnreadable):
        count_translations("de", b"no catalogue")
