"""Python source while it is written (`CodeWriter`), and what every part of the generator writes with (`Emitter`).

Pure. No text of a rule ever becomes code. The source holds words of our own, numbers we print and names from a table
(`K3` a text, `w2` a function); what those names stand for is handed to the code as its global names, and there are no
others: `__builtins__` is empty.

What compiles differs between Python versions (depth of nesting, length of an expression), so every result goes into a
temporary, and what would be nested deeper than `MAX_DEPTH` becomes a function of its own. So does what would make a
function longer than about `MAX_LINES`: while it compiles a function, Python takes some 7 kB for each line.
"""

import re
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.language import evaluation
from bpc.core.language.evaluating import runtime
from bpc.core.language.evaluating.values import create_length_measure, create_size_measure, create_writer
from bpc.core.language.source import Source, Span
from bpc.core.language.typed import ArithmeticStep, Expr
from bpc.core.language.types import BOOL, TEXT, List, Map, Opt, Record, Type, contains_fact_record, is_unit_size
from bpc.core.passport import proof

# CPython refuses 100 indents and 21 nested loops; 3.11 is the strictest.
MAX_DEPTH: Final = 12
MAX_LINES: Final = 2000

_TEMPORARY: Final = re.compile(r"\bt[0-9]+\b")


class _OpenFunction(NamedTuple):
    lines: list[str]
    depth: int
    own_temporaries: set[str]


class CodeWriter:
    """A function that is being written, handed to `sink` when it ends. `header` are the first lines of each."""

    def __init__(self, sink: Callable[[str, dict[str, Any]], None], header: Sequence[str] = ()) -> None:
        self.names: dict[str, Any] = {"__builtins__": {}}
        self._sink = sink
        self.depth = 0
        self._header = [f" {line}" for line in header]
        self._registered: dict[tuple[str, Hashable], str] = {}
        self._counts: dict[str, int] = {}
        self._lines: list[str] = []
        self._own_temporaries: set[str] = set()
        self._outer_functions: list[_OpenFunction] = []
        self._temporaries = 0

    @property
    def is_deep(self) -> bool:
        return self.depth >= MAX_DEPTH

    @property
    def is_long(self) -> bool:
        # Each part calls the next: those far inside are longer, so that no rule needs more calls than Python allows.
        return len(self._lines) >= MAX_LINES * (1 + len(self._outer_functions) // 128)

    def write_line(self, text: str) -> None:
        self._lines.append(f"{' ' * self.depth}{text}")

    @contextmanager
    def indent_block(self, opening: str) -> Iterator[None]:
        """What is written inside belongs to the statement `opening`."""
        self.write_line(opening)
        self.depth += 1
        yield
        self.depth -= 1

    def create_temporary(self) -> str:
        """A name nothing else has in this function or in those around it."""
        self._temporaries += 1
        name = f"t{self._temporaries}"
        self._own_temporaries.add(name)
        return name

    def store(self, expression: str) -> str:
        """A temporary that holds what `expression` gives."""
        name = self.create_temporary()
        self.write_line(f"{name} = {expression}")
        return name

    def ensure_temporary(self, atom: str) -> str:
        """`atom` if it is a temporary, else one that holds it: Python warns of `5 is None`."""
        return atom if _TEMPORARY.fullmatch(atom) else self.store(atom)

    def register_text(self, text: str) -> str:
        return self.register("K", text, lambda: text)

    def register(self, prefix: str, key: Hashable, make: Callable[[], object]) -> str:
        """The name of a thing in the table; made when first asked for, known by `key` from then on."""
        name = self._registered.get((prefix, key))
        if name is None:
            number = self._counts.get(prefix, 0)
            self._counts[prefix] = number + 1
            name = self._registered[prefix, key] = f"{prefix}{number}"
            self.names[name] = make()
        return name

    def open_function(self) -> None:
        self._outer_functions.append(_OpenFunction(self._lines, self.depth, self._own_temporaries))
        self._lines, self.depth, self._own_temporaries = [*self._header], 1, set()

    def close_function(self, name: str, parameters: Sequence[str], returned: str) -> None:
        """End the function as `def name(s, …)`; every function is handed the state `s` first."""
        self.write_line(f"return {returned}")
        self._sink("\n".join([f"def {name}({', '.join(['s', *parameters])}):", *self._lines, ""]), self.names)
        self._lines, self.depth, self._own_temporaries = self._outer_functions.pop()

    def close_helper(self, returned: str) -> str:
        """End a function that is a part of the one around it and is handed its temporaries; how to call it."""
        used = set(_TEMPORARY.findall("\n".join([*self._lines, returned])))
        # By number: the order of a set is no order.
        parameters = sorted(used - self._own_temporaries, key=lambda name: int(name[1:]))
        number = self._counts.get("h", 0)
        self._counts["h"] = number + 1
        self.close_function(f"h{number}", parameters, returned)
        return f"h{number}({', '.join(['s', *parameters])})"


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
    """Writes code for one mode. `fields` are the places of the fields in the order of evaluation."""

    def __init__(self, code: CodeWriter, mode: Mode, fields: Mapping[str, int], source: Source) -> None:
        self.code = code
        self.mode = mode
        self.fields = fields
        # Outside the fields: a field is computed when it is read.
        self.lazy = False
        self.source = source
        self.sites: list[CoverageSite] = []
        # One table for all scopes: a name is unique where it is visible.
        self.scope: dict[str, OperandCode] = {}
        self.field: str | None = None
        # Inside a lambda: the temporary that gathers the nodes it reads. No other nodes are made there.
        self.reads: str | None = None
        self._failures: list[tuple[type[evaluation.RuleFailure], tuple[str, ...], str | None, Span]] = []
        self._type_info: dict[int, TypeInfo] = {}
        self._type_numbers: dict[Type, int] = {}
        code.names.update(fail=self._create_failure, charge=self._charge_steps, joined=self._join_texts)

    @property
    def proving(self) -> bool:
        return self.mode == "proof" and self.reads is None

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
        if self.mode == "proof":  # shorter; where there is no proof to be made, a call would be felt
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

    def charge_comparison(self, left: str, kind: Type, span: Span) -> None:
        """For `==` and `!=` of what has parts: the size of the left side."""
        if isinstance(kind.item if isinstance(kind, Opt) else kind, List | Map | Record):
            self.charge(f"{self._register_measure(kind)}({left}, s[{runtime.STEPS_LEFT}])", span)

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
        return self.code.register("n", key, lambda: make(len(self.fields) + 1))

    def emit_plain_node(self, kind: str, data: str, children: Sequence[str]) -> str:
        """One that says what is known from the rules alone: `data` is its text."""
        return self.emit_node(
            self.register_maker((kind, data), lambda first: runtime.create_plain_maker(kind, data, first)), children
        )

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


def _format_call(make: str, first: str, atoms: Sequence[str]) -> str:
    return f"{make}({', '.join([first, *atoms])})"


def _format_before_value(op: str, data: Mapping[str, Json]) -> str:
    """What a node says up to its value; `value` sorts behind all other members."""
    return f'{encode_data(op=op, **data)[:-1]},"value":'


def _choose_value_maker(op: str, data: Mapping[str, Json], kind: Type) -> Callable[[int], runtime.NodeMaker]:
    if kind == BOOL:
        return lambda first: runtime.create_bool_maker(_format_before_value(op, data), first)
    return lambda first: runtime.create_value_maker(_format_before_value(op, data), create_writer(kind), first)
