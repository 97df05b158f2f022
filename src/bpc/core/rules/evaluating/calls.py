"""Code for what a rule reads and calls: facts, fields, built-ins, lists and records, compliance.

Pure. One function for each kind of call; what a call needs beyond its arguments (a scale, a unit, a member) is known
before the code runs.
"""

from collections.abc import Generator, Mapping
from typing import Final, NamedTuple

from bpc.core import proof
from bpc.core.rules.evaluating.arithmetic import limited, literal, rounded, scale_of, scaled
from bpc.core.rules.evaluating.charging import charge_parts, charge_results
from bpc.core.rules.evaluating.emitting import Emission, Emitter, Operand, said
from bpc.core.rules.evaluating.runtime import Maker, emit_node, fact_node, facts_node, key_node, plain_node
from bpc.core.rules.evaluating.state import COMPLIANCE, DERIVATIONS, FIRST_FIELD, GET_FACT, GET_FACTS, GET_FIELD, INPUTS
from bpc.core.rules.evaluating.writing import quoted, written
from bpc.core.rules.typed import (
    Apply,
    Const,
    Emit,
    Expr,
    FieldValue,
    GetFact,
    GetFacts,
    ListOf,
    Local,
    RecordOf,
    Require,
)
from bpc.core.rules.types import QTY_SCALE, TEXT, Fact, List
from bpc.core.units import conversion


def const(emitter: Emitter, expr: Const) -> Operand:
    if not emitter.proving:
        return Operand(_atom(emitter, expr))
    kind, value = expr.type, expr.value

    def make_one(first: int) -> Maker:
        return plain_node(proof.CONST, said(type=str(kind), value=written(kind, value)), first)

    make = emitter.maker(("const", emitter.known(kind).number, value), make_one)
    return Operand(_atom(emitter, expr), emitter.node(make, ()))


def _atom(emitter: Emitter, expr: Const) -> str:
    value = expr.value
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, int):
        return literal(value)
    if isinstance(value, str):
        return emitter.listing.text(value)
    raise TypeError(f"a literal is no {type(value).__name__}")


def local(emitter: Emitter, expr: Local) -> Operand:
    return emitter.scope[expr.name]


def field_value(emitter: Emitter, expr: FieldValue) -> Operand:
    place = emitter.fields[expr.path]
    if emitter.lazy:
        return Operand(emitter.listing.kept(f"s[{GET_FIELD}]({place})"))
    value = emitter.listing.kept(f"s[{FIRST_FIELD + place}]")
    if emitter.mode != "proof":
        return Operand(value)
    derivation = f"s[{DERIVATIONS}][{place}]"
    return Operand(value, emitter.read(emitter.plain_node(proof.FIELD_REF, said(path=expr.path), [derivation])))


def get_fact(emitter: Emitter, expr: GetFact) -> Emission:
    key = yield expr.key
    fact = expr.fact
    value = emitter.listing.kept(f"s[{GET_FACT}]({_fact(emitter, fact)}, {key.value})")
    if emitter.mode != "proof":
        return Operand(value)
    before, behind = f'{{"fact_type":"{fact.name}","payload_hash":', f',"schema_version":{fact.version}}}'
    make = emitter.maker(("fact", fact), lambda first: fact_node(before, behind, first))
    return Operand(value, emitter.read(emitter.node(make, [value, _key_node(emitter, key)])))


def get_facts(emitter: Emitter, expr: GetFacts) -> Emission:
    prefix = yield expr.prefix
    fact = expr.fact
    value = emitter.listing.kept(f"s[{GET_FACTS}]({_fact(emitter, fact)}, {prefix.value})")
    emitter.charge(f"len({value})", expr.span)
    if emitter.mode != "proof":
        return Operand(value)
    before, behind = f',"fact_type":"{fact.name}","list_hash":"', f'","schema_version":{fact.version}}}'
    make = emitter.maker(("facts", fact), lambda first: facts_node(before, behind, first))
    return Operand(value, emitter.read(emitter.node(make, [value, _key_node(emitter, prefix)])))


