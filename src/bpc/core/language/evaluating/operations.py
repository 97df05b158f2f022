"""Code for what a rule reads, calls and computes: facts, fields, built-ins, lists, records, compliance, numbers.

Pure. One function for each kind of expression. What it needs beyond its operands (a scale, a unit, a member) is known
before the code runs. Numbers are integers that count 10^-scale. All rounding is half to even, and every result is
checked to be below 10^36 unless it cannot be otherwise.
"""

from collections.abc import Generator, Mapping
from typing import Final, NamedTuple

from bpc.core.facts.units import find_conversion
from bpc.core.language import typed
from bpc.core.language.evaluating import runtime
from bpc.core.language.evaluating.emitter import Emission, Emitter, OperandCode, encode_data
from bpc.core.language.evaluating.values import quote_text, value_to_json
from bpc.core.language.evaluation import (
    MAGNITUDE_DIGITS,
    MAGNITUDE_MESSAGE,
    ZERO_MESSAGE,
    AssertionFailed,
    DivisionByZero,
    RuleLimitExceeded,
)
from bpc.core.language.source import Span
from bpc.core.language.types import QTY_SCALE, TEXT, Dec, FactRecordType, List, Qty, Type
from bpc.core.passport import proof


def emit_const(emitter: Emitter, expr: typed.Const) -> OperandCode:
    if not emitter.proving:
        return OperandCode(_format_atom(emitter, expr))
    kind, value = expr.type, expr.value

    def create_maker(first: int) -> runtime.NodeMaker:
        return runtime.create_plain_maker(
            proof.CONST, encode_data(type=str(kind), value=value_to_json(kind, value)), first
        )

    make = emitter.register_maker(("const", emitter.get_type_info(kind).number, value), create_maker)
    return OperandCode(_format_atom(emitter, expr), emitter.emit_node(make, ()))


def _format_atom(emitter: Emitter, expr: typed.Const) -> str:
    value = expr.value
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, int):
        return format_literal(value)
    if isinstance(value, str):
        return emitter.code.register_text(value)
    raise TypeError(f"a literal is no {type(value).__name__}")


def emit_local(emitter: Emitter, expr: typed.Local) -> OperandCode:
    return emitter.scope[expr.name]


def emit_field_value(emitter: Emitter, expr: typed.FieldValue) -> OperandCode:
    position = emitter.fields[expr.path]
    if emitter.lazy:
        return OperandCode(emitter.code.store(f"s[{runtime.GET_FIELD}]({position})"))
    value = emitter.code.store(f"s[{runtime.FIRST_FIELD + position}]")
    if emitter.mode != "proof":
        return OperandCode(value)
    derivation = f"s[{runtime.DERIVATIONS}][{position}]"
    return OperandCode(
        value, emitter.record_read(emitter.emit_plain_node(proof.FIELD_REF, encode_data(path=expr.path), [derivation]))
    )


def emit_get_fact(emitter: Emitter, expr: typed.FactLookup) -> Emission:
    key = yield expr.key
    fact = expr.fact
    value = emitter.code.store(f"s[{runtime.GET_FACT}]({_register_fact(emitter, fact)}, {key.value})")
    if emitter.mode != "proof":
        return OperandCode(value)
    before, after = f'{{"fact_type":"{fact.name}","payload_hash":', f',"schema_version":{fact.version}}}'
    make = emitter.register_maker(("fact", fact), lambda first: runtime.create_fact_maker(before, after, first))
    return _emit_read(emitter, make, value, key)


def emit_get_facts(emitter: Emitter, expr: typed.FactPrefixLookup) -> Emission:
    prefix = yield expr.prefix
    fact = expr.fact
    value = emitter.code.store(f"s[{runtime.GET_FACTS}]({_register_fact(emitter, fact)}, {prefix.value})")
    emitter.charge(f"len({value})", expr.span)
    if emitter.mode != "proof":
        return OperandCode(value)
    before, after = f',"fact_type":"{fact.name}","list_hash":"', f'","schema_version":{fact.version}}}'
    make = emitter.register_maker(("facts", fact), lambda first: runtime.create_facts_maker(before, after, first))
    return _emit_read(emitter, make, value, prefix)


def _register_fact(emitter: Emitter, fact: FactRecordType) -> str:
    return emitter.code.register("F", fact, lambda: fact)


def _emit_read(emitter: Emitter, make: str, value: str, key: OperandCode) -> OperandCode:
    """The node of facts that are read. Inside a lambda the key has no node of its own, and is shown as a constant."""
    key_node = key.node
    if not emitter.proving:
        key_node = emitter.emit_node(emitter.register_maker("key", runtime.create_key_maker), [key.value], large=True)
    return OperandCode(value, emitter.record_read(emitter.emit_node(make, [value, key_node])))


