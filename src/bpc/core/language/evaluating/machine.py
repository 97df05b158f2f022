"""The production evaluator: a checked program becomes Python functions, a world becomes values and their proof.

Pure. Source is generated and compiled when a mode is first asked for, once a machine; what it computes depends on the
program and the world alone. The only names generated code can reach are those of its table. A rule that cannot give a
value ends evaluation with a `RuleFailure` that names the field and the place.

    machine = Machine(program)
    machine.values(world)    all fields                       ──► Values
    machine.prove(world, …)  all fields and the proof's bytes ──► Proven
    machine.session(world)   fields and expressions one by one, for tests
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from bpc.core import canon, proof
from bpc.core.canon import Json
from bpc.core.digest import Digest
from bpc.core.rules.compliance import Compliance
from bpc.core.rules.evaluating.emitting import Mode, Site
from bpc.core.rules.evaluating.generate import generate, generate_expression
from bpc.core.rules.evaluating.lengths import Length, length_of
from bpc.core.rules.evaluating.state import (
    COMPLIANCE,
    DERIVATIONS,
    FIRST_FIELD,
    GET_FIELD,
    LARGE_NODES,
    NODES,
    REACHED,
    ROOM,
    STEPS_LEFT,
    state_of,
)
from bpc.core.rules.evaluating.writing import Writer, quoted, writer_of, written
from bpc.core.rules.failure import MAX_STEPS, RuleFailure
from bpc.core.rules.typed import Expr, Field, Program, Value
from bpc.core.rules.types import Type
from bpc.core.rules.world import World

__all__ = ["Expression", "Machine", "Proven", "Session", "Site", "Values", "written"]

_Function: TypeAlias = Callable[..., Any]


class Values:
    """What rules gave: each field's value, the compliance entries in order, the steps it took."""

    __slots__ = ("_types", "compliance", "fields", "steps")

    def __init__(
        self, fields: dict[str, Value], compliance: list[Compliance], steps: int, types: Sequence[Type]
    ) -> None:
        self.fields = fields
        self.compliance = compliance
        self.steps = steps
        self._types = types

    def written(self) -> dict[str, Json]:
        """Each field's value as the payload writes it, by path in the order of evaluation."""
        values = zip(self.fields.items(), self._types, strict=True)
        return {path: written(kind, value) for (path, value), kind in values}


class Proven(NamedTuple):
    """Values and the canonical bytes of their BPC-PROOF-1."""

    values: Values
    proof: bytes
    root_hash: Digest


class Expression(NamedTuple):
    """An expression outside the fields, compiled."""

    function: _Function
    variables: tuple[str, ...]


class _Shown(NamedTuple):
    """What a proof says about a field that is known before it is computed."""

    place: int
    before_salt: str
    before_value: str
    write: Writer
    length: Length

    def node(self, salt: str, value: Any, derivation: int, room: int) -> proof.Key:
        if self.length(value, room) > room:
            raise proof.StepsTooLarge
        data = f"{self.before_salt}{quoted(salt)}{self.before_value}{self.write(value)}}}"
        return proof.OP, data, (derivation,)


