"""Code that chooses and repeats: `if`, `&&`, `||`, blocks of lets and asserts, loops; what entering a block costs.

Pure. Chains stay flat, however long: an `else if` is the next statement of a loop that runs once and is left by
`break`, and each `&&` is an `if` of its own behind the one before.
"""

from collections.abc import Generator, Iterable
from contextlib import AbstractContextManager
from typing import Final, NamedTuple, TypeAlias

from bpc.core.language import typed
from bpc.core.language.evaluating.emitter import Emission, Emitter, OperandCode, ValueTemplate, encode_data
from bpc.core.language.evaluation import AssertionFailed
from bpc.core.language.source import Span
from bpc.core.language.types import INT, List, Type, is_unit_size
from bpc.core.passport import proof


def emit_block(emitter: Emitter, expr: typed.TypedBlock) -> Emission:
    """An assert's node has what follows it as its body, so the last assert's node is made first.

    In a function that is long enough the rest is a block again, and becomes a function.
    """
    checks = []
    body = expr.body
    for number, binding in enumerate(expr.bindings):
        if number > 0 and emitter.code.is_long:
            body = typed.TypedBlock(expr.type, expr.bindings[number:], expr.body)
            break
        if isinstance(binding, typed.TypedLet):
            emitter.scope[binding.name] = yield binding.value
            continue
        condition = yield binding.condition
        emitter.mark_reached("assertion", binding.span, binding.code)
        failing = emitter.format_raise(binding.span, AssertionFailed, binding.code, binding.message)
        emitter.code.write_line(f"if not {condition.value}: {failing}")
        checks.append((binding, condition))
    result = yield body
    for check, condition in reversed(checks):
        sides = (condition, result)
        result = emitter.emit_fixed_node(
            proof.ASSERT, result.value, sides, op="assert", code=check.code, message=check.message
        )
    return result


def emit_logic(emitter: Emitter, expr: typed.Logic) -> Emission:
    """`a && b && c` is `(a && b) && c`: one node an operator, whether its right side was needed or not."""
    listing = emitter.code
    first = yield expr.first
    value = listing.store(first.value)
    node = listing.store(first.node) if emitter.proving else ""
    for operand in expr.operands:
        with listing.indent_block(f"if {value}:" if expr.op == "&&" else f"if not {value}:"):
            right = yield from _emit_branch_body(emitter, operand.expr, operand.span, expr.op)
            listing.write_line(f"{value} = {right.value}")
            if emitter.proving:
                emitter.reassign_node(node, expr.op, value, [node, right.node])
        if emitter.proving:
            with listing.indent_block("else:"):
                emitter.reassign_node(node, expr.op, value, [node])
    return OperandCode(value, node)


def emit_choice(emitter: Emitter, expr: typed.TypedIf) -> Emission:
    if len(expr.branches) > 1:
        return (yield from _emit_else_if_chain(emitter, expr))
    branch, result = expr.branches[0], _allocate_result(emitter)
    condition = yield branch.condition
    with emitter.code.indent_block(f"if {condition.value}:"):
        body = yield from _emit_branch_body(emitter, branch.body, branch.span, "then")
        _assign_choice(emitter, result, condition, body, "then")
    with emitter.code.indent_block("else:"):
        body = yield from _emit_branch_body(emitter, expr.otherwise, branch.span, "else")
        _assign_choice(emitter, result, condition, body, "else")
    return result


def _emit_else_if_chain(emitter: Emitter, expr: typed.TypedIf) -> Emission:
    """The conditions that did not hold are gathered: each has a node around those behind it."""
    listing, result = emitter.code, _allocate_result(emitter)
    failed_conditions = listing.store("[]") if emitter.proving else ""
    with listing.indent_block("while True:"):
        for number, branch in enumerate(expr.branches):
            if number > 0:
                emitter.charge(compute_else_weight(branch.condition), branch.span)
            condition = yield branch.condition
            with listing.indent_block(f"if {condition.value}:"):
                body = yield from _emit_branch_body(emitter, branch.body, branch.span, "then")
                _assign_choice(emitter, result, condition, body, "then")
                listing.write_line("break")
            if emitter.proving:
                listing.write_line(f"{failed_conditions}.append({condition.node})")
        body = yield from _emit_branch_body(emitter, expr.otherwise, expr.branches[-1].span, "else")
        _assign_result(emitter, result, body)
        listing.write_line("break")
    if emitter.proving:
        condition = OperandCode("", listing.create_temporary())
        with listing.indent_block(f"for {condition.node} in {failed_conditions}[::-1]:"):
            _assign_choice(emitter, result, condition, result, "else")
    return result


def _emit_branch_body(emitter: Emitter, body: typed.Expr, span: Span, label: str) -> Emission:
    """A block of its own: marked and charged before anything in it runs."""
    emitter.mark_reached("branch", span, label)
    emitter.charge(compute_weight(body), span)
    return (yield body)


