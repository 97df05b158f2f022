"""Enumerations and `match` of level 2: what they mean and cost, what proofs, coverage and reasons say."""

import pytest

from bpc.core.language import typed
from bpc.core.language.evaluation import MAX_STEPS, RuleLimitExceeded
from bpc.core.language.package import check_expression
from bpc.core.language.parsing.parse import parse, parse_expression
from bpc.core.language.source import Source
from tests.core.language.check_helpers import check_program, list_diagnostics
from tests.core.language.evaluating.evaluation import (
    create_fact,
    create_machine,
    create_world,
    evaluate,
)
from tests.core.language.reference.derivation import derive_rules, format_steps
from tests.core.language.testing.runs import get_only_failure, run
from tests.core.passport.test_why import explain_rules, format_reasons

ENUMS = """language 2;
enum Category = EV "ev" "electric vehicle" | LMT "lmt" | INDUSTRIAL;
enum Metal = COBALT | OTHER;
enum Use = HOME | OTHER;
"""
SHEET = 'requireSome(getFact("Battery", "battery:S"), "E1", "no sheet")'


def evaluate_enum(kind: str, expression: str, **members: object) -> object:
    """What both evaluators give for an expression beside the enumerations."""
    rules = f"{ENUMS}field x: {kind} = {expression};"
    facts = [create_fact("Battery", "battery:S", **members)]  # type: ignore[arg-type]
    values = evaluate(rules, *facts)
    derivation = derive_rules(rules, facts)
    assert (values.to_json(), values.steps) == (derivation.fields, derivation.steps)
    return values.to_json()["x"]


# Members


@pytest.mark.parametrize(
    ("text", "member"),
    [
        ("EV", "EV"),
        ("ev", "EV"),
        ("electric vehicle", "EV"),
        ("lmt", "LMT"),
        ("INDUSTRIAL", "INDUSTRIAL"),
        ("Ev", None),
        ("industrial", None),
        ("", None),
    ],
)
def test_a_text_means_the_member_whose_name_or_spelling_it_is(text: str, member: str | None) -> None:
    assert evaluate_enum("Opt(Category)", f'Category("{text}")') == member
    assert evaluate_enum("Opt(Category)", f'Category(recordGet({SHEET}, "category"))', category=text) == member


def test_an_absent_text_means_no_member() -> None:
    assert evaluate_enum("Opt(Category)", f'Category(recordGet({SHEET}, "category"))') is None


def test_members_are_written_as_their_names_in_lists_records_and_options() -> None:
    assert evaluate_enum("List(Opt(Category))", "[some(EV), none]") == ["EV", None]
    assert evaluate_enum("Record(a: Metal, b: Category)", "{ a: OTHER, b: LMT }") == {"a": "OTHER", "b": "LMT"}


def test_members_compare_by_equality() -> None:
    assert evaluate_enum("Bool", "EV == EV && EV != LMT && [EV, LMT] == [EV, LMT]") is True


def test_a_member_of_two_enumerations_takes_the_type_of_its_place() -> None:
    rules = f'{ENUMS}field use: Use = OTHER;\nfield same: Bool = field("use") == OTHER && OTHER == field("use");'

    bodies = {field.path: field.body for field in check_program(rules).fields}

    assert str(bodies["use"].type) == "Use"
    assert evaluate(rules).fields == {"use": "OTHER", "same": True}


def test_a_member_may_be_named_with_its_enumeration() -> None:
    assert evaluate_enum("Metal", "let m = Metal.OTHER; m") == "OTHER"
    assert evaluate_enum("Bool", "let m = Use.OTHER; m == OTHER && [Use.OTHER] == [m]") is True


def test_an_expression_outside_the_rules_knows_their_enumerations() -> None:
    program = check_program(f"{ENUMS}field metal: Metal = OTHER;")
    source = Source("expr", 'match field("metal") { COBALT => 1, OTHER => 2 } + 1')
    tree, _ = parse_expression(source, language=program.language)
    assert tree is not None

    expr, diagnostics = check_expression(program, source, tree)

    assert diagnostics == ()
    assert isinstance(expr, typed.Arithmetic)


def test_level_one_knows_none_of_it() -> None:
    kinds = [diagnostic.kind for diagnostic in list_diagnostics("enum Category = EV | LMT;\nfield a: Category = EV;")]

    assert kinds == ["unexpected-token", "unexpected-character", "unknown-type"]
    assert parse(Source("x", "field a: Int = let match = 1; match;")).diagnostics == ()


def test_a_broken_declaration_makes_no_further_mistakes() -> None:
    rules = "language 2;\nenum Category = EV, LMT;\nfield a: Category = EV;\nfield b: Opt(Category) = Category(a1);"

    assert [diagnostic.kind for diagnostic in list_diagnostics(rules)] == ["unexpected-token"]


# `match`


