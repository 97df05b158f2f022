"""What fields are for people: read into the program, and without any effect on values and proofs."""

import pytest

from bpc.core.exports.data_points import POINTS
from bpc.core.language.checking.abouts import LANGUAGES, MAX_POINT
from bpc.core.language.typed import FieldAbout, FieldTranslation, list_requirements
from tests.core.language.check_helpers import check_program, list_diagnostics, require_one_error
from tests.core.language.evaluating.evaluation import create_fact, create_machine, create_world, prove
from tests.core.language.reference.derivation import derive_rules

MASS = """language 2;
field battery.mass_kg @public: Dec(3) = 12.5"""
FULL = """
  about DP10 "Mass of the battery"
    group "General information" order 10
    cite "Annex VI, Part A, point 5"
    unit "kg"
    help "As placed on the market."
    label de "Masse der Batterie" help de "Beim Inverkehrbringen."
    label fr "Masse de la batterie"
    help pl "Masa" ;
"""


def read_about(text: str) -> FieldAbout | None:
    return check_program(f"{MASS} {text}").fields[0].about


def test_every_clause_is_read() -> None:
    assert read_about(FULL) == FieldAbout(
        point="10",
        label="Mass of the battery",
        group="General information",
        order=10,
        citation="Annex VI, Part A, point 5",
        unit="kg",
        help="As placed on the market.",
        translations={
            "de": FieldTranslation("Masse der Batterie", "Beim Inverkehrbringen."),
            "fr": FieldTranslation("Masse de la batterie"),
            "pl": FieldTranslation(None, "Masa"),
        },
    )


def test_a_label_alone_is_enough() -> None:
    assert read_about('about "Mass";') == FieldAbout(point=None, label="Mass")
    assert read_about(";") is None


@pytest.mark.parametrize(("written", "point"), [("DP1", "1"), ("DP07", "7"), ("DP71", "71"), ("DP43.2", "43.2")])
def test_a_data_point_is_a_number_with_perhaps_a_part(written: str, point: str) -> None:
    about = read_about(f'about {written} "Mass";')

    assert about is not None
    assert (about.point, about.point_number) == (point, int(point.split(".", maxsplit=1)[0]))


@pytest.mark.parametrize("point", ["DP0", "DP72", "DP99999", "DP43.0", "DP43.21"])
def test_a_data_point_that_does_not_exist_is_an_error(point: str) -> None:
    assert require_one_error(f'{MASS} about «{point}» "Mass";').kind == "unknown-point"


def test_all_data_points_of_the_guidance_can_be_named() -> None:
    assert len(POINTS) == MAX_POINT


def test_where_a_translation_is_missing_english_is_shown() -> None:
    about = read_about(FULL)

    assert about is not None
    assert about.get_label("de") == "Masse der Batterie"
    assert (about.get_label("pl"), about.get_help("pl")) == ("Mass of the battery", "Masa")
    assert (about.get_label("sv"), about.get_help("fr")) == ("Mass of the battery", "As placed on the market.")


def test_every_official_language_but_english_can_be_written() -> None:
    others = [code for code in LANGUAGES if code != "en"]

    about = read_about('about "Mass" ' + " ".join(f'label {code} "{code}"' for code in others) + ";")

    assert about is not None
    assert len(others) == 23
    assert {code: about.get_label(code) for code in others} == {code: code for code in others}


def test_only_visible_fields_are_named_and_only_where_others_have_a_label() -> None:
    others = "field a @interest: Int = 1; field b: Int = 2; field c @authority @public: Int = 3;"

    without = list_diagnostics(f"{MASS}; {others}")
    beside = list_diagnostics(f'{MASS} about "Mass"; {others}')

    assert without == []
    assert [(one.kind, one.severity, one.message.split("`")[1]) for one in beside] == [
        ("missing-about", "warning", "a"),
        ("missing-about", "warning", "c"),
    ]


def test_the_field_of_the_requirements_needs_no_label() -> None:
    assert list_diagnostics(f'{MASS} about "Mass"; require R "title": true;') == []


def test_what_a_field_is_changes_no_value_and_no_byte_of_the_proof() -> None:
    facts = [create_fact("Battery", "battery:S-1", mass_kg="3")]
    plain, described = (create_machine(f"{MASS}{about}") for about in (";", FULL))

    proofs = [prove(machine, create_world(machine, *facts)) for machine in (plain, described)]
    derivations = [derive_rules(f"{MASS}{about}") for about in (";", FULL)]

    assert proofs[0].proof == proofs[1].proof
    assert proofs[0].values.to_json() == proofs[1].values.to_json()
    assert derivations[0].nodes == derivations[1].nodes


def test_a_field_that_overrides_another_keeps_what_it_is() -> None:
    child = 'override "we weigh it" field battery.mass_kg @public: Dec(3) = 13'

    kept, changed = (check_program(f"{MASS}{FULL}{child}{about};") for about in ("", ' about DP10 "Weighed mass"'))

    assert kept.fields[0].about == read_about(FULL)
    assert changed.fields[0].about == FieldAbout(point="10", label="Weighed mass")


def test_the_words_are_names_everywhere_else() -> None:
    program = check_program("""language 2;
        def about = 1; def group = 2; def order = 3; def unit = 4; def help = 5; def label = 6; def cite = 7;
        field about.group.help: Int = about + group + order + unit + help + label + cite about "about";""")

    assert program.fields[0].about == FieldAbout(point=None, label="about")


def test_a_requirement_may_cite_before_or_after_its_severity() -> None:
    program = check_program("""language 2;
        require A "a": true cite "Art. 8(2)";
        require B "b": true else "no" severity warn cite "Art. 10";
        require C "c": true else "no" cite "Art. 10" severity warn;
        require D "d": true;""")

    assert [(one.code, one.severity, one.cite) for one in list_requirements(program)] == [
        ("A", "FAIL", "Art. 8(2)"),
        ("B", "WARN", "Art. 10"),
        ("C", "WARN", "Art. 10"),
        ("D", "FAIL", None),
    ]
