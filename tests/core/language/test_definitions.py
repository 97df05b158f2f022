"""Constants and definitions: computed when they are first needed, once; a missing one ends no compile."""

import pytest

from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.language.evaluation import AssertionFailed, ComplianceEntry, DivisionByZero, RuleLimitExceeded
from bpc.core.language.package import check_expression, read_program
from bpc.core.language.parsing.parse import parse_expression
from bpc.core.language.source import Source
from bpc.core.language.testing.run import run_tests
from tests.core.language.check_helpers import list_diagnostics, list_errors, require_one_error
from tests.core.language.evaluating.evaluation import create_fact, create_machine, create_world, evaluate, prove
from tests.core.language.reference.derivation import catch_failure, create_battery, derive_rules, format_steps

MASS = """language 2;
def battery = Battery for productSku() else missing("there is no data sheet");
def mass = recordGet(battery, "mass_kg") else missing("DP10", "the data sheet gives no mass");
field mass: Dec(6) = mass;
field heavy: Bool = mass > 100;
field twice: Dec(6) = field("mass") + field("mass");
field sku: Text = productSku();
"""
SHEET = create_fact("Battery", "battery:S-1", mass_kg="120.5")
SHEET_WITHOUT_MASS = create_fact("Battery", "battery:S-1", chemistry="NMC")


def test_fields_share_a_definition() -> None:
    assert evaluate(MASS, SHEET).to_json() == {
        "heavy": True,
        "mass": "120.500000",
        "sku": "S-1",
        "twice": "241.000000",
    }


@pytest.mark.parametrize(
    ("facts", "code", "message"),
    [
        ([], "MISSING_BATTERY", "there is no data sheet"),
        ([SHEET_WITHOUT_MASS], "DP10", "the data sheet gives no mass"),
    ],
)
def test_a_missing_definition_leaves_the_fields_that_need_it_absent_with_an_entry_each(
    facts: list[SnapshotFact], code: str, message: str
) -> None:
    values = evaluate(MASS, *facts)

    assert values.to_json() == {"heavy": None, "mass": None, "sku": "S-1", "twice": None}
    assert values.compliance == [ComplianceEntry(code, path, message, "FAIL") for path in ("heavy", "mass", "twice")]


def test_a_field_that_may_be_missing_is_an_option_and_others_are_not() -> None:
    fields = {field.path: field for field in read_program(MASS.encode()).fields}

    assert {path: str(field.type) for path, field in fields.items()} == {
        "heavy": "Opt(Bool)",
        "mass": "Opt(Dec(6))",
        "sku": "Text",
        "twice": "Opt(Dec(6))",
    }
    assert str(fields["mass"].declared_type) == "Dec(6)"


def test_a_definition_is_one_node_that_every_field_refers_to() -> None:
    steps = format_steps(
        "language 2; const LIMIT = 2; def one = LIMIT + 1; field a: Int = one; field b: Int = one * one;"
    )

    assert steps == [
        '3 CONST type="Int" value=2',
        '4 OP op="definition" name="LIMIT" <- 3',
        '5 CONST type="Int" value=1',
        '6 OP op="+" value=3 <- 4, 5',
        '7 OP op="definition" name="one" <- 6',
        '9 OP op="*" value=9 <- 7, 7',
    ]


def test_the_node_of_a_definition_covers_what_nothing_else_refers_to() -> None:
    steps = format_steps("language 2; def one = let _unused = 5; 1; field a: Int = one;")

    assert steps[-1] == '4 OP op="definition" name="one" <- 3, 2'


def test_the_nodes_say_why_a_field_is_absent() -> None:
    rules = (
        'language 2; def sheet = Battery for "x" else missing("none"); def twin = sheet; '
        'field a: Int = count([twin]); field b: Int = field("a");'
    )

    steps = format_steps(rules)

    assert steps[4:] == [
        '7 OP op="definition" name="sheet" <- 6',
        '8 OP op="missing" code="MISSING_SHEET" message="none" <- 7',
        '9 OP op="definition" name="twin" <- 8',
        '10 OP op="missing" code="MISSING_SHEET" message="none" <- 9',
        '12 FIELD_REF path="a" <- 11',
        '13 OP op="missing" code="MISSING_SHEET" message="none" <- 12',
    ]


