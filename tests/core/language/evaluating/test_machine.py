"""Sessions: fields and expressions of one world asked one by one, with one counter, and what they reached."""

import pytest

from bpc.core.language.evaluating.machine import CompiledExpression, Machine, Session
from bpc.core.language.evaluation import STEPS_MESSAGE, AssertionFailed, DivisionByZero, RuleFailure, RuleLimitExceeded
from bpc.core.language.typed import Program, TypedClaim
from tests.core.language.evaluating.evaluation import create_machine, create_world

RULES = """
field c: Int = field("b") + 1;
field b: Int = field("a") + 1;
field a: Int = 1;
field other: Int = assert(false, "E", "never"); 1;
"""


def open_session(machine: Machine, max_steps: int = 1000, *, cover: bool = False) -> Session:
    return machine.open_session(create_world(machine), max_steps=max_steps, cover=cover)


def list_claims(program: Program) -> tuple[TypedClaim, ...]:
    return program.properties[0].claims


def compile_expression(
    rules: str, premise: str, variable: str = "n", kind: str = "Int"
) -> tuple[Machine, CompiledExpression]:
    """A machine of the rules and the premise of a claim over them."""
    test = f"property p: cases(1) seed(1) => forall {variable}: {kind} . implies({premise}, true); ;"
    machine = create_machine(rules + test)
    return machine, machine.compile_expression(list_claims(machine.program)[0].premise, (variable,))


def test_a_field_is_computed_with_what_it_needs_and_nothing_else() -> None:
    session = open_session(create_machine(RULES))

    assert session.compute_field("b") == 2
    assert session.steps == 1 + 2
    assert session.compute_field("c") == 3
    assert session.steps == 1 + 2 + 2


def test_a_field_is_computed_once() -> None:
    session = open_session(
        create_machine('field a: Bool = emitCompliance("C", "PASS", "m"); field b: Bool = field("a");')
    )

    assert [session.compute_field("a"), session.compute_field("b"), session.compute_field("a")] == [True, True, True]
    assert len(session.compliance) == 1


def test_a_field_that_failed_fails_again_and_the_others_do_not() -> None:
    session = open_session(create_machine(RULES))

    for _ in range(2):
        with pytest.raises(AssertionFailed):
            session.compute_field("other")
    assert session.compute_field("a") == 1


def test_a_field_that_needs_a_failed_one_fails_with_its_failure() -> None:
    session = open_session(create_machine('field a: Int = count([1 / 0]); field b: Int = field("a");'))

    for path in ("a", "b"):
        with pytest.raises(DivisionByZero) as failure:
            session.compute_field(path)
        assert failure.value.field == "a"


def test_an_expression_is_a_block_over_its_variables_and_the_fields() -> None:
    machine, compiled = compile_expression(RULES, 'n + field("b") > 3')
    session = open_session(machine)

    assert session.run(compiled, {"n": 2}) is True
    assert session.steps == (1 + 2) + 3
    assert session.run(compiled, {"n": 1}) is False
    assert session.steps == (1 + 2) + 3 + 3


def test_a_failure_outside_the_fields_names_no_field() -> None:
    machine, compiled = compile_expression(RULES, "10 / n > 1.0")
    session = open_session(machine)

    with pytest.raises(DivisionByZero) as failure:
        session.run(compiled, {"n": 0})

    assert failure.value.field is None
    assert session.run(compiled, {"n": 2}) is True


def test_a_failure_of_a_field_an_expression_reads_is_the_fields() -> None:
    machine, compiled = compile_expression(RULES, 'n > 0 && field("other") == 1')

    with pytest.raises(RuleFailure) as failure:
        open_session(machine).run(compiled, {"n": 1})

    assert failure.value.field == "other"


def test_a_field_is_computed_when_an_expression_first_reads_it() -> None:
    rules = 'field cap: Int = 0; field per_kwh: Dec(18) = 5 / field("cap");'
    machine, compiled = compile_expression(rules, 'field("cap") > n && field("per_kwh") > 0')
    session = open_session(machine)

    assert session.run(compiled, {"n": 0}) is False
    # The field's block; the expression's: a reference, a comparison and an operator.
    assert session.steps == 1 + 3
    with pytest.raises(DivisionByZero) as failure:
        session.run(compiled, {"n": -1})
    assert failure.value.field == "per_kwh"


def test_a_loop_that_reads_a_field_computes_it_once_and_only_if_it_runs() -> None:
    premise = 'count(filter(filter([1, 2], fn(x) => n > x), fn(y) => field("other") == y)) == 0'
    machine, compiled = compile_expression(RULES, premise)
    session = open_session(machine)

    assert session.run(compiled, {"n": 0}) is True
    with pytest.raises(AssertionFailed):
        session.run(compiled, {"n": 2})


def test_entering_an_expression_is_charged() -> None:
    machine, compiled = compile_expression("", "n > 0")

    with pytest.raises(RuleLimitExceeded) as failure:
        open_session(machine, max_steps=0).run(compiled, {"n": 1})

    assert (failure.value.says, tuple(failure.value.span)) == (STEPS_MESSAGE, (0, 0))


def test_an_expression_may_loop_branch_and_bind() -> None:
    premise = "let k = n * 2; fold([1, 2], 0, fn(a, x) => if (x > 1) then a + x + k else a) == 8 && n == 3"
    machine, compiled = compile_expression("", premise)

    assert open_session(machine).run(compiled, {"n": 3}) is True


COVERED = """
field a: Int = if (productSku() == "S-1") then 1 else if (productSku() == "S-2") then 2 else 3;
field b: Bool = field("a") > 5 && true || productSku() == "";
field c: Int = assert(field("a") == 1, "E1", "m"); requireSome(some(1), "E2", "m");
field d: List(Int) = map([1, 2], fn(x) => if (x > 5) then requireSome(some(1), "E3", "m") else 0);
field e: Int = assert(field("a") == 2, "E4", "m"); 1;
"""


def test_the_sites_are_the_fields_the_branches_and_the_assertions() -> None:
    machine = create_machine(COVERED)

    assert [(site.kind, site.label) for site in machine.sites] == [
        ("field", "a"),
        ("branch", "then"),
        ("branch", "then"),
        ("branch", "else"),
        ("field", "b"),
        ("branch", "&&"),
        ("branch", "||"),
        ("field", "c"),
        ("assertion", "E1"),
        ("assertion", "E2"),
        ("field", "d"),
        ("branch", "then"),
        ("assertion", "E3"),
        ("branch", "else"),
        ("field", "e"),
        ("assertion", "E4"),
    ]
    text = machine.program.source.text
    assert [text[slice(*site.span)] for site in machine.sites if site.kind == "field"] == ["a", "b", "c", "d", "e"]


def test_a_covering_session_knows_what_it_reached() -> None:
    machine = create_machine(COVERED)
    session = open_session(machine, cover=True)

    for path in "abcd":
        session.compute_field(path)
    with pytest.raises(AssertionFailed):
        session.compute_field("e")

    missed = [site.label for number, site in enumerate(machine.sites) if number not in session.reached]
    # Of `a` the second and third branch, of `b` the right side of `&&`, of `d` the branch never taken.
    assert missed == ["then", "else", "&&", "then", "E3"]


def test_a_plain_session_reaches_nothing() -> None:
    session = open_session(create_machine(COVERED))
    session.compute_field("a")

    assert session.reached == set()
