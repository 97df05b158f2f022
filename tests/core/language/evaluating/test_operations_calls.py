"""What every expression of a rule gives: facts, options, lists, records, texts, branches, lets, loops, compliance."""

import pytest

from bpc.core.language.evaluation import TEXT_LENGTH_MESSAGE, AssertionFailed, ComplianceEntry, RuleLimitExceeded
from tests.core.language.evaluating.evaluation import create_fact, evaluate, evaluate_expression, evaluate_failure

BATTERY = create_fact("Battery", "battery:S-1", sku="S-1", mass_kg="12.5", manufactured_on="2026-05-01")
PARTS = [
    create_fact("Component", "component:S-1:b", part="b", mass_g="2.5", critical=True),
    create_fact("Component", "component:S-1:a", part="a", mass_g="1", critical=False),
    create_fact("Component", "component:S-1:c", part="c"),
    create_fact("Component", "component:S-2:a", part="x", mass_g="100"),
]
GET = 'requireSome(getFact("Battery", "battery:S-1"), "E1", "no battery")'
ALL = 'getFactsByPrefix("Component", "component:S-1:")'


@pytest.mark.parametrize(
    ("kind", "expression", "result"),
    [
        ("Text", '"ü\\n"', "ü\n"),
        ("Date", 'date("2027-02-18")', "2027-02-18"),
        ("Bool", "true", True),
        ("Opt(Int)", "none", None),
        ("Opt(Int)", "some(3)", 3),
        ("Bool", "isSome(some(3))", True),
        ("Bool", "let x = if (true) then none else some(3); isSome(x)", False),
        ("Int", "unwrapOr(some(3), 4)", 3),
        ("Int", "unwrapOr(if (false) then some(3) else none, 4)", 4),
        ("Int", 'requireSome(some(3), "E", "m")', 3),
        ("List(Int)", "[]", []),
        ("List(Int)", "[1, 2]", [1, 2]),
        ("Int", "count([1, 2])", 2),
        ("Record(b: Int, a: Text)", '{ b: 1, a: "x" }', {"a": "x", "b": 1}),
        ("Opt(Int)", 'recordGet({ a: 1, b: "x" }, "a")', 1),
        ("Text", 'concat("a")', "a"),
        ("Text", 'concat("a", "", "ü")', "aü"),
        ("Text", "productSku()", "S-1"),
        ("Text", "productName()", "Pack"),
        ("Date", "issuedOn()", "2027-02-18"),
        ("Bool", "!true", False),
        ("Bool", "!!true", True),
        ("Bool", "[1, 2] == [1, 2]", True),
        ("Bool", "[1, 2] != [2, 1]", True),
        ("Bool", "{ a: 1, b: [1] } == { b: [1], a: 1 }", True),
        ("Bool", "some([1]) == none", False),
        ("List(Int)", "map([1, 2, 3], fn(x) => x * x)", [1, 4, 9]),
        ("List(Int)", "filter([1, 2, 3], fn(x) => x != 2)", [1, 3]),
        ("Int", "fold([1, 2, 3], 0, fn(a, x) => a * 10 + x)", 123),
        ("Int", "fold(filter([1], fn(x) => false), 5, fn(a, x) => a + x)", 5),
        ("List(List(Int))", "map([1, 2], fn(x) => map([10, 20], fn(y) => x + y))", [[11, 21], [12, 22]]),
        ("Int", "let k = 100; fold(map([1, 2], fn(x) => x + k), 0, fn(a, x) => a + x + k)", 403),
        ("Int", "let a = 1; let b = a + 1; let c = (let d = b * 2; d + a); c + b", 7),
        ("Int", "(if (true) then let x = 1; x else let x = 2; x) + (let x = 3; x)", 4),
    ],
)
def test_expressions(kind: str, expression: str, result: object) -> None:
    assert evaluate_expression(kind, expression) == result


@pytest.mark.parametrize(
    ("kind", "expression", "result"),
    [
        ("Opt(Dec(6))", f'recordGet({GET}, "mass_kg")', "12.500000"),
        ("Opt(Text)", f'recordGet({GET}, "name")', None),
        ("Opt(Date)", f'recordGet({GET}, "manufactured_on")', "2026-05-01"),
        ("Bool", 'isSome(getFact("Battery", "battery:S-2"))', False),
        ("Int", f"count({ALL})", 3),
        ("Int", 'count(getFactsByPrefix("Component", ""))', 4),
        ("Int", 'count(getFactsByPrefix("Component", "x"))', 0),
        ("List(Opt(Text))", f'map({ALL}, fn(c) => recordGet(c, "part"))', ["a", "b", "c"]),
        ("Int", f'count(filter({ALL}, fn(c) => unwrapOr(recordGet(c, "critical"), true)))', 2),
        ("Dec(6)", f'fold({ALL}, 0, fn(sum, c) => sum + unwrapOr(recordGet(c, "mass_g"), 0.5))', "4.000000"),
        ("Dec(6)", f'sumDec(6, map({ALL}, fn(c) => unwrapOr(recordGet(c, "mass_g"), 0)))', "3.500000"),
        ("Bool", f'isSome(recordGet(unwrapOr(getFact("Battery", "x"), {GET}), "sku"))', True),
        (
            "Int",
            'count(filter(["a", "z"], fn(p) => isSome(getFact("Component", concat("component:S-1:", p)))))',
            1,
        ),
    ],
)
def test_facts(kind: str, expression: str, result: object) -> None:
    assert evaluate_expression(kind, expression, BATTERY, *PARTS) == result


