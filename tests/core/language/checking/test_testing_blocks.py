"""Examples and properties: what a fixture may hold, what an expectation may say, what a claim may use."""

import pytest

from bpc.core.language import typed
from bpc.core.language.package import read_package
from bpc.core.language.types import FactRecordType
from tests.core.language.check_helpers import FIELDS, check_program, list_diagnostics, list_errors, strip_marks

BATTERY = 'fact b("Battery", "battery:1") = '


def make_example(fixtures: str = "", expectations: str = "expect(int, == 1);") -> str:
    return f"example e: {{ {fixtures} }} => {expectations} ;"


def make_property(claim: str, fixtures: str = "") -> str:
    return f"property p: cases(10) seed(42) given {{ {fixtures} }} => {claim} ;"


def require_one_error_in(test: str) -> tuple[str, str | None]:
    """Kind and help of a test's one error, which must be where the mark is."""
    plain, spans = strip_marks(test)
    text = FIELDS + plain
    (error,) = list_errors(text)
    assert [(error.span.start - len(FIELDS), error.span.end - len(FIELDS))] == [tuple(span) for span in spans]
    return error.kind, error.help


def test_fixtures_have_defaults_for_what_a_test_leaves_out() -> None:
    checked = check_program(FIELDS + make_example(BATTERY + '{ "sku": "x", "mass_kg": 5, "name": null };'))
    (one,) = checked.examples

    assert one.fixtures == typed.Fixtures(
        "SKU-1",
        "Product",
        "2027-02-18",
        (
            typed.FixtureFact(
                FactRecordType("Battery", 1),
                "battery:1",
                {"sku": "x", "mass_kg": 5, "name": None},
                one.fixtures.facts[0].span,
            ),
        ),
    )
    assert one.source is checked.source

    (other,) = check_program(FIELDS + make_example('issued("2028-01-01"); product("A", "B");')).examples
    assert other.fixtures == typed.Fixtures("A", "B", "2028-01-01", ())


# fixture, kind, what help holds (- none, * anything)
FIXTURES = [
    ('product("a", "b"); «product("c", "d")»;', "bad-fixture", None),
    ('issued("2027-01-01"); «issued("2027-01-02")»;', "bad-fixture", None),
    ('issued(«"2027-02-30"»);', "bad-date", "like 2027-02-18"),
    ('fact b(«"Batery"», "k") = {};', "unknown-fact", "`Battery`"),
    ('fact b(«"Battery@7"», "k") = {};', "unknown-fact", '`"Battery@1"`'),
    (BATTERY + '{ "mass_kg": «"1.2345678"» };', "bad-fixture", None),
    (BATTERY + '{ "mass_kg": «true» };', "bad-fixture", None),
    (BATTERY + '{ "sku": «1» };', "bad-fixture", None),
    (BATTERY + '{ "manufactured_on": «"2023-02-29"» };', "bad-fixture", None),
    (BATTERY + '{ "sku": "a", «"sku"»: "b" };', "duplicate-member", None),
    (BATTERY + '{}; fact c("Battery", «"battery:1"») = {};', "bad-fixture", None),
    (BATTERY + '{}; fact c("Battery@1", «"battery:1"») = {};', "bad-fixture", None),
    (BATTERY + "«any»;", "unexpected-token", "JSON"),
]


@pytest.mark.parametrize(("fixture", "kind", "hint"), FIXTURES)
def test_a_fixture_that_no_snapshot_could_hold_is_refused(fixture: str, kind: str, hint: str | None) -> None:
    error_kind, way_out = require_one_error_in(make_example(fixture))

    assert error_kind == kind
    assert way_out is None if hint is None else hint in (way_out or "")


def test_every_wrong_member_of_a_fixture_is_named() -> None:
    text = FIELDS + make_example(BATTERY + '{ "sku": 1, "mass_kg": "x", "critical": true };')

    assert [error.kind for error in list_errors(text)] == ["bad-fixture", "bad-fixture"]


def test_a_member_that_no_rule_can_read_is_a_warning() -> None:
    package = read_package((FIELDS + make_example(BATTERY + '{ "mas_kg": "1" };')).encode())

    assert package.program is not None
    assert [(located.diagnostic.kind, located.diagnostic.help) for located in package.diagnostics] == [
        ("unread-member", "did you mean `mass_kg`?")
    ]


