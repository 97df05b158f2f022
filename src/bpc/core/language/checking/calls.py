"""Check calls of built-in functions: the table of all, how many arguments each takes, and which take a lambda."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from bpc.core.language import syntax, typed
from bpc.core.language.checking import functions, list_functions, literals, number_functions
from bpc.core.language.checking.context import Checker
from bpc.core.language.checking.imports import report_hidden
from bpc.core.language.checking.literals import is_undecided
from bpc.core.language.types import DATE, TEXT, Type

# What functions are called in other languages.
_FUNCTION_FIXES: Final = {
    "sum": 'add up a list with `sumDec(decimals, list)`, `sumQty("unit", list)`, or `fold` for a list of Ints',
    "round": "`toDec(decimals, number)` rounds",
    "len": "`count(list)` counts a list",
    "length": "`count(list)` counts a list",
    "size": "`count(list)` counts a list",
    "reduce": "it is called `fold(list, start, fn(acc, x) => …)`",
    "join": "use `concat(text, …)` to join texts",
    "max": "write it out: `if (a > b) then a else b`",
    "min": "write it out: `if (a < b) then a else b`",
    "abs": "write it out: `if (x < 0) then -x else x`",
    "today": "use `issuedOn()`, the day of issue",
    "now": "use `issuedOn()`, the day of issue",
}


class BuiltinFunction(NamedTuple):
    """A built-in function: how to call it, how many arguments it takes (`most` None: any number), and its check.

    `language` is the level that has it first.
    """

    usage: str
    least: int
    most: int | None
    check: Callable[[Checker, syntax.Call, Type | None], typed.Expr | None]
    takes_lambda: bool = False
    language: int = 1


def is_known_function(checker: Checker, name: str) -> bool:
    """Whether the level of the language that the package is written in has this function."""
    return name in FUNCTIONS and FUNCTIONS[name].language <= checker.shared.language


def check_call(checker: Checker, node: syntax.Call, want: Type | None) -> typed.Expr | None:
    declared_call = checker.shared.calls.get(node.function.text)
    declared_at = checker.shared.declared_at.get(node.function.text)
    is_visible = checker.sees(node.function.span, declared_at)
    if declared_call is not None and is_visible:
        return declared_call(checker, node, want)
    if not is_known_function(checker, node.function.text):
        if declared_at is None or is_visible:
            _report_unknown_function(checker, node)
        else:
            _check_arguments_alone(checker, node)
            report_hidden(checker, node.function.text, node.function.span, declared_at)
        return None
    function = FUNCTIONS[node.function.text]
    argument_count = len(node.arguments)
    if argument_count < function.least or (function.most is not None and argument_count > function.most):
        _check_arguments_alone(checker, node)
        takes, has = _describe_argument_count(function), argument_count or "none"
        message = f"`{node.function.text}` takes {takes}, but this call has {has}"
        checker.error("wrong-argument-count", node.span, message, f"write `{function.usage}`")
        return None
    if not _check_lambda_positions(checker, node, function):
        return None
    return function.check(checker, node, want)


def _describe_argument_count(function: BuiltinFunction) -> str:
    if function.most is None:
        return "one argument or more"
    if function.least < function.most:
        return f"{function.least} or {literals.format_count(function.most, 'argument')}"
    return "no arguments" if function.most == 0 else literals.format_count(function.most, "argument")


def _report_unknown_function(checker: Checker, node: syntax.Call) -> None:
    name = node.function.text
    _check_arguments_alone(checker, node)
    known = [*(each for each in FUNCTIONS if is_known_function(checker, each)), *checker.shared.calls]
    hint = _FUNCTION_FIXES.get(name) or checker.shared.suggestions.suggest(name, known, "{}(…)")
    checker.error("unknown-function", node.function.span, f"there is no function `{name}`", hint)


def _check_arguments_alone(checker: Checker, node: syntax.Call) -> None:
    """Check the arguments of a wrong call for mistakes of their own."""
    for argument in node.arguments:
        if not isinstance(argument, syntax.Lambda) and not is_undecided(argument):
            checker.check(argument)


def _check_lambda_positions(checker: Checker, node: syntax.Call, function: BuiltinFunction) -> bool:
    """Whether functions are passed only where this built-in takes one: as the last argument, if at all."""
    values = node.arguments[:-1] if function.takes_lambda else node.arguments
    misplaced = [argument for argument in values if isinstance(argument, syntax.Lambda)]
    for argument in misplaced:
        message = f"`{node.function.text}` does not take a function here"
        checker.error("wrong-lambda", argument.span, message, f"write `{function.usage}`")
    return not misplaced


def _declare_level_two(
    usage: str,
    check: Callable[[Checker, syntax.Call, Type | None], typed.Expr | None],
    *,
    least: int | None = None,
    takes_lambda: bool = False,
) -> BuiltinFunction:
    most = usage.count(",") + 1
    return BuiltinFunction(usage, most if least is None else least, most, check, takes_lambda, language=2)


_LEVEL_TWO: Final[Mapping[str, BuiltinFunction]] = {
    "text": _declare_level_two("text(value)", functions.check_text_of),
    "startsWith": _declare_level_two("startsWith(text, beginning)", functions.check_on_texts),
    "endsWith": _declare_level_two("endsWith(text, ending)", functions.check_on_texts),
    "contains": _declare_level_two("contains(text, part)", functions.check_on_texts),
    "split": _declare_level_two("split(text, separator)", functions.check_on_texts),
    "trim": _declare_level_two("trim(text)", functions.check_on_texts),
    "length": _declare_level_two("length(text)", functions.check_on_texts),
    "daysBetween": _declare_level_two("daysBetween(from, to)", functions.check_days_between),
    "addDays": _declare_level_two("addDays(date, number)", functions.check_later_day),
    "addMonths": _declare_level_two("addMonths(date, number)", functions.check_later_day),
    "addYears": _declare_level_two("addYears(date, number)", functions.check_later_day),
    "year": _declare_level_two("year(date)", functions.check_part_of_day),
    "month": _declare_level_two("month(date)", functions.check_part_of_day),
    "day": _declare_level_two("day(date)", functions.check_part_of_day),
    "laterOf": _declare_level_two("laterOf(date, date)", number_functions.check_extreme_day),
    "latestOf": _declare_level_two("latestOf(date, date)", number_functions.check_extreme_day),
    "earlierOf": _declare_level_two("earlierOf(date, date)", number_functions.check_extreme_day),
    "min": _declare_level_two("min(a, b)", number_functions.check_extreme, least=1),
    "max": _declare_level_two("max(a, b)", number_functions.check_extreme, least=1),
    "abs": _declare_level_two("abs(number)", number_functions.check_abs),
    "round": _declare_level_two("round(decimals, number)", number_functions.check_round),
    "sum": _declare_level_two("sum(list)", number_functions.check_sum),
    "first": _declare_level_two("first(list)", list_functions.check_end),
    "last": _declare_level_two("last(list)", list_functions.check_end),
    "distinct": _declare_level_two("distinct(list)", list_functions.check_distinct),
    "present": _declare_level_two("present(list)", list_functions.check_present),
    "isEmpty": _declare_level_two("isEmpty(list)", list_functions.check_is_empty),
    "any": _declare_level_two("any(list, fn(x) => …)", list_functions.check_loop, takes_lambda=True),
    "all": _declare_level_two("all(list, fn(x) => …)", list_functions.check_loop, takes_lambda=True),
    "sortBy": _declare_level_two("sortBy(list, fn(x) => …)", list_functions.check_loop, takes_lambda=True),
    "latestBy": _declare_level_two("latestBy(list, fn(x) => …)", list_functions.check_loop, takes_lambda=True),
    "groupBy": _declare_level_two("groupBy(list, fn(x) => …)", list_functions.check_loop, takes_lambda=True),
}

FUNCTIONS: Final[Mapping[str, BuiltinFunction]] = {
    "getFact": BuiltinFunction('getFact("Type", key)', 2, 2, functions.check_get_fact),
    "getFactsByPrefix": BuiltinFunction('getFactsByPrefix("Type", prefix)', 2, 2, functions.check_get_facts),
    "recordGet": BuiltinFunction('recordGet(record, "member")', 2, 2, functions.check_record_get),
    "mapGet": BuiltinFunction("mapGet(map, key)", 2, 2, functions.check_map_get),
    "some": BuiltinFunction("some(value)", 1, 1, functions.check_some),
    "isSome": BuiltinFunction("isSome(option)", 1, 1, functions.check_is_some),
    "unwrapOr": BuiltinFunction("unwrapOr(option, default)", 2, 2, functions.check_unwrap_or),
    "requireSome": BuiltinFunction('requireSome(option, "CODE", "message")', 3, 3, functions.check_require_some),
    "toDec": BuiltinFunction("toDec(decimals, number)", 2, 2, number_functions.check_to_dec),
    "toQty": BuiltinFunction('toQty("unit", number)', 2, 2, number_functions.check_to_qty),
    "convert": BuiltinFunction('convert("from", "to", quantity)', 3, 3, number_functions.check_convert),
    "sumQty": BuiltinFunction('sumQty("unit", list)', 2, 2, number_functions.check_sum_qty),
    "sumDec": BuiltinFunction("sumDec(decimals, list)", 2, 2, number_functions.check_sum_dec),
    "amount": BuiltinFunction("amount(quantity)", 1, 1, number_functions.check_amount),
    "map": BuiltinFunction("map(list, fn(x) => …)", 2, 2, list_functions.check_loop, takes_lambda=True),
    "filter": BuiltinFunction("filter(list, fn(x) => …)", 2, 2, list_functions.check_loop, takes_lambda=True),
    "fold": BuiltinFunction("fold(list, start, fn(acc, x) => …)", 3, 3, list_functions.check_fold, takes_lambda=True),
    "count": BuiltinFunction("count(list)", 1, 1, functions.check_count),
    "concat": BuiltinFunction("concat(text, …)", 1, None, functions.check_concat),
    "emitCompliance": BuiltinFunction('emitCompliance("CODE", "PASS", message)', 3, 3, functions.check_emit_compliance),
    "productSku": BuiltinFunction("productSku()", 0, 0, functions.make_input_check("productSku", TEXT)),
    "productName": BuiltinFunction("productName()", 0, 0, functions.make_input_check("productName", TEXT)),
    "issuedOn": BuiltinFunction("issuedOn()", 0, 0, functions.make_input_check("issuedOn", DATE)),
    **_LEVEL_TWO,
}
