"""The production evaluator: a checked program becomes Python functions, a world becomes values and their proof.

Pure. Source is generated and compiled when a mode is first asked for, once a machine; what it computes depends on the
program and the world alone. The only names generated code can reach are those of its table. A rule that cannot give a
value ends evaluation with a `RuleFailure` that names the field and the place.

    machine = Machine(program)
    machine.evaluate(world)      all fields                       ──► EvaluatedFields
    machine.prove(world, …)      all fields and the proof's bytes ──► ProofResult
    machine.open_session(world)  fields and expressions one by one, for tests
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.hashes import Digest
from bpc.core.language.evaluating.definitions import DefinitionStore, record_missing_field
from bpc.core.language.evaluating.emitter import CoverageSite, Mode
from bpc.core.language.evaluating.field_nodes import FieldProver, FieldTemplate, create_field_template
from bpc.core.language.evaluating.generator import generate, generate_expression
from bpc.core.language.evaluating.runtime import (
    COMPLIANCE,
    DERIVATIONS,
    FIRST_FIELD,
    GET_DEFINITION,
    GET_FIELD,
    LARGE_NODES,
    MISSING,
    NODES,
    REACHED,
    ROOM,
    STEPS_LEFT,
    create_state,
)
from bpc.core.language.evaluating.values import quote_text, value_to_json
from bpc.core.language.evaluation import (
    MAX_STEPS,
    AssertionFailed,
    ComplianceEntry,
    MissingCause,
    RuleFailure,
    ValueMissing,
    World,
)
from bpc.core.language.typed import DefinitionValue, Expr, FunctionCall, Program, ProgramField, Value, iterate_parts
from bpc.core.language.types import Type
from bpc.core.passport import proof
from bpc.core.passport.payload import PayloadFrame

_Function: TypeAlias = Callable[..., Any]


@dataclass(slots=True, eq=False)
class EvaluatedFields:
    """What rules gave: each field's value, the compliance entries in order, the steps it took."""

    fields: dict[str, Value]
    compliance: list[ComplianceEntry]
    steps: int
    _types: Sequence[Type]

    def to_json(self) -> dict[str, Json]:
        """Each field's value as the payload writes it, by path in the order of evaluation."""
        values = zip(self.fields.items(), self._types, strict=True)
        return {path: value_to_json(kind, value) for (path, value), kind in values}


class ProofResult(NamedTuple):
    """Values, those of the fields by path also as canonical JSON, and the canonical bytes of their proof."""

    values: EvaluatedFields
    texts: Sequence[str]
    proof: bytes
    root_hash: Digest


class CompiledExpression(NamedTuple):
    """An expression outside the fields, compiled."""

    function: _Function
    variables: tuple[str, ...]
    needs: tuple[int, ...] = ()  # the fields that its definitions read


class _Functions(NamedTuple):
    """The functions of a mode, in the order of the program."""

    fields: list[_Function]
    definitions: list[_Function]