def test_a_definition_that_nobody_needs_here_is_not_computed() -> None:
    rules = "language 2; def bad = 1 / 0; field a: Dec(18) = if (1 > 0) then 1 else bad;"

    assert evaluate(rules).fields == {"a": 10**18}


def test_a_failure_in_a_definition_is_one_of_the_field_that_needs_it_first() -> None:
    rules = "language 2; def bad = 1 / 0; field b: Dec(18) = bad; field c: Dec(18) = bad;"
    machine = create_machine(rules)

    with pytest.raises(DivisionByZero) as failed:
        machine.evaluate(create_world(machine))

    expected = catch_failure(rules)
    assert (failed.value.field, failed.value.span) == (expected.field, expected.span) == ("b", expected.span)


def test_a_definition_is_charged_once() -> None:
    one = evaluate("language 2; def d = 1 + 1 + 1; field a: Int = d;").steps
    two = evaluate("language 2; def d = 1 + 1 + 1; field a: Int = d; field b: Int = d;").steps

    assert (one, two) == (3, 4)
    with pytest.raises(RuleLimitExceeded):
        evaluate("language 2; def d = 1 + 1 + 1; field a: Int = d;", max_steps=2)


def test_a_definition_that_is_first_needed_in_a_function_is_a_read_of_it() -> None:
    rules = "language 2; def d = 1 + 1; field a: List(Int) = map([1, 2], fn(x) => x * d);"
    machine = create_machine(rules)

    nodes = derive_rules(rules, by_operator=True).nodes
    (loop,) = [node for node in nodes if node.data.get("op") == "map"]

    assert prove(machine, create_world(machine)).values.to_json() == {"a": [2, 4]}
    assert nodes[loop.children[-1]].data == {"op": "definition", "name": "d"}


def test_names_inside_a_definition_are_its_own() -> None:
    rules = (
        "language 2; def d = let x = 5; fold([1], 0, fn(s, e) => s + e + x); "
        "field a: Int = let x = 1; let s = 2; d + x + s;"
    )

    assert evaluate(rules).fields == {"a": 9}


def test_a_missing_definition_inside_a_function_ends_the_whole_field() -> None:
    rules = (
        'language 2; def sheet = Battery for "x" else missing("none"); '
        "field a: List(Int) = map([1, 2], fn(x) => x + count([sheet]));"
    )

    assert evaluate(rules).fields == {"a": None}
    assert derive_rules(rules).compliance == [ComplianceEntry("MISSING_SHEET", "a", "none", "FAIL")]


def test_facts_are_looked_up_by_their_product() -> None:
    rules = (
        "language 2; field a: Int = count(all Component for productSku()); "
        'field b: Bool = isSome(Battery for productSku()); field c: Bool = isSome(PCF for "other");'
    )
    facts = [SHEET, create_fact("Component", "component:S-1:p", part="p"), create_fact("Component", "component:S-10:p")]

    assert evaluate(rules, *facts).fields == {"a": 1, "b": True, "c": False}


# Functions

FUNCTIONS = """language 2;
def offset = 5;
fn add(x: Int): Int = let y = x + offset; fold([1, 2], y, fn(sum, each) => sum + each * x);
fn share(part: Dec(2), whole: Dec(2)): Dec(2) = if whole == 0 then 0 else toDec(2, part / whole);
"""


def test_a_function_is_called_by_fields_functions_and_lambdas() -> None:
    rules = (
        f"{FUNCTIONS} field a: Int = add(add(1)); field b: List(Int) = map([1, 2], fn(x) => add(x) + add(2)); "
        "field c: Dec(2) = share(1, 3); field d: Dec(2) = share(1, 0);"
    )

    assert evaluate(rules).to_json() == {"a": 41, "b": [22, 26], "c": "0.33", "d": "0.00"}
    assert derive_rules(rules).fields == {"a": 41, "b": [22, 26], "c": "0.33", "d": "0.00"}


def test_a_call_has_the_nodes_of_its_body_and_none_of_its_own() -> None:
    steps = format_steps("language 2; fn twice(x: Int): Int = x + x; field a: Int = twice(4);")

    assert steps == ['2 CONST type="Int" value=4', '3 OP op="+" value=8 <- 2, 2']


def test_a_call_is_charged_like_a_block() -> None:
    assert evaluate("language 2; fn f(x: Int): Int = x + x + x; field a: Int = f(1) + f(2);").steps == 3 + 2 + 2


