"""Code for what a rule reads and calls: facts, fields, built-ins, lists, records, compliance.

Pure. One function for each kind of expression. What it needs beyond its operands (a scale, a unit, a member) is known
before the code runs.
"""

from collections.abc import Callable, Generator, Mapping
from typing import Final, NamedTuple

from bpc.core.facts.units import find_conversion
from bpc.core.language import typed
from bpc.core.language.evaluating import runtime
from bpc.core.language.evaluating.emitter import Emission, Emitter, OperandCode, encode_data
from bpc.core.language.evaluating.expressions import create_entry_recorder, create_fact_recorder, create_facts_recorder
from bpc.core.language.evaluating.function_calls import CALL_EMITTERS
from bpc.core.language.evaluating.numbers import (
    emit_limit_check,
    emit_rounding,
    format_literal,
    format_scaled,
    get_scale,
)
from bpc.core.language.evaluating.values import quote_text, value_to_json
from bpc.core.language.evaluation import AssertionFailed
from bpc.core.language.types import (
    QTY_SCALE,
    TEXT,
    FactRecordType,
    List,
    Opt,
    unwrap_option_type,
)
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
    derivation = f"s[{runtime.DERIVATIONS}][{position}]"
    if emitter.records_reads:
        emitter.code.write_line(f"s[{runtime.READS}][{derivation}] = None")
    elif emitter.mode == "proof":
        node = emitter.emit_plain_node(proof.FIELD_REF, encode_data(path=expr.path), [derivation])
        return OperandCode(value, emitter.record_read(node))
    if expr.path in emitter.missable_paths:
        missing = f"s[{runtime.MISSING}]"
        emitter.code.write_line(f"if {position} in {missing}: raise Missing({missing}[{position}])")
    return OperandCode(value)


def emit_get_fact(emitter: Emitter, expr: typed.FactLookup) -> Emission:
    key = yield expr.key
    fact = expr.fact
    value = emitter.code.store(f"s[{runtime.GET_FACT}]({_register_fact(emitter, fact)}, {key.value})")
    if emitter.records_reads:
        return _record_fact_read(emitter, fact, value, key, create_fact_recorder)
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
    if emitter.records_reads:
        return _record_fact_read(emitter, fact, value, prefix, create_facts_recorder)
    if emitter.mode != "proof":
        return OperandCode(value)
    before, after = f',"fact_type":"{fact.name}","list_hash":"', f'","schema_version":{fact.version}}}'
    make = emitter.register_maker(("facts", fact), lambda first: runtime.create_facts_maker(before, after, first))
    return _emit_read(emitter, make, value, prefix, large=True)


def _record_fact_read(
    emitter: Emitter,
    fact: FactRecordType,
    value: str,
    key: OperandCode,
    create_recorder: Callable[[FactRecordType, int], runtime.NodeMaker],
) -> OperandCode:
    record = emitter.register_maker((create_recorder, fact), lambda first: create_recorder(fact, first))
    emitter.code.write_line(f"{record}(s, {value}, {key.value})")
    return OperandCode(value)


def _register_fact(emitter: Emitter, fact: FactRecordType) -> str:
    return emitter.code.register("F", fact, lambda: fact)


def _emit_read(emitter: Emitter, make: str, value: str, key: OperandCode, *, large: bool = False) -> OperandCode:
    """The node of facts that are read. Inside a lambda the key has no node of its own, and is shown as a constant."""
    key_node = key.node
    if not emitter.proving:
        key_node = emitter.emit_node(emitter.register_maker("key", runtime.create_key_maker), [key.value], large=True)
    return OperandCode(value, emitter.record_read(emitter.emit_node(make, [value, key_node], large=large)))


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
        if emitter.records_reads:
            entry = listing.store(entry)
            listing.write_line(f"{emitter.register_maker('entry', create_entry_recorder)}(s, {entry})")
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
    "startsWith": "{0}.startswith({1})",
    "endsWith": "{0}.endswith({1})",
    "contains": "{1} in {0}",
    "split": "split({0}, {1})",
    "trim": "trim({0})",
    "length": "len({0})",
    "daysBetween": "days({1}) - days({0})",
    "year": "int({0}[:4])",
    "month": "int({0}[5:7])",
    "day": "int({0}[8:])",
    "abs": "abs({0})",
    "first": "{0}[0] if {0} else None",
    "last": "{0}[-1] if {0} else None",
    "present": "[x for x in {0} if x is not None]",
    "isEmpty": "not {0}",
    **{name: f"s[{place}]" for name, place in runtime.INPUTS.items()},
}


def _emit_call(emitter: Emitter, expr: typed.BuiltinCall, atoms: list[str]) -> str:
    match expr.op:
        case "some":
            emitter.charge_parts([(atoms[0], expr.arguments[0].type)], expr.span)
            return atoms[0]
        case "recordGet" | "member" | "in":
            return _emit_read_or_search(emitter, expr, atoms)
        case "toDec" | "toQty" | "amount":
            return _emit_rescale(emitter, expr, atoms[0])
        case "sumDec" | "sumQty" | "sum":
            return _emit_sum(emitter, expr, atoms[0])
        case "convert":
            return _emit_convert(emitter, expr, atoms[0])
        case _:
            emit = CALL_EMITTERS.get(expr.op, _emit_template)
            return emit(emitter, expr, atoms)


def _emit_template(emitter: Emitter, expr: typed.BuiltinCall, atoms: list[str]) -> str:
    first = [emitter.code.ensure_temporary(atom) for atom in atoms[:1]]
    if expr.op in _CHARGED_BY_LENGTH:
        emitter.charge(_CHARGED_BY_LENGTH[expr.op].format(*first), expr.span)
    value = emitter.code.store(_EXPRESSION_TEMPLATES[expr.op].format(*first, *atoms[1:]))
    if expr.op == "split":
        emitter.charge_size(value, expr.type, expr.span)
    return value


def _emit_read_or_search(emitter: Emitter, expr: typed.BuiltinCall, atoms: list[str]) -> str:
    """A member of a record, which may itself be absent; whether a value is in a list."""
    kind, first = expr.arguments[0].type, atoms[0]
    if expr.op == "in":
        emitter.charge_membership(atoms, kind, expr.span)
        return emitter.code.store(f"{first} in {atoms[1]}")
    if isinstance(kind, Opt):
        first = emitter.code.ensure_temporary(first)
    members = f"{first}.members" if isinstance(unwrap_option_type(kind), FactRecordType) else first
    value = f"{members}[{emitter.code.register_text(str(expr.static['member']))}]"
    return emitter.code.store(f"None if {first} is None else {value}" if isinstance(kind, Opt) else value)


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
    """sumDec, sumQty and sum: the exact sum, checked once."""
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


_CHARGED_BY_LENGTH: Final[Mapping[str, str]] = {
    "contains": "(len({0}) >> 6)",
    "trim": "(len({0}) >> 6)",
    "present": "len({0})",
}
