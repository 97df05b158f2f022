"""The nodes of fields in a proof: what is known before they are computed, and what closes their computation. Pure."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.language.evaluating.definitions import record_missing_field
from bpc.core.language.evaluating.expressions import add_expression, close_expression, open_expression, show_missing
from bpc.core.language.evaluating.runtime import NODES
from bpc.core.language.evaluating.values import (
    LengthMeasure,
    ValueWriter,
    create_length_measure,
    create_writer,
    quote_text,
)
from bpc.core.language.evaluation import ValueMissing
from bpc.core.language.typed import Program, ProgramField
from bpc.core.passport import proof

_Function: TypeAlias = Callable[..., Any]


class FieldTemplate(NamedTuple):
    """What a proof says about a field that is known before it is computed."""

    position: int
    before_salt: str
    before_value: str
    write: ValueWriter
    length: LengthMeasure

    def write_value(self, value: Any, room: int) -> str:
        """The value as canonical JSON, unless it is longer than there is room for."""
        if self.length(value, room) > room:
            raise proof.StepsTooLarge
        return self.write(value)

    def build_node(self, salt: str, value: str, derivation: int) -> proof.ProofStep:
        """The node of the field, whose value is canonical JSON."""
        return proof.OP, f"{self.before_salt}{quote_text(salt)}{self.before_value}{value}}}", (derivation,)


def create_field_template(field: ProgramField, position: int) -> FieldTemplate:
    access = canonical_json.encode_typed(list(field.access)).decode()
    before_salt = f'{{"access":{access},"op":"field","path":{quote_text(field.path)},"salt":'
    before_value = f',"type":{quote_text(str(field.type))},"value":'
    return FieldTemplate(
        position, before_salt, before_value, create_writer(field.type), create_length_measure(field.type)
    )


class FieldProver:
    """Computes fields with their derivations: over a node for each operator (level 1), or over what is read."""

    def __init__(self, program: Program, state: list[Any]) -> None:
        self._program = program
        self._state = state
        self._first = len(program.fields) + 1

    def prove(self, position: int, function: _Function, salt: str) -> tuple[Any, int]:
        """The value of a field, and the node of its derivation."""
        if self._program.language == 1:
            return self._prove_operators(function, salt)
        return self._prove_expression(position, function, salt)

    def _prove_operators(self, function: _Function, salt: str) -> tuple[Any, int]:
        steps: proof.ProofSteps = self._state[NODES]
        node_count_before = len(steps)
        value, node = function(self._state)
        proof.check_step_count(steps)
        data = f'{{"op":"derivation","salt":{quote_text(salt)}}}'
        return value, proof.add_derivation(steps, self._first, node_count_before, node, data)

    def _prove_expression(self, position: int, function: _Function, salt: str) -> tuple[Any, int]:
        field, value, cause = self._program.fields[position], None, None
        around = open_expression(self._state)
        try:
            value = function(self._state)
        except ValueMissing as missing:
            cause = missing.cause
            record_missing_field(self._state, position, field.path, cause)
        reads = close_expression(self._state, around)
        proof.check_step_count(self._state[NODES])
        data: dict[str, Json] = {"op": "derivation", "salt": salt, **show_missing(cause)}
        if field.extent is not None:
            data["at"] = list(self._program.source.byte_range(field.extent))
        return value, add_expression(self._state, data, reads, self._first)