def test_a_failure_in_a_function_is_one_of_the_field_that_calls_it() -> None:
    rules = "language 2; fn half(x: Int): Dec(18) = x / 0; field b: Dec(18) = half(1);"
    machine = create_machine(rules)

    with pytest.raises(DivisionByZero) as failed:
        machine.evaluate(create_world(machine))

    assert (failed.value.field, failed.value.span) == ("b", catch_failure(rules).span)


def test_a_field_that_calls_a_function_may_be_missing_through_it() -> None:
    rules = (
        'language 2; def sheet = Battery for "x" else missing("none"); fn f(x: Int): Int = x + count([sheet]); '
        "field a: Int = f(1); field b: List(Int) = map([1], fn(x) => f(x));"
    )

    values = evaluate(rules)

    assert values.fields == {"a": None, "b": None}
    assert [entry.code for entry in derive_rules(rules).compliance] == ["MISSING_SHEET", "MISSING_SHEET"]


@pytest.mark.parametrize(
    ("rules", "kind"),
    [
        ("language 2; fn f(x: Int): Int = g(x); fn g(x: Int): Int = f(x); field a: Int = f(1);", "cycle"),
        ("language 2; fn «f»(x: Int): Int = f(x); field a: Int = 1;", "cycle"),
        ("language 2; fn f(x: Int): Int = x; fn «f»(x: Int): Int = x; field a: Int = f(1);", "duplicate-definition"),
        ("language 2; fn f(x: Int): Int = x; field a: Int = «f(1, 2)»;", "wrong-argument-count"),
        ('language 2; fn f(x: Int): Int = x; field a: Int = f(«"a"»);', "wrong-type"),
        ('language 2; fn f(x: Int): Int = «"a"»; field a: Int = f(1);', "wrong-type"),
        ("language 2; fn f(x: Int): Int = «y»; field a: Int = let y = 1; f(y);", "unknown-variable"),
        ("language 2; fn f(x: Int, «x»: Int): Int = x; field a: Int = f(1, 2);", "shadowed-name"),
        (
            'language 2; fn f(x: Int): Bool = «emitCompliance("C", "PASS", "m")»; field a: Bool = f(1);',
            "emit-outside-rule",
        ),
        ("language 2; fn f(x «=» Int): Int = x; field a: Int = 1;", "unexpected-token"),
    ],
)
def test_a_mistake_of_a_function_is_reported_where_it_is(rules: str, kind: str) -> None:
    if "«" not in rules:
        assert [error.kind for error in list_errors(rules)] == [kind]
        return
    assert require_one_error(rules).kind == kind


# Tests of rules


def test_an_example_expects_a_value_or_none() -> None:
    tests = """
    example present: { fact b("Battery", "battery:SKU-1") = { "mass_kg": "120.5" }; } => expect(mass, == 120.5); ;
    example absent: {} => expect(mass, == none); expect(mass, != 5); expect(sku, == "SKU-1"); ;
    example wrong: {} => expect(mass, > 5); ;
    """

    report = run_tests(read_program(MASS.encode(), tests.encode()), seed=0)

    assert [failure.says for failure in report.failures] == ["`mass` is `none`, expected `> 5`"]
    # The mass is missing in no example: there is a sheet without one, or no sheet at all.
    assert [(site.kind, site.label) for site in report.coverage.list_unreached() if site.kind != "field"] == [
        ("branch", "missing")
    ]


def test_a_premise_that_needs_what_is_missing_does_not_hold() -> None:
    tests = """
    property heavy: cases(5) seed(1) given { fact b("Battery", "battery:SKU-1") = any; } =>
      forall x: Int . implies(mass > 0 && field("mass") > 1, field("heavy") == (mass > 100));
    ;
    """

    report = run_tests(read_program(MASS.encode(), tests.encode()), seed=0)

    assert report.failures == ()
    assert report.discarded > 0


def test_an_expression_reads_definitions() -> None:
    program = read_program(MASS.encode())
    source = Source("expr.bpc", "mass * 2.0")
    tree, _ = parse_expression(source, language=2)
    assert tree is not None
    expr, diagnostics = check_expression(program, source, tree)
    machine = create_machine(MASS)
    assert expr is not None, diagnostics
    compiled = machine.compile_expression(expr, ())

    assert machine.open_session(create_world(machine, SHEET)).run(compiled, {}) == 2_410_000_000
    with pytest.raises(AssertionFailed, match="MISSING_BATTERY: there is no data sheet"):
        machine.open_session(create_world(machine)).run(compiled, {})


