"""What a block of a rule costs before anything in it runs: its weight, BPC-COST-1.

Pure. A block is a field's expression, a branch of `if`, the right side of `&&` or `||`, a lambda's body. Its weight
is known from the text alone: the operators, calls, references, `if`s, asserts, list and record literals in it, those
of nested blocks left out, and at least 1.
"""

from collections.abc import Iterable

from bpc.core.rules.typed import (
    Apply,
    Arithmetic,
    Bind,
    Block,
    Choice,
    Comparison,
    Const,
    Emit,
    Expr,
    FieldValue,
    GetFact,
    GetFacts,
    ListOf,
    Local,
    Logic,
    Loop,
    RecordOf,
    Require,
    Unary,
)


def weight(block: Expr) -> int:
    """What is charged when `block` is entered."""
    return max(1, _counted(block))


def else_weight(condition: Expr) -> int:
    """Of an `else` block that is an `if` again: the `if` and its condition; its branches are blocks of their own."""
    return 1 + _counted(condition)


def _counted(block: Expr) -> int:
    # A list of what is left to count, not recursion: an expression may be deeper than Python's stack.
    total, waiting = 0, [block]
    while waiting:
        own, parts = _own(waiting.pop())
        total += own
        waiting.extend(parts)
    return total


def _own(expr: Expr) -> tuple[int, Iterable[Expr]]:  # noqa: PLR0911 - one row a node
    """What the node itself weighs, and its parts that belong to the same block."""
    match expr:
        case Const() | Local():
            return 0, ()
        case FieldValue():
            return 1, ()
        case GetFact(key=part) | GetFacts(prefix=part) | Unary(operand=part) | Require(option=part):
            return 1, (part,)
        case Arithmetic(first=first, steps=steps):
            return len(steps), (first, *(step.operand for step in steps))
        case Comparison(left=left, right=right):
            return 1, (left, right)
        case Logic(first=first, operands=operands):
            return len(operands), (first,)
        case Choice(branches=branches):
            return 1, (branches[0].condition,)
        case ListOf(items=items) | Apply(arguments=items):
            return 1, items
        case RecordOf(members=members):
            return 1, tuple(member for _, member in members)
        case Loop(items=items, init=init):
            return 1, (items,) if init is None else (items, init)
        case Emit(status=status, message=message):
            return 1, (status, message)
        case Block():
            return _own_of_block(expr)


def _own_of_block(block: Block) -> tuple[int, Iterable[Expr]]:
    parts = [binding.value if isinstance(binding, Bind) else binding.condition for binding in block.bindings]
    asserts = sum(not isinstance(binding, Bind) for binding in block.bindings)
    return asserts, (*parts, block.body)