def test_facts_of_one_key_may_have_different_types() -> None:
    check_program(
        FIELDS + make_example('fact a("Battery", "k") = {}; fact b("PCF", "k") = {}; fact b("PCF", "l") = {};')
    )


@pytest.mark.parametrize(
    ("expectation", "kind", "value"),
    [
        ("int, == -1", "Int", -1),
        ("dec2, == 1.555", "Dec(3)", 1555),
        ("dec2, > 1", "Dec(0)", 1),
        ("dec2, == -0.5", "Dec(1)", -5),
        ('text, < "b"', "Text", "b"),
        ('day, >= date("2027-01-01")', "Date", "2027-01-01"),
        ("yes, != false", "Bool", False),
        ("kwh, <= qty(1.5, kWh)", "Qty(kWh)", 15 * 10**17),
        ("maybe, == none", "Opt(Int)", None),
        ("maybe, == some(3)", "Opt(Int)", 3),
        ("maybe_dec, != some(1.5)", "Opt(Dec(2))", 150),
        ("ints, == []", "List(Int)", []),
        ("decs, == [1, 2.50,]", "List(Dec(2))", [100, 250]),
        ("maybes, == [some(1), none]", "List(Opt(Int))", [1, None]),
        ('pair, == { b: some("x"), a: 1 }', "Record(a: Int, b: Opt(Text))", {"a": 1, "b": "x"}),
    ],
)
def test_a_constant_is_typed_by_the_field_it_is_compared_with(expectation: str, kind: str, value: object) -> None:
    (one,) = check_program(FIELDS + make_example(expectations=f"expect({expectation});")).examples
    (expected,) = one.expectations

    assert isinstance(expected, typed.TypedExpectation)
    assert (str(expected.constant.type), expected.constant.value) == (kind, value)


@pytest.mark.parametrize(
    ("expectation", "kind", "hint"),
    [
        ("expect(«in_t», == 1);", "unknown-field", "`int`"),
        ("expect(int, == «1.5»);", "wrong-type", "`42`"),
        ('expect(int, == «"a"»);', "wrong-type", "`42`"),
        ("expect(text, == «1»);", "wrong-type", '`"text"`'),
        ("expect(kwh, == «1.5»);", "wrong-type", "`qty(75.5, kWh)`"),
        ("expect(kwh, == «qty(1, Wh)»);", "unit-mismatch", "`qty(75.5, kWh)`"),
        ("expect(kwh, == qty(1, «kwh»));", "unknown-unit", "`kWh`"),
        ("expect(maybe, == «1»);", "wrong-type", "some(…)"),
        ("expect(int, == «some(1)»);", "wrong-type", "`42`"),
        ("expect(int, == «none»);", "wrong-type", "`42`"),
        ("expect(maybe_dec, == some(«1.555»));", "literal-does-not-fit", ""),
        ("expect(ints, == [1, «true»]);", "wrong-type", "`42`"),
        ("expect(ints, == «{ a: 1 }»);", "wrong-type", "`[…, …]`"),
        ("expect(pair, == «{ a: 1 }»);", "wrong-type", "`b: …`"),
        ("expect(pair, == { a: 1, «bb»: none });", "unknown-member", "`b`"),
        ("expect(pair, == { a: 1, «a»: 2, b: none });", "duplicate-member", None),
        ("expect(«yes», < true);", "not-comparable", "`==`"),
        ("expect(«maybe», >= none);", "not-comparable", ""),
        ("expect(«ints», < [1]);", "not-comparable", "`==`"),
        ('expect(day, == date(«"2027-02-30"»));', "bad-date", ""),
        ("expect(dec2, == «1.0000000000000000000»);", "scale-too-large", None),
        ("expect(dec2, == «1000000000000000000000000000000000000»);", "number-too-large", None),
    ],
)
def test_an_expectation_that_could_never_hold_is_refused(expectation: str, kind: str, hint: str | None) -> None:
    error_kind, way_out = require_one_error_in(make_example(expectations=expectation))

    assert error_kind == kind
    assert way_out is None if hint is None else hint in (way_out or "")


def test_a_map_cannot_be_expected() -> None:
    errors = list_errors('field m: Map(Text, Int) = field("m"); example e: {} => expect(m, == {a: 1}); ;')

    assert [error.kind for error in errors] == ["cycle", "wrong-type"]
    assert "has no literal" in (errors[1].help or "")


