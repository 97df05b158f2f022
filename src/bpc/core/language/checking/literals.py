"""Check literals, types in the text, and the arguments of built-in functions.

A number literal takes the scale (the number of decimals) of its context, or keeps the one it is written with. It fits
Dec(n) if its value has at most n decimals; without a point it also fits Int. It has at most 18 decimals.
"""

from bpc.core.facts.member_readers import is_day
from bpc.core.facts.units import UNITS
from bpc.core.language import syntax, typed
from bpc.core.language.checking import explain
from bpc.core.language.checking.context import Checker, Node
from bpc.core.language.checking.imports import list_member_enums, report_hidden
from bpc.core.language.evaluation import MAGNITUDE_DIGITS
from bpc.core.language.parsing.operands import suggest_type
from bpc.core.language.source import Span
from bpc.core.language.types import (
    BOOL,
    DATE,
    DECS,
    INT,
    MAX_DECLARED_SCALE,
    QTY_SCALE,
    QTYS,
    SCALARS,
    TEXT,
    Dec,
    EnumType,
    FactRecordType,
    List,
    Opt,
    Qty,
    Record,
    Scalar,
    Type,
)


def count_written_decimals(node: syntax.NumberLiteral) -> int:
    return len(node.digits) - node.digits.index(".") - 1 if has_point(node) else 0


def has_point(node: syntax.NumberLiteral) -> bool:
    return "." in node.digits


def to_scaled_int(node: syntax.NumberLiteral, scale: int) -> int:
    """The literal as a count of 10^-scale; its value must not have more decimals."""
    digits, _, fraction = node.digits.partition(".")
    count = int(digits + fraction[:scale].ljust(scale, "0"))
    return -count if node.negative else count


def count_value_decimals(node: syntax.NumberLiteral) -> int:
    """The decimals of the value: without zeros at the end."""
    return len(node.digits.partition(".")[2].rstrip("0"))


def check_number_bounds(checker: Checker, node: syntax.NumberLiteral) -> bool:
    """Whether a literal is within the limits of numbers; reports it otherwise."""
    digits, _, fraction = node.digits.partition(".")
    if len(digits) > MAGNITUDE_DIGITS and len(digits.lstrip("0")) > MAGNITUDE_DIGITS:
        checker.error("number-too-large", node.span, "this number is too large: a number must be below 10^36")
        return False
    if len(fraction) > MAX_DECLARED_SCALE:
        message = f"this number has {len(fraction)} decimals, but at most {MAX_DECLARED_SCALE} are allowed"
        checker.error("scale-too-large", node.span, message)
        return False
    return True


def check_number(checker: Checker, node: syntax.NumberLiteral, want: Type | None) -> typed.Expr | None:
    if not check_number_bounds(checker, node):
        return None
    if isinstance(want, Dec):
        if count_value_decimals(node) <= want.scale:
            return typed.Const(want, to_scaled_int(node, want.scale), node.span)
        _report_too_many_decimals(checker, node, want)
        return None
    return type_as_written(node)


def type_as_written(node: syntax.NumberLiteral) -> typed.Const:
    """Type a literal at the scale it is written with."""
    if has_point(node):
        scale = count_written_decimals(node)
        return typed.Const(DECS[scale], to_scaled_int(node, scale), node.span)
    return typed.Const(INT, to_scaled_int(node, 0), node.span)


def type_beside(node: syntax.NumberLiteral, other: Type) -> typed.Const:
    """Type a literal that is compared with a value of type `other`: as written, but never Int next to a Dec."""
    if isinstance(other, Dec) and not has_point(node):
        return typed.Const(DECS[0], to_scaled_int(node, 0), node.span)
    return type_as_written(node)


def _report_too_many_decimals(checker: Checker, node: syntax.NumberLiteral, want: Dec) -> None:
    has, room = format_count(count_value_decimals(node), "decimal"), want.scale
    message = f"`{checker.quote(node)}` has {has}, but {checker.format_type(want)} allows {room or 'none'}"
    hint = f"write fewer decimals, or round on purpose: `toDec({room}, {checker.quote(node)})`"
    checker.error("literal-does-not-fit", node.span, message, hint, explain.find_type_reason(checker))


def format_count(number: int, thing: str) -> str:
    """`1 decimal`, `2 decimals`"""
    return f"{number} {thing}" if number == 1 else f"{number:,} {thing}s"


def check_text(_checker: Checker, node: syntax.TextLiteral, _want: Type | None) -> typed.Expr:
    return typed.Const(TEXT, node.value, node.span)


def check_bool(_checker: Checker, node: syntax.BoolLiteral, _want: Type | None) -> typed.Expr:
    return typed.Const(BOOL, node.value, node.span)


