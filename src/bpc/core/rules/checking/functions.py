"""Built-in functions: how many arguments each takes, and who checks them.

Functions and variables have separate names: a built-in that is added later breaks no package.
"""

from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple

from bpc.core.rules import syntax, typed
from bpc.core.rules.checking import arguments, conversions, facts, literals, loops
from bpc.core.rules.checking.context import Checking, Node
from bpc.core.rules.checking.literals import undecided
from bpc.core.rules.types import BOOL, DATE, INT, TEXT, Opt, Type

STATUSES: Final = ("PASS", "FAIL", "WARN", "NOT_APPLICABLE")

# What other languages call them, where spelling leads to none or to another.
_MEANT: Final = {
    "sum": 'a list is added up by `sumDec(decimals, list)`, `sumQty("unit", list)`, or `fold` if it holds Ints',
    "round": "`toDec(decimals, number)` rounds",
    "len": "`count(list)` counts a list",
    "length": "`count(list)` counts a list",
    "size": "`count(list)` counts a list",
    "reduce": "it is called `fold(list, start, fn(acc, x) => …)`",
    "join": "texts are joined by `concat(text, …)`",
    "max": "write it out: `if (a > b) then a else b`",
    "min": "write it out: `if (a < b) then a else b`",
    "abs": "write it out: `if (x < 0) then -x else x`",
    "today": "the day of issue is `issuedOn()`",
    "now": "the day of issue is `issuedOn()`",
}


class Function(NamedTuple):
    """A built-in: how it is called, how many arguments it takes (`most` None: any number), and its check."""

    shape: str
    least: int
    most: int | None
    check: Callable[[Checking, syntax.Call, Type | None], typed.Expr | None]
    lambdas: bool = False


def call(checking: Checking, node: syntax.Call, want: Type | None) -> typed.Expr | None:
    known = FUNCTIONS.get(node.function.text)
    if known is None:
        _unknown(checking, node)
        return None
    given = len(node.arguments)
    if given < known.least or (known.most is not None and given > known.most):
        _arguments(checking, node)
        checking.error(
            "wrong-argument-count",
            node.span,
            f"`{node.function.text}` takes {_counted(known)}, and here it has {given or 'none'}",
            hint=f"it is called as `{known.shape}`",
        )
        return None
    if not _lambdas_in_place(checking, node, known):
        return None
    return known.check(checking, node, want)


def _counted(known: Function) -> str:
    if known.most is None:
        return "one argument or more"
    return "no arguments" if known.most == 0 else literals.counted(known.most, "argument")


def _unknown(checking: Checking, node: syntax.Call) -> None:
    name = node.function.text
    _arguments(checking, node)
    checking.error(
        "unknown-function",
        node.function.span,
        f"there is no function `{name}`",
        hint=_MEANT.get(name) or checking.shared.suggestions.help(name, FUNCTIONS, "{}(…)"),
    )


def _arguments(checking: Checking, node: syntax.Call) -> None:
    """Look at the arguments of a call that is wrong for mistakes of their own."""
    for argument in node.arguments:
        if not isinstance(argument, syntax.Lambda) and not undecided(argument):
            checking.check(argument)


def _lambdas_in_place(checking: Checking, node: syntax.Call, known: Function) -> bool:
    """Whether functions stand only where this built-in takes one: last, if at all."""
    values = node.arguments[:-1] if known.lambdas else node.arguments
    misplaced = [argument for argument in values if isinstance(argument, syntax.Lambda)]
    for argument in misplaced:
        checking.error(
            "wrong-lambda",
            argument.span,
            f"`{node.function.text}` takes no function here",
            hint=f"it is called as `{known.shape}`",
        )
    return not misplaced


# Options


def some(checking: Checking, node: syntax.Call, want: Type | None) -> typed.Expr | None:
    argument = node.arguments[0]
    if isinstance(argument, syntax.Nothing):
        checking.error("nested-option", node.span, "an option holds no option", hint="it needs no `some`: write `none`")
        return None
    item = checking.check_unless_option(argument, want.item if isinstance(want, Opt) else None)
    if item is None:
        return None
    if isinstance(item.type, Opt):
        checking.error(
            "nested-option",
            node.span,
            f"`{checking.quoted(argument)}` is {checking.shown(item.type)}, and an option holds no option",
            hint=f"it needs no `some`: write `{checking.quoted(argument)}`",
        )
        return None
    kind = checking.sized(checking.types.opt(item.type), node.span)
    return None if kind is None else typed.Apply(kind, "some", (item,), {}, node.span)


def is_some(checking: Checking, node: syntax.Call, _want: Type | None) -> typed.Expr | None:
    found = arguments.option(checking, node.arguments[0], "isSome")
    return None if found is None else typed.Apply(BOOL, "isSome", (found[0],), {}, node.span)


def unwrap_or(checking: Checking, node: syntax.Call, _want: Type | None) -> typed.Expr | None:
    found = arguments.option(checking, node.arguments[0], "unwrapOr")
    if found is None:
        if not undecided(node.arguments[1]):
            checking.check(node.arguments[1])
        return None
    option, kind = found
    default = checking.check_because(node.arguments[1], kind, (node.arguments[0], option.type))
    return None if default is None else typed.Apply(kind, "unwrapOr", (option, default), {}, node.span)