class Machine:
    """A program ready to run, as often and for as many worlds as you like."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._paths = tuple(field.path for field in program.fields)
        self._types = tuple(field.type for field in program.fields)
        self._positions = {path: place for place, path in enumerate(self._paths)}
        self._needs = tuple(tuple(self._positions[path] for path in field.needs) for field in program.fields)

    @property
    def sites(self) -> tuple[CoverageSite, ...]:
        """What tests can reach; `Session.reached` are positions in it."""
        return self._covering_functions[1]

    def evaluate(self, world: World, *, max_steps: int = MAX_STEPS) -> EvaluatedFields:
        """All fields, without proof; the first `RuleFailure` ends it."""
        state = create_state(world, max_steps)
        append = state.append
        functions = self._plain_functions
        state[GET_DEFINITION] = self._open_definitions(functions, state)
        for position, function in enumerate(functions.fields):
            try:
                append(function(state))
            except ValueMissing as missing:
                append(None)
                record_missing_field(state, position, self._paths[position], missing.cause)
            except RuleFailure as failure:
                raise name_field(failure, self._paths[position]) from None
        return self._collect_fields(state, max_steps)

    def prove(
        self,
        world: World,
        *,
        battery_product: Mapping[str, Json],
        facts_hash: str,
        salt: Callable[[str], tuple[str, str]],
        max_steps: int = MAX_STEPS,
    ) -> ProofResult:
        """All fields and their proof. `salt(path)` is the field node's salt and the derivation node's.

        `proof.StepsTooLarge` if the proof would be larger than any limit that can be set for it.
        """
        state, steps = create_state(world, max_steps), proof.ProofSteps()
        derivations: list[int] = []
        state[NODES], state[LARGE_NODES], state[DERIVATIONS] = steps, {}, derivations
        state[ROOM] = proof.MAX_PROOF_BYTES
        salts = [salt(path) for path in self._paths]
        functions = self._proving_functions
        state[GET_DEFINITION] = self._open_definitions(functions, state, len(salts) + 1)
        prover = FieldProver(self.program, state)
        for position, (function, (_, derivation_salt)) in enumerate(zip(functions.fields, salts, strict=True)):
            try:
                value, derivation = prover.prove(position, function, derivation_salt)
            except RuleFailure as failure:
                raise name_field(failure, self._paths[position]) from None
            state.append(value)
            derivations.append(derivation)
        fields, texts, room = [], [], state[ROOM]
        for field in self._field_templates:
            position = field.position
            text = field.write_value(state[FIRST_FIELD + position], room)
            node = field.build_node(salts[position][0], text, derivations[position])
            texts.append(text)
            fields.append(node)
            room -= len(node[1])
        proof_bytes, root_hash = proof.assemble_proof(
            steps,
            fields,
            self._encode_root(battery_product, facts_hash),
            self._field_index,
            proof.PROOF_VERSIONS[self.program.language],
        )
        return ProofResult(self._collect_fields(state, max_steps), texts, proof_bytes, root_hash)

    def open_session(self, world: World, *, max_steps: int = MAX_STEPS, cover: bool = False) -> "Session":
        """Fields and expressions of one world, computed when they are asked for, with one counter for all."""
        functions = self._covering_functions[0] if cover else self._plain_functions
        return Session(self, functions, world, max_steps, bytearray(len(self.sites) if cover else 0))

    def _open_definitions(
        self, functions: "_Functions", state: list[Any], first_step: int | None = None
    ) -> _Function | None:
        """What generated code reads definitions with; None if there is none."""
        if not self.program.definitions:
            return None
        return DefinitionStore(self.program, functions.definitions, state, first_step).read

    def compile_expression(self, expr: Expr, variables: Sequence[str]) -> CompiledExpression:
        """An expression over `variables` that may read fields. It is a block: entering it is charged."""
        names = generate_expression(self.program, expr, variables, load_function).names
        return CompiledExpression(names["e"], tuple(variables), self._list_definition_needs(expr))

    def _list_definition_needs(self, expr: Expr) -> tuple[int, ...]:
        if not self.program.definitions and not self.program.functions:
            return ()
        needs = {definition.name: definition.needs for definition in self.program.definitions}
        parts = list(iterate_parts(expr))
        paths = {path for part in parts if isinstance(part, DefinitionValue) for path in needs[part.name]}
        called = {function.name: function.needs for function in self.program.functions}
        paths |= {path for part in parts if isinstance(part, FunctionCall) for path in called[part.name]}
        return tuple(sorted({self._positions[path] for path in paths}))

    def list_needed(self, position: int, done: Sequence[int]) -> list[int]:
        """The field at `position` and all it reads, directly or not, except those that are `done`, in order."""
        needed = {position}
        pending = [position]
        while pending:
            for need in self._needs[pending.pop()]:
                if not done[need] and need not in needed:
                    needed.add(need)
                    pending.append(need)
        return sorted(needed)

    def get_position(self, path: str) -> int:
        return self._positions[path]

    @cached_property
    def _plain_functions(self) -> "_Functions":
        return self._generate_functions("values")[0]

    @cached_property
    def _covering_functions(self) -> "tuple[_Functions, tuple[CoverageSite, ...]]":
        return self._generate_functions("cover")

    @cached_property
    def _proving_functions(self) -> "_Functions":
        return self._generate_functions("proof")[0]

    def _generate_functions(self, mode: Mode) -> "tuple[_Functions, tuple[CoverageSite, ...]]":
        names, sites = generate(self.program, mode, load_function)
        fields = [names[f"f{position}"] for position in range(len(self._paths))]
        definitions = [names[f"d{position}"] for position in range(len(self.program.definitions))]
        return _Functions(fields, definitions), sites

    def _collect_fields(self, state: list[Any], max_steps: int) -> EvaluatedFields:
        fields = dict(zip(self._paths, state[FIRST_FIELD:], strict=True))
        return EvaluatedFields(fields, state[COMPLIANCE], max_steps - state[STEPS_LEFT], self._types)

    @cached_property
    def payload_frame(self) -> PayloadFrame:
        """What the payloads of all passports of this program have in common."""
        return PayloadFrame({field.path: field.access for field in self.program.fields}, self.program.language)

    @cached_property
    def _by_path(self) -> list[ProgramField]:
        # Strings sort by code point, which is the order of their UTF-8 bytes.
        return sorted(self.program.fields, key=lambda field: field.path)

    @cached_property
    def _field_templates(self) -> list[FieldTemplate]:
        return [create_field_template(field, self._positions[field.path]) for field in self._by_path]

    @cached_property
    def _field_index(self) -> str:
        return canonical_json.encode_typed({field.path: number for number, field in enumerate(self._by_path)}).decode()

    @cached_property
    def _root_access(self) -> str:
        return canonical_json.encode_typed([list(field.access) for field in self._by_path]).decode()

    def _encode_root(self, battery_product: Mapping[str, Json], facts_hash: str) -> str:
        product = canonical_json.encode_typed(dict(battery_product)).decode()
        return (
            f'{{"access":{self._root_access},"battery_product":{product},'
            f'"facts_hash":{quote_text(facts_hash)},"op":"passport"}}'
        )


class Session:
    """One world being asked. A field is computed once, after those it needs; one that failed fails again."""

    __slots__ = ("_definitions", "_done", "_failures", "_fields", "_machine", "_max_steps", "_reached", "_state")

    def __init__(
        self, machine: Machine, functions: _Functions, world: World, max_steps: int, reached: bytearray
    ) -> None:
        self._machine = machine
        self._fields = functions.fields
        self._max_steps = max_steps
        self._reached = reached
        self._state = create_state(world, max_steps)
        self._definitions = DefinitionStore(machine.program, functions.definitions, self._state)
        self._state[GET_FIELD], self._state[REACHED] = self._read_field, reached
        self._state[GET_DEFINITION] = self._definitions.read
        self._state += [None] * len(self._fields)
        self._done = bytearray(len(self._fields))
        self._failures: dict[int, RuleFailure] = {}

    @property
    def steps(self) -> int:
        left: int = self._state[STEPS_LEFT]
        return self._max_steps - left

    @property
    def compliance(self) -> list[ComplianceEntry]:
        entries: list[ComplianceEntry] = self._state[COMPLIANCE]
        return entries

    @property
    def reached(self) -> set[int]:
        """Of a covering session: which of the machine's sites."""
        return {number for number, mark in enumerate(self._reached) if mark}

    @property
    def has_evaluated_field(self) -> bool:
        """Whether a field was asked for, also if it failed."""
        return any(self._done) or bool(self._failures)

    def compute_field(self, path: str) -> Value:
        """The field's value, computed with all it needs that is not computed yet."""
        position = self._machine.get_position(path)
        self._compute_needed(position)
        value: Value = self._state[FIRST_FIELD + position]
        return value

    def run(self, expression: CompiledExpression, variables: Mapping[str, Value]) -> Value:
        """An expression's value. A field it reads is computed when it is first read, with what it needs.

        `AssertionFailed` if it needs a definition that is missing.
        """
        for position in expression.needs:
            self._compute_needed(position)
        try:
            value: Value = expression.function(self._state, *[variables[name] for name in expression.variables])
        except ValueMissing as missing:
            cause = missing.cause
            failure = AssertionFailed(cause.code, cause.message, field=None, span=cause.span)
            failure.definition = cause.definition
            raise failure from None
        return value

    def read_definition(self, name: str) -> Value:
        """The value of a definition; `ValueMissing` if it is missing."""
        names = [definition.name for definition in self._machine.program.definitions]
        position = names.index(name)
        for path in self._machine.program.definitions[position].needs:
            self._compute_needed(self._machine.get_position(path))
        value: Value = self._definitions.read(position)
        return value

    def find_missing_cause(self, path: str) -> MissingCause | None:
        """Why a field that was computed is missing, if it is."""
        cause: MissingCause | None = self._state[MISSING].get(self._machine.get_position(path))
        return cause

    def _compute_needed(self, position: int) -> None:
        if not self._done[position]:
            for needed in self._machine.list_needed(position, self._done):
                self._compute_field_at(needed)

    def _read_field(self, position: int) -> Value:
        self._compute_needed(position)
        if position in self._state[MISSING]:
            raise ValueMissing(self._state[MISSING][position])
        value: Value = self._state[FIRST_FIELD + position]
        return value

    def _compute_field_at(self, position: int) -> None:
        if position in self._failures:
            raise self._failures[position]
        path = self._machine.program.fields[position].path
        try:
            self._state[FIRST_FIELD + position] = self._fields[position](self._state)
        except ValueMissing as missing:
            record_missing_field(self._state, position, path, missing.cause)
        except RuleFailure as failure:
            self._failures[position] = name_field(failure, path)
            raise
        self._done[position] = 1


def name_field(failure: RuleFailure, path: str) -> RuleFailure:
    """The same failure; one in a definition is one of the field that needs it."""
    failure.field = failure.field or path
    return failure


def load_function(function: str, names: dict[str, Any]) -> None:
    """Run a definition, which adds its name. One by one, so that source and compiling take little memory."""
    exec(compile(function, "<rules>", "exec"), names)  # noqa: S102 - our own source: see emitter.py