def _fact(emitter: Emitter, fact: Fact) -> str:
    return emitter.listing.entry("F", fact, lambda: fact)


def _key_node(emitter: Emitter, key: Operand) -> str:
    """Inside a lambda the key has no node of its own, and is shown as a constant."""
    if emitter.proving:
        return key.node
    return emitter.node(emitter.maker("key", key_node), [key.value], large=True)


def require(emitter: Emitter, expr: Require) -> Emission:
    option = yield expr.option
    value = emitter.listing.named(option.value)
    emitter.reached("assertion", expr.span, expr.code)
    emitter.listing.line(f"if {value} is None: {emitter.not_held(expr.code, expr.message, expr.span)}")
    return emitter.built(proof.ASSERT, value, (option,), op="requireSome", code=expr.code, message=expr.message)


def emit(emitter: Emitter, expr: Emit) -> Emission:
    listing = emitter.listing
    status = yield expr.status
    message = yield expr.message
    field = emitter.field or ""
    entry = f"Compliance({listing.text(expr.code)}, {listing.text(field)}, {message.value}, {status.value})"
    value = listing.kept(f"{status.value} != {listing.text('FAIL')}")
    if not emitter.proving:
        listing.line(f"s[{COMPLIANCE}].append({entry})")
        return Operand(value)
    before = f'{{"code":{quoted(expr.code)},"field":{quoted(field)},"index":'
    make = emitter.maker(("emit", before), lambda first: emit_node(before, first))
    node = emitter.node(make, [status.value, message.value, status.node, message.node], large=True)
    listing.line(f"s[{COMPLIANCE}].append({entry})")
    return Operand(value, node)


# So many parts of a list or a `concat` are computed by one function.
_WIDE: Final = 200


class _Parts(NamedTuple):
    """What several expressions gave: an expression of their values, separated by commas, and their nodes."""

    values: str
    nodes: list[str]


def _parts(emitter: Emitter, exprs: tuple[Expr, ...]) -> Generator[Expr, Operand, _Parts]:
    """The parts of something that has any number of them."""
    if len(exprs) <= _WIDE:
        found = []
        for expr in exprs:
            found.append((yield expr))  # noqa: PERF401 - a comprehension cannot ask for parts
        return _Parts(", ".join(part.value for part in found), [part.node for part in found])
    several = []
    for start in range(0, len(exprs), _WIDE):
        emitter.listing.open_function()
        some = yield from _parts(emitter, exprs[start : start + _WIDE])
        several.append(_handed_on(emitter, some))
    return _Parts(", ".join(part.value for part in several), [part.node for part in several])


def _handed_on(emitter: Emitter, some: _Parts) -> Operand:
    """End a function that computes some parts; they are unpacked where it is called."""
    listing = emitter.listing
    if not emitter.proving:
        return Operand(f"*{listing.kept(listing.close_helper(f'({some.values},)'))}")
    call = listing.close_helper(f"({some.values},), ({', '.join(some.nodes)},)")
    values, nodes = listing.temporary(), listing.temporary()
    listing.line(f"{values}, {nodes} = {call}")
    return Operand(f"*{values}", f"*{nodes}")


def list_of(emitter: Emitter, expr: ListOf) -> Emission:
    parts = yield from _parts(emitter, expr.items)
    value = emitter.listing.kept(f"[{parts.values}]")
    if isinstance(expr.type, List):
        charge_results(emitter, value, expr.type.item, expr.span)
    return emitter.built(proof.OP, value, [Operand("", node) for node in parts.nodes], op="list")