def require_some(checking: Checking, node: syntax.Call, _want: Type | None) -> typed.Expr | None:
    found = arguments.option(checking, node.arguments[0], "requireSome")
    code = arguments.text_literal(checking, node, 1, "the code")
    message = arguments.text_literal(checking, node, 2, "the message")
    if found is None or code is None or message is None:
        return None
    return typed.Require(found[1], found[0], code.value, message.value, node.span)


# Lists and texts


def count(checking: Checking, node: syntax.Call, _want: Type | None) -> typed.Expr | None:
    found = arguments.items(checking, node.arguments[0], "count")
    return None if found is None else typed.Apply(INT, "count", (found[0],), {}, node.span)


def concat(checking: Checking, node: syntax.Call, _want: Type | None) -> typed.Expr | None:
    made = [arguments.text(checking, argument, "`concat` joins Texts") for argument in node.arguments]
    texts = tuple([text for text in made if text is not None])
    return typed.Apply(TEXT, "concat", texts, {}, node.span) if len(texts) == len(made) else None


# What is compiled, and what it complies with


def _given(
    op: Literal["productSku", "productName", "issuedOn"], kind: Type
) -> Callable[[Checking, syntax.Call, Type | None], typed.Expr | None]:
    def made(_checking: Checking, node: syntax.Call, _want: Type | None) -> typed.Expr | None:
        return typed.Apply(kind, op, (), {}, node.span)

    return made


def emit_compliance(checking: Checking, node: syntax.Call, _want: Type | None) -> typed.Expr | None:
    code = arguments.text_literal(checking, node, 0, "the code")
    status = checking.check(node.arguments[1]) if _status(checking, node.arguments[1]) else None
    message = arguments.text(checking, node.arguments[2], "the message of `emitCompliance` is a `Text`")
    if not _may_emit(checking, node) or code is None or status is None or message is None:
        return None
    return typed.Emit(BOOL, code.value, status, message, node.span)


def _may_emit(checking: Checking, node: syntax.Call) -> bool:
    if checking.scope.level:
        checking.error(
            "emit-in-lambda",
            node.span,
            "`emitCompliance` stands inside a function, where its entry would belong to no step of the proof",
            hint="compute the list first, and emit once for all of it",
        )
        return False
    if checking.rule is None:
        checking.error(
            "emit-outside-rule",
            node.span,
            "`emitCompliance` stands outside of the rules, and only a field's rule makes entries",
            hint="emit in a field, and read that field here",
        )
        return False
    return True


def _status(checking: Checking, node: Node) -> bool:
    """Whether the status is one of the four literals, or an `if` of such."""
    right = True
    waiting = [node]
    while waiting:
        at = waiting.pop()
        if isinstance(at, syntax.If):
            waiting += [*[branch.body for branch in at.branches], at.otherwise]
        elif not (isinstance(at, syntax.Text) and at.value in STATUSES):
            right = False
            checking.error(
                "bad-status" if isinstance(at, syntax.Text) else "literal-needed",
                at.span,
                "a status is written out: `PASS`, `FAIL`, `WARN` or `NOT_APPLICABLE`, or an `if` of these",
                hint=checking.shared.suggestions.help(at.value, STATUSES, '"{}"')
                if isinstance(at, syntax.Text)
                else None,
            )
    return right


FUNCTIONS: Final[Mapping[str, Function]] = {
    "getFact": Function('getFact("Type", key)', 2, 2, facts.get_fact),
    "getFactsByPrefix": Function('getFactsByPrefix("Type", prefix)', 2, 2, facts.get_facts),
    "recordGet": Function('recordGet(record, "member")', 2, 2, facts.record_get),
    "mapGet": Function("mapGet(map, key)", 2, 2, facts.map_get),
    "some": Function("some(value)", 1, 1, some),
    "isSome": Function("isSome(option)", 1, 1, is_some),
    "unwrapOr": Function("unwrapOr(option, default)", 2, 2, unwrap_or),
    "requireSome": Function('requireSome(option, "CODE", "message")', 3, 3, require_some),
    "toDec": Function("toDec(decimals, number)", 2, 2, conversions.to_dec),
    "toQty": Function('toQty("unit", number)', 2, 2, conversions.to_qty),
    "convert": Function('convert("from", "to", quantity)', 3, 3, conversions.convert),
    "sumQty": Function('sumQty("unit", list)', 2, 2, conversions.sum_qty),
    "sumDec": Function("sumDec(decimals, list)", 2, 2, conversions.sum_dec),
    "amount": Function("amount(quantity)", 1, 1, conversions.amount),
    "map": Function("map(list, fn(x) => …)", 2, 2, loops.map_, lambdas=True),
    "filter": Function("filter(list, fn(x) => …)", 2, 2, loops.filter_, lambdas=True),
    "fold": Function("fold(list, start, fn(acc, x) => …)", 3, 3, loops.fold, lambdas=True),
    "count": Function("count(list)", 1, 1, count),
    "concat": Function("concat(text, …)", 1, None, concat),
    "emitCompliance": Function('emitCompliance("CODE", "PASS", message)', 3, 3, emit_compliance),
    "productSku": Function("productSku()", 0, 0, _given("productSku", TEXT)),
    "productName": Function("productName()", 0, 0, _given("productName", TEXT)),
    "issuedOn": Function("issuedOn()", 0, 0, _given("issuedOn", DATE)),
}
