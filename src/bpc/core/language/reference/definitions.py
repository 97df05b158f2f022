"""The walk over what level 2 has beside fields: definitions, fields that are absent because one is missing, tables.

A definition is computed when it is first needed, outside of the loops and names around it, and kept. Whoever needs one
that is missing ends there: `ValueMissing`.
"""

from typing import Any

from bpc.core.formats.canonical_json import Json
from bpc.core.language import evaluation, typed
from bpc.core.language.evaluation import ComplianceEntry, MissingCause, ValueMissing
from bpc.core.language.reference.accounting import Meter, NodeTable, TracedValue
from bpc.core.language.reference.tables import ROWS_PER_STEP, find_row
from bpc.core.language.reference.values import value_to_json
from bpc.core.language.reference.walk import TreeWalker
from bpc.core.language.source import Span


class ProgramWalker(TreeWalker):
    """Evaluates the fields of a program one after another, and the definitions that they need."""

    def __init__(self, program: typed.Program, world: evaluation.World, meter: Meter, steps: NodeTable) -> None:
        super().__init__(program.source, world, meter, steps)
        self._definitions = {definition.name: definition for definition in program.definitions}
        self._tables = {table.name: table for table in program.tables}
        self._functions = {function.name: function for function in program.functions}
        self._defined: dict[str, TracedValue | ValueMissing] = {}
        self._missing_fields: dict[str, MissingCause] = {}

    def derive_field(self, field: typed.ProgramField, salt: str) -> None:
        """Compute a field, and close its derivation over every node it made that nothing refers to."""
        self._field = self.meter.field = field.path
        start = self._steps.next_id
        self.meter.enter(field.body, field.span)
        try:
            result = self._evaluate_apart(field.body)
            self.meter.charge_parts((result.value,), field.span)
        except ValueMissing as missing:
            cause = self._missing_fields[field.path] = missing.cause
            self.compliance.append(ComplianceEntry(cause.code, field.path, cause.message, "FAIL"))
            result = self._trace_missing(missing, field.span)
        data: dict[str, Json] = {"op": "derivation", "salt": salt}
        self.values[field.path] = result.value
        self.derivations[field.path] = self._close(start, result, data, field.span)

    def _eval_definition(self, reference: typed.DefinitionValue) -> TracedValue:
        known = self._defined.get(reference.name)
        if known is None:
            definition = self._definitions[reference.name]
            known = self._defined[reference.name] = self._compute_definition(definition)
        if isinstance(known, ValueMissing):
            raise ValueMissing(known.cause, known.node)
        return self._record_read(known.value, known.node)

    def _compute_definition(self, definition: typed.ProgramDefinition) -> TracedValue | ValueMissing:
        start = self._steps.next_id
        self.meter.enter(definition.body, definition.span)
        cause = None
        try:
            result = self._evaluate_apart(definition.body)
            self.meter.charge_parts((result.value,), definition.span)
            if result.value is None and definition.missing is not None:
                clause = definition.missing
                cause = MissingCause(definition.name, clause.code, clause.message, definition.span)
        except ValueMissing as missing:
            cause = missing.cause
            result = self._trace_missing(missing, definition.span)
        node = self._close(start, result, {"op": "definition", "name": definition.name}, definition.span)
        return TracedValue(result.value, node) if cause is None else ValueMissing(cause, node)

    def _eval_function_call(self, call: typed.FunctionCall) -> TracedValue:
        """The body sees its parameters and no other names; it stands where the call does."""
        function = self._functions[call.name]
        arguments = [self.evaluate(argument) for argument in call.arguments]
        self.meter.enter(function.body, call.span)
        around: dict[str, TracedValue] = self.variables
        self.variables = dict(zip(function.parameters, arguments, strict=True))
        try:
            return self.evaluate(function.body)
        finally:
            self.variables = around

    def _eval_requirements(self, requirements: typed.RequirementsMet) -> TracedValue:
        checks = [self.evaluate(item) for item in requirements.items]
        value = all(check.value for check in checks)
        return self._trace_op("requirements", requirements.type, value, checks, requirements.span)

    def _eval_requirement(self, requirement: typed.RequirementCheck) -> TracedValue:
        """A requirement that needs what is missing is not met, and says what is missing."""
        self.meter.enter(requirement.body, requirement.span)
        try:
            return self._evaluate_apart(requirement.body)
        except ValueMissing as missing:
            traced = self._trace_missing(missing, requirement.span)
            entry = ComplianceEntry(requirement.code, self._field, missing.cause.message, requirement.severity)
            data = self._record_entry(entry, is_requirement=True)
            value = requirement.severity != "FAIL"
            return self._trace_node("COMPLIANCE_EMIT", data, value, (traced,), requirement.span)

    def _eval_table_lookup(self, call: typed.TableLookup) -> TracedValue:
        arguments = list(map(self.evaluate, call.arguments))
        table = self._tables[call.table]
        self.meter.charge(len(table.rows) // ROWS_PER_STEP, call.span)
        row = find_row(table, [argument.value for argument in arguments])
        value = None if row is None else table.rows[row].value
        data: dict[str, Json] = {"op": "table", "table": table.name, "row": row}
        data["value"] = value_to_json(call.type, value)
        return self._trace_node("OP", data, value, arguments, call.span)

    def _eval_field_or_raise(self, reference: typed.FieldValue) -> TracedValue:
        cause = self._missing_fields.get(reference.path)
        if cause is None:
            return self._eval_field_value(reference)
        raise ValueMissing(cause, self._add_field_reference(reference))

    def _evaluate_apart(self, body: typed.Expr) -> TracedValue:
        """Evaluate what sees none of the names around it and stands in none of the loops."""
        around: tuple[dict[str, TracedValue], int, dict[int, None]] = self.variables, self._lambda_depth, self._reads
        self.variables, self._lambda_depth, self._reads = {}, 0, {}
        try:
            return self.evaluate(body)
        finally:
            self.variables, self._lambda_depth, self._reads = around

    def _trace_missing(self, missing: ValueMissing, span: Span) -> TracedValue:
        data: dict[str, Json] = {"op": "missing", "code": missing.cause.code, "message": missing.cause.message}
        return TracedValue(None, self._add_node("OP", data, (missing.node,), span))

    def _close(self, start: int, result: TracedValue, data: dict[str, Json], span: Span) -> int:
        """Add the node over a result and every node since `start` that nothing refers to."""
        parentless = [node_id for node_id in self._steps.list_parentless(start) if node_id != result.node]
        return self._add_node("OP", data, (result.node, *parentless), span)


_METHODS: dict[type[Any], Any] = {
    typed.FieldValue: ProgramWalker._eval_field_or_raise,
    typed.DefinitionValue: ProgramWalker._eval_definition,
    typed.FunctionCall: ProgramWalker._eval_function_call,
    typed.RequirementsMet: ProgramWalker._eval_requirements,
    typed.RequirementCheck: ProgramWalker._eval_requirement,
    typed.TableLookup: ProgramWalker._eval_table_lookup,
}
ProgramWalker.methods = {**TreeWalker.methods, **_METHODS}
