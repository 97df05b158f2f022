"""Check what level 2 says about values that may be absent, and membership: `??`, `is present`, `.member`, `in`."""

from collections.abc import Iterator

from bpc.core.language import syntax, typed
from bpc.core.language.checking import enumerations, explain, functions, literals, operators
from bpc.core.language.checking.context import Checker, Mismatch, Node, require_all
from bpc.core.language.checking.literals import is_undecided
from bpc.core.language.types import BOOL, TEXT, FactRecordType, List, Opt, Record, Type, unwrap_option_type


def check_chain(checker: Checker, node: syntax.OperatorChain, want: Type | None) -> typed.Expr | None:
    if node.links[0].op == "??":
        return _check_coalesce(checker, node, [node.first, *[link.operand for link in node.links]], want)
    return operators.check_chain(checker, node, want)


def check_comparison(checker: Checker, node: syntax.Comparison, want: Type | None) -> typed.Expr | None:
    return _check_membership(checker, node) if node.op == "in" else operators.check_comparison(checker, node, want)


def _check_coalesce(
    checker: Checker, node: syntax.OperatorChain, nodes: list[Node], want: Type | None
) -> typed.Expr | None:
    """`option ?? option ?? value`: all of one type, each but the last an option."""
    first = literals.check_option_operand(checker, nodes[0], "`??` needs an option on its left")
    if first is None:
        for operand in nodes[1:]:
            if not is_undecided(operand):
                checker.check(operand)
        return None
    option = checker.types.opt(first[1])
    operands = [checker.check_because(operand, option, (nodes[0], first[0].type)) for operand in nodes[1:-1]]
    operands.append(_check_last_operand(checker, nodes, first[0].type, option, want))
    exprs: tuple[typed.Expr, ...] | None = require_all(operands)
    if exprs is None:
        return None
    links = [typed.LogicOperand(expr, link.op_span) for expr, link in zip(exprs, node.links, strict=True)]
    return typed.Coalesce(exprs[-1].type, first[0], tuple(links), node.links[0].op_span)


def _check_last_operand(
    checker: Checker, nodes: list[Node], first: Type, option: Opt, want: Type | None
) -> typed.Expr | None:
    """The last operand of `??`: a value, or another option of the same type. What is wanted of all decides."""
    outer, checker.because = checker.because, (nodes[0], first)
    node = nodes[-1]
    if want is option or isinstance(node, syntax.NoneLiteral):
        last = checker.check(node, option)
    elif want is option.item or all(map(_takes_type, _iterate_results(node))):
        last = checker.check(node, option.item)
    else:
        last = checker.check(node)
    if last is not None and last.type is not option and last.type is not option.item:
        expected = option if isinstance(last.type, Opt) else option.item
        last = checker.handlers[Mismatch](checker, Mismatch(node, last.type), expected)
    checker.because = outer
    return last


def _takes_type(node: Node) -> bool:
    """Whether an expression takes its type from its context."""
    return isinstance(node, syntax.NumberLiteral | syntax.ListLiteral | syntax.RecordLiteral)


def _iterate_results(node: Node) -> Iterator[Node]:
    """The expressions that an `if` or a block may give as its value; any other expression itself."""
    pending = [node]
    while pending:
        part = pending.pop()
        if isinstance(part, syntax.If):
            pending += [*(branch.body for branch in part.branches), part.otherwise]
        elif isinstance(part, syntax.Block):
            pending.append(part.body)
        else:
            yield part


def check_presence(checker: Checker, node: syntax.Presence, _want: Type | None) -> typed.Expr | None:
    what = "`is present` needs an option" if node.is_present else "`is absent` needs an option"
    option = literals.check_option_operand(checker, node.operand, what)
    if option is None:
        return None
    is_some = typed.BuiltinCall(BOOL, "isSome", (option[0],), {}, node.span)
    return is_some if node.is_present else typed.TypedUnary(BOOL, "!", is_some, node.span)


def check_interpolation(checker: Checker, node: syntax.Interpolation, _want: Type | None) -> typed.Expr | None:
    """A text with expressions in it: a `concat` of its parts, each that is no Text written by `text`."""
    parts: tuple[typed.Expr, ...] | None = require_all([_check_piece(checker, part) for part in node.parts])
    return None if parts is None else typed.BuiltinCall(TEXT, "concat", parts, {}, node.span)


def _check_piece(checker: Checker, node: Node) -> typed.Expr | None:
    expr = checker.check(node)
    if expr is None or expr.type is TEXT:
        return expr
    return functions.write_as_text(checker, node, expr, node.span)


def check_member(checker: Checker, node: syntax.Member, _want: Type | None) -> typed.Expr | None:
    """`record.member`: what a fact may say is an option, and so is all that an absent record may say."""
    enum = enumerations.find_enum(checker, node.record)
    if enum is not None:
        return enumerations.check_qualified_member(checker, node, enum)
    record = checker.check(node.record)
    if record is None:
        return None
    inner, name = unwrap_option_type(record.type), node.member.text
    if not isinstance(inner, FactRecordType | Record):
        hint = None
        if isinstance(inner, List) and isinstance(inner.item, FactRecordType | Record):
            hint = f"read it from each element: `map({checker.quote(node.record)}, fn(x) => x.{name})`"
        explain.report_wrong_argument(checker, node.record, f"`.{name}` needs a record", record.type, hint)
        return None
    members = checker.shared.get_members(inner)
    kind = members.get(name)
    if kind is None:
        functions.report_unknown_member(checker, inner, node.member.span, name, members)
        return None
    if record.type is not inner or isinstance(inner, FactRecordType):
        kind = kind if isinstance(kind, Opt) else checker.types.opt(kind)
    return typed.BuiltinCall(kind, "member", (record,), {"member": name}, node.span)


def _check_membership(checker: Checker, node: syntax.Comparison) -> typed.Expr | None:
    """`value in list`: the list has elements of exactly the value's type."""
    if is_undecided(node.left):
        items = checker.check(node.right)
        item_type = items.type.item if items is not None and isinstance(items.type, List) else None
        value = None if item_type is None else checker.check_because(node.left, item_type, (node.right, item_type))
    else:
        value = checker.check(node.left)
        items = None
        if value is not None:
            if isinstance(node.right, syntax.ListLiteral):
                items = checker.check_because(node.right, checker.types.list(value.type), (node.left, value.type))
            else:
                items = checker.check(node.right)
    if items is None:
        return None
    if not isinstance(items.type, List):
        explain.report_wrong_argument(checker, node.right, "`in` needs a List on its right", items.type)
        return None
    if value is None:
        return None
    if items.type.item is not value.type:
        explain.report_disagreement(checker, node.op_span, "in", (node.left, value.type), (node.right, items.type.item))
        return None
    if not operators.check_comparable(checker, "==", node.left.span, value.type):
        return None
    return typed.BuiltinCall(BOOL, "in", (value, items), {}, node.op_span)
