"""Arguments of built-ins: those that must be written out, and those that must have a kind of type."""

from bpc.core.rules import syntax, typed
from bpc.core.rules.checking import literals
from bpc.core.rules.checking.context import Checking, Node
from bpc.core.rules.checking.explain import origin_of, way_out
from bpc.core.rules.checking.interning import QTYS
from bpc.core.rules.types import DATE, MAX_DECLARED_SCALE, TEXT, Fact, List, Opt, Qty, Type


def text_literal(checking: Checking, call: syntax.Call, position: int, what: str) -> syntax.Text | None:
    """The argument at `position`, which must be a text literal; `what` names it."""
    node = call.arguments[position]
    if isinstance(node, syntax.Text):
        return node
    checking.error(
        "literal-needed",
        node.span,
        f"{what} of `{call.function.text}` is written out as a text",
        hint=_quotes_help(checking, node),
    )
    return None


def _quotes_help(checking: Checking, node: syntax.Expr) -> str | None:
    """A name that is bound was meant as what it stands for; any other was meant as the text itself."""
    if not isinstance(node, syntax.Variable):
        return None
    if node.name in checking.scope.names:
        return f"write the text itself instead of `{node.name}`"
    return f'write it in quotes: `"{node.name}"`'


def scale_literal(checking: Checking, call: syntax.Call) -> int | None:
    """The first argument, which must be a whole number of decimals from 0 to 18."""
    node = call.arguments[0]
    if not isinstance(node, syntax.Number) or literals.has_point(node) or node.negative:
        checking.error(
            "literal-needed",
            node.span,
            f"the number of decimals is written out: `{call.function.text}(2, …)`",
            hint=f"it is a whole number from 0 to {MAX_DECLARED_SCALE}",
        )
        return None
    digits = node.digits.lstrip("0") or "0"
    if len(digits) > 2 or int(digits) > MAX_DECLARED_SCALE:
        checking.error(
            "scale-too-large", node.span, f"a Dec has at most {MAX_DECLARED_SCALE} decimals, not `{digits[:40]}`"
        )
        return None
    return int(digits)


def unit_literal(checking: Checking, call: syntax.Call, position: int) -> Qty | None:
    node = call.arguments[position]
    if isinstance(node, syntax.Variable) and node.name in QTYS:
        checking.error(
            "literal-needed",
            node.span,
            f"the unit of `{call.function.text}` is written out as a text",
            hint=f'write it in quotes: `"{node.name}"`',
        )
        return None
    found = text_literal(checking, call, position, "the unit")
    return None if found is None else literals.unit(checking, found.value, found.span)


def needed(checking: Checking, node: Node, what: str, got: Type, hint: str | None = None) -> None:
    """Report an argument of the wrong kind of type; `what` is a whole clause: "`count` counts a List"."""
    origin = origin_of(checking, node, got)
    if hint is None and isinstance(got, Opt):
        hint = way_out(checking.quoted(node), got, got.item)
    checking.error(
        "wrong-type",
        node.span,
        f"{what}, and this is {checking.shown(got)}",
        hint=hint,
        notes=(origin if origin.span != node.span else None,),
    )


def text(checking: Checking, node: Node, what: str) -> typed.Expr | None:
    """An argument that must be a Text."""
    made = checking.check(node)
    if made is None or made.type is TEXT:
        return made
    hint = None if isinstance(made.type, Opt) or made.type is DATE else "nothing but a Text is a Text"
    needed(checking, node, what, made.type, hint)
    return None


def option(checking: Checking, node: Node, function: str) -> tuple[typed.Expr, Type] | None:
    """An argument that must be an option, and what it may hold."""
    made = checking.check(node)
    if made is None:
        return None
    if isinstance(made.type, Opt):
        return made, made.type.item
    needed(
        checking, node, f"`{function}` asks an option", made.type, "a value that is always there needs no unwrapping"
    )
    return None


def items(checking: Checking, node: Node, function: str) -> tuple[typed.Expr, Type] | None:
    """An argument that must be a list, and the type of its elements."""
    made = checking.check(node)
    if made is None:
        return None
    if isinstance(made.type, List):
        return made, made.type.item
    hint = None
    if isinstance(made.type, Opt) and isinstance(made.type.item, Fact):
        hint = f'a list of facts comes from `getFactsByPrefix("{made.type.item.name}", prefix)`'
    needed(checking, node, f"`{function}` needs a List", made.type, hint)
    return None