def _allocate_result(emitter: Emitter) -> OperandCode:
    """Temporaries that every branch will set."""
    return OperandCode(emitter.code.create_temporary(), emitter.code.create_temporary() if emitter.proving else "")


def _assign_choice(
    emitter: Emitter, target: OperandCode, condition: OperandCode, body: OperandCode, branch: str
) -> None:
    """Assign what a branch gave, with the node of its `if`."""
    sides = (condition, body)
    _assign_result(emitter, target, emitter.emit_fixed_node(proof.OP, body.value, sides, op="if", branch=branch))


def _assign_result(emitter: Emitter, target: OperandCode, operand: OperandCode) -> None:
    if target.value != operand.value:
        emitter.code.write_line(f"{target.value} = {operand.value}")
    if target.node:
        emitter.code.write_line(f"{target.node} = {operand.node}")


# Code for map, filter and fold: a `for` with the lambda's body inside it.


def emit_loop(emitter: Emitter, expr: typed.Loop) -> Emission:
    items = yield expr.items
    inputs = [items]
    if expr.init is not None:
        inputs.append((yield expr.init))
    _charge_iterations(emitter, expr, items)
    run = _LOOP_EMITTERS[expr.op]
    if not emitter.proving:
        value, _ = yield from run(emitter, expr, inputs, with_node=False)
        return OperandCode(value)
    emitter.reads = reads = emitter.code.store("{}")
    value, data = yield from run(emitter, expr, inputs, with_node=True)
    emitter.reads = None
    children = [*(operand.node for operand in inputs), *_collect_outer_nodes(emitter, expr), f"*{reads}"]
    return OperandCode(value, _emit_loop_node(emitter, data, children))


def _emit_loop_node(emitter: Emitter, node_data: "_LoopNodeData", children: list[str]) -> str:
    if not node_data.atom:
        return emitter.emit_plain_node(proof.OP, node_data.template.before, children)
    # What stands before the value says where the lambda is: no other loop's node does.
    return emitter.emit_large_node(node_data.template.before, lambda: node_data.template, [node_data.atom, *children])


class _LoopNodeData(NamedTuple):
    """What a loop's node says: a text, around the value of an atom if there is one."""

    template: ValueTemplate
    atom: str = ""


_NO_NODE_DATA: Final = _LoopNodeData(ValueTemplate("", INT))


def _charge_iterations(emitter: Emitter, expr: typed.Loop, items: OperandCode) -> None:
    body_weight = compute_weight(expr.body)
    emitter.charge(f"len({items.value}) * {body_weight}" if body_weight > 1 else f"len({items.value})", expr.span)


def _collect_outer_nodes(emitter: Emitter, expr: typed.Loop) -> list[str]:
    """The nodes of the outer variables the lambda mentions, a node of two variables once."""
    nodes = [emitter.scope[name].node for name in expr.captured]
    return nodes if len(nodes) < 2 else [f"*once(({', '.join(nodes)}))"]


_LoopEmission: TypeAlias = Generator[typed.Expr, OperandCode, tuple[str, _LoopNodeData]]
"""The loop as it is written; in the end its value and, if it is shown, what its node says."""


def _emit_map(emitter: Emitter, expr: typed.Loop, inputs: list[OperandCode], *, with_node: bool) -> _LoopEmission:
    results = emitter.code.store("[]")
    append = emitter.code.store(f"{results}.append")
    with _open_element_loop(emitter, expr, inputs[0]):
        body = yield expr.body
        emitter.code.write_line(f"{append}({body.value})")
    emitter.charge_results(results, _get_result_type(expr), expr.span)
    return results, _describe_results(emitter, expr, results) if with_node else _NO_NODE_DATA


def _emit_fold(emitter: Emitter, expr: typed.Loop, inputs: list[OperandCode], *, with_node: bool) -> _LoopEmission:
    """The accumulators are gathered only where a proof shows them, and measured only where they have a size."""
    listing, kind = emitter.code, expr.type
    accumulators = listing.store("[]") if with_node and not emitter.get_type_info(kind).holds_facts else ""
    total = "" if is_unit_size(kind) else listing.store("0")
    accumulator = listing.store(inputs[1].value)
    emitter.scope[expr.parameters[0]] = OperandCode(accumulator)
    with _open_element_loop(emitter, expr, inputs[0]):
        body = yield expr.body
        listing.write_line(f"{accumulator} = {body.value}")
        if accumulators:
            listing.write_line(f"{accumulators}.append({accumulator})")
        if total:
            emitter.add_size(total, accumulator, kind)
    if total:
        emitter.charge(total, expr.span)
    return accumulator, _describe_results(emitter, expr, accumulators) if with_node else _NO_NODE_DATA


