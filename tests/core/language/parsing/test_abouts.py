"""How `about` is parsed: a point of one word, clauses in any order, and one message for one mistake."""

import pytest

from bpc.core.language import syntax
from bpc.core.language.parsing.parse import parse
from bpc.core.language.source import Source
from tests.core.language.check_helpers import list_errors


def parse_rule(about: str) -> syntax.Rule:
    parsed = parse(Source("rules.bpc", f"language 2; field a.b: Int = 1 {about};"))
    assert parsed.diagnostics == ()
    (rule,) = parsed.tree.items
    assert isinstance(rule, syntax.Rule)
    return rule


def test_clauses_keep_their_order() -> None:
    about = parse_rule('about DP43.2 "Label" order 3 help "h" label de "l" help de "d" group "g"').about

    assert about is not None
    assert about.point is not None
    assert about.point.text == "DP43.2"
    assert [(one.word.text, one.language and one.language.text) for one in about.clauses] == [
        ("order", None),
        ("help", None),
        ("label", "de"),
        ("help", "de"),
        ("group", None),
    ]


@pytest.mark.parametrize("blanks", [0, 1, 16_370, 16_371, 16_372, 16_373, 16_374, 16_375, 16_376, 16_377, 16_378])
def test_a_part_is_found_wherever_the_text_is_cut_while_it_is_read(blanks: int) -> None:
    about = parse_rule(" " * blanks + 'about DP43.2 "Label"').about

    assert about is not None
    assert about.point is not None
    assert about.point.text == "DP43.2"


@pytest.mark.parametrize("point", ["DP43 .2", "DP43. 2", "DP430.2", "XP43.2", "DP43.2.1", "DP43.123", "DP43.x"])
def test_a_point_is_one_word(point: str) -> None:
    assert list_errors(f'language 2; field a.b: Int = 1 about {point} "Label";') != []


@pytest.mark.parametrize("about", ["about", "about DP1", 'about "a" order', 'about "a" order -1', 'about "a" label de'])
def test_what_is_missing_is_one_message(about: str) -> None:
    errors = list_errors(f"language 2; field a.b: Int = 1 {about}; field c: Int = 2;")

    assert [error.kind for error in errors] == ["unexpected-token"]


def test_a_missing_semicolon_behind_it_is_one_message() -> None:
    errors = list_errors('language 2; field a: Int = 1 about "A"\nfield b: Int = 2; def c = 1;')

    assert [(error.kind, error.message) for error in errors] == [
        ("unexpected-token", "a `;` is missing after the rule"),
    ]