def test_a_field_reads_others_whatever_the_order_they_are_written_in() -> None:
    values = evaluate(
        'field z: Int = field("y.b") + field("y.a"); field y.b: Int = field("y.a") + 1; field y.a: Int = 1;'
    )

    assert values.to_json() == {"y.a": 1, "y.b": 2, "z": 3}


@pytest.mark.parametrize(("sku", "result"), [("S-1", 1), ("S-2", 2), ("S-3", 3), ("S-4", 4)])
def test_the_first_branch_whose_condition_holds_is_taken(sku: str, result: int) -> None:
    rule = f'let s = "{sku}"; if (s == "S-1") then 1 else if (s == "S-2") then 2 else if (s == "S-3") then 3 else 4'

    assert evaluate_expression("Int", rule) == result


NO = "(1 / 0 > 1.0)"


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        (f"false && {NO}", False),
        (f"true || {NO}", True),
        (f"true && false && {NO} && {NO}", False),
        (f"false || true || {NO} || {NO}", True),
        (f"(false && {NO}) || (true && true)", True),
        (f"if (true) then true else {NO}", True),
        (f"if (false) then {NO} else if (true) then false else {NO}", False),
        ("true && (false || (true && !false))", True),
        ("false || false || true", True),
    ],
)
def test_what_is_not_needed_is_not_evaluated(expression: str, result: bool) -> None:
    assert evaluate_expression("Bool", expression) is result


@pytest.mark.parametrize("expression", ["let x = 1 / 0; 1", "unwrapOr(some(1), count([1 / 0]))"])
def test_lets_and_arguments_are_evaluated_whether_used_or_not(expression: str) -> None:
    assert evaluate_failure(f"field x: Int = {expression};")[0].code == "DIVISION_BY_ZERO"


def test_an_assertion_fails_with_the_words_of_the_rule() -> None:
    failure, text = evaluate_failure(
        'field a: Int = 1; field b.c: Int = let x = 2; assert(x > 2, "E7", "too `small`"); x;'
    )

    assert isinstance(failure, AssertionFailed)
    assert (failure.rule_code, failure.says, failure.field) == ("E7", "E7: too `small`", "b.c")
    assert failure.details == {"rule_code": "E7", "message": "too `small`"}
    assert text.startswith("assert")


def test_a_missing_option_fails_with_the_words_of_the_rule() -> None:
    failure, text = evaluate_failure(
        'field b: Text = let f = getFact("PCF", "p"); unwrapOr(recordGet(requireSome(f, "E1", "no"), "sku"), "");'
    )

    assert isinstance(failure, AssertionFailed)
    assert (failure.rule_code, failure.field) == ("E1", "b")
    assert text.startswith("requireSome")


def test_assertions_hold_inside_loops_too() -> None:
    rules = (
        'field x: List(Int) = map([1, 2, 3], fn(x) => assert(x != 2, "E2", "two"); requireSome(some(x), "E3", "m"));'
    )

    assert evaluate_failure(rules)[0].says == "E2: two"
    assert evaluate_expression("List(Int)", 'map([1], fn(x) => assert(x != 2, "E2", "two"); x)') == [1]


def test_the_first_error_in_the_order_of_evaluation_ends_it() -> None:
    rules = 'field b: Int = assert(false, "EB", "b"); 1; field a: Int = assert(false, "EA", "a"); 1; field c: Int = 1;'

    assert evaluate_failure(rules)[0].field == "a"


def test_compliance_entries_come_in_the_order_of_evaluation() -> None:
    rules = """
    field b: Bool = emitCompliance("C3", "WARN", "third");
    field a: Bool = let one = emitCompliance("C1", "FAIL", concat("fir", "st"));
      let two = emitCompliance("C2", if (one) then "PASS" else "NOT_APPLICABLE", "second");
      (one || two) && (false && emitCompliance("C9", "PASS", "never"));
    """

    values = evaluate(rules)

    assert values.compliance == [
        ComplianceEntry("C1", "a", "first", "FAIL"),
        ComplianceEntry("C2", "a", "second", "NOT_APPLICABLE"),
        ComplianceEntry("C3", "b", "third", "WARN"),
    ]
    assert values.compliance[0].to_json() == {"code": "C1", "field": "a", "message": "first", "status": "FAIL"}
    assert values.fields == {"a": False, "b": True}


def test_only_a_failed_duty_gives_false() -> None:
    for status, result in [("PASS", True), ("FAIL", False), ("WARN", True), ("NOT_APPLICABLE", True)]:
        assert evaluate_expression("Bool", f'emitCompliance("C", "{status}", "m")') is result


def test_a_text_is_at_most_65536_characters_long() -> None:
    doubled = "let a = concat(s, s); " + "".join(
        f"let {name} = concat({before}, {before}); "
        for before, name in zip("abcdefghijklm", "bcdefghijklmn", strict=True)
    )

    values = evaluate(f'field x: Int = let s = "12345678"; {doubled.split("let n")[0]} count([m]);')
    failure, text = evaluate_failure(f'field x: Int = let s = "12345678"; {doubled} count([n]);')

    assert values.fields == {"x": 1}
    assert type(failure) is RuleLimitExceeded
    assert (failure.says, failure.field) == (TEXT_LENGTH_MESSAGE, "x")
    assert text.startswith("concat")


def test_values_are_held_as_types_say_and_written_as_the_payload_says() -> None:
    values = evaluate("field a: Dec(2) = 1.50; field b: Opt(Qty(kg)) = some(qty(1.5, kg)); field c: Opt(Int) = none;")

    assert values.fields == {"a": 150, "b": 1_500_000_000_000_000_000, "c": None}
    assert values.to_json() == {"a": "1.50", "b": {"unit": "kg", "value": "1.5"}, "c": None}