def emit_require(emitter: Emitter, expr: typed.RequireSome) -> Emission:
    option = yield expr.option
    value = emitter.code.ensure_temporary(option.value)
    emitter.mark_reached("assertion", expr.span, expr.code)
    emitter.code.write_line(
        f"if {value} is None: {emitter.format_raise(expr.span, AssertionFailed, expr.code, expr.message)}"
    )
    return emitter.emit_fixed_node(
        proof.ASSERT, value, (option,), op="requireSome", code=expr.code, message=expr.message
    )


def emit_compliance(emitter: Emitter, expr: typed.EmitCompliance) -> Emission:
    listing = emitter.code
    status = yield expr.status
    message = yield expr.message
    field = emitter.field or ""
    code, path = listing.register_text(expr.code), listing.register_text(field)
    entry = f"Compliance({code}, {path}, {message.value}, {status.value})"
    value = listing.store(f"{status.value} != {listing.register_text('FAIL')}")
    if not emitter.proving:
        listing.write_line(f"s[{runtime.COMPLIANCE}].append({entry})")
        return OperandCode(value)
    before = f'{{"code":{quote_text(expr.code)},"field":{quote_text(field)},"index":'
    make = emitter.register_maker(("emit", before), lambda first: runtime.create_compliance_maker(before, first))
    node = emitter.emit_node(make, [status.value, message.value, status.node, message.node], large=True)
    listing.write_line(f"s[{runtime.COMPLIANCE}].append({entry})")
    return OperandCode(value, node)


# So many parts of a list or a `concat` are computed by one function.
_WIDE: Final = 200


class _EmittedParts(NamedTuple):
    """What several expressions gave: an expression of their values, separated by commas, and their nodes."""

    values: str
    nodes: list[str]


def _emit_parts(emitter: Emitter, exprs: tuple[typed.Expr, ...]) -> Generator[typed.Expr, OperandCode, _EmittedParts]:
    """The parts of something that has any number of them."""
    if len(exprs) <= _WIDE:
        operands = []
        for expr in exprs:
            operands.append((yield expr))  # noqa: PERF401 - a comprehension cannot ask for parts
        return _EmittedParts(", ".join(part.value for part in operands), [part.node for part in operands])
    chunks = []
    for start in range(0, len(exprs), _WIDE):
        emitter.code.open_function()
        chunk = yield from _emit_parts(emitter, exprs[start : start + _WIDE])
        chunks.append(_close_parts_helper(emitter, chunk))
    return _EmittedParts(", ".join(part.value for part in chunks), [part.node for part in chunks])


def _close_parts_helper(emitter: Emitter, chunk: _EmittedParts) -> OperandCode:
    """End a function that computes some parts; they are unpacked where it is called."""
    listing = emitter.code
    if not emitter.proving:
        return OperandCode(f"*{listing.store(listing.close_helper(f'({chunk.values},)'))}")
    call = listing.close_helper(f"({chunk.values},), ({', '.join(chunk.nodes)},)")
    values, nodes = listing.create_temporary(), listing.create_temporary()
    listing.write_line(f"{values}, {nodes} = {call}")
    return OperandCode(f"*{values}", f"*{nodes}")


def emit_list(emitter: Emitter, expr: typed.TypedList) -> Emission:
    parts = yield from _emit_parts(emitter, expr.items)
    value = emitter.code.store(f"[{parts.values}]")
    if isinstance(expr.type, List):
        emitter.charge_results(value, expr.type.item, expr.span)
    return emitter.emit_fixed_node(proof.OP, value, [OperandCode("", node) for node in parts.nodes], op="list")


def emit_record(emitter: Emitter, expr: typed.TypedRecord) -> Emission:
    """Evaluated as written, held and shown by name."""
    members: dict[str, OperandCode] = {}
    for name, member in expr.members:
        members[name] = yield member
    emitter.charge_parts([(members[name].value, member.type) for name, member in expr.members], expr.span)
    names = sorted(members)
    pairs = ", ".join(f"{emitter.code.register_text(name)}: {members[name].value}" for name in names)
    value = emitter.code.store(f"{{{pairs}}}")
    return emitter.emit_fixed_node(proof.OP, value, [members[name] for name in names], op="record", members=names)


