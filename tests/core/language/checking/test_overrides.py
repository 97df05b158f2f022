"""Overrides: what replaces what, why, and whether that could make rules weaker."""

import pytest

from bpc.core.language.package import list_overrides, read_package, read_program
from bpc.core.language.testing.run import run_tests

PARENT = """\
language 2;
const LIMIT: Dec(2) = 25;
def double = LIMIT * 2;
field heavy @interest: Bool = 26 > LIMIT && double > 0;
example at_26: {} => expect(heavy, == true);;
"""


def list_applied(rules: str, tests: str = "") -> list[tuple[str, str, str, bool]]:
    program = read_program(rules.encode(), tests.encode())
    return [(one.kind, one.name, one.reason, one.weakens) for one in program.overrides]


def find_errors(rules: str) -> list[tuple[str, str]]:
    diagnostics = read_package(rules.encode()).diagnostics
    return [(one.diagnostic.kind, one.diagnostic.message) for one in diagnostics if one.diagnostic.is_error]


def test_what_overrides_counts_and_what_was_there_does_not() -> None:
    rules = PARENT + 'override "our limit is lower" const LIMIT: Dec(2) = 30;\n'

    program = read_program(rules.encode())

    assert [definition.name for definition in program.definitions] == ["double", "LIMIT"]
    assert [failure.test for failure in run_tests(program, seed=0).failures] == ["at_26"]


@pytest.mark.parametrize(
    ("override", "kind", "name", "weakens"),
    [
        ("const LIMIT: Dec(2) = 30;", "const", "LIMIT", True),
        ("def double = LIMIT + LIMIT;", "def", "double", False),
        ("field heavy @interest: Bool = double > 1;", "field", "heavy", False),
        ("field heavy: Bool = double > 1;", "field", "heavy", False),
        ("field heavy @public: Bool = double > 1;", "field", "heavy", True),
        ("field heavy @interest @authority: Bool = double > 1;", "field", "heavy", True),
        ("example at_26: {} => expect(heavy, == true);;", "example", "at_26", True),
    ],
)
def test_numbers_tests_and_wider_audiences_count_as_weaker(override: str, kind: str, name: str, weakens: bool) -> None:
    applied = list_applied(f'{PARENT}override "so it is" {override}\n')

    assert applied == [(kind, name, "so it is", weakens)]


def test_a_field_for_everybody_cannot_be_shown_to_more() -> None:
    rules = 'language 2; field a @public: Int = 1; override "r" field a @public @interest: Int = 2;'

    assert list_applied(rules) == [("field", "a", "r", False)]


def test_tests_and_fixtures_of_a_tests_file_are_overridden_there() -> None:
    tests = """\
fixture pack: { issued("2027-03-01"); };
cases days(day): with pack => expect(heavy, == day); { true; };
override "another day" fixture pack: { issued("2028-03-01"); };
override "another table" cases days(day): with pack => expect(heavy, == day); { true; true; };
"""

    assert [(kind, name) for kind, name, _, _ in list_applied(PARENT, tests)] == [
        ("fixture", "pack"),
        ("cases", "days"),
    ]
    assert run_tests(read_program(PARENT.encode(), tests.encode()), seed=0).cases == 3


def test_an_override_can_be_overridden() -> None:
    rules = PARENT + 'override "one" const LIMIT: Dec(2) = 30; override "two" const LIMIT: Dec(2) = 10;'

    assert [reason for _, _, reason, _ in list_applied(rules)] == ["one", "two"]
    assert run_tests(read_program(rules.encode()), seed=0).failures == ()


def test_without_override_a_name_is_used_once() -> None:
    assert [kind for kind, _ in find_errors(f"{PARENT}field heavy: Bool = true;")] == ["duplicate-field"]


def test_after_an_override_a_name_is_not_free_again() -> None:
    rules = f'{PARENT}override "r" field heavy: Bool = true; field heavy: Bool = false;'

    assert [kind for kind, _ in find_errors(rules)] == ["duplicate-field"]


def test_nothing_and_what_comes_later_cannot_be_overridden() -> None:
    later = 'language 2; override "r" field a: Int = 1; field a: Int = 2;'

    assert ("bad-override", "there is no field `a` before it that it could override") in find_errors(later)
    assert ("bad-override", "there is no def `LIMIT` before it that it could override") in find_errors(
        f'{PARENT}override "r" def LIMIT = 1;'
    )


def test_a_hundred_overrides_of_nothing_end_the_check() -> None:
    rules = "language 2;" + "".join(f'override "r" field a{number}: Int = 1;' for number in range(150))

    assert find_errors(rules)[-1][0] == "too-many-errors"


def test_a_mistake_elsewhere_does_not_make_an_override_one_of_nothing() -> None:
    assert [kind for kind, _ in find_errors('language 2; field a: Int = ; override "r" field a: Int = 1;')] == [
        "unexpected-token"
    ]


def test_level_one_knows_no_override() -> None:
    kinds = [kind for kind, _ in find_errors('field a: Int = 1; override "r" field a: Int = 2;')]

    assert kinds == ["unexpected-token", "duplicate-field"]


def test_overrides_are_listed_without_a_check() -> None:
    rules = f'{PARENT}override "our limit" const LIMIT: Dec(2) = 30;'

    assert [(one.name, one.reason) for one in list_overrides(rules.encode())] == [("LIMIT", "our limit")]
    assert list_overrides(PARENT.encode()) == []


def test_constants_and_tables_say_what_was_and_what_is() -> None:
    rules = """\
language 2;
const LIMIT: Dec(2) = 25;
table least(on: Date): Int { to date("2031-08-18"): 16; from date("2031-08-18"): 20; };
field a: Bool = 26 > LIMIT && (least(issuedOn()) ?? 0) > 0;
override "lower" const LIMIT: Dec(2) =
  20;
override "later" table least(on: Date): Int { to date("2031-08-18"): 16; from date("2031-08-18"): 15; };
override "so" field a: Bool = LIMIT > 0 && (least(issuedOn()) ?? 0) > 0;
"""

    constant, table, field = list_overrides(rules.encode())

    assert (constant.before, constant.after) == ("25", "20")
    assert (table.before, table.after) == ('from date("2031-08-18"): 20', 'from date("2031-08-18"): 15')
    assert table.as_json()["before"] == 'from date("2031-08-18"): 20'
    assert (field.before, "before" in field.as_json()) == (None, False)
