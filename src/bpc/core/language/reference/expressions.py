"""The walk that gives the nodes of BPC-PROOF-2: one for each expression, over what it has read.

It evaluates as `ProgramWalker` does, as if everything stood inside a lambda: operators have no nodes. A field, a
definition and a requirement have one each; its children are the facts, fields, definitions and entries that its
expression asked for, in the order in which it first did.
"""

from typing import Any, Final, NamedTuple

from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.language import typed
from bpc.core.language.evaluation import ComplianceEntry, MissingCause, ValueMissing
from bpc.core.language.reference.accounting import NO_NODE, TracedValue
from bpc.core.language.reference.definitions import ProgramWalker
from bpc.core.language.reference.values import value_to_json
from bpc.core.language.source import Span
from bpc.core.language.types import Type, contains_fact_record

# A definition shows the hash of a value that takes more bytes.
LONGEST_SHOWN: Final = 256


class _Outcome(NamedTuple):
    """What an expression gave, or why it is missing, and what it read."""

    value: Any
    cause: MissingCause | None
    reads: list[int]


class ExpressionWalker(ProgramWalker):
    """Evaluates the fields of a program, with a node for each expression."""

    def derive_field(self, field: typed.ProgramField, salt: str) -> None:
        self._field = self.meter.field = field.path
        outcome = self._walk_expression(field.body, field.span)
        data: dict[str, Json] = {"op": "derivation", "salt": salt}
        if field.extent is not None:
            data["at"] = self._show_place(field.extent)
        if outcome.cause is not None:
            self._missing_fields[field.path] = outcome.cause
            self.compliance.append(ComplianceEntry(outcome.cause.code, field.path, outcome.cause.message, "FAIL"))
            data["missing"] = _show_missing(outcome.cause)
        self.values[field.path] = outcome.value
        self.derivations[field.path] = self._add_node("OP", data, outcome.reads, field.span)

    def _compute_definition(self, definition: typed.ProgramDefinition) -> TracedValue | ValueMissing:
        """One that reads nothing follows from the rules alone: it has no node, unless it is missing."""
        value, cause, reads = self._walk_expression(definition.body, definition.span)
        if cause is None and value is None and definition.missing is not None:
            clause = definition.missing
            cause = MissingCause(definition.name, clause.code, clause.message, definition.span)
        if cause is None and not reads:
            return TracedValue(value, NO_NODE)
        data: dict[str, Json] = {"op": "definition", "name": definition.name, "at": self._show_place(definition.extent)}
        data |= _show_value(definition.body.type, value) if cause is None else {"missing": _show_missing(cause)}
        node = self._add_node("OP", data, reads, definition.span)
        return TracedValue(value, node) if cause is None else ValueMissing(cause, node)

    def _eval_definition(self, reference: typed.DefinitionValue) -> TracedValue:
        try:
            return super()._eval_definition(reference)
        except ValueMissing as missing:
            self._reads[missing.node] = None
            raise

    def _eval_field_or_raise(self, reference: typed.FieldValue) -> TracedValue:
        """Who reads a field has its derivation as a child."""
        self._reads[self.derivations[reference.path]] = None
        cause = self._missing_fields.get(reference.path)
        if cause is not None:
            raise ValueMissing(cause)
        return TracedValue(self.values[reference.path], NO_NODE)

    def _eval_requirements(self, requirements: typed.RequirementsMet) -> TracedValue:
        results = [self.evaluate(item).value for item in requirements.items]
        return TracedValue(all(results), NO_NODE)

    def _eval_requirement(self, requirement: typed.RequirementCheck) -> TracedValue:
        """The entry that the expression adds is the last one; if something is missing, it is added here."""
        value, cause, reads = self._walk_expression(requirement.body, requirement.span)
        if cause is not None:
            value = requirement.severity != "FAIL"
            self.compliance.append(ComplianceEntry(requirement.code, self._field, cause.message, requirement.severity))
        self._add_entry_node(reads, requirement.span, self._show_place(requirement.extent))
        return TracedValue(value, NO_NODE)

    def _eval_emit(self, call: typed.EmitCompliance) -> TracedValue:
        """The entry of a requirement has its node when the requirement is done."""
        trace = super()._eval_emit(call)
        if call.verdict is None:
            self._add_entry_node([], call.span)
        return trace

    def _add_entry_node(self, reads: list[int], span: Span, place: Json = None) -> None:
        index = len(self.compliance) - 1
        data: dict[str, Json] = {**self.compliance[index].to_payload_json(2), "index": index}
        if place is not None:
            data["at"] = place
        self._reads[self._add_node("COMPLIANCE_EMIT", data, reads, span)] = None

    def _record_read(self, value: Any, node: int) -> TracedValue:
        return TracedValue(value, NO_NODE) if node == NO_NODE else super()._record_read(value, node)

    def _add_fact_node(self, call: typed.FactLookup | typed.FactPrefixLookup, key: TracedValue, **details: Json) -> int:
        data: dict[str, Json] = {"fact_type": call.fact.name, "schema_version": call.fact.version, **details}
        data["key" if isinstance(call, typed.FactLookup) else "prefix"] = key.value
        return self._add_node("FACT_GET", data, (), call.span)

    def _walk_expression(self, body: typed.Expr, span: Span) -> _Outcome:
        """Evaluate what sees none of the names around it, stands in none of the loops, and reads for itself."""
        around: tuple[dict[str, TracedValue], int, dict[int, None]] = self.variables, self._lambda_depth, self._reads
        self.meter.enter(body, span)
        self.variables, self._lambda_depth, self._reads = {}, 1, {}
        value, cause = None, None
        try:
            value = self.evaluate(body).value
            self.meter.charge_parts((value,), span)
        except ValueMissing as missing:
            value, cause = None, missing.cause
        reads = [*self._reads]
        self.variables, self._lambda_depth, self._reads = around
        return _Outcome(value, cause, reads)

    def _show_place(self, extent: Span) -> list[Json]:
        return list(self._source.byte_range(extent))


def _show_missing(cause: MissingCause) -> dict[str, Json]:
    return {"code": cause.code, "message": cause.message}


def _show_value(kind: Type, value: Any) -> dict[str, Json]:
    if contains_fact_record(kind):
        return {}
    json_value = value_to_json(kind, value)
    value_bytes = canonical_json.encode_typed(json_value)
    return {"value": json_value} if len(value_bytes) <= LONGEST_SHOWN else {"value_hash": to_hex(sha256(value_bytes))}


_METHODS: dict[type[Any], Any] = {
    typed.FieldValue: ExpressionWalker._eval_field_or_raise,
    typed.DefinitionValue: ExpressionWalker._eval_definition,
    typed.RequirementsMet: ExpressionWalker._eval_requirements,
    typed.RequirementCheck: ExpressionWalker._eval_requirement,
    typed.EmitCompliance: ExpressionWalker._eval_emit,
}
ExpressionWalker.methods = {**ProgramWalker.methods, **_METHODS}
