"""Definitions and requirements: the code that reads and checks them; the definitions of one world, each computed once.

DefinitionStore.read(place) ──► value, or (value, node) in a proof; ValueMissing
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from bpc.core.language import typed
from bpc.core.language.evaluating.control_flow import compute_weight
from bpc.core.language.evaluating.emitter import Emission, Emitter, OperandCode
from bpc.core.language.evaluating.operations import emit_compliance
from bpc.core.language.evaluating.runtime import (
    COMPLIANCE,
    GET_DEFINITION,
    MISSING,
    NODES,
    create_entry_maker,
    create_plain_maker,
)
from bpc.core.language.evaluating.values import quote_text
from bpc.core.language.evaluation import ComplianceEntry, MissingCause, RuleFailure, ValueMissing
from bpc.core.language.typed import ProgramDefinition
from bpc.core.passport import proof


def emit_definition_value(emitter: Emitter, expr: typed.DefinitionValue) -> OperandCode:
    call = f"s[{GET_DEFINITION}]({emitter.definitions[expr.name]})"
    if emitter.mode != "proof":
        return OperandCode(emitter.code.store(call))
    value, node = emitter.code.create_temporary(), emitter.code.create_temporary()
    emitter.code.write_line(f"{value}, {node} = {call}")
    return OperandCode(value, emitter.record_read(node))


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
    entry = listing.store(f"Compliance({said})")
    value = listing.store(f"{status.value} != {listing.register_text('FAIL')}")
    node = ""
    if emitter.proving:
        make = emitter.register_maker("entry", create_entry_maker)
        node = emitter.emit_node(make, [entry, status.node, message.node], large=True)
    listing.write_line(f"s[{COMPLIANCE}].append({entry})")
    return OperandCode(value, node)


def emit_function_call(emitter: Emitter, expr: typed.FunctionCall) -> Emission:
    """In a proof there are two functions: one that makes nodes, and one for lambdas, which gathers reads."""
    position, function = emitter.functions[expr.name]
    arguments = []
    for argument in expr.arguments:
        arguments.append((yield argument))  # noqa: PERF401 - a comprehension cannot ask for parts
    emitter.charge(compute_weight(function.body), expr.span)
    values = [argument.value for argument in arguments]
    if emitter.mode != "proof":
        return OperandCode(emitter.code.store(f"g{position}({', '.join(['s', *values])})"))
    if emitter.reads is not None:
        return OperandCode(emitter.code.store(f"v{position}({', '.join(['s', emitter.reads, *values])})"))
    nodes = [argument.node for argument in arguments]
    value, node = emitter.code.create_temporary(), emitter.code.create_temporary()
    emitter.code.write_line(f"{value}, {node} = g{position}({', '.join(['s', *values, *nodes])})")
    return OperandCode(value, node)


def emit_requirement(emitter: Emitter, expr: typed.RequirementCheck) -> Emission:
    """A function of its own, run by a guard that knows what to do where a definition is missing."""
    listing = emitter.code
    outer_scope, emitter.scope = emitter.scope, {}
    listing.open_function()
    emitter.charge(compute_weight(expr.body), expr.span)
    operand = yield expr.body
    function = listing.close_helper(f"{operand.value}, {operand.node}" if emitter.proving else operand.value)
    emitter.scope = outer_scope
    first_step = len(emitter.fields) + 1 if emitter.proving else None
    guard = RequirementGuard(expr, emitter.field or "", first_step)
    name = listing.register("R", expr.code, lambda: guard.run)
    call = f"{name}(s, {function.partition('(')[0]})"
    if not emitter.proving:
        return OperandCode(listing.store(call))
    value, node = listing.create_temporary(), listing.create_temporary()
    listing.write_line(f"{value}, {node} = {call}")
    return OperandCode(value, node)


def emit_requirements(emitter: Emitter, expr: typed.RequirementsMet) -> Emission:
    checks = []
    for item in expr.items:
        checks.append((yield item))  # noqa: PERF401 - a comprehension cannot ask for parts
    value = emitter.code.store(f"False not in ({', '.join(check.value for check in checks)},)")
    return emitter.emit_op("requirements", expr.type, value, checks)


_Function: TypeAlias = Callable[..., Any]

_NO_NODE: Final = 0


class DefinitionStore:
    """The definitions that are computed so far. `first_step` is the id of a proof's first step, None without proof."""

    __slots__ = ("_definitions", "_first_step", "_functions", "_results", "_state")

    def __init__(
        self,
        definitions: Sequence[ProgramDefinition],
        functions: Sequence[_Function],
        state: list[Any],
        first_step: int | None = None,
    ) -> None:
        self._definitions = definitions
        self._functions = functions
        self._state = state
        self._first_step = first_step
        self._results: list[tuple[Any, int] | ValueMissing | None] = [None] * len(definitions)

    def read(self, position: int) -> Any:
        result = self._results[position]
        if result is None:
            result = self._results[position] = self._compute(position)
        if isinstance(result, ValueMissing):
            raise ValueMissing(result.cause, result.node)
        return result[0] if self._first_step is None else result

    def _compute(self, position: int) -> tuple[Any, int] | ValueMissing:
        definition, function = self._definitions[position], self._functions[position]
        # There are no nodes without a proof.
        steps: proof.ProofSteps = {} if self._first_step is None else self._state[NODES]
        node_count_before = len(steps)
        cause = None
        value, node = None, _NO_NODE
        try:
            value = function(self._state)
            if self._first_step is not None:
                value, node = value
            if value is None and definition.missing is not None:
                cause = MissingCause(
                    definition.name, definition.missing.code, definition.missing.message, definition.span
                )
        except RuleFailure as failure:
            failure.definition = failure.definition or definition.name
            raise
        except ValueMissing as missing:
            cause = missing.cause
            if self._first_step is not None:
                node = add_missing_node(steps, self._first_step, missing)
        if self._first_step is not None:
            data = f'{{"name":{quote_text(definition.name)},"op":"definition"}}'
            node = proof.add_derivation(steps, self._first_step, node_count_before, node, data)
        return (value, node) if cause is None else ValueMissing(cause, node)


def add_missing_node(steps: proof.ProofSteps, first_step: int, missing: ValueMissing) -> int:
    """The node of a field or definition that needs what is missing."""
    code, message = quote_text(missing.cause.code), quote_text(missing.cause.message)
    make_node = create_plain_maker(proof.OP, f'{{"code":{code},"message":{message},"op":"missing"}}', first_step)
    return make_node(steps, missing.node)


def record_missing_field(state: list[Any], position: int, path: str, cause: MissingCause) -> None:
    """Note that a field is missing, with its compliance entry; whoever reads it is missing too."""
    state[MISSING][position] = cause
    state[COMPLIANCE].append(ComplianceEntry(cause.code, path, cause.message, "FAIL"))


class RequirementGuard:
    """Runs the code of a requirement. If a definition that it needs is missing, the entry says so."""

    __slots__ = ("_check", "_field", "_first_step")

    def __init__(self, check: typed.RequirementCheck, field: str, first_step: int | None) -> None:
        self._check = check
        self._field = field
        self._first_step = first_step

    def run(self, state: list[Any], function: _Function) -> Any:
        try:
            return function(state)
        except ValueMissing as missing:
            check, first = self._check, self._first_step
            entry = ComplianceEntry(check.code, self._field, missing.cause.message, check.severity)
            value = check.severity != "FAIL"
            node = _NO_NODE
            if first is not None:
                node = create_entry_maker(first)(state, entry, add_missing_node(state[NODES], first, missing))
            state[COMPLIANCE].append(entry)
            return value if first is None else (value, node)
