"""The generator: a checked program in, Python source out that computes its fields.

Pure. Same program, same source, on every machine and every run. One function a field; what it names is in a table
beside it (emitter.py), so no text of a rule is ever code. Three modes: values only, values and the sites reached,
values and the nodes of the proof. All three compute, charge and fail alike.

    Program ── generate ──► functions, one by one, then Generated(names, sites)
    Expr ── generate_expression ──► the same, one function

In other files: emitter (what all of them write with), operations, control_flow.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from bpc.core.language import typed
from bpc.core.language.evaluating import operations
from bpc.core.language.evaluating.control_flow import compute_weight, emit_block, emit_choice, emit_logic, emit_loop
from bpc.core.language.evaluating.emitter import (
    PROOF_HEADER,
    CodeWriter,
    CoverageSite,
    Emission,
    Emitter,
    Mode,
    OperandCode,
)
from bpc.core.language.evaluating.runtime import divide_half_even
from bpc.core.language.evaluation import ComplianceEntry
from bpc.core.language.source import Span


class GeneratedCode(NamedTuple):
    """What the functions name. Field `i` in the order of evaluation is `f<i>(s)`, an expression `e(s, …)`.

    A function returns the value, in proof mode the value and its node's id.
    """

    names: dict[str, Any]
    sites: tuple[CoverageSite, ...]


CodeSink: TypeAlias = Callable[[str, dict[str, Any]], None]
"""What is done with each function as soon as it is written: its source, and the names it may use."""


def generate(program: typed.Program, mode: Mode, sink: CodeSink) -> GeneratedCode:
    emitter = _create_emitter(mode, program, sink)
    for position, field in enumerate(program.fields):
        _write_field(emitter, position, field)
    return GeneratedCode(emitter.code.names, tuple(emitter.sites))


def generate_expression(
    program: typed.Program, expr: typed.Expr, variables: Sequence[str], sink: CodeSink
) -> GeneratedCode:
    """An expression outside the fields, which may read them: a block charged like a field's, its span (0, 0)."""
    emitter = _create_emitter("values", program, sink)
    emitter.lazy = True
    emitter.code.open_function()
    parameters = [emitter.code.create_temporary() for _ in variables]
    emitter.scope = {name: OperandCode(atom) for name, atom in zip(variables, parameters, strict=True)}
    emitter.charge(compute_weight(expr), Span(0, 0))
    operand = _emit_expression(emitter, expr)
    emitter.code.close_function("e", parameters, operand.value)
    return GeneratedCode(emitter.code.names, ())


def _create_emitter(mode: Mode, program: typed.Program, sink: CodeSink) -> Emitter:
    code = CodeWriter(sink, PROOF_HEADER if mode == "proof" else ())
    code.names.update(_RUNTIME_NAMES)
    return Emitter(code, mode, {field.path: position for position, field in enumerate(program.fields)}, program.source)


def _write_field(emitter: Emitter, position: int, field: typed.ProgramField) -> None:
    emitter.code.open_function()
    emitter.scope, emitter.field = {}, field.path
    emitter.mark_reached("field", field.span, field.path)
    emitter.charge(compute_weight(field.body), field.span)
    operand = _emit_expression(emitter, field.body)
    emitter.charge_parts([(operand.value, field.type)], field.span)
    emitter.code.close_function(f"f{position}", (), _format_result(emitter, operand))


def _format_result(emitter: Emitter, operand: OperandCode) -> str:
    return f"{operand.value}, {operand.node}" if emitter.proving else operand.value


def _emit_expression(emitter: Emitter, expr: typed.Expr) -> OperandCode:
    """Write the code of an expression: each emission waits on a list of our own while its parts are written."""
    leaf = _LEAF_EMITTERS.get(type(expr))
    if leaf is not None:
        return leaf(emitter, expr)
    pending = [_start_emission(emitter, expr)]
    operand: OperandCode | None = None
    while True:
        try:
            part = pending[-1].send(operand)  # type: ignore[arg-type] # None starts an emission
        except StopIteration as done:
            pending.pop()
            if not pending:
                return OperandCode(*done.value)
            operand = done.value
            continue
        leaf = _LEAF_EMITTERS.get(type(part))
        operand = None if leaf is None else leaf(emitter, part)
        if leaf is None:
            pending.append(_start_emission(emitter, part))


def _start_emission(emitter: Emitter, expr: typed.Expr) -> Emission:
    emission = _EMITTERS[type(expr)](emitter, expr)
    deep = emitter.code.is_deep and isinstance(expr, typed.TypedIf | typed.Logic | typed.Loop)
    return _emit_as_function(emitter, emission) if deep or emitter.code.is_long else emission


def _emit_as_function(emitter: Emitter, emission: Emission) -> Emission:
    """The same in a function of its own, which starts without indent and without lines."""
    emitter.code.open_function()
    operand = yield from emission
    call = emitter.code.close_helper(_format_result(emitter, operand))
    if not emitter.proving:
        return OperandCode(emitter.code.store(call))
    value, node = emitter.code.create_temporary(), emitter.code.create_temporary()
    emitter.code.write_line(f"{value}, {node} = {call}")
    return OperandCode(value, node)


# Those without parts need not wait.
_LEAF_EMITTERS: Final[Mapping[type[Any], Callable[[Emitter, Any], OperandCode]]] = {
    typed.Const: operations.emit_const,
    typed.Local: operations.emit_local,
    typed.FieldValue: operations.emit_field_value,
}

_EMITTERS: Final[Mapping[type[Any], Callable[[Emitter, Any], Emission]]] = {
    typed.FactLookup: operations.emit_get_fact,
    typed.FactPrefixLookup: operations.emit_get_facts,
    typed.TypedUnary: operations.emit_unary,
    typed.Arithmetic: operations.emit_arithmetic,
    typed.TypedComparison: operations.emit_comparison,
    typed.Logic: emit_logic,
    typed.TypedIf: emit_choice,
    typed.TypedList: operations.emit_list,
    typed.TypedRecord: operations.emit_record,
    typed.BuiltinCall: operations.emit_apply,
    typed.Loop: emit_loop,
    typed.RequireSome: operations.emit_require,
    typed.EmitCompliance: operations.emit_compliance,
    typed.TypedBlock: emit_block,
}

# All that generated code may call, beside its own functions and what its table holds.
_RUNTIME_NAMES: Final[Mapping[str, object]] = {
    "Compliance": ComplianceEntry,
    "divmod": divmod,
    "enumerate": enumerate,
    "half": divide_half_even,
    "len": len,
    "once": dict.fromkeys,
    "sum": sum,
}
