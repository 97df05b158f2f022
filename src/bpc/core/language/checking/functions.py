"""Check the built-in functions on facts, records, options, lists, texts and days, the passport's own, and compliance.

Numbers are in number_functions.py, what takes a lambda in list_functions.py; the table of all is in calls.py.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from bpc.core.facts.schemas import SCHEMAS
from bpc.core.language import syntax, typed
from bpc.core.language.checking import explain, literals
from bpc.core.language.checking.context import Checker, Node, require_all
from bpc.core.language.checking.literals import is_undecided
from bpc.core.language.source import Span
from bpc.core.language.types import (
    BOOL,
    DATE,
    INT,
    TEXT,
    Dec,
    EnumType,
    FactRecordType,
    List,
    Map,
    Opt,
    Qty,
    Record,
    Scalar,
    Type,
    unwrap_option_type,
)

STATUSES: Final = ("PASS", "FAIL", "WARN", "NOT_APPLICABLE")

_STATUS_MESSAGE: Final = "the status must be `PASS`, `FAIL`, `WARN` or `NOT_APPLICABLE`, or an `if` of these"
_FACT_NAME: Final = re.compile("([^@]*)(?:@([1-9][0-9]{0,8}))?")


def check_get_fact(checker: Checker, node: syntax.Call, _want: Type | None) -> typed.Expr | None:
    fact = require_fact_literal(checker, node)
    key = literals.check_text_argument(checker, node.arguments[1], "the key of `getFact` must be a `Text`")
    if fact is None or key is None:
        return None
    return typed.FactLookup(checker.types.opt(fact), fact, key, node.span)


def check_get_facts(checker: Checker, node: syntax.Call, _want: Type | None) -> typed.Expr | None:
    fact = require_fact_literal(checker, node)
    what = "the prefix of `getFactsByPrefix` must be a `Text`"
    prefix = literals.check_text_argument(checker, node.arguments[1], what)
    if fact is None or prefix is None:
        return None
    return typed.FactPrefixLookup(checker.types.list(fact), fact, prefix, node.span)


def require_fact_literal(checker: Checker, node: syntax.Call) -> FactRecordType | None:
    literal = literals.require_text_literal(checker, node, 0, "the fact type")
    if literal is None:
        return None
    fact = resolve_fact_type(checker, literal.value, literal.span)
    if fact is not None:
        checker.shared.facts.add(fact)
    return fact


def resolve_fact_type(checker: Checker, text: str, span: Span) -> FactRecordType | None:
    """`Battery` is version 1, `Battery@2` version 2; both must be in the table of schemas."""
    parts = _FACT_NAME.fullmatch(text)
    name, version = (parts[1], int(parts[2] or "1")) if parts is not None else (text, 0)
    if FactRecordType(name, version) in SCHEMAS:
        return checker.types.fact(name, version)
    versions = [known.version for known in SCHEMAS if known.name == name]
    if versions:
        message = f"there is no version {version} of the fact type `{name}`"
        names_text = ", ".join(f'`"{name}@{known}"`' for known in sorted(versions))
        checker.error("unknown-fact", span, message, f"there is {names_text}")
        return None
    names = list(dict.fromkeys(known.name for known in SCHEMAS))
    all_names = f"the fact types are {', '.join(f'`{known}`' for known in names)}"
    hint = checker.shared.suggestions.suggest(name, names) or all_names
    checker.error("unknown-fact", span, f"there is no fact type `{text[:80]}`", hint)
    return None


# Records and maps


def check_record_get(checker: Checker, node: syntax.Call, _want: Type | None) -> typed.Expr | None:
    record = checker.check(node.arguments[0])
    name = literals.require_text_literal(checker, node, 1, "the member")
    if record is None or name is None:
        return None
    members = _require_members(checker, node.arguments[0], record.type)
    if members is None:
        return None
    member = members.get(name.value)
    if member is None:
        report_unknown_member(checker, record.type, name.span, name.value, members)
        return None
    kind = member if isinstance(member, Opt) else checker.types.opt(member)
    return typed.BuiltinCall(kind, "recordGet", (record,), {"member": name.value}, node.span)


def report_unknown_member(checker: Checker, kind: Type, span: Span, name: str, members: Mapping[str, Type]) -> None:
    message = f"{checker.format_type(kind)} has no member `{name[:80]}`"
    hint = checker.shared.suggestions.suggest(name, members) or _suggest_longer(name, members) or _list_members(members)
    checker.error("unknown-member", span, message, hint)


def _suggest_longer(name: str, members: Mapping[str, Type]) -> str | None:
    """Members that have the name in them, such as `mass_kg` for `mass`."""
    longer_names = [member for member in members if name in member.split("_") or member.startswith(f"{name}_")]
    if len(longer_names) == 1:
        return f"did you mean `{longer_names[0]}`?"
    return f"members like it are {', '.join(f'`{each}`' for each in longer_names[:6])}" if longer_names else None


def _list_members(members: Mapping[str, Type]) -> str:
    names = ", ".join(f"`{name}`" for name in list(members)[:12])
    return f"its members are {names}{' and more' if len(members) > 12 else ''}"


def _require_members(checker: Checker, node: Node, kind: Type) -> Mapping[str, Type] | None:
    if isinstance(kind, FactRecordType | Record):
        return checker.shared.get_members(kind)
    inner, words = unwrap_option_type(kind), checker.quote(node)
    hint = None
    if isinstance(kind, Opt) and isinstance(inner, FactRecordType | Record):
        hint = f'it may be absent; unwrap it first: `requireSome({words}, "CODE", "message")`'
    elif isinstance(kind, List):
        hint = f'read it from each element: `map({words}, fn(x) => recordGet(x, "member"))`'
    elif isinstance(inner, Map):
        hint = f"read a map with `mapGet({words}, …)`"
    explain.report_wrong_argument(checker, node, "`recordGet` needs a record", kind, hint)
    return None


def check_map_get(checker: Checker, node: syntax.Call, _want: Type | None) -> typed.Expr | None:
    map_expr = checker.check(node.arguments[0])
    key = literals.check_text_argument(checker, node.arguments[1], "the key of `mapGet` must be a `Text`")
    if map_expr is None:
        return None
    if not isinstance(map_expr.type, Map):
        hint = (
            'read a record with `recordGet(…, "member")`'
            if isinstance(map_expr.type, Record | FactRecordType)
            else None
        )
        explain.report_wrong_argument(checker, node.arguments[0], "`mapGet` needs a Map", map_expr.type, hint)
        return None
    item = map_expr.type.item
    kind = item if isinstance(item, Opt) else checker.require_allowed_size(checker.types.opt(item), node.span)
    return None if key is None or kind is None else typed.BuiltinCall(kind, "mapGet", (map_expr, key), {}, node.span)


# Options


def check_some(checker: Checker, node: syntax.Call, want: Type | None) -> typed.Expr | None:
    argument = node.arguments[0]
    if isinstance(argument, syntax.NoneLiteral):
        hint = "it needs no `some`: write `none`"
        checker.error("nested-option", node.span, "an option cannot contain an option", hint)
        return None
    item = checker.check(argument, want.item if isinstance(want, Opt) else None, allow_option=True)
    if item is None:
        return None
    if isinstance(item.type, Opt):
        words = checker.quote(argument)
        message = f"`{words}` is {checker.format_type(item.type)}, but an option cannot contain an option"
        checker.error("nested-option", node.span, message, f"it needs no `some`: write `{words}`")
        return None
    kind = checker.require_allowed_size(checker.types.opt(item.type), node.span)
    return None if kind is None else typed.BuiltinCall(kind, "some", (item,), {}, node.span)


def check_is_some(checker: Checker, node: syntax.Call, _want: Type | None) -> typed.Expr | None:
    option = literals.check_option_argument(checker, node.arguments[0], "isSome")
    return None if option is None else typed.BuiltinCall(BOOL, "isSome", (option[0],), {}, node.span)


def check_unwrap_or(checker: Checker, node: syntax.Call, _want: Type | None) -> typed.Expr | None:
    checked_option = literals.check_option_argument(checker, node.arguments[0], "unwrapOr")
    if checked_option is None:
        if not is_undecided(node.arguments[1]):
            checker.check(node.arguments[1])
        return None
    option, kind = checked_option
    default = checker.check_because(node.arguments[1], kind, (node.arguments[0], option.type))
    return None if default is None else typed.BuiltinCall(kind, "unwrapOr", (option, default), {}, node.span)


def check_require_some(checker: Checker, node: syntax.Call, _want: Type | None) -> typed.Expr | None:
    option = literals.check_option_argument(checker, node.arguments[0], "requireSome")
    code = literals.require_text_literal(checker, node, 1, "the code")
    message = literals.require_text_literal(checker, node, 2, "the message")
    if option is None or code is None or message is None:
        return None
    return typed.RequireSome(option[1], option[0], code.value, message.value, node.span)


# Lists and texts


def check_count(checker: Checker, node: syntax.Call, _want: Type | None) -> typed.Expr | None:
    items = literals.check_list_argument(checker, node.arguments[0], "count")
    return None if items is None else typed.BuiltinCall(INT, "count", (items[0],), {}, node.span)


def check_concat(checker: Checker, node: syntax.Call, _want: Type | None) -> typed.Expr | None:
    what = "`concat` joins Texts"
    texts: tuple[typed.Expr, ...] | None = require_all(
        [literals.check_text_argument(checker, argument, what) for argument in node.arguments]
    )
    return None if texts is None else typed.BuiltinCall(TEXT, "concat", texts, {}, node.span)


_TEXT_RESULTS: Final[Mapping[str, Type]] = {
    "startsWith": BOOL,
    "endsWith": BOOL,
    "contains": BOOL,
    "trim": TEXT,
    "length": INT,
}
_LIST_FIXES: Final = {
    "contains": "`any({}, fn(x) => x == …)` looks for an element",
    "length": "`count({})` counts a list",
}


def check_text_of(checker: Checker, node: syntax.Call, _want: Type | None) -> typed.Expr | None:
    """`text(x)`: what has no parts can be written."""
    expr = checker.check(node.arguments[0])
    return None if expr is None else write_as_text(checker, node.arguments[0], expr, node.span)


def write_as_text(checker: Checker, node: Node, expr: typed.Expr, span: Span) -> typed.Expr | None:
    """What is absent is written as `-`."""
    kind = unwrap_option_type(expr.type)
    if isinstance(kind, Dec | Qty | Scalar | EnumType):
        of = "Dec" if isinstance(kind, Dec) else checker.types.to_text(kind)
        return typed.BuiltinCall(TEXT, "text", (expr,), {"of": of}, span)
    explain.report_wrong_argument(checker, node, "`text` writes Bool, Int, Dec, Qty, Date, Text and members", expr.type)
    return None


def check_on_texts(checker: Checker, node: syntax.Call, _want: Type | None) -> typed.Expr | None:
    """The functions whose arguments are all Texts."""
    name: Any = node.function.text
    texts: tuple[typed.Expr, ...] | None = require_all(
        [_check_text_or_list(checker, argument, name) for argument in node.arguments]
    )
    if texts is None:
        return None
    kind = checker.types.list(TEXT) if name == "split" else _TEXT_RESULTS[name]
    return typed.BuiltinCall(kind, name, texts, {}, node.span)


def _check_text_or_list(checker: Checker, node: Node, function: str) -> typed.Expr | None:
    """A Text; whoever gives a list meant another function."""
    expr = checker.check(node)
    if expr is None or expr.type is TEXT:
        return expr
    hint = _LIST_FIXES.get(function) if isinstance(expr.type, List) else literals.suggest_text(checker, node, expr.type)
    words = checker.quote(node)
    what = f"`{function}` takes a `Text`"
    explain.report_wrong_argument(checker, node, what, expr.type, None if hint is None else hint.format(words))
    return None


# Days


def check_days_between(checker: Checker, node: syntax.Call, _want: Type | None) -> typed.Expr | None:
    days: tuple[typed.Expr, ...] | None = require_all([checker.check(argument, DATE) for argument in node.arguments])
    return None if days is None else typed.BuiltinCall(INT, "daysBetween", days, {}, node.span)


def check_part_of_day(checker: Checker, node: syntax.Call, _want: Type | None) -> typed.Expr | None:
    """year, month, day"""
    name: Any = node.function.text
    expr = checker.check(node.arguments[0], DATE)
    return None if expr is None else typed.BuiltinCall(INT, name, (expr,), {}, node.span)


def check_later_day(checker: Checker, node: syntax.Call, _want: Type | None) -> typed.Expr | None:
    """addDays, addMonths, addYears: of a day, or of one that may be absent."""
    name: Any = node.function.text
    argument = node.arguments[0]
    day = checker.check(argument)
    number = checker.check(node.arguments[1], INT)
    if day is not None and unwrap_option_type(day.type) is not DATE:
        hint = explain.suggest_conversion(checker.quote(argument), day.type, DATE, checker.shared.language)
        explain.report_wrong_argument(checker, argument, f"`{name}` takes a `Date`", day.type, hint)
        return None
    if day is None or number is None:
        return None
    return typed.BuiltinCall(day.type, name, (day, number), {}, node.span)


# Inputs and compliance


def make_input_check(
    op: Literal["productSku", "productName", "issuedOn"], kind: Type
) -> Callable[[Checker, syntax.Call, Type | None], typed.Expr | None]:
    def check_input(_checker: Checker, node: syntax.Call, _want: Type | None) -> typed.Expr | None:
        return typed.BuiltinCall(kind, op, (), {}, node.span)

    return check_input


def check_emit_compliance(checker: Checker, node: syntax.Call, _want: Type | None) -> typed.Expr | None:
    code = literals.require_text_literal(checker, node, 0, "the code")
    status = checker.check(node.arguments[1]) if _check_status(checker, node.arguments[1]) else None
    what = "the message of `emitCompliance` must be a `Text`"
    message = literals.check_text_argument(checker, node.arguments[2], what)
    if not _check_may_emit(checker, node) or code is None or status is None or message is None:
        return None
    return typed.EmitCompliance(BOOL, code.value, status, message, node.span)


def _check_may_emit(checker: Checker, node: syntax.Call) -> bool:
    if checker.scope.level:
        message = "`emitCompliance` cannot be used inside a function: the proof records entries of rules only"
        hint = "compute the list first, then emit one entry for the whole list"
        checker.error("emit-in-lambda", node.span, message, hint)
        return False
    if checker.rule is None:
        message = "`emitCompliance` can only be used in the rule of a field"
        checker.error("emit-outside-rule", node.span, message, "emit in a field's rule, and read that field here")
        return False
    return True


def _check_status(checker: Checker, node: Node) -> bool:
    """Whether the status is one of the four literals, or an `if` of such."""
    is_valid = True
    waiting = [node]
    while waiting:
        status_node = waiting.pop()
        if isinstance(status_node, syntax.If):
            waiting += [*[branch.body for branch in status_node.branches], status_node.otherwise]
        elif not isinstance(status_node, syntax.TextLiteral):
            is_valid = False
            checker.error("literal-needed", status_node.span, _STATUS_MESSAGE)
        elif status_node.value not in STATUSES:
            is_valid = False
            hint = checker.shared.suggestions.suggest(status_node.value, STATUSES, '"{}"')
            checker.error("bad-status", status_node.span, _STATUS_MESSAGE, hint)
    return is_valid