@pytest.mark.parametrize(("category", "number"), [("ev", 1), ("lmt", 2), ("INDUSTRIAL", 3), ("boat", 4)])
def test_match_takes_the_case_of_the_member(category: str, number: int) -> None:
    cases = "EV => 1, LMT => 2, INDUSTRIAL => 3, none => 4"

    assert evaluate_enum("Int", f'match Category("{category}") {{ {cases} }}') == number


def test_else_is_taken_for_all_members_that_no_case_names() -> None:
    values = [evaluate_enum("Int", f"match {name} {{ EV => 1, else => 5 }}") for name in ("EV", "LMT", "INDUSTRIAL")]

    assert values == [1, 5, 5]


def test_only_the_case_that_is_taken_is_evaluated() -> None:
    assert evaluate_enum("Dec(18)", "match EV { EV => 1 / 1, else => 1 / 0 }") == "1.000000000000000000"


def test_a_match_is_an_operand_like_any_other_and_works_inside_functions() -> None:
    nested = (
        "map([EV, LMT, INDUSTRIAL], fn(c) => 10 * match c { EV => match some(c) { EV => 1, else => 2 }, else => 3 })"
    )
    assert evaluate_enum("List(Int)", nested) == [10, 30, 30]


def test_a_match_of_many_members_nested_deeply_is_evaluated() -> None:
    members = [f"M{number}" for number in range(300)]
    cases = ", ".join(f"{name} => {number}" for number, name in enumerate(members))
    deep = "1"
    for _ in range(30):
        deep = f"match EV {{ LMT => 0, EV => {deep}, INDUSTRIAL => 2 }}"
    rules = (
        f"{ENUMS}enum Many = {' | '.join(members)};\nfield a: Int = match M299 {{ {cases} }};\nfield b: Int = {deep};"
    )

    assert evaluate(rules).fields == {"a": 299, "b": 1}


def test_entering_a_case_costs_its_weight() -> None:
    rules = f"{ENUMS}field x: Int = match EV {{ EV => 1 + 2 + 3, else => 0 }};"

    # The field's block is the match, the case has two operators.
    assert evaluate(rules).steps == derive_rules(rules).steps == 1 + 2
    with pytest.raises(RuleLimitExceeded):
        derive_rules(rules, max_steps=2)
    machine = create_machine(rules)
    with pytest.raises(RuleLimitExceeded):
        machine.evaluate(create_world(machine), max_steps=2)
    assert machine.evaluate(create_world(machine), max_steps=MAX_STEPS).steps == 3


# Proof, reasons, coverage, properties


def test_the_nodes_say_which_case_was_taken_and_what_a_text_means() -> None:
    steps = format_steps(
        f'{ENUMS}field x: Int = match Category("lmt") {{ EV => 1, LMT | INDUSTRIAL => 2, none => 3 }};'
    )

    assert steps == [
        '2 CONST type="Text" value="lmt"',
        '3 OP op="toEnum" enum="Category" value="LMT" <- 2',
        '4 CONST type="Int" value=2',
        '5 OP op="match" case="LMT | INDUSTRIAL" <- 3, 4',
    ]


def test_a_member_is_a_constant_of_its_enumeration() -> None:
    steps = format_steps(f"{ENUMS}field x: Bool = EV == LMT;")

    assert steps == [
        '2 CONST type="Category" value="EV"',
        '3 CONST type="Category" value="LMT"',
        '4 OP op="==" of="Category" value=false <- 2, 3',
    ]


def test_a_reason_names_the_case() -> None:
    reason = explain_rules(f'{ENUMS}field x: Int = match Category("lmt") {{ LMT => 1 + 1, else => 2 }};', "x")

    assert format_reasons(reason) == [
        "x is 2 (Int)",
        "  2, because LMT is the case LMT",
        "    as Category: LMT",
        "    1 + 1 is 2",
    ]


def test_each_case_is_a_branch_to_be_covered() -> None:
    rules = f"{ENUMS}field x: Int = match Category(productName()) {{ EV | LMT => 1, else => 2 }};"
    machine = create_machine(rules)
    session = machine.open_session(create_world(machine), cover=True)

    session.compute_field("x")

    labels = [(site.kind, site.label, rules[slice(*site.span)]) for site in machine.sites]
    assert labels == [("field", "x", "x"), ("branch", "EV | LMT", "EV | LMT => 1"), ("branch", "else", "else => 2")]
    assert session.reached == {0, 2}


def test_a_property_draws_every_member_and_shrinks_to_the_first_that_fails() -> None:
    holds = "match c { EV => true, LMT => true, INDUSTRIAL => true }"
    assert run(f"{ENUMS}property p: cases(50) seed(1) => forall c: Category . implies(true, {holds});;").failed == 0

    failure = get_only_failure(
        run(f"{ENUMS}property p: cases(50) seed(1) => forall c: Category . implies(true, c == LMT);;")
    )

    assert failure.case is not None
    assert str(failure.case.variable) == "c = EV"
