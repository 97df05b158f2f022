"""The random programs that both evaluators are compared on: all of them check, and they reach the whole language."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, get_args

import pytest

from bpc.core.rules import typed
from bpc.core.rules.package import checked_program
from bpc.core.rules.types import Dec, Qty, Type
from bpc.core.units import RELATIONS
from tests.core.rules.programs import program
from tests.measuring import effort

NUMBERS = ("Int", "Dec")
SUMS = {("Int", "Int"), ("Int", "Dec"), ("Dec", "Int"), ("Dec", "Dec"), ("Qty", "Qty")}
PRODUCTS = {(one, other) for one in (*NUMBERS, "Qty") for other in (*NUMBERS, "Qty")}
QUOTIENTS = {("Qty", "Int"), ("Qty", "Dec"), ("Qty", "Qty"), *((one, other) for one in NUMBERS for other in NUMBERS)}
EQUAL = {"Bool", "Int", "Text", "Date", "Dec", "Qty", "Opt", "List", "Record"}
ORDERED = {"Int", "Text", "Date", "Dec", "Qty"}


@cache
def trees() -> tuple[typed.Program, ...]:
    """Programs of the first seeds, checked: `checked_program` refuses a text with an error."""
    seeds = range(effort(test=250, shown=2_000, campaign=10_000))
    return tuple(checked_program(program(seed).rules.encode()) for seed in seeds)


def parts(node: Any) -> Iterator[Any]:
    """A node of the typed tree and everything below it."""
    waiting = [node]
    while waiting:
        here = waiting.pop()
        if isinstance(here, tuple):
            waiting.extend(here)
        elif is_dataclass(here) and type(here).__module__ == typed.__name__:
            yield here
            waiting.extend(getattr(here, member.name) for member in fields(here))


@cache
def nodes() -> tuple[Any, ...]:
    return tuple(node for tree in trees() for field in tree.fields for node in parts(field))


def of(kind: type) -> list[Any]:
    return [node for node in nodes() if type(node) is kind]


def shape(kind: Type) -> str:
    return str(kind).split("(")[0]


def operations() -> Iterator[tuple[str, Type, Type]]:
    for chain in of(typed.Arithmetic):
        so_far = chain.first.type
        for step in chain.steps:
            yield step.op, so_far, step.operand.type
            so_far = step.type


def test_the_same_seed_gives_the_same_program() -> None:
    assert program(7) == program(7)
    assert program(7).rules != program(8).rules


@pytest.mark.repeats
def test_every_program_checks_and_every_kind_of_expression_occurs() -> None:
    assert {type(node) for node in nodes()} >= {
        *get_args(typed.Expr),
        typed.Bind,
        typed.Check,
        typed.Operand,
        typed.Branch,
    }


def test_every_builtin_occurs() -> None:
    # No published schema gives maps; the test of agreement adds one that does.
    assert {call.op for call in of(typed.Apply)} | {"mapGet"} == set(get_args(typed.Builtin))


def test_every_operator_meets_every_operand_type_it_takes() -> None:
    found = {(op, shape(left), shape(right)) for op, left, right in operations()}

    wanted = {(op, *sides) for op in "+-" for sides in SUMS}
    wanted |= {("*", *sides) for sides in PRODUCTS} | {("/", *sides) for sides in QUOTIENTS}
    assert found == wanted


def test_products_above_18_decimals_and_related_units_occur() -> None:
    found = list(operations())

    assert any(isinstance(left, Dec) and left.scale > 18 for _, left, _ in found)
    units = {
        (op, left.unit, right.unit) for op, left, right in found if isinstance(left, Qty) and isinstance(right, Qty)
    }
    related = {("*", one, other) for _, one, other in RELATIONS} | {("/", made, one) for made, one, _ in RELATIONS}
    assert len(units & related) > len(related) / 4
    assert any(op == "/" and one == other for op, one, other in units)


def test_every_comparison_meets_every_type_it_takes() -> None:
    found = {(node.op, shape(node.left.type)) for node in of(typed.Comparison)}

    assert found >= {(op, kind) for op in ("==", "!=") for kind in EQUAL}
    assert {pair for pair in found if pair[0] not in {"==", "!="}} == {
        (op, kind) for op in ("<", "<=", ">", ">=") for kind in ORDERED
    }
    assert any(isinstance(node.left.type, Dec) and node.left.type != node.right.type for node in of(typed.Comparison))


def test_every_unary_operator_and_literal_occurs() -> None:
    assert {(node.op, shape(node.type)) for node in of(typed.Unary)} == {
        ("!", "Bool"), ("neg", "Int"), ("neg", "Dec"), ("neg", "Qty"),
    }  # fmt: skip
    assert {shape(node.type) for node in of(typed.Const)} == {"Bool", "Int", "Text", "Date", "Dec", "Qty", "Opt"}


def test_loops_are_nested_use_outer_variables_and_read() -> None:
    loops = of(typed.Loop)

    assert {(loop.op, loop.nested) for loop in loops} == {
        (op, nested) for op in ("map", "filter", "fold") for nested in (False, True)
    }
    assert any(loop.outer for loop in loops)
    for read in (
        typed.FieldValue,
        typed.GetFact,
        typed.GetFacts,
        typed.Require,
        typed.Block,
        typed.Choice,
        typed.Logic,
    ):
        assert any(isinstance(node, read) for loop in loops for node in parts(loop.body))


def test_chains_and_blocks_are_long() -> None:
    assert max(len(choice.branches) for choice in of(typed.Choice)) >= 4
    assert max(len(chain.operands) for chain in of(typed.Logic)) >= 3
    assert max(len(chain.steps) for chain in of(typed.Arithmetic)) >= 3
    assert max(len(block.bindings) for block in of(typed.Block)) >= 3
