"""The generator: a checked program in, Python source out that computes its fields.

Pure. Same program, same source, on every machine and every run. One function a field; what it names is in a table
beside it (emitter.py), so no text of a rule is ever code. Three modes: values only, values and the sites reached,
values and the nodes of the proof. All three compute, charge and fail alike.

    Program ── generate ──► functions, one by one, then Generated(names, sites)
    Expr ── generate_expression ──► the same, one function

In other files: emitter (what all of them write with), operations, numbers, control_flow, loops.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from bpc.core.language import typed
from bpc.core.language.evaluating import numbers, operations
from bpc.core.language.evaluating.code_writer import CodeWriter
from bpc.core.language.evaluating.control_flow import (
    compute_weight,
    emit_block,
    emit_choice,
    emit_coalesce,
    emit_logic,
    emit_match,
)
from bpc.core.language.evaluating.definitions import (
    emit_definition_value,
    emit_entry,
    emit_function_call,
    emit_requirement,
    emit_requirements,
)
from bpc.core.language.evaluating.emitter import (
    PROOF_HEADER,
    CoverageSite,
    Emission,
    Emitter,
    Mode,
    OperandCode,
)
from bpc.core.language.evaluating.lookups import emit_table_lookup
from bpc.core.language.evaluating.loops import emit_loop
from bpc.core.language.evaluating.runtime import (
    add_days,
    add_months,
    add_years,
    count_days,
    divide_half_even,
    rank_positions,
    split_text,
    trim_text,
)
from bpc.core.language.evaluation import ComplianceEntry
from bpc.core.language.source import Span


class GeneratedCode(NamedTuple):
    """What the functions name. Field `i` in the order of evaluation is `f<i>(s)`, an expression `e(s, …)`.

    Definition `i` is `d<i>(s)`. A function returns the value; in proof mode of level 1 the value and its node's id.
    """

    names: dict[str, Any]
    sites: tuple[CoverageSite, ...]


CodeSink: TypeAlias = Callable[[str, dict[str, Any]], None]
"""What is done with each function as soon as it is written: its source, and the names it may use."""


def generate(program: typed.Program, mode: Mode, sink: CodeSink, *, first_step: int | None = None) -> GeneratedCode:
    """The functions of a program. `first_step` is the id of a proof's first step, if not that of a passport."""
    emitter = _create_emitter(mode, program, sink, first_step)
    _write_functions(emitter, program)
    for position, field in enumerate(program.fields):
        _write_field(emitter, position, field)
    for position, definition in enumerate(program.definitions):
        _write_definition(emitter, position, definition)
    return GeneratedCode(emitter.code.names, tuple(emitter.sites))


def generate_expression(
    program: typed.Program, expr: typed.Expr, variables: Sequence[str], sink: CodeSink
) -> GeneratedCode:
    """An expression outside the fields, which may read them: a block charged like a field's, its span (0, 0)."""
    emitter = _create_emitter("values", program, sink)
    emitter.lazy = True
    _write_functions(emitter, program)
    emitter.code.open_function()
    parameters = [emitter.code.create_temporary() for _ in variables]
    emitter.scope = {name: OperandCode(atom) for name, atom in zip(variables, parameters, strict=True)}
    emitter.charge(compute_weight(expr), Span(0, 0))
    operand = _emit_expression(emitter, expr)
    emitter.code.close_function("e", parameters, operand.value)
    return GeneratedCode(emitter.code.names, ())


def _create_emitter(mode: Mode, program: typed.Program, sink: CodeSink, first_step: int | None = None) -> Emitter:
    code = CodeWriter(sink, PROOF_HEADER if mode == "proof" and program.language == 1 else ())
    code.names.update(_RUNTIME_NAMES)
    return Emitter(code, mode, program, first_step)


def _write_field(emitter: Emitter, position: int, field: typed.ProgramField) -> None:
    emitter.code.open_function()
    emitter.scope, emitter.field = {}, field.path
    emitter.mark_reached("field", field.span, field.path)
    emitter.charge(compute_weight(field.body), field.span)
    operand = _emit_expression(emitter, field.body)
    emitter.charge_parts([(operand.value, field.type)], field.span)
    emitter.code.close_function(f"f{position}", (), _format_result(emitter, operand))


def _write_functions(emitter: Emitter, program: typed.Program) -> None:
    """A failure in one has no field here: it is one of the field that calls it."""
    emitter.field = None
    for position, function in enumerate(program.functions):
        emitter.code.open_function()
        parameters = [emitter.code.create_temporary() for _ in function.parameters]
        parameter_pairs = zip(function.parameters, parameters, strict=True)
        emitter.scope = {name: OperandCode(atom) for name, atom in parameter_pairs}
        operand = _emit_expression(emitter, function.body)
        emitter.code.close_function(f"g{position}", parameters, operand.value)


def _write_definition(emitter: Emitter, position: int, definition: typed.ProgramDefinition) -> None:
    """A failure in it has no field here: it is one of the field that needs it first."""
    emitter.code.open_function()
    emitter.scope, emitter.field = {}, None
    emitter.charge(compute_weight(definition.body), definition.span)
    operand = _emit_expression(emitter, definition.body)
    emitter.charge_parts([(operand.value, definition.body.type)], definition.span)
    if definition.missing is not None and emitter.mode == "cover":
        value = emitter.code.ensure_temporary(operand.value)
        with emitter.code.indent_block(f"if {value} is None:"):
            emitter.mark_reached("branch", definition.span, "missing")
        with emitter.code.indent_block("else:"):
            emitter.mark_reached("branch", definition.span, "present")
    emitter.code.close_function(f"d{position}", (), operand.value)


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
    nesting = typed.TypedIf | typed.TypedMatch | typed.Logic | typed.Coalesce | typed.Loop
    deep = emitter.code.is_deep and isinstance(expr, nesting)
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
    typed.DefinitionValue: emit_definition_value,
}

_EMITTERS: Final[Mapping[type[Any], Callable[[Emitter, Any], Emission]]] = {
    typed.FactLookup: operations.emit_get_fact,
    typed.FactPrefixLookup: operations.emit_get_facts,
    typed.TypedUnary: numbers.emit_unary,
    typed.Arithmetic: numbers.emit_arithmetic,
    typed.TypedComparison: numbers.emit_comparison,
    typed.Logic: emit_logic,
    typed.Coalesce: emit_coalesce,
    typed.TypedIf: emit_choice,
    typed.TypedMatch: emit_match,
    typed.TypedList: operations.emit_list,
    typed.TypedRecord: operations.emit_record,
    typed.BuiltinCall: operations.emit_apply,
    typed.TableLookup: emit_table_lookup,
    typed.Loop: emit_loop,
    typed.RequireSome: operations.emit_require,
    typed.EmitCompliance: emit_entry,
    typed.FunctionCall: emit_function_call,
    typed.RequirementCheck: emit_requirement,
    typed.RequirementsMet: emit_requirements,
    typed.TypedBlock: emit_block,
}

# All that generated code may call, beside its own functions and what its table holds.
_RUNTIME_NAMES: Final[Mapping[str, object]] = {
    "Compliance": ComplianceEntry,
    "abs": abs,
    "add_days": add_days,
    "add_months": add_months,
    "add_years": add_years,
    "days": count_days,
    "divmod": divmod,
    "enumerate": enumerate,
    "half": divide_half_even,
    "int": int,
    "len": len,
    "max": max,
    "min": min,
    "once": dict.fromkeys,
    "rank": rank_positions,
    "split": split_text,
    "sum": sum,
    "trim": trim_text,
}