def _emit_filter(emitter: Emitter, expr: typed.Loop, inputs: list[OperandCode], *, with_node: bool) -> _LoopEmission:
    listing = emitter.code
    results = listing.store("[]")
    append = listing.store(f"{results}.append")
    kept_positions = listing.store("[]") if with_node else ""
    position = listing.create_temporary() if with_node else ""
    with _open_element_loop(emitter, expr, inputs[0], position):
        element = emitter.scope[expr.parameters[0]].value
        body = yield expr.body
        with listing.indent_block(f"if {body.value}:"):
            listing.write_line(f"{append}({element})")
            if with_node:
                listing.write_line(f"{kept_positions}.append({position})")
    return results, _describe_kept_positions(emitter, expr, kept_positions) if with_node else _NO_NODE_DATA


_LOOP_EMITTERS = {"map": _emit_map, "filter": _emit_filter, "fold": _emit_fold}


def _open_element_loop(
    emitter: Emitter, expr: typed.Loop, items: OperandCode, position: str = ""
) -> AbstractContextManager[None]:
    element = emitter.code.create_temporary()
    emitter.scope[expr.parameters[-1]] = OperandCode(element)
    if position:
        return emitter.code.indent_block(f"for {position}, {element} in enumerate({items.value}):")
    return emitter.code.indent_block(f"for {element} in {items.value}:")


def _describe_results(emitter: Emitter, expr: typed.Loop, results: str) -> _LoopNodeData:
    """Of a map or fold: where the lambda is written, and what it gave each time."""
    kind = _get_result_type(expr)
    data = encode_data(fn=list(emitter.source.byte_range(expr.lambda_span)), op=expr.op)
    if emitter.get_type_info(kind).holds_facts:
        return _LoopNodeData(ValueTemplate(data, kind))
    return _LoopNodeData(ValueTemplate(f'{data[:-1]},"values":', List(kind)), results)


def _describe_kept_positions(emitter: Emitter, expr: typed.Loop, positions: str) -> _LoopNodeData:
    before = encode_data(fn=list(emitter.source.byte_range(expr.lambda_span)))[:-1]
    return _LoopNodeData(ValueTemplate(f'{before},"kept":', List(INT), ',"op":"filter"}'), positions)


def _get_result_type(expr: typed.Loop) -> Type:
    return expr.type.item if expr.op == "map" and isinstance(expr.type, List) else expr.type


# The weight of a block (BPC-COST-1): what it costs before anything in it runs.


def compute_weight(block: typed.Expr) -> int:
    """What is charged when `block` is entered."""
    return max(1, _count_weight(block))


def compute_else_weight(condition: typed.Expr) -> int:
    """Of an `else` block that is an `if` again: the `if` and its condition; its branches are blocks of their own."""
    return 1 + _count_weight(condition)


def _count_weight(block: typed.Expr) -> int:
    # A list of what is left to count, not recursion: an expression may be deeper than Python's stack.
    total, pending = 0, [block]
    while pending:
        own, parts = _weigh_node(pending.pop())
        total += own
        pending.extend(parts)
    return total


def _weigh_node(expr: typed.Expr) -> tuple[int, Iterable[typed.Expr]]:  # noqa: PLR0911 - one row a node
    """What the node itself weighs, and its parts that belong to the same block."""
    match expr:
        case typed.Const() | typed.Local():
            return 0, ()
        case typed.FieldValue():
            return 1, ()
        case (
            typed.FactLookup(key=part)
            | typed.FactPrefixLookup(prefix=part)
            | typed.TypedUnary(operand=part)
            | typed.RequireSome(option=part)
        ):
            return 1, (part,)
        case typed.Arithmetic(first=first, steps=steps):
            return len(steps), (first, *(step.operand for step in steps))
        case typed.TypedComparison(left=left, right=right):
            return 1, (left, right)
        case typed.Logic(first=first, operands=operands):
            return len(operands), (first,)
        case typed.TypedIf(branches=branches):
            return 1, (branches[0].condition,)
        case typed.TypedList(items=items) | typed.BuiltinCall(arguments=items):
            return 1, items
        case typed.TypedRecord(members=members):
            return 1, tuple(member for _, member in members)
        case typed.Loop(items=items, init=init):
            return 1, (items,) if init is None else (items, init)
        case typed.EmitCompliance(status=status, message=message):
            return 1, (status, message)
        case typed.TypedBlock():
            return _weigh_block(expr)


def _weigh_block(block: typed.TypedBlock) -> tuple[int, Iterable[typed.Expr]]:
    parts = [binding.value if isinstance(binding, typed.TypedLet) else binding.condition for binding in block.bindings]
    asserts = sum(not isinstance(binding, typed.TypedLet) for binding in block.bindings)
    return asserts, (*parts, block.body)