# What the checker says


@pytest.mark.parametrize(
    ("rules", "kind"),
    [
        ("language 2; const A = 1; const «A» = 2; field a: Int = A;", "duplicate-definition"),
        ('language 2; const A = count([«field("a")»]); field a: Int = 1;', "not-constant"),
        ("language 2; def d = productSku(); const A = «d»; field a: Text = A;", "not-constant"),
        ("language 2; const A = «issuedOn()»; field a: Date = A;", "not-constant"),
        ("language 2; def «a» = b + 1; def b = a + 1; field x: Int = 1;", "cycle"),
        ('language 2; def d = field("a") + 1; field «a»: Int = d;', "cycle"),
        ('language 2; def d = «1» else missing("x"); field a: Int = d;', "wrong-type"),
        ('language 2; def d: «Opt(Int)» = none else missing("x"); field a: Int = d;', "nested-option"),
        ("language 2; def d = 1; field a: Int = let «d» = 2; d;", "shadowed-name"),
        ('language 2; def b = «emitCompliance("C", "PASS", "m")»; field a: Bool = b;', "emit-outside-rule"),
        ('language 2; field a: Int = count([«Component for "x"»]);', "wrong-type"),
        ('language 2; field a: Int = count(«all Battery for "x"»);', "wrong-type"),
        ('language 2; field a: Int = count(all «Part» for "x");', "unknown-fact"),
    ],
)
def test_a_mistake_is_reported_where_it_is(rules: str, kind: str) -> None:
    assert require_one_error(rules).kind == kind


def test_an_unused_definition_is_worth_a_warning_and_one_with_an_underscore_is_not() -> None:
    diagnostics = list_diagnostics("language 2; const _KEPT = 1; def spare = 2; field a: Int = 1;")

    assert [(diagnostic.kind, diagnostic.severity) for diagnostic in diagnostics] == [("unused-definition", "warning")]


def test_a_definition_with_a_mistake_is_not_also_unknown() -> None:
    assert [error.kind for error in list_errors("language 2; def d = 1 +; field a: Int = d;")] == ["unexpected-token"]
    assert [error.kind for error in list_errors('language 2; def d = 1 + "a"; field a: Int = d;')] == ["wrong-type"]


def test_definitions_that_need_each_other_are_limited_in_depth() -> None:
    chain = "".join(f"def d{number + 1} = d{number} + 1;\n" for number in range(60))
    deep = "".join(f"def d{number + 1} = d{number} + 1;\n" for number in range(80))

    assert evaluate(f"language 2; def d0 = 0; {chain} field a: Int = d60;").fields == {"a": 60}
    assert {error.kind for error in list_errors(f"language 2; def d0 = 0; {deep} field a: Int = d80;")} == {"too-deep"}


def test_the_words_of_level_2_are_names_at_level_1() -> None:
    assert evaluate("field a: Int = let def = 1; let const = 2; let missing = 3; def + const + missing;").fields == {
        "a": 6
    }


def test_a_visible_field_that_reads_a_hidden_one_through_a_definition_is_worth_a_warning() -> None:
    rules = 'language 2; field secret: Int = 1; def d = field("secret") * 2; field shown @public: Int = d;'

    assert [diagnostic.kind for diagnostic in list_diagnostics(rules)] == ["publishes-hidden"]


def test_both_evaluators_agree_on_a_battery_without_a_mass() -> None:
    derivation = derive_rules(MASS.replace("productSku()", '"SKU-1"', 1), [create_battery(chemistry="LFP")])

    assert [entry.code for entry in derivation.compliance] == ["DP10", "DP10", "DP10"]


def test_a_function_may_stand_beside_groups() -> None:
    rules = """language 2;
      fn double(x: Int): Int = x * 2;
      fn triple(x: Int): Int = x * 3;
      field groups: List(Int) = map(groupBy([1, 2, 1], fn(x) => x), fn(group) => triple(group.key));
      field pairs: List(Int) = map(groupBy([1, 1], fn(x) => { key: x }), fn(group) => double(group.key.key));
    """

    assert evaluate(rules).fields == derive_rules(rules, []).fields == {"groups": [3, 6], "pairs": [2]}
