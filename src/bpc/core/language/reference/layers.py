"""The reference evaluator for layers: the fields of one layer over values of the layers above, every step out.

Plain on purpose, and written from docs/formats/item.md: the production evaluator is compared with it. It computes the
values of the upper layers from their facts itself and takes nothing from their proofs but the places.

    Program, World ── hold_model_values ──► what the fields and definitions of the model hold
    …, UpperValues ── derive_layer ──► LayerDerivation: values, steps, entries
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from bpc.core.formats.canonical_json import Json
from bpc.core.language import typed
from bpc.core.language.evaluation import MAX_STEPS, ComplianceEntry, MissingCause, ValueMissing, World
from bpc.core.language.layers import ProgramLayers, is_requirements_field, keep_requirements
from bpc.core.language.reference.accounting import NO_NODE, DerivationNode, Meter, NodeTable, TracedValue
from bpc.core.language.reference.expressions import ExpressionWalker
from bpc.core.language.reference.values import value_to_json
from bpc.core.language.typed import Layer, Program
from bpc.core.language.upper_values import ProofPlace, UpperRequirements, UpperValue, UpperValues


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerDerivation:
    """What one layer gave: fields by path as payloads write them, steps with ids from 0, and its entries.

    `held_fields` and `held_definitions` are the same as rules hold them, or why they are missing.
    """

    fields: dict[str, Json]
    steps: list[DerivationNode]
    compliance: list[ComplianceEntry]
    held_fields: Mapping[str, "HeldValue"]
    held_definitions: Mapping[str, "HeldValue"]


@dataclass(frozen=True, slots=True)
class HeldValue:
    """A value as rules hold it, or why it is missing; its step, if it has one."""

    value: Any
    cause: MissingCause | None
    step: int | None = None


def hold_model_values(
    program: Program, layers: ProgramLayers, world: World, names: Collection[str]
) -> tuple[dict[str, HeldValue], dict[str, HeldValue]]:
    """The fields of the model's layer, and the definitions with these names, computed from the model's facts."""
    walk = _HoldingWalker(program, world, Meter(MAX_STEPS), NodeTable(0))
    for field in program.fields:
        if layers.fields[field.path].layer == "model":
            walk.derive_field(field, "")
    fields = {path: HeldValue(value, walk.get_cause(path)) for path, value in walk.values.items()}
    return fields, {name: walk.hold_definition(name) for name in names}


def add_places(held_values: Mapping[str, HeldValue], places: Mapping[str, ProofPlace]) -> dict[str, UpperValue]:
    """Values that may be read below, each with its place in the proof of its layer."""
    return {name: UpperValue(held_values[name].value, place, held_values[name].cause) for name, place in places.items()}


def derive_layer(
    program: Program,
    layers: ProgramLayers,
    own_layers: Collection[Layer],
    upper: UpperValues,
    world: World,
    *,
    max_bytes: int | None = None,
) -> LayerDerivation:
    """Evaluate the fields of a layer in the program's order; the first `RuleFailure` ends it."""
    own_program = keep_requirements(program, layers, own_layers)
    walk = LayerWalker(own_program, world, Meter(MAX_STEPS), NodeTable(0, max_bytes))
    walk.set_upper_values(upper)
    own_fields = [
        field
        for field in own_program.fields
        if layers.fields[field.path].layer in own_layers or is_requirements_field(field)
    ]
    for field in own_fields:
        walk.derive_field(field, "")
    by_path = sorted(own_fields, key=lambda field: field.path)
    return LayerDerivation(
        fields={field.path: value_to_json(field.type, walk.values[field.path]) for field in by_path},
        steps=walk.list_steps(),
        compliance=walk.compliance,
        held_fields={field.path: HeldValue(walk.values[field.path], walk.get_cause(field.path)) for field in by_path},
        held_definitions=walk.list_definitions(),
    )


class _HoldingWalker(ExpressionWalker):
    """A walk that can be asked for what it holds."""

    def get_cause(self, path: str) -> MissingCause | None:
        return self._missing_fields.get(path)

    def hold_definition(self, name: str) -> HeldValue:
        """A definition of the program, computed if it is not yet."""
        definition = self._definitions[name]
        try:
            reference = typed.DefinitionValue(definition.type, name, definition.span)
            return HeldValue(self._eval_definition(reference).value, None)
        except ValueMissing as missing:
            return HeldValue(None, missing.cause)

    def list_definitions(self) -> dict[str, HeldValue]:
        """Those that were needed, with their steps."""
        held_values = {}
        for name, known_value in self._defined.items():
            step = None if known_value.node == NO_NODE else known_value.node
            if isinstance(known_value, ValueMissing):
                held_values[name] = HeldValue(None, known_value.cause, step)
            else:
                held_values[name] = HeldValue(known_value.value, None, step)
        return held_values

    def list_steps(self) -> list[DerivationNode]:
        return self._steps.nodes


class LayerWalker(_HoldingWalker):
    """Evaluates the fields of one layer. What belongs to an upper layer is read, with a step of type LAYER_GET."""

    def set_upper_values(self, upper: UpperValues) -> None:
        self._upper = upper
        self.values.update({path: each.value for path, each in upper.fields.items()})
        self._missing_fields.update({path: each.cause for path, each in upper.fields.items() if each.cause is not None})

    def derive_field(self, field: typed.ProgramField, salt: str) -> None:
        del salt  # the steps of a layer are blinded together
        self._field = self.meter.field = field.path
        upper_steps = []
        if is_requirements_field(field):
            upper_steps = [self._add_requirements(each, field) for each in self._upper.requirements]
        outcome = self._walk_expression(field.body, field.span)
        data: dict[str, Json] = {"op": "derivation", "path": field.path}
        if field.extent is not None:
            data["at"] = self._show_place(field.extent)
        value = outcome.value
        if outcome.cause is not None:
            self._missing_fields[field.path] = outcome.cause
            self.compliance.append(ComplianceEntry(outcome.cause.code, field.path, outcome.cause.message, "FAIL"))
            data["missing"] = {"code": outcome.cause.code, "message": outcome.cause.message}
        if is_requirements_field(field):
            value = bool(value) and all(each.are_met for each in self._upper.requirements)
        self.values[field.path] = value
        self.derivations[field.path] = self._add_node("OP", data, [*upper_steps, *outcome.reads], field.span)

    def _add_requirements(self, requirements: UpperRequirements, field: typed.ProgramField) -> int:
        return self._add_node("LAYER_GET", {**requirements.to_json(), "op": "requirements"}, (), field.span)

    def _eval_definition(self, reference: typed.DefinitionValue) -> TracedValue:
        upper = self._upper.definitions.get(reference.name)
        if upper is not None and reference.name not in self._defined:
            node = self._add_node("LAYER_GET", {**upper.place.to_json(), "name": reference.name}, (), reference.span)
            self._defined[reference.name] = (
                TracedValue(upper.value, node) if upper.cause is None else ValueMissing(upper.cause, node)
            )
        return super()._eval_definition(reference)

    def _eval_field_or_raise(self, reference: typed.FieldValue) -> TracedValue:
        upper = self._upper.fields.get(reference.path)
        if upper is not None and reference.path not in self.derivations:
            self.derivations[reference.path] = self._add_node(
                "LAYER_GET", {**upper.place.to_json(), "path": reference.path}, (), reference.span
            )
        return super()._eval_field_or_raise(reference)


LayerWalker.methods = {
    **ExpressionWalker.methods,
    typed.FieldValue: LayerWalker._eval_field_or_raise,
    typed.DefinitionValue: LayerWalker._eval_definition,
}
