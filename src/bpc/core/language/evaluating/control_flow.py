"""Code that chooses: `if`, `match`, `&&`, `||`, blocks of lets and asserts; what entering a block costs.

Pure. Chains stay flat, however long: an `else if` is the next statement of a loop that runs once and is left by
`break`, and each `&&` is an `if` of its own behind the one before.
"""

from collections.abc import Generator, Iterable

from bpc.core.language import typed
from bpc.core.language.evaluating.emitter import Emission, Emitter, OperandCode, encode_data
from bpc.core.language.evaluation import AssertionFailed
from bpc.core.language.source import Span
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


def emit_coalesce(emitter: Emitter, expr: typed.Coalesce) -> Emission:
    """A loop that runs once, left as soon as something is present."""
    listing = emitter.code
    first = yield expr.first
    value = listing.store(first.value)
    with listing.indent_block("while True:"):
        for operand in expr.operands:
            listing.write_line(f"if {value} is not None: break")
            right = yield from _emit_branch_body(emitter, operand.expr, operand.span, "??")
            listing.write_line(f"{value} = {right.value}")
        listing.write_line("break")
    return OperandCode(value)


def emit_choice(emitter: Emitter, expr: typed.TypedIf) -> Emission:
    if len(expr.branches) > 1:
        return (yield from _emit_else_if_chain(emitter, expr))
    branch, result = expr.branches[0], _allocate_result(emitter)
    condition = _bind_option(emitter, branch, (yield branch.condition))
    with emitter.code.indent_block(_format_test(branch, condition)):
        body = yield from _emit_branch_body(emitter, branch.body, branch.span, "then")
        _assign_choice(emitter, result, condition, body, "then")
    with emitter.code.indent_block("else:"):
        body = yield from _emit_branch_body(emitter, expr.otherwise, branch.span, "else")
        _assign_choice(emitter, result, condition, body, "else")
    return result


def _bind_option(emitter: Emitter, branch: typed.TypedBranch, condition: OperandCode) -> OperandCode:
    """Of `if some`: make its name stand for the option, which is the value itself where it is present."""
    if branch.binding is None:
        return condition
    bound = emitter.scope[branch.binding] = OperandCode(emitter.code.ensure_temporary(condition.value))
    return bound


def _format_test(branch: typed.TypedBranch, condition: OperandCode) -> str:
    return f"if {condition.value}:" if branch.binding is None else f"if {condition.value} is not None:"


def _emit_else_if_chain(emitter: Emitter, expr: typed.TypedIf) -> Emission:
    """The conditions that did not hold are gathered: each has a node around those behind it."""
    listing, result = emitter.code, _allocate_result(emitter)
    failed_conditions = listing.store("[]") if emitter.proving else ""
    with listing.indent_block("while True:"):
        for number, branch in enumerate(expr.branches):
            if number > 0:
                emitter.charge(compute_else_weight(branch.condition), branch.span)
            condition = _bind_option(emitter, branch, (yield branch.condition))
            with listing.indent_block(_format_test(branch, condition)):
                body = yield from _emit_branch_body(emitter, branch.body, branch.span, "then")
                _assign_choice(emitter, result, condition, body, "then")
                listing.write_line("break")
            if emitter.proving:
                listing.write_line(f"{failed_conditions}.append({condition.node})")
        body = yield from _emit_branch_body(emitter, expr.otherwise, expr.branches[-1].span, "else")
        _assign_result(emitter, result, body)
        listing.write_line("break")
    if emitter.proving:
        maker = emitter.register_plain_maker(proof.OP, encode_data(op="if", branch="else"))
        node = listing.create_temporary()
        with listing.indent_block(f"for {node} in {failed_conditions}[::-1]:"):
            listing.write_line(f"{result.node} = {maker}(q, {node}, {result.node})")
    return result


def emit_match(emitter: Emitter, expr: typed.TypedMatch) -> Emission:
    """A loop that runs once and is left by `break`, like `else if`. The last arm is taken if no other is."""
    listing, result = emitter.code, _allocate_result(emitter)
    subject = yield expr.subject
    value = listing.ensure_temporary(subject.value)
    with listing.indent_block("while True:"):
        for arm in expr.arms[:-1]:
            members = ", ".join("None" if name is None else listing.register_text(name) for name in arm.members)
            with listing.indent_block(f"if {value} in ({members},):"):
                yield from _emit_arm(emitter, arm, result)
        yield from _emit_arm(emitter, expr.arms[-1], result)
    return result


def _emit_arm(
    emitter: Emitter, arm: typed.TypedMatchArm, result: OperandCode
) -> Generator[typed.Expr, OperandCode, None]:
    _assign_result(emitter, result, (yield from _emit_branch_body(emitter, arm.body, arm.span, arm.label)))
    emitter.code.write_line("break")


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


def _weigh_node(expr: typed.Expr) -> tuple[int, Iterable[typed.Expr]]:  # noqa: PLR0911, PLR0912 - one row a node
    """What the node itself weighs, and its parts that belong to the same block."""
    match expr:
        case typed.Const() | typed.Local():
            return 0, ()
        case typed.FieldValue() | typed.DefinitionValue() | typed.RequirementCheck():
            return 1, ()
        case (
            typed.FactLookup(key=part)
            | typed.FactPrefixLookup(prefix=part)
            | typed.TypedUnary(operand=part)
            | typed.RequireSome(option=part)
            | typed.TypedMatch(subject=part)
        ):
            return 1, (part,)
        case typed.Arithmetic(first=first, steps=steps):
            return len(steps), (first, *(step.operand for step in steps))
        case typed.TypedComparison(left=left, right=right):
            return 1, (left, right)
        case typed.Logic(first=first, operands=operands) | typed.Coalesce(first=first, operands=operands):
            return len(operands), (first,)
        case typed.TypedIf(branches=branches):
            return 1, (branches[0].condition,)
        case typed.TypedList(items=items) | typed.BuiltinCall(arguments=items) | typed.TableLookup(arguments=items):
            return 1, items
        case typed.TypedRecord(members=members):
            return 1, tuple(member for _, member in members)
        case typed.Loop(items=items, init=init):
            return 1, (items,) if init is None else (items, init)
        case typed.RequirementsMet(items=items) | typed.FunctionCall(arguments=items):
            return 1, items
        case typed.EmitCompliance(status=status, message=message):
            return 1, (status, message)
        case typed.TypedBlock():
            return _weigh_block(expr)


def _weigh_block(block: typed.TypedBlock) -> tuple[int, Iterable[typed.Expr]]:
    parts = [binding.value if isinstance(binding, typed.TypedLet) else binding.condition for binding in block.bindings]
    asserts = sum(not isinstance(binding, typed.TypedLet) for binding in block.bindings)
    return asserts, (*parts, block.body)