def check_none(checker: Checker, node: syntax.NoneLiteral, want: Type | None) -> typed.Expr | None:
    if isinstance(want, Opt):
        return typed.Const(want, None, node.span)
    if want is None:
        report_type_not_known(checker, node.span, "none")
    else:
        message = f"expected {checker.format_type(want)}, but `none` means a missing value"
        hint = f"declare the type as `Opt({checker.types.to_text(want)})` if a value may be absent"
        checker.error("wrong-type", node.span, message, hint, explain.find_type_reason(checker))
    return None


def report_type_not_known(checker: Checker, span: Span, word: str) -> None:
    if checker.is_declared:
        hint = "put it where the type is declared, or beside a value of that type"
        checker.error("type-not-known", span, f"the type of `{word}` cannot be inferred here", hint)


def check_date(checker: Checker, node: syntax.DateLiteral, _want: Type | None) -> typed.Expr | None:
    if not check_calendar_day(checker, node.text.value, node.text.span):
        return None
    return typed.Const(DATE, node.text.value, node.span)


def check_calendar_day(checker: Checker, text: str, span: Span) -> bool:
    if is_day(text):
        return True
    checker.error("bad-date", span, f"`{text[:40]}` is not a valid date", "write a date like 2027-02-18")
    return False


def check_quantity(checker: Checker, node: syntax.QuantityLiteral, _want: Type | None) -> typed.Expr | None:
    kind = resolve_unit(checker, node.unit.text, node.unit.span)
    if not check_number_bounds(checker, node.number) or kind is None:
        return None
    return typed.Const(kind, to_scaled_int(node.number, QTY_SCALE), node.span)


def resolve_unit(checker: Checker, name: str, span: Span) -> Qty | None:
    """The type of quantities in a unit; None if there is no such unit, which is reported."""
    known = QTYS.get(name)
    if known is None:
        hint = checker.shared.suggestions.suggest(name, UNITS) or f"the units are {', '.join(UNITS)}"
        checker.error("unknown-unit", span, f"there is no unit `{name}`", hint)
    return known


def is_undecided(node: syntax.Expr) -> bool:
    """Whether an expression takes its type from its context: a number literal, `none` or `[]`."""
    return isinstance(node, syntax.NumberLiteral | syntax.NoneLiteral) or (
        isinstance(node, syntax.ListLiteral) and not node.items
    )


def is_ambiguous_member(checker: Checker, node: syntax.Expr) -> bool:
    """Whether an expression is a member of several enumerations, and takes its type from its context."""
    return (
        isinstance(node, syntax.VariableRef)
        and node.name not in checker.scope.names
        and len(list_member_enums(checker, node.name, node.span)) > 1
    )


def choose_number_type(numbers: list[syntax.NumberLiteral]) -> Type:
    """The common type of literals: a Dec of the largest written scale, or Int if none has a point."""
    scales = [count_written_decimals(number) for number in numbers if has_point(number)]
    return DECS[max(scales)] if scales else INT


# Types in the text


def resolve_type(checker: Checker, node: syntax.TypeExpr) -> Type | None:
    """The type, or None after a mistake that was reported."""
    kind = _resolve_part(checker, node)
    return None if kind is None else checker.require_allowed_size(kind, node.span)


def _resolve_part(checker: Checker, node: syntax.TypeExpr) -> Type | None:
    match node:
        case syntax.SimpleType(name):
            return SCALARS[name]
        case syntax.NamedType(name):
            return _resolve_enum(checker, name, node.span)
        case syntax.DecType(scale):
            return _resolve_dec(checker, scale, node.span)
        case syntax.QtyType(unit):
            return resolve_unit(checker, unit.text, unit.span)
        case syntax.RecordType():
            return _resolve_record(checker, node)
        case syntax.OptType(item) | syntax.ListType(item) | syntax.MapType(item):
            inner = _resolve_part(checker, item)
            return None if inner is None else _resolve_container(checker, node, inner)


def _resolve_enum(checker: Checker, name: str, span: Span) -> Type | None:
    kind = checker.shared.enums.get(name)
    if kind is None:
        hint = checker.shared.suggestions.suggest(name, checker.shared.enums)
        hint = hint or suggest_type(name, checker.shared.suggestions)
        checker.error("unknown-type", span, f"there is no type `{name}`", hint)
    declaration = checker.shared.declared_at.get(name)
    if declaration is not None and not checker.sees(span, declaration):
        report_hidden(checker, name, span, declaration)
        return None
    return kind


def _resolve_dec(checker: Checker, scale: int, span: Span) -> Type | None:
    if scale <= MAX_DECLARED_SCALE:
        return DECS[scale]
    checker.error("scale-too-large", span, f"a Dec has at most {MAX_DECLARED_SCALE} decimals")
    return None


def _resolve_container(
    checker: Checker, node: syntax.OptType | syntax.ListType | syntax.MapType, item: Type
) -> Type | None:
    if isinstance(node, syntax.ListType):
        return checker.types.list(item)
    if isinstance(node, syntax.MapType):
        return checker.types.map(item)
    if not isinstance(item, Opt):
        return checker.types.opt(item)
    message = "an option cannot contain an option"
    checker.error("nested-option", node.span, message, f"write `{checker.types.to_text(item)}`")
    return None


