"""Layers: which part of a program belongs to the model, to the batch, and to each battery.

Pure. A layer follows from what an expression reads. The facts `Item`, `Reading` and `ReadingSeries` are a battery's
own, and so are `issuedOn()` and every date of the battery. The fact `Batch` is a batch's. All else is the model's.
Whatever reads something of a lower layer belongs to that layer.

    Program ── assign_layers ──► ProgramLayers: the layer of each field, definition, function and requirement, and why
            └─ keep_requirements ──► the same program with the requirements of some layers only
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from bpc.core.facts.schemas import SCHEMAS
from bpc.core.language import typed
from bpc.core.language.typed import Layer
from bpc.core.language.types import DATE, FactRecordType, unwrap_option_type

LAYERS: Final[tuple[Layer, ...]] = ("model", "batch", "item")
FACT_LAYERS: Final[Mapping[str, Layer]] = {"Item": "item", "Reading": "item", "ReadingSeries": "item", "Batch": "batch"}
_ITEM_FUNCTIONS: Final = frozenset({"issuedOn"})
_DATED_FACT: Final = "Battery"


class LayerChoice(NamedTuple):
    """A layer, and what is read that puts something there; None for the model, where nothing needs to be read."""

    layer: Layer
    because: str | None = None


_MODEL: Final = LayerChoice("model")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramLayers:
    """The layer of each part. Requirements go by their codes; the field of all requirements is every layer's."""

    fields: Mapping[str, LayerChoice]
    definitions: Mapping[str, LayerChoice]
    functions: Mapping[str, LayerChoice]
    requirements: Mapping[str, LayerChoice]
    requirements_path: str | None = None


def get_fact_layer(fact_type: str) -> Layer:
    return FACT_LAYERS.get(fact_type, "model")


def rank_layer(layer: Layer) -> int:
    """0 for the model, and more for each layer below."""
    return LAYERS.index(layer)


def assign_layers(program: typed.Program) -> ProgramLayers:
    """The layer of every part of a checked program."""
    assignment = LayerAssignment(program.fields, program.definitions, program.functions)
    return ProgramLayers(
        fields={field.path: assignment.choose_for_field(field.path) for field in program.fields},
        definitions={each.name: assignment.choose_for_definition(each.name) for each in program.definitions},
        functions={each.name: assignment.choose_for_function(each.name) for each in program.functions},
        requirements={each.code: assignment.choose_for_requirement(each) for each in typed.list_requirements(program)},
        requirements_path=next((each.path for each in program.fields if is_requirements_field(each)), None),
    )


def keep_requirements(program: typed.Program, layers: ProgramLayers, kept_layers: Collection[Layer]) -> typed.Program:
    """The program with the requirements of the `kept_layers` only."""
    fields = []
    for field in program.fields:
        body = field.body
        if isinstance(body, typed.RequirementsMet):
            items = tuple(item for item in body.items if layers.requirements[item.code].layer in kept_layers)
            field = replace(field, body=replace(body, items=items))  # noqa: PLW2901 (the one field that differs)
        fields.append(field)
    return replace(program, fields=tuple(fields))


def is_requirements_field(field: typed.ProgramField) -> bool:
    return isinstance(field.body, typed.RequirementsMet)


class LayerAssignment:
    """Chooses layers, each part once. Nothing in a checked program refers to itself."""

    def __init__(
        self,
        fields: Iterable[typed.ProgramField],
        definitions: Iterable[typed.ProgramDefinition],
        functions: Iterable[typed.ProgramFunction],
    ) -> None:
        self._fields = {field.path: field for field in fields}
        self._definitions = {definition.name: definition for definition in definitions}
        self._functions = {function.name: function for function in functions}
        self._choices: dict[tuple[str, str], LayerChoice] = {}

    def choose_for_field(self, path: str) -> LayerChoice:
        field = self._fields[path]
        if is_requirements_field(field):
            return LayerChoice("item", "the requirements of every layer")
        return self._choose(("field", path), field.body, field.layer)

    def choose_for_definition(self, name: str) -> LayerChoice:
        definition = self._definitions[name]
        return self._choose(("definition", name), definition.body, definition.layer)

    def choose_for_function(self, name: str) -> LayerChoice:
        return self._choose(("function", name), self._functions[name].body, None)

    def choose_for_requirement(self, requirement: typed.RequirementCheck) -> LayerChoice:
        return self._choose(("requirement", requirement.code), requirement.body, requirement.layer)

    def _choose(self, name: tuple[str, str], body: typed.Expr, stated_layer: Layer | None) -> LayerChoice:
        choice = self._choices.get(name)
        if choice is None:
            choices = [_MODEL, *self._iterate_reads(body)]
            if stated_layer is not None:
                choices.append(LayerChoice(stated_layer, "what the rule says"))
            choice = self._choices[name] = max(choices, key=lambda each: rank_layer(each.layer))
        return choice

    def _iterate_reads(self, body: typed.Expr) -> Iterator[LayerChoice]:
        for part in typed.iterate_parts(body):
            match part:
                case typed.FactLookup() | typed.FactPrefixLookup():
                    yield LayerChoice(get_fact_layer(part.fact.name), f"the fact `{part.fact.name}`")
                case typed.BuiltinCall() if part.op in _ITEM_FUNCTIONS:
                    yield LayerChoice("item", f"`{part.op}()`")
                case typed.BuiltinCall() if _reads_battery_date(part):
                    yield LayerChoice("item", f"`{part.static['member']}`, a date of the battery")
                case typed.FieldValue():
                    yield LayerChoice(self.choose_for_field(part.path).layer, f"the field `{part.path}`")
                case typed.DefinitionValue():
                    yield LayerChoice(self.choose_for_definition(part.name).layer, f"the definition `{part.name}`")
                case typed.FunctionCall():
                    yield LayerChoice(self.choose_for_function(part.name).layer, f"the function `{part.name}`")
                case _:
                    pass


def _reads_battery_date(call: typed.BuiltinCall) -> bool:
    if call.op not in {"recordGet", "member"} or not call.arguments:
        return False
    kind = unwrap_option_type(call.arguments[0].type)
    if not isinstance(kind, FactRecordType) or kind.name != _DATED_FACT:
        return False
    return SCHEMAS[kind].get(str(call.static["member"])) == DATE
