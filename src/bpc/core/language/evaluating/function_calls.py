"""Code for functions of level 2 that are more than one expression: texts, days, extremes, rounding, distinct values.

Pure. `CALL_EMITTERS` has them by name. Each gets the code of its arguments and returns that of its value.
"""

from collections.abc import Callable, Mapping
from typing import Final

from bpc.core.language import typed
from bpc.core.language.evaluating import runtime
from bpc.core.language.evaluating.emitter import Emitter
from bpc.core.language.evaluating.lookups import emit_to_enum
from bpc.core.language.evaluating.numbers import emit_limit_check, emit_rounding, format_scaled, get_scale
from bpc.core.language.evaluating.values import create_text_writer, create_writer
from bpc.core.language.evaluation import CALENDAR_MESSAGE, RuleLimitExceeded
from bpc.core.language.types import DATE, QTY_SCALE, TEXT, List, Map, Opt, Record, unwrap_option_type


def _emit_text(emitter: Emitter, expr: typed.BuiltinCall, atoms: list[str]) -> str:
    """What is absent is written as `-`."""
    kind = unwrap_option_type(expr.arguments[0].type)
    value = atoms[0] if kind is expr.arguments[0].type else emitter.code.ensure_temporary(atoms[0])
    text_code = value
    if kind not in {TEXT, DATE}:
        write = emitter.code.register("x", emitter.get_type_info(kind).number, lambda: create_text_writer(kind))
        text_code = f"{write}({value})"
    if kind is not expr.arguments[0].type:
        text_code = f"'-' if {value} is None else {text_code}"
    return text_code if text_code is value else emitter.code.store(text_code)


def _emit_later_day(emitter: Emitter, expr: typed.BuiltinCall, atoms: list[str]) -> str:
    """addDays, addMonths, addYears; of no day there is none."""
    call, failing = _DAY_FUNCTIONS[expr.op], emitter.format_raise(expr.span, RuleLimitExceeded, CALENDAR_MESSAGE)
    if not isinstance(expr.type, Opt):
        value = emitter.code.store(f"{call}({atoms[0]}, {atoms[1]})")
        emitter.code.write_line(f"if {value} is None: {failing}")
        return value
    day = emitter.code.ensure_temporary(atoms[0])
    value = emitter.code.store(f"None if {day} is None else {call}({day}, {atoms[1]})")
    emitter.code.write_line(f"if {value} is None and {day} is not None: {failing}")
    return value


def _emit_extreme(emitter: Emitter, expr: typed.BuiltinCall, atoms: list[str]) -> str:
    """min and max: of a list, or of two values, each counted in the result's scale; of no value there is none."""
    if len(atoms) == 1:
        numbers = emitter.code.ensure_temporary(atoms[0])
        emitter.charge(f"len({numbers})", expr.span)
        return emitter.code.store(f"{expr.op}({numbers}) if {numbers} else None")
    scale, sides, absent = get_scale(unwrap_option_type(expr.type)), [], []
    for atom, argument in zip(atoms, expr.arguments, strict=True):
        side = atom
        if isinstance(argument.type, Opt):
            side = emitter.code.ensure_temporary(atom)
            absent.append(f"{side} is None")
        sides.append(format_scaled(side, scale - get_scale(unwrap_option_type(argument.type))))
    value = f"{expr.op}({', '.join(sides)})"
    return emitter.code.store(f"None if {' or '.join(absent)} else {value}" if absent else value)


def _emit_round(emitter: Emitter, expr: typed.BuiltinCall, atoms: list[str]) -> str:
    """A quantity keeps its scale, and has fewer decimals."""
    unit: int = 10 ** (QTY_SCALE - int(expr.static["scale"]))
    if unit == 1:
        return atoms[0]
    value = emitter.code.store(f"{emit_rounding(emitter, atoms[0], unit)} * {unit}")
    return emit_limit_check(emitter, value, QTY_SCALE, expr.span)


def _emit_distinct(emitter: Emitter, expr: typed.BuiltinCall, atoms: list[str]) -> str:
    kind = expr.type
    emitter.charge_size(atoms[0], kind, expr.span)
    item = unwrap_option_type(kind.item) if isinstance(kind, List) else kind
    if not isinstance(item, List | Map | Record):
        return emitter.code.store(f"[*once({atoms[0]})]")
    pick = emitter.code.register(
        "u", emitter.get_type_info(item).number, lambda: runtime.create_distinct_picker(create_writer(Opt(item)))
    )
    return emitter.code.store(f"{pick}({atoms[0]})")


_DAY_FUNCTIONS: Final[Mapping[str, str]] = {"addDays": "add_days", "addMonths": "add_months", "addYears": "add_years"}
CALL_EMITTERS: Final[Mapping[str, Callable[[Emitter, typed.BuiltinCall, list[str]], str]]] = {
    "text": _emit_text,
    **dict.fromkeys(_DAY_FUNCTIONS, _emit_later_day),
    "min": _emit_extreme,
    "max": _emit_extreme,
    "round": _emit_round,
    "distinct": _emit_distinct,
    "toEnum": emit_to_enum,
}
