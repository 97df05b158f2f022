"""What every part of the generator writes with: values, charges, failures, coverage, and the nodes of a proof. Pure."""

from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.language import evaluation
from bpc.core.language.evaluating import runtime
from bpc.core.language.evaluating.code_writer import CodeWriter
from bpc.core.language.evaluating.values import create_length_measure, create_size_measure, create_writer
from bpc.core.language.source import Span
from bpc.core.language.typed import ArithmeticStep, Expr, Program
from bpc.core.language.types import BOOL, TEXT, List, Map, Opt, Record, Type, contains_fact_record, is_unit_size
from bpc.core.passport import proof

Mode: TypeAlias = Literal["values", "cover", "proof"]
"""Values only; values and which sites were reached; values and the nodes of their proof."""

Emission: TypeAlias = Generator[Expr, "OperandCode", "OperandCode"]

# So many characters of a text count as one (BPC-COST-1).
TEXT_UNIT: Final = 64
# In proof mode each function starts with this: `q` are the nodes made, by what they say.
PROOF_HEADER: Final = (f"q = s[{runtime.NODES}]",)


class OperandCode(NamedTuple):
    """What an expression gave: a Python atom, and the atom of its node's id, empty where no node is made."""

    value: str
    node: str = ""


class CoverageSite(NamedTuple):
    """Something tests can reach. The label is a field's path, `then`, `else`, `&&`, `||`, or an assertion's code."""

    kind: Literal["field", "branch", "assertion"]
    span: Span
    label: str


class ValueTemplate(NamedTuple):
    """What stands around a value of the type `kind` in a node's data."""

    before: str
    kind: Type
    after: str = "}"


class TypeInfo(NamedTuple):
    """A type (held, so that no other gets its identity) and what follows from it. Equal types have one number."""

    kind: Type
    number: int
    holds_facts: bool
    is_unit_size: bool


