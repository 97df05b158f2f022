"""Definitions and requirements: the code that reads and checks them; the definitions of one world, each computed once.

DefinitionStore.read(place) ──► value, its node among what is read; ValueMissing
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from bpc.core.formats.canonical_json import Json
from bpc.core.language import typed
from bpc.core.language.evaluating.control_flow import compute_weight
from bpc.core.language.evaluating.emitter import Emission, Emitter, OperandCode
from bpc.core.language.evaluating.expressions import (
    add_entry,
    add_expression,
    close_expression,
    open_expression,
    show_missing,
    show_value,
)
from bpc.core.language.evaluating.operations import emit_compliance
from bpc.core.language.evaluating.runtime import COMPLIANCE, GET_DEFINITION, MISSING, READS
from bpc.core.language.evaluation import ComplianceEntry, MissingCause, RuleFailure, ValueMissing
from bpc.core.language.typed import Program


def emit_definition_value(emitter: Emitter, expr: typed.DefinitionValue) -> OperandCode:
    return OperandCode(emitter.code.store(f"s[{GET_DEFINITION}]({emitter.definitions[expr.name]})"))


def emit_entry(emitter: Emitter, expr: typed.EmitCompliance) -> Emission:
    """An entry; that of a requirement also says its verdict and the texts in its message."""
    if expr.verdict is None:
        return (yield from emit_compliance(emitter, expr))
    listing = emitter.code
    status = yield expr.status
    message = yield expr.message
    arguments = []
    for name, argument in expr.args:
        text = yield argument
        arguments.append(f"({listing.register_text(name)}, {text.value}),")
    texts = [listing.register_text(text) for text in (expr.code, emitter.field or "", expr.verdict)]
    said = f"{texts[0]}, {texts[1]}, {message.value}, {status.value}, {texts[2]}, ({' '.join(arguments)})"
    listing.write_line(f"s[{COMPLIANCE}].append(Compliance({said}))")
    return OperandCode(listing.store(f"{status.value} != {listing.register_text('FAIL')}"))


def emit_function_call(emitter: Emitter, expr: typed.FunctionCall) -> Emission:
    position, function = emitter.functions[expr.name]
    arguments = []
    for argument in expr.arguments:
        arguments.append((yield argument))  # noqa: PERF401 - a comprehension cannot ask for parts
    emitter.charge(compute_weight(function.body), expr.span)
    values = [argument.value for argument in arguments]
    return OperandCode(emitter.code.store(f"g{position}({', '.join(['s', *values])})"))


def emit_requirement(emitter: Emitter, expr: typed.RequirementCheck) -> Emission:
    """A function of its own, run by a guard that knows what to do where a definition is missing."""
    listing = emitter.code
    outer_scope, emitter.scope = emitter.scope, {}
    listing.open_function()
    emitter.charge(compute_weight(expr.body), expr.span)
    operand = yield expr.body
    function = listing.close_helper(operand.value)
    emitter.scope = outer_scope
    first_step = emitter.first_step if emitter.records_reads else None
    guard = RequirementGuard(expr, emitter.field or "", emitter.source.byte_range(expr.extent), first_step)
    name = listing.register("R", expr.code, lambda: guard.run)
    return OperandCode(listing.store(f"{name}(s, {function.partition('(')[0]})"))


def emit_requirements(emitter: Emitter, expr: typed.RequirementsMet) -> Emission:
    checks = []
    for item in expr.items:
        checks.append((yield item))  # noqa: PERF401 - a comprehension cannot ask for parts
    return OperandCode(emitter.code.store(f"False not in ({', '.join(check.value for check in checks)},)"))


_Function: TypeAlias = Callable[..., Any]


class DefinitionStore:
    """The definitions that are computed so far. `first_step` is the id of a proof's first step, None without proof."""

    __slots__ = ("_first_step", "_functions", "_program", "_results", "_state")

    def __init__(
        self, program: Program, functions: Sequence[_Function], state: list[Any], first_step: int | None = None
    ) -> None:
        self._program = program
        self._functions = functions
        self._state = state
        self._first_step = first_step
        self._results: list[_Result | None] = [None] * len(functions)

    def read(self, position: int) -> Any:
        result = self._results[position]
        if result is None:
            compute = self._compute if self._first_step is None else self._prove
            result = self._results[position] = compute(position)
        if result.node is not None:
            self._state[READS][result.node] = None
        if result.cause is not None:
            raise ValueMissing(result.cause)
        return result.value

    def _compute(self, position: int) -> "_Result":
        definition = self._program.definitions[position]
        try:
            value = self._functions[position](self._state)
        except RuleFailure as failure:
            failure.definition = failure.definition or definition.name
            raise
        except ValueMissing as missing:
            return _Result(None, missing.cause)
        clause = definition.missing
        if value is not None or clause is None:
            return _Result(value)
        return _Result(None, MissingCause(definition.name, clause.code, clause.message, definition.span))

    def _prove(self, position: int) -> "_Result":
        """The same with its node. What reads nothing follows from the rules alone: it has none unless it is missing."""
        around = open_expression(self._state)
        result = self._compute(position)
        reads = close_expression(self._state, around)
        if not reads and result.cause is None:
            return result
        definition = self._program.definitions[position]
        data: dict[str, Json] = {
            "at": list(self._program.source.byte_range(definition.extent)),
            "name": definition.name,
            "op": "definition",
            **show_missing(result.cause),
        }
        if result.cause is None:
            data |= show_value(definition.body.type, result.value)
        return result._replace(node=add_expression(self._state, data, reads, self._first_step or 0))


class _Result(NamedTuple):
    """A definition that is computed: its value or why it is missing, and its node if it has one."""

    value: Any
    cause: MissingCause | None = None
    node: int | None = None


def record_missing_field(state: list[Any], position: int, path: str, cause: MissingCause) -> None:
    """Note that a field is missing, with its compliance entry; whoever reads it is missing too."""
    state[MISSING][position] = cause
    state[COMPLIANCE].append(ComplianceEntry(cause.code, path, cause.message, "FAIL"))


class RequirementGuard:
    """Runs the code of a requirement. If a definition that it needs is missing, the entry says so."""

    __slots__ = ("_at", "_check", "_field", "_first_step")

    def __init__(self, check: typed.RequirementCheck, field: str, at: tuple[int, int], first_step: int | None) -> None:
        self._check = check
        self._field = field
        self._at = at
        self._first_step = first_step

    def run(self, state: list[Any], function: _Function) -> Any:
        around = open_expression(state)
        try:
            value = function(state)
        except ValueMissing as missing:
            check = self._check
            state[COMPLIANCE].append(ComplianceEntry(check.code, self._field, missing.cause.message, check.severity))
            value = check.severity != "FAIL"
        reads = close_expression(state, around)
        if self._first_step is not None:
            add_entry(state, self._at, reads, self._first_step)
        return value