def emit_apply(emitter: Emitter, expr: typed.BuiltinCall) -> Emission:
    if expr.op == "concat":
        return (yield from _emit_concat(emitter, expr))
    arguments = []
    for argument in expr.arguments:
        arguments.append((yield argument))  # noqa: PERF401 - a comprehension cannot ask for parts
    value = _emit_call(emitter, expr, [argument.value for argument in arguments])
    if expr.op == "some":
        return emitter.emit_fixed_node(proof.OP, value, arguments, op="some")
    return emitter.emit_op(expr.op, expr.type, value, arguments, **expr.static)


# Those that are one expression of their arguments.
_EXPRESSION_TEMPLATES: Final[Mapping[str, str]] = {
    "mapGet": "{0}.get({1})",
    "isSome": "{0} is not None",
    "unwrapOr": "{1} if {0} is None else {0}",
    "count": "len({0})",
    **{name: f"s[{place}]" for name, place in runtime.INPUTS.items()},
}


def _emit_call(emitter: Emitter, expr: typed.BuiltinCall, atoms: list[str]) -> str:
    match expr.op:
        case "some":
            emitter.charge_parts([(atoms[0], expr.arguments[0].type)], expr.span)
            return atoms[0]
        case "recordGet":
            return _emit_record_get(emitter, expr, atoms[0])
        case "toDec" | "toQty" | "amount":
            return _emit_rescale(emitter, expr, atoms[0])
        case "sumDec" | "sumQty":
            return _emit_sum(emitter, expr, atoms[0])
        case "convert":
            return _emit_convert(emitter, expr, atoms[0])
        case _:
            first = [emitter.code.ensure_temporary(atom) for atom in atoms[:1]]
            return emitter.code.store(_EXPRESSION_TEMPLATES[expr.op].format(*first, *atoms[1:]))


def _emit_record_get(emitter: Emitter, expr: typed.BuiltinCall, record: str) -> str:
    members = f"{record}.members" if isinstance(expr.arguments[0].type, FactRecordType) else record
    return emitter.code.store(f"{members}[{emitter.code.register_text(str(expr.static['member']))}]")


def _emit_concat(emitter: Emitter, expr: typed.BuiltinCall) -> Emission:
    parts = yield from _emit_parts(emitter, expr.arguments)
    value = emitter.code.store(emitter.format_join(parts.values, expr.span))
    return emitter.emit_op("concat", TEXT, value, [OperandCode("", node) for node in parts.nodes])


def _emit_rescale(emitter: Emitter, expr: typed.BuiltinCall, atom: str) -> str:
    """toDec, toQty, amount. To more decimals is exact, and a number below 10^36 stays so."""
    digits = get_scale(expr.type) - get_scale(expr.arguments[0].type)
    if digits == 0:
        return atom
    if digits > 0:
        return emitter.code.store(format_scaled(atom, digits))
    return emit_limit_check(emitter, emit_rounding(emitter, atom, 10**-digits), get_scale(expr.type), expr.span)


def _emit_sum(emitter: Emitter, expr: typed.BuiltinCall, numbers: str) -> str:
    """sumDec and sumQty: the exact sum, checked once."""
    kind = expr.arguments[0].type
    scale = get_scale(kind.item) if isinstance(kind, List) else 0
    emitter.charge(f"len({numbers})", expr.span)
    total = emitter.code.store(format_scaled(f"sum({numbers})", get_scale(expr.type) - scale))
    return emit_limit_check(emitter, total, get_scale(expr.type), expr.span)


def _emit_convert(emitter: Emitter, expr: typed.BuiltinCall, atom: str) -> str:
    factor = find_conversion(str(expr.static["from"]), str(expr.static["to"]))
    if factor is None:
        raise TypeError(f"`{expr.static['from']}` does not convert to `{expr.static['to']}`")
    return emit_limit_check(emitter, emit_rounding(emitter, f"{atom} * {factor[0]}", factor[1]), QTY_SCALE, expr.span)


# Numbers


def get_scale(kind: Type) -> int:
    if isinstance(kind, Dec):
        return kind.scale
    return QTY_SCALE if isinstance(kind, Qty) else 0


def format_literal(count: int) -> str:
    return str(count) if count >= 0 else f"({count})"


def format_scaled(atom: str, digits: int) -> str:
    """`atom` counted in units smaller by so many digits."""
    if digits == 0:
        return atom
    number = _parse_number(atom)
    return f"{atom} * {10**digits}" if number is None else format_literal(number * 10**digits)


def emit_rounding(emitter: Emitter, numerator: str, denominator: int) -> str:
    """`numerator` over a positive number, rounded half to even as `runtime.half` does."""
    if denominator == 1:
        return emitter.code.store(numerator)
    quotient, remainder = emitter.code.create_temporary(), emitter.code.create_temporary()
    emitter.code.write_line(f"{quotient}, {remainder} = divmod({numerator}, {denominator})")
    middle, odd = divmod(denominator, 2)
    tie = "" if odd else f" or {remainder} == {middle} and {quotient} & 1"
    emitter.code.write_line(f"if {remainder} > {middle}{tie}: {quotient} += 1")
    return quotient


