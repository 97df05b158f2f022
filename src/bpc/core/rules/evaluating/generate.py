"""The generator: a checked program in, Python source out that computes its fields.

Pure. Same program, same source, on every machine and every run. One function a field; what it names is in a table
beside it (listing.py), so no text of a rule is ever code. Three modes: values only, values and the sites reached,
values and the nodes of the proof. All three compute, charge and fail alike.

    Program ── generate ──► functions, one by one, then Generated(names, sites)
    Expr ── generate_expression ──► the same, one function

In other files: emitting (what all of them write with), arithmetic, branches, calls, loops, charging.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from bpc.core.rules.compliance import Compliance
from bpc.core.rules.evaluating.arithmetic import arithmetic, comparison, unary
from bpc.core.rules.evaluating.branches import block, choice, logic
from bpc.core.rules.evaluating.calls import (
    apply,
    const,
    emit,
    field_value,
    get_fact,
    get_facts,
    list_of,
    local,
    record_of,
    require,
)
from bpc.core.rules.evaluating.charging import charge_parts
from bpc.core.rules.evaluating.emitting import PROOF_HEADER, Emission, Emitter, Mode, Operand, Site
from bpc.core.rules.evaluating.listing import Listing
from bpc.core.rules.evaluating.loops import loop
from bpc.core.rules.evaluating.runtime import half
from bpc.core.rules.evaluating.weights import weight
from bpc.core.rules.source import Span
from bpc.core.rules.typed import (
    Apply,
    Arithmetic,
    Block,
    Choice,
    Comparison,
    Const,
    Emit,
    Expr,
    Field,
    FieldValue,
    GetFact,
    GetFacts,
    ListOf,
    Local,
    Logic,
    Loop,
    Program,
    RecordOf,
    Require,
    Unary,
)


class Generated(NamedTuple):
    """What the functions name. Field `i` in the order of evaluation is `f<i>(s)`, an expression `e(s, …)`.

    A function returns the value, in proof mode the value and its node's id.
    """

    names: dict[str, Any]
    sites: tuple[Site, ...]


Take: TypeAlias = Callable[[str, dict[str, Any]], None]
"""What is done with each function as soon as it is written: its source, and the names it may use."""


def generate(program: Program, mode: Mode, take: Take) -> Generated:
    emitter = _emitter(mode, program, take)
    for place, field in enumerate(program.fields):
        _write_field(emitter, place, field)
    return Generated(emitter.listing.names, tuple(emitter.sites))


def generate_expression(program: Program, expr: Expr, variables: Sequence[str], take: Take) -> Generated:
    """An expression outside the fields, which may read them: a block charged like a field's, its span (0, 0)."""
    emitter = _emitter("values", program, take)
    emitter.lazy = True
    emitter.listing.open_function()
    parameters = [emitter.listing.temporary() for _ in variables]
    emitter.scope = {name: Operand(atom) for name, atom in zip(variables, parameters, strict=True)}
    emitter.charge(weight(expr), Span(0, 0))
    found = _run(emitter, expr)
    emitter.listing.close_function("e", parameters, found.value)
    return Generated(emitter.listing.names, ())


def _emitter(mode: Mode, program: Program, take: Take) -> Emitter:
    listing = Listing(take, PROOF_HEADER if mode == "proof" else ())
    listing.names.update(_NAMES)
    return Emitter(listing, mode, {field.path: place for place, field in enumerate(program.fields)}, program.source)


def _write_field(emitter: Emitter, place: int, field: Field) -> None:
    emitter.listing.open_function()
    emitter.scope, emitter.field = {}, field.path
    emitter.reached("field", field.span, field.path)
    emitter.charge(weight(field.body), field.span)
    found = _run(emitter, field.body)
    charge_parts(emitter, [(found.value, field.type)], field.span)
    emitter.listing.close_function(f"f{place}", (), _returned(emitter, found))


def _returned(emitter: Emitter, found: Operand) -> str:
    return f"{found.value}, {found.node}" if emitter.proving else found.value


def _run(emitter: Emitter, expr: Expr) -> Operand:
    """Write the code of an expression: each emission waits on a list of our own while its parts are written."""
    leaf = _LEAVES.get(type(expr))
    if leaf is not None:
        return leaf(emitter, expr)
    waiting = [_emission(emitter, expr)]
    found: Operand | None = None
    while True:
        try:
            part = waiting[-1].send(found)  # type: ignore[arg-type] # None starts an emission
        except StopIteration as done:
            waiting.pop()
            if not waiting:
                return Operand(*done.value)
            found = done.value
            continue
        leaf = _LEAVES.get(type(part))
        found = None if leaf is None else leaf(emitter, part)
        if leaf is None:
            waiting.append(_emission(emitter, part))


def _emission(emitter: Emitter, expr: Expr) -> Emission:
    emission = _EMISSIONS[type(expr)](emitter, expr)
    deep = emitter.listing.is_deep and isinstance(expr, Choice | Logic | Loop)
    return _outlined(emitter, emission) if deep or emitter.listing.is_long else emission


def _outlined(emitter: Emitter, emission: Emission) -> Emission:
    """The same in a function of its own, which starts without indent and without lines."""
    emitter.listing.open_function()
    found = yield from emission
    call = emitter.listing.close_helper(_returned(emitter, found))
    if not emitter.proving:
        return Operand(emitter.listing.kept(call))
    value, node = emitter.listing.temporary(), emitter.listing.temporary()
    emitter.listing.line(f"{value}, {node} = {call}")
    return Operand(value, node)


# Those without parts need not wait.
_LEAVES: Final[Mapping[type[Any], Callable[[Emitter, Any], Operand]]] = {
    Const: const,
    Local: local,
    FieldValue: field_value,
}

_EMISSIONS: Final[Mapping[type[Any], Callable[[Emitter, Any], Emission]]] = {
    GetFact: get_fact,
    GetFacts: get_facts,
    Unary: unary,
    Arithmetic: arithmetic,
    Comparison: comparison,
    Logic: logic,
    Choice: choice,
    ListOf: list_of,
    RecordOf: record_of,
    Apply: apply,
    Loop: loop,
    Require: require,
    Emit: emit,
    Block: block,
}

# All that generated code may call, beside its own functions and what its table holds.
_NAMES: Final[Mapping[str, object]] = {
    "Compliance": Compliance,
    "divmod": divmod,
    "enumerate": enumerate,
    "half": half,
    "len": len,
    "once": dict.fromkeys,
    "sum": sum,
}