class Machine:
    """A program ready to run, as often and for as many worlds as you like."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._paths = tuple(field.path for field in program.fields)
        self._types = tuple(field.type for field in program.fields)
        self._places = {path: place for place, path in enumerate(self._paths)}
        self._needs = tuple(tuple(self._places[path] for path in field.needs) for field in program.fields)

    @property
    def sites(self) -> tuple[Site, ...]:
        """What tests can reach; `Session.reached` are positions in it."""
        return self._covering[1]

    def values(self, world: World, *, max_steps: int = MAX_STEPS) -> Values:
        """All fields, without proof; the first `RuleFailure` ends it."""
        state = state_of(world, max_steps)
        keep = state.append
        for function in self._plain:
            keep(function(state))
        return self._values(state, max_steps)

    def prove(
        self,
        world: World,
        *,
        battery_product: Mapping[str, Json],
        facts_hash: str,
        salt: Callable[[str], tuple[str, str]],
        max_steps: int = MAX_STEPS,
    ) -> Proven:
        """All fields and their proof. `salt(path)` is the field node's salt and the derivation node's.

        `proof.StepsTooLarge` if the proof would be larger than any limit that can be set for it.
        """
        state, steps = state_of(world, max_steps), proof.Steps()
        derivations: list[int] = []
        state[NODES], state[LARGE_NODES], state[DERIVATIONS] = steps, {}, derivations
        state[ROOM] = proof.MAX_PROOF_BYTES
        salts = [salt(path) for path in self._paths]
        first = len(salts) + 1
        for function, (_, hidden) in zip(self._proving, salts, strict=True):
            before = len(steps)
            value, node = function(state)
            proof.refuse_too_many(steps)
            state.append(value)
            data = f'{{"op":"derivation","salt":{quoted(hidden)}}}'
            derivations.append(proof.derivation(steps, first, before, node, data))
        fields, room = [], state[ROOM]
        for field in self._shown:
            place = field.place
            key = field.node(salts[place][0], state[FIRST_FIELD + place], derivations[place], room)
            fields.append(key)
            room -= len(key[1])
        made, root_hash = proof.assembled(steps, fields, self._root(battery_product, facts_hash), self._field_index)
        return Proven(self._values(state, max_steps), made, root_hash)

    def session(self, world: World, *, max_steps: int = MAX_STEPS, cover: bool = False) -> "Session":
        """Fields and expressions of one world, computed when they are asked for, with one counter for all."""
        functions = self._covering[0] if cover else self._plain
        return Session(self, functions, world, max_steps, bytearray(len(self.sites) if cover else 0))

    def expression(self, expr: Expr, variables: Sequence[str]) -> Expression:
        """An expression over `variables` that may read fields. It is a block: entering it is charged."""
        names = generate_expression(self.program, expr, variables, _load).names
        return Expression(names["e"], tuple(variables))

    def needed(self, place: int, done: Sequence[int]) -> list[int]:
        """The field at `place` and all it reads, directly or not, that is not `done`, in the order of evaluation."""
        found = {place}
        waiting = [place]
        while waiting:
            for need in self._needs[waiting.pop()]:
                if not done[need] and need not in found:
                    found.add(need)
                    waiting.append(need)
        return sorted(found)

    def place(self, path: str) -> int:
        return self._places[path]

    @cached_property
    def _plain(self) -> list[_Function]:
        return self._functions("values")[0]

    @cached_property
    def _covering(self) -> tuple[list[_Function], tuple[Site, ...]]:
        return self._functions("cover")

    @cached_property
    def _proving(self) -> list[_Function]:
        return self._functions("proof")[0]

    def _functions(self, mode: Mode) -> tuple[list[_Function], tuple[Site, ...]]:
        names, sites = generate(self.program, mode, _load)
        return [names[f"f{place}"] for place in range(len(self._paths))], sites

    def _values(self, state: list[Any], max_steps: int) -> Values:
        fields = dict(zip(self._paths, state[FIRST_FIELD:], strict=True))
        return Values(fields, state[COMPLIANCE], max_steps - state[STEPS_LEFT], self._types)

    @cached_property
    def _by_path(self) -> list[Field]:
        # Strings sort by code point, which is the order of their UTF-8 bytes.
        return sorted(self.program.fields, key=lambda field: field.path)

    @cached_property
    def _shown(self) -> list[_Shown]:
        return [_known_of(field, self._places[field.path]) for field in self._by_path]

    @cached_property
    def _field_index(self) -> str:
        return canon.encode_typed({field.path: number for number, field in enumerate(self._by_path)}).decode()

    @cached_property
    def _root_access(self) -> str:
        return canon.encode_typed([list(field.access) for field in self._by_path]).decode()

    def _root(self, battery_product: Mapping[str, Json], facts_hash: str) -> str:
        product = canon.encode_typed(dict(battery_product)).decode()
        return (
            f'{{"access":{self._root_access},"battery_product":{product},'
            f'"facts_hash":{quoted(facts_hash)},"op":"passport"}}'
        )


class Session:
    """One world being asked. A field is computed once, after those it needs; one that failed fails again."""

    __slots__ = ("_done", "_failures", "_functions", "_machine", "_max_steps", "_reached", "_state")

    def __init__(
        self, machine: Machine, functions: list[_Function], world: World, max_steps: int, reached: bytearray
    ) -> None:
        self._machine = machine
        self._functions = functions
        self._max_steps = max_steps
        self._reached = reached
        self._state = state_of(world, max_steps)
        self._state[GET_FIELD], self._state[REACHED] = self._value, reached
        self._state += [None] * len(functions)
        self._done = bytearray(len(functions))
        self._failures: dict[int, RuleFailure] = {}

    @property
    def steps(self) -> int:
        left: int = self._state[STEPS_LEFT]
        return self._max_steps - left

    @property
    def compliance(self) -> list[Compliance]:
        entries: list[Compliance] = self._state[COMPLIANCE]
        return entries

    @property
    def reached(self) -> set[int]:
        """Of a covering session: which of the machine's sites."""
        return {number for number, mark in enumerate(self._reached) if mark}

    def field(self, path: str) -> Value:
        """The field's value, computed with all it needs that is not computed yet."""
        return self._value(self._machine.place(path))

    def run(self, expression: Expression, variables: Mapping[str, Value]) -> Value:
        """An expression's value. A field it reads is computed when it is first read, with what it needs."""
        value: Value = expression.function(self._state, *[variables[name] for name in expression.variables])
        return value

    def _value(self, place: int) -> Value:
        if not self._done[place]:
            for needed in self._machine.needed(place, self._done):
                self._compute_one(needed)
        value: Value = self._state[FIRST_FIELD + place]
        return value

    def _compute_one(self, place: int) -> None:
        if place in self._failures:
            raise self._failures[place]
        try:
            self._state[FIRST_FIELD + place] = self._functions[place](self._state)
        except RuleFailure as failure:
            self._failures[place] = failure
            raise
        self._done[place] = 1


def _known_of(field: Field, place: int) -> _Shown:
    access = canon.encode_typed(list(field.access)).decode()
    before_salt = f'{{"access":{access},"op":"field","path":{quoted(field.path)},"salt":'
    before_value = f',"type":{quoted(str(field.type))},"value":'
    return _Shown(place, before_salt, before_value, writer_of(field.type), length_of(field.type))


def _load(function: str, names: dict[str, Any]) -> None:
    """Run a definition, which adds its name. One by one, so that source and compiling take little memory."""
    exec(compile(function, "<rules>", "exec"), names)  # noqa: S102 - our own source: see listing.py
