"""Extraction: everything that a package says to people is in its catalogue, once, with what its arguments are."""

from dataclasses import replace

from bpc.core.catalogue.checking import check_catalogue
from bpc.core.catalogue.extraction import list_source_texts, update_catalogue
from bpc.core.catalogue.po_file import PoEntry, build_header
from bpc.core.language.package import read_program

RULES = """\
language 2;
enum Metal = COBALT "cobalt" | LEAD "lead";
const FROM = date("2031-08-18");
const LEAST: Dec(2) = 16;
def battery = Battery for productSku() else missing("there is no data sheet");
def cobalt = battery.recycled_cobalt_pct else missing("DP20", "the share is not stated");
require DP20 "at least {LEAST} % \\{of} cobalt" when battery.category in [some("ev")] in force from FROM:
  cobalt >= LEAST
  else "only {share: cobalt} % of {productSku()}, not {LEAST} %, from {FROM}; {mass: battery.mass_kg}";
field battery.mass @public: Opt(Dec(6)) = battery.mass_kg
  about DP10 "Mass of the battery" group "General" cite "Annex VI" unit "kg" help "All of it.";
field battery.metal @public: Opt(Metal) = Metal(battery.chemistry) about "Main metal" group "General";
field battery.parts @public: List(Record(mass_g: Int, name: Text)) = [] about DP45.1 "Parts";
field battery.hidden: Bool = emitCompliance("CHK", "PASS", "all is well");
"""


def list_keys(rules: str) -> list[tuple[str, str]]:
    return [entry.key for entry in list_source_texts(read_program(rules.encode()))]


def test_every_text_is_there_once_under_what_it_is() -> None:
    assert list_keys(RULES) == [
        ("point 10", "Mass of the battery"),
        ("point 10 help", "All of it."),
        ("group", "General"),
        ("field battery.metal", "Main metal"),
        ("point 45.1", "Parts"),
        ("enum Metal", "COBALT"),
        ("enum Metal", "LEAD"),
        ("member mass_g", "Mass g"),
        ("member name", "Name"),
        ("finding DP20 title", "at least {LEAST} % {{of}} cobalt"),
        ("finding DP20 message", "only {share} % of {productSku()}, not {LEAST} %, from {FROM}; {mass}"),
        ("missing MISSING_BATTERY", "there is no data sheet"),
        ("missing DP20", "the share is not stated"),
        ("finding CHK message", "all is well"),
    ]


def test_notes_say_what_each_argument_is() -> None:
    texts = {entry.context: entry.notes for entry in list_source_texts(read_program(RULES.encode()))}

    assert texts["finding DP20 message"] == (
        "{FROM}: day",
        "{LEAST}: number",
        "{mass}: number",
        "{productSku()}: text",
        "{share}: number",
    )
    assert texts["point 10"] == ("Annex VI",)


TEXTS = [
    PoEntry(context="point 10", source="Mass", notes=("Annex VI",)),
    PoEntry(context="finding A message", source="{n} of {m}", notes=("{n}: number",)),
]


def test_a_new_catalogue_has_a_header_and_every_text_to_fill() -> None:
    assert update_catalogue("de", "acme", [], TEXTS) == [build_header("de", "acme"), *TEXTS]


def test_an_update_keeps_what_was_translated_and_renews_the_notes() -> None:
    before = [build_header("de", "acme"), replace(TEXTS[0], translation="Gewicht", notes=("old",), comments=("ours",))]

    updated = update_catalogue("de", "acme", before, TEXTS)

    assert updated == [before[0], replace(TEXTS[0], translation="Gewicht", comments=("ours",)), TEXTS[1]]


def test_a_translation_of_a_changed_text_is_kept_to_be_looked_at_again() -> None:
    before = [replace(TEXTS[1], source="{n} and {m}", translation="{n} und {m}")]

    _, _, changed = update_catalogue("de", "acme", before, TEXTS)

    assert changed == replace(TEXTS[1], translation="{n} und {m}", is_fuzzy=True)


def test_what_the_rules_no_longer_say_is_kept_as_obsolete_and_comes_back() -> None:
    gone = PoEntry(context="point 11", source="Capacity", translation="Kapazität")

    updated = update_catalogue("de", "acme", [gone], TEXTS)
    again = update_catalogue("de", "acme", updated, [*TEXTS, replace(gone, translation="")])

    assert updated[-1] == replace(gone, is_obsolete=True)
    assert again[-1] == gone


def test_a_text_that_moved_takes_its_translation_along() -> None:
    before = PoEntry(context="point 11", source="Mass", translation="Gewicht")

    assert update_catalogue("de", "acme", [before], TEXTS)[1:] == [replace(TEXTS[0], translation="Gewicht"), TEXTS[1]]


def check(*entries: PoEntry, language: str = "de") -> list[tuple[str, str]]:
    report = check_catalogue(language, [build_header("de", "acme"), *entries], TEXTS)
    return [(problem.kind, problem.says) for problem in report.problems]


def test_a_check_names_what_is_missing_changed_and_stale_without_calling_it_wrong() -> None:
    stale = PoEntry(context="point 11", source="Capacity")
    report = check_catalogue("de", [build_header("de", "a"), replace(TEXTS[0], is_fuzzy=True), stale], TEXTS)

    assert [problem.kind for problem in report.problems] == ["changed", "not-extracted", "stale"]
    assert (report.total, report.filled_count, report.has_errors) == (2, 0, False)
    assert check(*TEXTS) == [("missing", "has no translation")] * 2


def test_other_arguments_than_those_of_the_english_text_are_an_error() -> None:
    good = replace(TEXTS[0], translation="Gewicht")

    assert check(good, replace(TEXTS[1], translation="{m} von {n}")) == []
    assert check(good, replace(TEXTS[1], translation="{n} von {k}")) == [
        ("arguments", "lacks {m} and has {k}, which the English text has not")
    ]
    assert check(good, replace(TEXTS[1], translation="{n} {m} {"))[0][0] == "braces"


def test_a_file_for_another_language_is_an_error() -> None:
    good = [replace(TEXTS[0], translation="a"), replace(TEXTS[1], translation="{m}{n}")]

    assert check(*good, language="fr") == [("language", "the file is for `fr`, but its header says `de`")]
    assert check(*good, language="xx")[0][0] == "language"


def test_english_needs_words_for_names_only() -> None:
    words = [*TEXTS, PoEntry(context="enum Metal", source="LEAD")]

    report = check_catalogue("en", [build_header("en", "a"), *words], words)

    assert [problem.context for problem in report.problems] == ["enum Metal"]
    assert report.filled_count == 2