def _resolve_record(checker: Checker, node: syntax.RecordType) -> Record | None:
    kinds = [_resolve_part(checker, item) for _, item in node.members]
    if explain.report_duplicate_members(checker, [name for name, _ in node.members]):
        return None
    known = {name.text: kind for (name, _), kind in zip(node.members, kinds, strict=True) if kind is not None}
    return checker.types.record(known) if len(known) == len(node.members) else None


# Arguments of built-in functions


def require_text_literal(checker: Checker, call: syntax.Call, position: int, what: str) -> syntax.TextLiteral | None:
    """The argument at `position`, which must be a text literal; `what` names it."""
    node = call.arguments[position]
    if isinstance(node, syntax.TextLiteral):
        return node
    message = f"{what} of `{call.function.text}` must be a text in quotes"
    checker.error("literal-needed", node.span, message, _suggest_quotes(checker, node))
    return None


def _suggest_quotes(checker: Checker, node: syntax.Expr) -> str | None:
    """A known variable was meant as its value; any other name was meant as the text itself."""
    if not isinstance(node, syntax.VariableRef):
        return None
    if node.name in checker.scope.names:
        return f"write the text itself instead of `{node.name}`"
    return f'write it in quotes: `"{node.name}"`'


def require_scale_literal(checker: Checker, call: syntax.Call) -> int | None:
    """The first argument, which must be a whole number of decimals from 0 to 18."""
    node = call.arguments[0]
    if not isinstance(node, syntax.NumberLiteral) or has_point(node) or node.negative:
        message = f"the number of decimals must be a literal: `{call.function.text}(2, …)`"
        checker.error("literal-needed", node.span, message, f"it is a whole number from 0 to {MAX_DECLARED_SCALE}")
        return None
    digits = node.digits.lstrip("0") or "0"
    if len(digits) > 2 or int(digits) > MAX_DECLARED_SCALE:
        message = f"a Dec has at most {MAX_DECLARED_SCALE} decimals, not `{digits[:40]}`"
        checker.error("scale-too-large", node.span, message)
        return None
    return int(digits)


def require_unit_literal(checker: Checker, call: syntax.Call, position: int) -> Qty | None:
    node = call.arguments[position]
    if isinstance(node, syntax.VariableRef) and node.name in QTYS:
        message = f"the unit of `{call.function.text}` must be a text in quotes"
        checker.error("literal-needed", node.span, message, f'write it in quotes: `"{node.name}"`')
        return None
    literal = require_text_literal(checker, call, position, "the unit")
    return None if literal is None else resolve_unit(checker, literal.value, literal.span)


def check_text_argument(checker: Checker, node: Node, what: str) -> typed.Expr | None:
    """Check an argument that must be a Text."""
    expr = checker.check(node)
    if expr is None or expr.type is TEXT:
        return expr
    explain.report_wrong_argument(checker, node, what, expr.type, suggest_text(checker, node, expr.type))
    return None


def suggest_text(checker: Checker, node: Node, kind: Type) -> str | None:
    """How a value becomes a Text, which level 1 of the language has no function for."""
    if isinstance(kind, Opt):
        return None
    if checker.shared.language > 1:
        return (
            f"write it as a text: `text({checker.quote(node)})`"
            if isinstance(kind, Dec | EnumType | Qty | Scalar)
            else None
        )
    return None if kind is DATE else "there is no conversion to Text"


def check_option_argument(checker: Checker, node: Node, function: str) -> tuple[typed.Expr, Type] | None:
    """Check an argument that must be an option; also returns the type inside it."""
    return check_option_operand(checker, node, f"`{function}` needs an option")


def check_option_operand(checker: Checker, node: Node, what: str) -> tuple[typed.Expr, Type] | None:
    """The same; `what` is a whole clause."""
    expr = checker.check(node)
    if expr is None:
        return None
    if isinstance(expr.type, Opt):
        return expr, expr.type.item
    hint = "this value is always present, so it needs no unwrapping"
    explain.report_wrong_argument(checker, node, what, expr.type, hint)
    return None


def check_list_argument(checker: Checker, node: Node, function: str) -> tuple[typed.Expr, Type] | None:
    """Check an argument that must be a list; also returns the type of its elements."""
    expr = checker.check(node)
    if expr is None:
        return None
    if isinstance(expr.type, List):
        return expr, expr.type.item
    hint = None
    if isinstance(expr.type, Opt) and isinstance(expr.type.item, FactRecordType):
        hint = f'a list of facts comes from `getFactsByPrefix("{expr.type.item.name}", prefix)`'
    explain.report_wrong_argument(checker, node, f"`{function}` needs a List", expr.type, hint)
    return None