def test_an_expected_error_is_any_code() -> None:
    (one,) = check_program(
        FIELDS + make_example(expectations='expectError("E001"); expectError("DIVISION_BY_ZERO");')
    ).examples

    assert [
        expectation.code for expectation in one.expectations if isinstance(expectation, typed.TypedErrorExpectation)
    ] == [
        "E001",
        "DIVISION_BY_ZERO",
    ]


@pytest.mark.parametrize("test", ["example «e»: {} => ;", "property «e»: cases(1) seed(1) => ;"])
def test_a_test_must_expect_something(test: str) -> None:
    assert require_one_error_in(test)[0] == "nothing-expected"


def test_two_tests_of_one_name_are_refused_in_one_file_and_across_two() -> None:
    one, other = make_example(), "property «e»: cases(1) seed(1) => forall x: Int . implies(true, true); ;"

    assert require_one_error_in(one + other)[0] == "duplicate-test"
    (error,) = list_errors(FIELDS + one, make_example())
    assert (error.kind, error.help) == ("duplicate-test", "the first is in rules.bpc")


@pytest.mark.parametrize(
    ("test", "kind"),
    [
        ("property p: cases(«0») seed(1) => forall x: Int . implies(true, true); ;", "bad-cases"),
        ("property p: cases(«100001») seed(1) => forall x: Int . implies(true, true); ;", "bad-cases"),
        ("property p: cases(1) seed(«9223372036854775808») => forall x: Int . implies(true, true); ;", "bad-cases"),
        (f"property p: cases(«{'9' * 90}») seed(1) => forall x: Int . implies(true, true); ;", "bad-cases"),
        (make_property("forall x: Int . implies(«x», true);"), "wrong-type"),
        (make_property("forall x: Int . implies(true, «x»);"), "wrong-type"),
        (make_property("forall x: Int . implies(true, let «x» = 1; x == 1);"), "shadowed-name"),
        (make_property("forall x: «Dec(19)» . implies(true, true);"), "scale-too-large"),
        (make_property("forall x: Dec(2) . implies(true, x + «1.555» > 1);"), "literal-does-not-fit"),
        (make_property('forall x: Int . implies(true, «emitCompliance("C", "PASS", "m")»);'), "emit-outside-rule"),
        (make_property('forall x: Int . implies(true, field(«"nope"») == x);'), "unknown-field"),
        (make_property("forall x: Map(Text, Int) . implies(true, mapGet(x, «1») == none);"), "wrong-type"),
        (
            make_property("forall x: Int . implies(true, «y» == 1); forall y: Int . implies(true, true);"),
            "unknown-variable",
        ),
    ],
)
def test_a_wrong_property_is_refused(test: str, kind: str) -> None:
    assert require_one_error_in(test)[0] == kind


def test_a_property_has_claims_and_its_largest_numbers() -> None:
    text = (
        "property p: cases(100000) seed(9223372036854775807) given { " + BATTERY + "any; } => "
        'forall x: Map(Text, Int) . implies(isSome(mapGet(x, "a")), unwrapOr(mapGet(x, "a"), 1) == field("int")); '
        "forall x: Record(a: Opt(Int)) . implies(true, x == { a: none } || true); ;"
    )
    kinds = [diagnostic.kind for diagnostic in list_diagnostics(FIELDS + text)]

    assert kinds == ["type-not-known"]  # only `none` and `[]` take the other side's type, not what they are inside of
    (one,) = check_program(FIELDS + text.replace("x == { a: none }", 'isSome(recordGet(x, "a"))')).properties

    assert (one.cases, one.seed) == (100_000, 2**63 - 1)
    assert one.fixtures.facts[0].payload is None
    assert [(claim.variable, str(claim.type)) for claim in one.claims] == [
        ("x", "Map(Text, Int)"),
        ("x", "Record(a: Opt(Int))"),
    ]


def test_tests_may_lie_in_a_file_of_their_own() -> None:
    checked = check_program(FIELDS, make_example(expectations='expect(dec2, == 1); expectError("X");'))

    (one,) = checked.examples
    assert one.source.name == "tests.bpc"
    assert checked.source.name == "rules.bpc"


def test_notes_never_point_into_another_file() -> None:
    (error,) = list_errors(FIELDS, make_property('forall x: Dec(6) . implies(true, x + field("dec2") > 1);'))

    tests = make_property('forall x: Dec(6) . implies(true, x + field("dec2") > 1);')
    assert [tests[note.span.start : note.span.end] for note in error.notes] == ["x", 'field("dec2")']