def emit_limit_check(emitter: Emitter, atom: str, scale: int, span: Span) -> str:
    limit = _compute_limit(scale)
    low, high = emitter.code.register("m", -limit, lambda: -limit), emitter.code.register("m", limit, lambda: limit)
    emitter.code.write_line(
        f"if not {low} < {atom} < {high}: {emitter.format_raise(span, RuleLimitExceeded, MAGNITUDE_MESSAGE)}"
    )
    return atom


def _compute_limit(scale: int) -> int:
    limit: int = 10 ** (MAGNITUDE_DIGITS + scale)
    return limit


def emit_unary(emitter: Emitter, expr: typed.TypedUnary) -> Emission:
    operand = yield expr.operand
    value = emitter.code.store(f"{'-' if expr.op == 'neg' else 'not '}{operand.value}")
    return emitter.emit_op(expr.op, expr.type, value, (operand,))


def emit_arithmetic(emitter: Emitter, expr: typed.Arithmetic) -> Emission:
    result, kind = (yield expr.first), expr.first.type
    for step in expr.steps:
        operand = yield step.operand
        value = _emit_step(emitter, step, (result.value, kind), operand.value)
        result, kind = _emit_limited_result(emitter, step, value, (result, operand)), step.type
    return result


def _emit_limited_result(
    emitter: Emitter, step: typed.ArithmeticStep, value: str, sides: tuple[OperandCode, OperandCode]
) -> OperandCode:
    scale = get_scale(step.type)
    if emitter.proving:
        return OperandCode(value, emitter.emit_limited_node(step, _compute_limit(scale), value, sides))
    return OperandCode(emit_limit_check(emitter, value, scale, step.span))


def _emit_step(emitter: Emitter, step: typed.ArithmeticStep, left: tuple[str, Type], right: str) -> str:
    atom, kind = left
    if step.op == "/":
        return _emit_quotient(emitter, step, left, right)
    if step.op == "*":
        return _emit_product(emitter, step, left, right)
    scale = get_scale(step.type)
    left_text = format_scaled(atom, scale - get_scale(kind))
    right_text = format_scaled(right, scale - get_scale(step.operand.type))
    return emitter.code.store(f"{left_text} {step.op} {right_text}")


def _emit_product(emitter: Emitter, step: typed.ArithmeticStep, left: tuple[str, Type], right: str) -> str:
    """Exact, but a Qty keeps its 18 decimals."""
    atom, kind = left
    surplus = get_scale(kind) + get_scale(step.operand.type) - get_scale(step.type)
    return emit_rounding(emitter, f"{atom} * {right}", 10**surplus)


def _emit_quotient(emitter: Emitter, step: typed.ArithmeticStep, left: tuple[str, Type], right: str) -> str:
    """To 18 decimals, of a Qty as of a plain number: the digits both sides have are not multiplied first."""
    atom, kind = left
    emitter.code.write_line(f"if not {right}: {emitter.format_raise(step.span, DivisionByZero, ZERO_MESSAGE)}")
    digits = QTY_SCALE + get_scale(step.operand.type) - get_scale(kind)
    numerator, denominator = format_scaled(atom, max(digits, 0)), format_scaled(right, max(-digits, 0))
    known_divisor = _parse_number(denominator)
    if known_divisor is not None and known_divisor > 0:
        return emit_rounding(emitter, numerator, known_divisor)
    return emitter.code.store(f"half({numerator}, {denominator})")


def emit_comparison(emitter: Emitter, expr: typed.TypedComparison) -> Emission:
    left = yield expr.left
    right = yield expr.right
    if expr.op in {"==", "!="}:
        emitter.charge_comparison(left.value, expr.left.type, expr.span)
    scale = max(get_scale(expr.left.type), get_scale(expr.right.type))
    left_text = format_scaled(left.value, scale - get_scale(expr.left.type))
    right_text = format_scaled(right.value, scale - get_scale(expr.right.type))
    value = emitter.code.store(f"{left_text} {expr.op} {right_text}")
    return emitter.emit_op(expr.op, expr.type, value, (left, right), of=expr.operand_type)


def _parse_number(atom: str) -> int | None:
    """The number an atom is, if it is one and no name."""
    digits = atom.strip("(-)")
    if not digits or digits[0] not in "0123456789":
        return None
    return -int(digits) if atom.startswith("(") else int(digits)
