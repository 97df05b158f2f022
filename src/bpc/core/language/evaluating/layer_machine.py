"""The production evaluator for the layers below a model: the fields of one layer, over values of the layers above.

Pure, and made to be run for millions of batteries: whatever is the same for all of them is prepared once. A value of an
upper layer is read with its place in that layer's proof (LAYER_GET). The other steps are those of BPC-PROOF-2, with ids
from 0.

    machine = LayerMachine(program, layers, own_layers, upper_values)
    machine.prove(facts, …) ──► LayerProof: values, steps, entries
                       └──────► RuleFailure
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.language.evaluating.definitions import record_missing_field
from bpc.core.language.evaluating.expressions import MAX_SHOWN_BYTES, show_missing
from bpc.core.language.evaluating.generator import generate
from bpc.core.language.evaluating.machine import load_function, name_field
from bpc.core.language.evaluating.runtime import COMPLIANCE, FIRST_FIELD, GET_DEFINITION, READS
from bpc.core.language.evaluating.values import ValueWriter, create_writer
from bpc.core.language.evaluation import (
    MAX_STEPS,
    ComplianceEntry,
    MissingCause,
    RuleFailure,
    ValueMissing,
)
from bpc.core.language.layers import ProgramLayers, is_requirements_field, keep_requirements
from bpc.core.language.typed import Layer, Program, ProgramDefinition, ProgramField
from bpc.core.language.types import FactRecordType, contains_fact_record
from bpc.core.language.upper_values import UpperValues
from bpc.core.passport.proof import MAX_PROOF_BYTES, OP, ProofSteps, check_step_count

LAYER_GET: Final = ',"type":"LAYER_GET"}'

FactGetter: TypeAlias = Callable[[FactRecordType, str], Any]
_Function: TypeAlias = Callable[..., Any]


class LayerWorld(NamedTuple):
    """What the rules of a layer can ask for. `get_fact` and `find_facts` know the facts of all layers."""

    get_fact: FactGetter
    find_facts: FactGetter
    product_sku: str
    product_name: str
    issued_on: str


class DefinitionResult(NamedTuple):
    """A definition that is computed or read: its value or why it is missing, and its step if it has one."""

    value: Any
    cause: MissingCause | None
    step: int | None


class LayerProof(NamedTuple):
    """What one layer gave. `values` are those of its fields by path, as canonical JSON; `steps` have ids from 0.

    `fields`, `causes` and `definitions` are by position in the program: what the fields hold, why some are missing, and
    the definitions that were needed.
    """

    values: list[str]
    steps: ProofSteps
    compliance: list[ComplianceEntry]
    fields: Sequence[Any]
    causes: Mapping[int, MissingCause]
    definitions: Sequence[DefinitionResult | None]


@dataclass(frozen=True, slots=True)
class _OwnField:
    position: int
    path: str
    function: _Function
    write: ValueWriter
    derivation: str  # the data of its step, as canonical JSON
    before_missing: Mapping[str, Json]
    reads_first: bool  # whether it is the field of all requirements, which reads those of the upper layers first


class LayerMachine:
    """The fields of one layer, ready to run for any number of batteries below the same upper layers.

    `own_layers` are the layer itself and those above it that are not pinned.
    """

    def __init__(
        self, program: Program, layers: ProgramLayers, own_layers: Collection[Layer], upper: UpperValues
    ) -> None:
        self.program = keep_requirements(program, layers, own_layers)
        self.above = upper
        names, _ = generate(self.program, "proof", load_function, first_step=0)
        own = [
            (position, field)
            for position, field in enumerate(self.program.fields)
            if layers.fields[field.path].layer in own_layers or is_requirements_field(field)
        ]
        self.fields: Sequence[ProgramField] = sorted((field for _, field in own), key=lambda field: field.path)
        order = {field.path: place for place, field in enumerate(self.fields)}
        self._own = [self._prepare_field(position, field, names) for position, field in own]
        self._places = [order[field.path] for _, field in own]
        self._definition_functions = [names[f"d{at}"] for at in range(len(self.program.definitions))]
        self._definitions = [_prepare_definition(self.program, each) for each in self.program.definitions]
        self._upper_definitions = {
            at: (value, cause, _encode({**place.to_json(), "name": each.name}))
            for at, each in enumerate(self.program.definitions)
            if each.name in upper.definitions
            for value, place, cause in [upper.definitions[each.name]]
        }
        self._upper_fields = {
            at: _encode({**upper.fields[field.path].place.to_json(), "path": field.path})
            for at, field in enumerate(self.program.fields)
            if field.path in upper.fields
        }
        self._values = [
            upper.fields[field.path].value if field.path in upper.fields else None for field in self.program.fields
        ]
        self._missing = {
            at: cause
            for at, field in enumerate(self.program.fields)
            if field.path in upper.fields and (cause := upper.fields[field.path].cause) is not None
        }
        self._requirements = [_encode({**each.to_json(), "op": "requirements"}) for each in upper.requirements]
        self._are_upper_met = all(each.are_met for each in upper.requirements)

    def prove(self, world: LayerWorld, *, max_steps: int = MAX_STEPS) -> LayerProof:
        """All fields of the layer with their steps; the first `RuleFailure` ends it."""
        steps: ProofSteps = {}
        derivations = _Derivations(steps, self._upper_fields)
        missing = dict(self._missing)
        results: list[DefinitionResult | None] = [None] * len(self._definitions)
        # The places of the state are those of `runtime`.
        state: list[Any] = [max_steps, world.get_fact, world.find_facts, *world[2:], [], None, None, steps, {}]
        state += [derivations, MAX_PROOF_BYTES, None, missing, {}, *self._values]
        state[GET_DEFINITION] = self._create_definition_reader(state, steps, results)
        values = [""] * len(self._own)
        for own, place in zip(self._own, self._places, strict=True):
            position, cause = own.position, None
            reads = state[READS] = {}
            if own.reads_first:
                for data in self._requirements:
                    reads[steps.setdefault((LAYER_GET, data, ()), len(steps))] = None
            try:
                value = own.function(state)
            except ValueMissing as error:
                value, cause = None, error.cause
                record_missing_field(state, position, own.path, cause)
            except RuleFailure as failure:
                raise name_field(failure, own.path) from None
            if own.reads_first:
                value = value and self._are_upper_met
            state[FIRST_FIELD + position] = value
            data = own.derivation if cause is None else _encode({**own.before_missing, **show_missing(cause)})
            derivations[position] = steps.setdefault((OP, data, tuple(reads)), len(steps))
            values[place] = own.write(value)
        check_step_count(steps)
        # The reader holds the state that holds it: without this, the memory of each battery waits for a collection.
        state[GET_DEFINITION] = None
        return LayerProof(values, steps, state[COMPLIANCE], state[FIRST_FIELD:], missing, results)

    def _prepare_field(self, position: int, field: ProgramField, names: Mapping[str, Any]) -> _OwnField:
        data: dict[str, Json] = {"op": "derivation", "path": field.path}
        if field.extent is not None:
            data["at"] = list(self.program.source.byte_range(field.extent))
        return _OwnField(
            position,
            field.path,
            names[f"f{position}"],
            create_writer(field.type),
            _encode(data),
            data,
            is_requirements_field(field),
        )

    def _create_definition_reader(
        self, state: list[Any], steps: ProofSteps, results: list[DefinitionResult | None]
    ) -> Callable[[int], Any]:
        upper, compute = self._upper_definitions, self._prove_definition

        def read_definition(position: int) -> Any:
            result = results[position]
            if result is None:
                upper_value = upper.get(position)
                if upper_value is None:
                    result = compute(position, state, steps)
                else:
                    value, cause, data = upper_value
                    result = DefinitionResult(value, cause, steps.setdefault((LAYER_GET, data, ()), len(steps)))
                results[position] = result
            value, cause, step = result
            if step is not None:
                state[READS][step] = None
            if cause is not None:
                raise ValueMissing(cause)
            return value

        return read_definition

    def _prove_definition(self, position: int, state: list[Any], steps: ProofSteps) -> DefinitionResult:
        """What reads nothing follows from the rules alone: it has no step unless it is missing."""
        definition = self.program.definitions[position]
        around, value, cause = state[READS], None, None
        reads = state[READS] = {}
        try:
            value = self._definition_functions[position](state)
        except ValueMissing as missing:
            cause = missing.cause
        except RuleFailure as failure:
            failure.definition = failure.definition or definition.name
            raise
        state[READS] = around
        if value is None and cause is None and definition.missing is not None:
            clause = definition.missing
            cause = MissingCause(definition.name, clause.code, clause.message, definition.span)
        if cause is None and not reads:
            return DefinitionResult(value, None, None)
        before, data, write = self._definitions[position]
        if cause is not None:
            value, text = None, _encode({**data, **show_missing(cause)})
        else:
            text = f"{before}}}" if write is None else _show_value(before, write(value))
        return DefinitionResult(value, cause, steps.setdefault((OP, text, tuple(reads)), len(steps)))


class _Derivations(dict[int, int]):
    """The steps of fields by position. A field of an upper layer has its step when it is first read."""

    __slots__ = ("_steps", "_upper")

    def __init__(self, steps: ProofSteps, upper: Mapping[int, str]) -> None:
        super().__init__()
        self._steps = steps
        self._upper = upper

    def __missing__(self, position: int) -> int:
        steps = self._steps
        step = self[position] = steps.setdefault((LAYER_GET, self._upper[position], ()), len(steps))
        return step


def _prepare_definition(
    program: Program, definition: ProgramDefinition
) -> tuple[str, dict[str, Json], ValueWriter | None]:
    data: dict[str, Json] = {
        "at": list(program.source.byte_range(definition.extent)),
        "name": definition.name,
        "op": "definition",
    }
    kind = definition.body.type
    return _encode(data)[:-1], data, None if contains_fact_record(kind) else create_writer(kind)


def _show_value(before: str, text: str) -> str:
    """`value` and `value_hash` sort behind all other members."""
    encoded_value = text.encode()
    if len(encoded_value) <= MAX_SHOWN_BYTES:
        return f'{before},"value":{text}}}'
    return f'{before},"value_hash":"{to_hex(sha256(encoded_value))}"}}'


def _encode(data: Mapping[str, Json]) -> str:
    return canonical_json.encode_typed(dict(data)).decode()