def record_of(emitter: Emitter, expr: RecordOf) -> Emission:
    """Evaluated as written, held and shown by name."""
    members: dict[str, Operand] = {}
    for name, member in expr.members:
        members[name] = yield member
    charge_parts(emitter, [(members[name].value, member.type) for name, member in expr.members], expr.span)
    names = sorted(members)
    pairs = ", ".join(f"{emitter.listing.text(name)}: {members[name].value}" for name in names)
    value = emitter.listing.kept(f"{{{pairs}}}")
    return emitter.built(proof.OP, value, [members[name] for name in names], op="record", members=names)


def apply(emitter: Emitter, expr: Apply) -> Emission:
    if expr.op == "concat":
        return (yield from _concat(emitter, expr))
    arguments: list[Operand] = []
    for argument in expr.arguments:
        arguments.append((yield argument))  # noqa: PERF401 - a comprehension cannot ask for parts
    value = _called(emitter, expr, [argument.value for argument in arguments])
    if expr.op == "some":
        return emitter.built(proof.OP, value, arguments, op="some")
    return emitter.op(expr.op, expr.type, value, arguments, **expr.static)


# Those that are one expression of their arguments.
_PLAIN: Final[Mapping[str, str]] = {
    "mapGet": "{0}.get({1})",
    "isSome": "{0} is not None",
    "unwrapOr": "{1} if {0} is None else {0}",
    "count": "len({0})",
    **{name: f"s[{place}]" for name, place in INPUTS.items()},
}


def _called(emitter: Emitter, expr: Apply, atoms: list[str]) -> str:
    match expr.op:
        case "some":
            charge_parts(emitter, [(atoms[0], expr.arguments[0].type)], expr.span)
            return atoms[0]
        case "recordGet":
            return _record_get(emitter, expr, atoms[0])
        case "toDec" | "toQty" | "amount":
            return _rescaled(emitter, expr, atoms[0])
        case "sumDec" | "sumQty":
            return _sum(emitter, expr, atoms[0])
        case "convert":
            return _converted(emitter, expr, atoms[0])
        case _:
            first = [emitter.listing.named(atom) for atom in atoms[:1]]
            return emitter.listing.kept(_PLAIN[expr.op].format(*first, *atoms[1:]))


def _record_get(emitter: Emitter, expr: Apply, record: str) -> str:
    members = f"{record}.members" if isinstance(expr.arguments[0].type, Fact) else record
    return emitter.listing.kept(f"{members}[{emitter.listing.text(str(expr.static['member']))}]")


def _concat(emitter: Emitter, expr: Apply) -> Emission:
    found = yield from _parts(emitter, expr.arguments)
    value = emitter.listing.kept(emitter.joined(found.values, expr.span))
    return emitter.op("concat", TEXT, value, [Operand("", node) for node in found.nodes])


def _rescaled(emitter: Emitter, expr: Apply, atom: str) -> str:
    """toDec, toQty, amount. To more decimals is exact, and a number below 10^36 stays so."""
    digits = scale_of(expr.type) - scale_of(expr.arguments[0].type)
    if digits == 0:
        return atom
    if digits > 0:
        return emitter.listing.kept(scaled(atom, digits))
    return limited(emitter, rounded(emitter, atom, 10**-digits), scale_of(expr.type), expr.span)


def _sum(emitter: Emitter, expr: Apply, numbers: str) -> str:
    """sumDec and sumQty: the exact sum, checked once."""
    kind = expr.arguments[0].type
    scale = scale_of(kind.item) if isinstance(kind, List) else 0
    emitter.charge(f"len({numbers})", expr.span)
    total = emitter.listing.kept(scaled(f"sum({numbers})", scale_of(expr.type) - scale))
    return limited(emitter, total, scale_of(expr.type), expr.span)


def _converted(emitter: Emitter, expr: Apply, atom: str) -> str:
    factor = conversion(str(expr.static["from"]), str(expr.static["to"]))
    if factor is None:
        raise TypeError(f"`{expr.static['from']}` does not convert to `{expr.static['to']}`")
    return limited(emitter, rounded(emitter, f"{atom} * {factor[0]}", factor[1]), QTY_SCALE, expr.span)
