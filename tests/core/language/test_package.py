"""A package as bytes: what is read, what is refused with which code, and what is not said twice."""

from collections.abc import Mapping

import pytest

from bpc.core.errors import CODES
from bpc.core.language.package import RulesRefused, read_package, read_program


def list_kinds(rules: str, tests: str = "") -> list[tuple[str, str]]:
    package = read_package(rules.encode(), tests.encode())
    assert package.program is None
    return [(located.source.name, located.diagnostic.kind) for located in package.diagnostics]


def test_a_package_may_be_empty() -> None:
    program = read_program(b"")

    assert (program.fields, program.facts, program.examples, program.properties) == ((), (), (), ())


def test_the_caller_chooses_the_file_names() -> None:
    program = read_program(b"field a: Int = 1;", b"example e: {} => expect(a, == 1); ;", name="A", tests_name="B")

    assert (program.source.name, program.examples[0].source.name) == ("A", "B")


@pytest.mark.parametrize(
    ("rules", "code"),
    [
        (b"field a: Int = 1", "RULE_PARSE_ERROR"),
        (b"field a: Int = nope;", "RULE_TYPE_ERROR"),
        (b"field a: Int = qty(1, nope);", "UNIT_MISMATCH"),
        (b'field a: Int = field("a");', "RULE_CYCLE_DETECTED"),
        (b"\xef\xbb\xbf", "RULE_PARSE_ERROR"),
        (b"\xff", "RULE_PARSE_ERROR"),
        (b"-" * (1 << 20) + b"-", "RULE_PARSE_ERROR"),
    ],
)
def test_a_refusal_has_the_code_of_the_first_error(rules: bytes, code: str) -> None:
    with pytest.raises(RulesRefused) as refused:
        read_program(rules)

    assert refused.value.code == code
    assert refused.value.code in CODES
    assert not refused.value.retryable


def test_a_refusal_holds_every_diagnostic_for_programs_to_read() -> None:
    with pytest.raises(RulesRefused) as refused:
        read_program(b"field a: Int = let x = 1; 2;\nfield b: Int = nope;\nfield c: Int = nope;", name="r.bpc")

    diagnostics = refused.value.details["diagnostics"]
    assert isinstance(diagnostics, list)
    assert [
        (diagnostic["severity"], diagnostic["kind"], diagnostic["line"], diagnostic["column"])
        for diagnostic in diagnostics
    ] == [
        ("warning", "unused-let", 1, 20),
        ("error", "unknown-variable", 2, 16),
        ("error", "unknown-variable", 3, 16),
    ]
    assert all(isinstance(diagnostic, Mapping) for diagnostic in diagnostics)
    assert str(refused.value) == "r.bpc:2:16: there is no variable `nope` here (and 1 more)"


def test_what_could_be_parsed_is_checked_even_if_the_rest_could_not() -> None:
    assert list_kinds('field a: Int = 1 +; field b: Int = "x";') == [
        ("rules.bpc", "unexpected-token"),
        ("rules.bpc", "wrong-type"),
    ]


@pytest.mark.parametrize(
    "broken",
    [
        "field a: Int = 1 +;",
        "field a: In = 1;",
        "field a @nobody : Int = 1;",
        "fild a: Int = 1;",
        "field a: Int 1;",
    ],
)
def test_a_field_that_could_not_be_parsed_is_not_called_unknown(broken: str) -> None:
    kinds_found = list_kinds(f'{broken}\nfield b: Int = field("a") + 1;', "example e: {} => expect(a, == 1); ;")

    assert len(kinds_found) == 1, kinds_found


def test_a_field_that_is_nowhere_is_unknown_even_beside_broken_ones() -> None:
    assert list_kinds('field a: Int = 1 +; field b: Int = field("c");')[1:] == [("rules.bpc", "unknown-field")]


def test_there_are_no_warnings_beside_broken_rules() -> None:
    assert list_kinds("field a: Int = 1 +; field b: Int = let x = 1; 2;") == [("rules.bpc", "unexpected-token")]


def test_mistakes_of_both_files_are_found_together() -> None:
    assert list_kinds("field a: Int = nope;", "example e: {} => expect(a, == true); ;\nexample f: {} =>") == [
        ("rules.bpc", "unknown-variable"),
        ("tests.bpc", "wrong-type"),
        ("tests.bpc", "unexpected-token"),
    ]


def test_rules_have_no_place_among_tests() -> None:
    assert list_kinds("", "field a: Int = 1;") == [("tests.bpc", "rule-in-tests")]


def test_reading_stops_after_a_hundred_errors() -> None:
    errors = list_kinds("".join(f"field f{n}: Int = nope;" for n in range(1000)))

    assert len(errors) == 101
    assert errors[-1] == ("rules.bpc", "too-many-errors")


def test_a_hundred_errors_in_one_file_leave_the_other_its_own() -> None:
    errors = list_kinds(
        "".join(f"field f{n}: Int = nope;" for n in range(1000)), "example e: {} => expect(f0, == true); ;"
    )

    assert errors[-1] == ("tests.bpc", "wrong-type")
