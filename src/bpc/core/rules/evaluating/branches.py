"""Code that chooses: `if`, `&&`, `||`, and blocks of lets and asserts.

Pure. Chains stay flat, however long: an `else if` is the next statement of a loop that runs once and is left by
`break`, and each `&&` is an `if` of its own behind the one before.
"""

from bpc.core import proof
from bpc.core.rules.evaluating.emitting import Emission, Emitter, Operand
from bpc.core.rules.evaluating.weights import else_weight, weight
from bpc.core.rules.source import Span
from bpc.core.rules.typed import Bind, Block, Choice, Expr, Logic


def block(emitter: Emitter, expr: Block) -> Emission:
    """An assert's node has what follows it as its body, so the last assert's node is made first.

    In a function that is long enough the rest is a block again, and becomes a function.
    """
    checks = []
    body = expr.body
    for number, binding in enumerate(expr.bindings):
        if number > 0 and emitter.listing.is_long:
            body = Block(expr.type, expr.bindings[number:], expr.body)
            break
        if isinstance(binding, Bind):
            emitter.scope[binding.name] = yield binding.value
            continue
        condition = yield binding.condition
        emitter.reached("assertion", binding.span, binding.code)
        failing = emitter.not_held(binding.code, binding.message, binding.span)
        emitter.listing.line(f"if not {condition.value}: {failing}")
        checks.append((binding, condition))
    found = yield body
    for check, condition in reversed(checks):
        sides = (condition, found)
        found = emitter.built(proof.ASSERT, found.value, sides, op="assert", code=check.code, message=check.message)
    return found


def logic(emitter: Emitter, expr: Logic) -> Emission:
    """`a && b && c` is `(a && b) && c`: one node an operator, whether its right side was needed or not."""
    listing = emitter.listing
    first = yield expr.first
    value = listing.kept(first.value)
    node = listing.kept(first.node) if emitter.proving else ""
    for operand in expr.operands:
        with listing.indented(f"if {value}:" if expr.op == "&&" else f"if not {value}:"):
            right = yield from _entered(emitter, operand.expr, operand.span, expr.op)
            listing.line(f"{value} = {right.value}")
            if emitter.proving:
                emitter.renew(node, expr.op, value, [node, right.node])
        if emitter.proving:
            with listing.indented("else:"):
                emitter.renew(node, expr.op, value, [node])
    return Operand(value, node)


def choice(emitter: Emitter, expr: Choice) -> Emission:
    if len(expr.branches) > 1:
        return (yield from _chain(emitter, expr))
    branch, found = expr.branches[0], _promised(emitter)
    condition = yield branch.condition
    with emitter.listing.indented(f"if {condition.value}:"):
        body = yield from _entered(emitter, branch.body, branch.span, "then")
        _settle(emitter, found, emitter.built(proof.OP, body.value, (condition, body), op="if", branch="then"))
    with emitter.listing.indented("else:"):
        body = yield from _entered(emitter, expr.otherwise, branch.span, "else")
        _settle(emitter, found, emitter.built(proof.OP, body.value, (condition, body), op="if", branch="else"))
    return found


def _chain(emitter: Emitter, expr: Choice) -> Emission:
    """The conditions that did not hold are gathered: each has a node around those behind it."""
    listing, found = emitter.listing, _promised(emitter)
    failed = listing.kept("[]") if emitter.proving else ""
    with listing.indented("while True:"):
        for number, branch in enumerate(expr.branches):
            if number > 0:
                emitter.charge(else_weight(branch.condition), branch.span)
            condition = yield branch.condition
            with listing.indented(f"if {condition.value}:"):
                body = yield from _entered(emitter, branch.body, branch.span, "then")
                _settle(emitter, found, emitter.built(proof.OP, body.value, (condition, body), op="if", branch="then"))
                listing.line("break")
            if emitter.proving:
                listing.line(f"{failed}.append({condition.node})")
        _settle(emitter, found, (yield from _entered(emitter, expr.otherwise, expr.branches[-1].span, "else")))
        listing.line("break")
    if emitter.proving:
        condition = Operand("", listing.temporary())
        with listing.indented(f"for {condition.node} in {failed}[::-1]:"):
            _settle(emitter, found, emitter.built(proof.OP, found.value, (condition, found), op="if", branch="else"))
    return found


def _entered(emitter: Emitter, body: Expr, span: Span, label: str) -> Emission:
    """A block of its own: marked and charged before anything in it runs."""
    emitter.reached("branch", span, label)
    emitter.charge(weight(body), span)
    return (yield body)


def _promised(emitter: Emitter) -> Operand:
    """Temporaries that every branch will set."""
    return Operand(emitter.listing.temporary(), emitter.listing.temporary() if emitter.proving else "")


def _settle(emitter: Emitter, promised: Operand, found: Operand) -> None:
    if promised.value != found.value:
        emitter.listing.line(f"{promised.value} = {found.value}")
    if promised.node:
        emitter.listing.line(f"{promised.node} = {found.node}")
