"""The random programs that both evaluators are compared on: all of them check, and they reach the whole language."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, get_args

import pytest

from bpc.core.facts.units import RELATIONS
from bpc.core.language import typed
from bpc.core.language.package import read_program
from bpc.core.language.types import Dec, Qty, Type
from tests.core.language.random_programs.program import create_random_program
from tests.measurements import choose_effort

NUMBERS = ("Int", "Dec")
SUMS = {("Int", "Int"), ("Int", "Dec"), ("Dec", "Int"), ("Dec", "Dec"), ("Qty", "Qty")}
PRODUCTS = {(one, other) for one in (*NUMBERS, "Qty") for other in (*NUMBERS, "Qty")}
QUOTIENTS = {("Qty", "Int"), ("Qty", "Dec"), ("Qty", "Qty"), *((one, other) for one in NUMBERS for other in NUMBERS)}
EQUAL = {"Bool", "Int", "Text", "Date", "Dec", "Qty", "Opt", "List", "Record"}
ORDERED = {"Int", "Text", "Date", "Dec", "Qty"}


@cache
def check_programs() -> tuple[typed.Program, ...]:
    """Programs of the first seeds, checked: `checked_program` refuses a text with an error."""
    # 901 is the first with a `groupBy` inside of another loop.
    seeds = sorted({*range(choose_effort(test=300, shown=2_000, campaign=10_000)), 901})
    programs = (create_random_program(seed, language=1 + seed % 2) for seed in seeds)
    return tuple(read_program(program.rules.encode()) for program in programs)


def iterate_nodes(node: Any) -> Iterator[Any]:
    """A node of the typed tree and everything below it."""
    pending = [node]
    while pending:
        current = pending.pop()
        if isinstance(current, tuple):
            pending.extend(current)
        elif is_dataclass(current) and type(current).__module__.startswith(typed.__name__):
            yield current
            pending.extend(getattr(current, member.name) for member in fields(current))


@cache
def list_nodes() -> tuple[Any, ...]:
    return tuple(
        node
        for tree in check_programs()
        for item in (*tree.fields, *tree.definitions, *tree.functions)
        for node in iterate_nodes(item)
    )


def find_nodes(kind: type) -> list[Any]:
    return [node for node in list_nodes() if type(node) is kind]


def get_type_name(kind: Type) -> str:
    return str(kind).split("(")[0]


def iterate_operations() -> Iterator[tuple[str, Type, Type]]:
    for chain in find_nodes(typed.Arithmetic):
        left_type = chain.first.type
        for step in chain.steps:
            yield step.op, left_type, step.operand.type
            left_type = step.type


def test_the_same_seed_gives_the_same_program() -> None:
    assert create_random_program(7) == create_random_program(7)
    assert create_random_program(7).rules != create_random_program(8).rules


@pytest.mark.repeats
def test_every_program_checks_and_every_kind_of_expression_occurs() -> None:
    assert {type(node) for node in list_nodes()} >= {
        *get_args(typed.Expr),
        typed.TypedLet,
        typed.TypedAssert,
        typed.LogicOperand,
        typed.TypedBranch,
        typed.TypedMatchArm,
    }


@pytest.mark.slow
def test_every_builtin_occurs() -> None:
    # No published schema gives maps; the test of agreement adds one that does.
    assert {call.op for call in find_nodes(typed.BuiltinCall)} | {"mapGet"} == set(get_args(typed.Builtin))


def test_every_operator_meets_every_operand_type_it_takes() -> None:
    combinations = {(op, get_type_name(left), get_type_name(right)) for op, left, right in iterate_operations()}

    expected = {(op, *sides) for op in "+-" for sides in SUMS}
    expected |= {("*", *sides) for sides in PRODUCTS} | {("/", *sides) for sides in QUOTIENTS}
    assert combinations == expected


def test_products_above_18_decimals_and_related_units_occur() -> None:
    combinations = list(iterate_operations())

    assert any(isinstance(left, Dec) and left.scale > 18 for _, left, _ in combinations)
    units = {
        (op, left.unit, right.unit)
        for op, left, right in combinations
        if isinstance(left, Qty) and isinstance(right, Qty)
    }
    related = {("*", one, other) for _, one, other in RELATIONS} | {
        ("/", result_unit, one) for result_unit, one, _ in RELATIONS
    }
    assert len(units & related) > len(related) / 4
    assert any(op == "/" and one == other for op, one, other in units)


def test_every_comparison_meets_every_type_it_takes() -> None:
    combinations = {(node.op, get_type_name(node.left.type)) for node in find_nodes(typed.TypedComparison)}

    assert combinations >= {(op, kind) for op in ("==", "!=") for kind in EQUAL}
    assert {pair for pair in combinations if pair[0] not in {"==", "!="}} == {
        (op, kind) for op in ("<", "<=", ">", ">=") for kind in ORDERED
    }
    assert any(
        isinstance(node.left.type, Dec) and node.left.type != node.right.type
        for node in find_nodes(typed.TypedComparison)
    )


def test_every_unary_operator_and_literal_occurs() -> None:
    assert {(node.op, get_type_name(node.type)) for node in find_nodes(typed.TypedUnary)} == {
        ("!", "Bool"), ("neg", "Int"), ("neg", "Dec"), ("neg", "Qty"),
    }  # fmt: skip
    assert {get_type_name(node.type) for node in find_nodes(typed.Const)} >= {
        "Category",
        "Bool",
        "Int",
        "Text",
        "Date",
        "Dec",
        "Qty",
        "Opt",
    }


def test_loops_are_nested_use_outer_variables_and_read() -> None:
    loops = find_nodes(typed.Loop)

    ops = ("map", "filter", "fold", "any", "all", "sortBy", "latestBy", "groupBy")
    assert {(loop.op, loop.nested) for loop in loops} == {(op, nested) for op in ops for nested in (False, True)}
    assert any(loop.captured for loop in loops)
    for read in (
        typed.FieldValue,
        typed.FactLookup,
        typed.FactPrefixLookup,
        typed.RequireSome,
        typed.TypedBlock,
        typed.TypedIf,
        typed.Logic,
    ):
        assert any(isinstance(node, read) for loop in loops for node in iterate_nodes(loop.body))


def test_chains_and_blocks_are_long() -> None:
    assert max(len(choice.branches) for choice in find_nodes(typed.TypedIf)) >= 4
    assert max(len(chain.operands) for chain in find_nodes(typed.Logic)) >= 3
    assert max(len(chain.steps) for chain in find_nodes(typed.Arithmetic)) >= 3
    assert max(len(block.bindings) for block in find_nodes(typed.TypedBlock)) >= 3