class Emitter:
    """Writes code for one mode. `fields` and `definitions` are their places in the program."""

    def __init__(self, code: CodeWriter, mode: Mode, program: Program, first_step: int | None = None) -> None:
        self.code = code
        self.mode = mode
        # Level 2 is proven by expression: nodes are made of what is read, and outside of this code (expressions.py).
        self.records_reads = mode == "proof" and program.language > 1
        self.fields = {field.path: position for position, field in enumerate(program.fields)}
        # The id of a proof's first step: those of a passport come after its fields and the root.
        self.first_step = len(self.fields) + 1 if first_step is None else first_step
        # Shorter code, which is compiled sooner. Where there is no proof to be made, or where one is made for millions
        # of batteries, a call would be felt. So it would inside a loop.
        self.loop_depth = 0
        self.calls_charge = mode == "proof" and first_step is None
        self.missable_paths = {field.path for field in program.fields if field.can_be_missing}
        self.functions = {function.name: (at, function) for at, function in enumerate(program.functions)}
        self.definitions = {definition.name: position for position, definition in enumerate(program.definitions)}
        # Outside the fields: a field is computed when it is read.
        self.lazy = False
        self.source = program.source
        self.tables = {table.name: table for table in program.tables}
        self.sites: list[CoverageSite] = []
        # One table for all scopes: a name is unique where it is visible.
        self.scope: dict[str, OperandCode] = {}
        self.field: str | None = None
        # Inside a lambda: the temporary that gathers the nodes it reads. No other nodes are made there.
        self.reads: str | None = None
        self._failures: list[tuple[type[evaluation.RuleFailure], tuple[str, ...], str | None, Span]] = []
        self._type_info: dict[int, TypeInfo] = {}
        self._type_numbers: dict[Type, int] = {}
        code.names.update(
            fail=self._create_failure,
            charge=self._charge_steps,
            joined=self._join_texts,
            Missing=evaluation.ValueMissing,
        )

    @property
    def proving(self) -> bool:
        """Whether there is a node for each operator here."""
        return self.mode == "proof" and self.reads is None and not self.records_reads

    # Failures and charges

    def _register_failure(self, failure: type[evaluation.RuleFailure], says: tuple[str, ...], span: Span) -> int:
        self._failures.append((failure, says, self.field, span))
        return len(self._failures) - 1

    def format_raise(self, span: Span, failure: type[evaluation.RuleFailure], *says: str) -> str:
        return f"raise fail({self._register_failure(failure, says, span)})"

    def _create_failure(self, number: int) -> evaluation.RuleFailure:
        failure, says, field, span = self._failures[number]
        return failure(*says, field=field, span=span)

    def charge(self, steps: int | str, span: Span) -> None:
        """Take `steps` (a number or an expression of one) from what is left, or fail."""
        failure = self._register_failure(evaluation.RuleLimitExceeded, (evaluation.STEPS_MESSAGE,), span)
        if self.calls_charge and not self.loop_depth:
            self.code.write_line(f"charge(s, {steps}, {failure})")
            return
        left = self.code.store(f"s[{runtime.STEPS_LEFT}] - {steps}")
        self.code.write_line(f"if {left} < 0: raise fail({failure})")
        self.code.write_line(f"s[{runtime.STEPS_LEFT}] = {left}")

    def _charge_steps(self, state: list[Any], steps: int, failure: int) -> None:
        left = state[runtime.STEPS_LEFT] - steps
        if left < 0:
            raise self._create_failure(failure)
        state[runtime.STEPS_LEFT] = left

    def charge_parts(self, parts: Iterable[tuple[str, Type]], span: Span) -> None:
        """For values that become part of something: the sum of their sizes, 1 less for each."""
        total = ""
        for atom, kind in parts:
            if not is_unit_size(kind):
                surplus = self._format_surplus(atom, kind, total)
                total = self.code.store(f"{total} + {surplus}" if total else surplus)
        if total:
            self.charge(total, span)

    def add_size(self, total: str, atom: str, kind: Type) -> None:
        """Add to the temporary `total` what one more such value will be charged."""
        self.code.write_line(f"{total} += {self._format_surplus(atom, kind, total)}")

    def charge_results(self, results: str, kind: Type, span: Span) -> None:
        """For a list of results of the type `kind`: the same, the list itself not counted."""
        if is_unit_size(kind):
            return
        count = self.code.store(f"len({results}) + 1")
        key = ("list", self.get_type_info(kind).number)
        measure = self.code.register("z", key, lambda: create_size_measure(List(kind)))
        self.charge(f"({measure}({results}, s[{runtime.STEPS_LEFT}] + {count}) - {count})", span)

    def charge_membership(self, sides: Sequence[str], kind: Type, span: Span) -> None:
        """For `in`: the number of elements, times the size of a value with parts."""
        size = f"{self._register_measure(kind)}({sides[0]}, s[{runtime.STEPS_LEFT}])" if _has_parts(kind) else "1"
        self.charge(f"len({sides[1]}) * {size}", span)

    def charge_comparison(self, left: str, kind: Type, span: Span) -> None:
        """For `==` and `!=` of what has parts: the size of the left side."""
        if _has_parts(kind):
            self.charge_size(left, kind, span)

    def charge_size(self, atom: str, kind: Type, span: Span) -> None:
        self.charge(f"{self._register_measure(kind)}({atom}, s[{runtime.STEPS_LEFT}])", span)

    def _format_surplus(self, atom: str, kind: Type, before: str) -> str:
        """The size of a value less 1. Its type decides: a length where that is enough, else a measure of its parts."""
        if kind == TEXT:
            return f"(len({atom}) >> 6)"
        if isinstance(kind, List | Map) and is_unit_size(kind.item):
            return f"len({atom})"
        left = f"s[{runtime.STEPS_LEFT}] - {before} + 1" if before else f"s[{runtime.STEPS_LEFT}] + 1"
        return f"{self._register_measure(kind)}({atom}, {left}) - 1"

    def _register_measure(self, kind: Type) -> str:
        return self.code.register("z", self.get_type_info(kind).number, lambda: create_size_measure(kind))

    def format_join(self, parts: str, span: Span) -> str:
        """An expression of the text that is joined of `parts`, values separated by commas."""
        too_long = self._register_failure(evaluation.RuleLimitExceeded, (evaluation.TEXT_LENGTH_MESSAGE,), span)
        too_many = self._register_failure(evaluation.RuleLimitExceeded, (evaluation.STEPS_MESSAGE,), span)
        return f"joined(s, {too_long}, {too_many}, {parts})"

    def _join_texts(self, state: list[Any], too_long: int, too_many: int, *parts: str) -> str:
        """The length is checked and charged before there is a text of that length; most are too short for either."""
        length = sum(map(len, parts))
        if length >= TEXT_UNIT:
            if length > evaluation.MAX_TEXT_LENGTH:
                raise self._create_failure(too_long)
            self._charge_steps(state, length // TEXT_UNIT, too_many)
        return "".join(parts)

    def mark_reached(self, kind: Literal["field", "branch", "assertion"], span: Span, label: str) -> None:
        if self.mode == "cover":
            self.code.write_line(f"s[{runtime.REACHED}][{len(self.sites)}] = 1")
            self.sites.append(CoverageSite(kind, span, label))

    # Nodes

    def emit_node(self, make: str, atoms: Sequence[str], *, large: bool = False) -> str:
        """The id of the node that the function `make` makes of these; what may be large is counted in the state."""
        return self.code.store(_format_call(make, "s" if large else "q", atoms))

    def register_maker(self, key: Hashable, make: Callable[[int], runtime.NodeMaker]) -> str:
        """The name of a function that makes nodes, `make` given the id of the first step."""
        return self.code.register("n", key, lambda: make(self.first_step))

    def emit_plain_node(self, kind: str, data: str, children: Sequence[str]) -> str:
        """One that says what is known from the rules alone: `data` is its text."""
        return self.emit_node(self.register_plain_maker(kind, data), children)

    def register_plain_maker(self, kind: str, data: str) -> str:
        return self.register_maker((kind, data), lambda first: runtime.create_plain_maker(kind, data, first))

    def record_read(self, node: str) -> str:
        """A FIELD_REF or FACT_GET: made inside lambdas too, and gathered there for the outermost loop's node."""
        if self.reads is not None:
            self.code.write_line(f"{self.reads}[{node}] = None")
        return node

    def emit_large_node(self, key: Hashable, create_template: Callable[[], ValueTemplate], atoms: Sequence[str]) -> str:
        """An OP that says the first atom, a value that may be large; the others are its children."""

        def create_maker(first: int) -> runtime.NodeMaker:
            before, kind, behind = create_template()
            return runtime.create_large_maker(before, (create_writer(kind), create_length_measure(kind)), behind, first)

        return self.emit_node(self.register_maker(("large", key), create_maker), atoms, large=True)

    def emit_op(
        self, op: str, kind: Type, value: str, children: Sequence[OperandCode], **data: str | int
    ) -> OperandCode:
        """The operand `value` with its OP node, if nodes are made here."""
        if not self.proving:
            return OperandCode(value)
        nodes = [child.node for child in children]
        type_info = self.get_type_info(kind)
        if type_info.holds_facts:
            return OperandCode(value, self.emit_plain_node(proof.OP, encode_data(op=op, **data), nodes))
        key = (op, *data.items(), type_info.number)
        if not type_info.is_unit_size:
            return OperandCode(
                value,
                self.emit_large_node(key, lambda: ValueTemplate(_format_before_value(op, data), kind), [value, *nodes]),
            )
        return OperandCode(
            value, self.emit_node(self.register_maker(key, _choose_value_maker(op, data, kind)), [value, *nodes])
        )

    def reassign_node(self, node: str, op: str, value: str, children: Sequence[str]) -> None:
        """Set the temporary `node` to the OP node of a Bool."""
        make = self.register_maker((op, self.get_type_info(BOOL).number), _choose_value_maker(op, {}, BOOL))
        self.code.write_line(f"{node} = {_format_call(make, 'q', [value, *children])}")

    def emit_limited_node(self, step: ArithmeticStep, limit: int, value: str, sides: Sequence[OperandCode]) -> str:
        """The node of an arithmetic operator, which refuses a number that is not below `limit`."""
        op, kind = step.op, step.type
        failure = self._register_failure(evaluation.RuleLimitExceeded, (evaluation.MAGNITUDE_MESSAGE,), step.span)

        def create_maker(first: int) -> runtime.NodeMaker:
            return runtime.create_number_maker(
                _format_before_value(op, {}), create_writer(kind), first, limit, self._create_failure
            )

        make = self.register_maker(("limited", op, kind), create_maker)
        return self.emit_node(make, [value, str(failure), *(side.node for side in sides)])

    def emit_fixed_node(self, kind: str, value: str, children: Sequence[OperandCode], **data: Json) -> OperandCode:
        """The same for nodes that do not repeat their value."""
        if not self.proving:
            return OperandCode(value)
        return OperandCode(value, self.emit_plain_node(kind, encode_data(**data), [child.node for child in children]))

    def get_type_info(self, kind: Type) -> TypeInfo:
        """What follows from a type. By identity, because a type may have a thousand parts, and be that of every let."""
        type_info = self._type_info.get(id(kind))
        if type_info is None:
            number = self._type_numbers.setdefault(kind, len(self._type_numbers))
            type_info = self._type_info[id(kind)] = TypeInfo(
                kind, number, contains_fact_record(kind), is_unit_size(kind)
            )
        return type_info


def encode_data(**data: Json) -> str:
    """A node's data that is known from the rules alone."""
    return canonical_json.encode_typed(data).decode()


def _has_parts(kind: Type) -> bool:
    return isinstance(kind.item if isinstance(kind, Opt) else kind, List | Map | Record)


def _format_call(make: str, first: str, atoms: Sequence[str]) -> str:
    return f"{make}({', '.join([first, *atoms])})"


def _format_before_value(op: str, data: Mapping[str, Json]) -> str:
    """What a node says up to its value; `value` sorts behind all other members."""
    return f'{encode_data(op=op, **data)[:-1]},"value":'


def _choose_value_maker(op: str, data: Mapping[str, Json], kind: Type) -> Callable[[int], runtime.NodeMaker]:
    if kind == BOOL:
        return lambda first: runtime.create_bool_maker(_format_before_value(op, data), first)
    return lambda first: runtime.create_value_maker(_format_before_value(op, data), create_writer(kind), first)
