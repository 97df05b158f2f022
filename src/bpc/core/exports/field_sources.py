"""Reading: which members of facts a field's value is made of.

Pure. What decides whether or which value there is (a condition, a comparison, a key, an assertion) is not what the
value is made of. Outside of lambdas the proof says what was read; inside of them, where proofs have no nodes, the rule
text does. A member that was absent gave nothing. A field that is shown to nobody is a step on the way: who reads it
has read what it read. Any other field that is read stands in the passport itself, unless it is repeated as it is.

    Opened ── Reading.of ──► reading.of_field(node) ──► Made(reads, codes)
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from bpc.core.canon import Json
from bpc.core.rules import typed
from bpc.core.rules.package import checked_program
from bpc.core.rules.types import Fact
from bpc.core.verify.proof import Node, nodes_of
from bpc.core.verify.structure import Opened

# What these give is not what they are given, only something about it.
_ABOUT: Final = frozenset({"==", "!=", "<", "<=", ">", ">=", "!", "&&", "||", "isSome", "count"})
_LAMBDAS: Final = frozenset({"map", "filter", "fold"})


class Read(NamedTuple):
    """A member of a fact type. `value` is None where a lambda read it, of facts that the proof does not repeat."""

    fact: Fact
    member: str
    value: Json = None


class Made(NamedTuple):
    """What a value is made of, and the codes of the assertions that held on the way."""

    reads: Sequence[Read]
    codes: frozenset[str]


class Reading:
    """The proof and the rules of a bundle, asked for what fields are made of."""

    def __init__(self, nodes: Sequence[Node], count: int, program: typed.Program) -> None:
        self._nodes = nodes
        self._steps_on_the_way = {
            node.data["path"] for node in nodes[:count] if not node.data["access"] and node.data["value"] is not None
        }
        self._lambdas = {program.source.byte_range(loop.fn_span): loop for loop in _loops(program)}

    @classmethod
    def of(cls, opened: Opened) -> "Reading":
        nodes, count = nodes_of(opened)
        return cls(nodes, count, checked_program(opened.entries["rules.bpc"]))

    def of_field(self, field: int) -> Made:
        """What the value of a field, given by its node, is made of."""
        found: dict[tuple[Fact, str], Read] = {}
        codes: set[str] = set()
        todo, seen = [self._start(field)], set[int]()
        while todo:
            at = todo.pop()
            if at in seen:
                continue
            seen.add(at)
            node = self._nodes[at]
            if node.type == "ASSERT":
                codes.add(node.data["code"])
            for read in self._read_here(node):
                found.setdefault((read.fact, read.member), read)
            todo += reversed(self._made_of(node))
        return Made(list(found.values()), frozenset(codes))

    def _start(self, field: int) -> int:
        """Where a field's value comes from; for one that only repeats another field, where that one's does."""
        result = self._nodes[self._nodes[field].children[0]].children[0]
        while self._nodes[result].type == "FIELD_REF":
            result = self._nodes[self._nodes[result].children[0]].children[0]
        return result

    def _read_here(self, node: Node) -> Iterator[Read]:
        op = node.data.get("op")
        if op == "recordGet" and node.data.get("value") is not None:
            fact = self._fact(node.children[0])
            if fact is not None:
                yield Read(fact, node.data["member"], node.data["value"])
        elif op in _LAMBDAS and [] not in (node.data.get("values"), node.data.get("kept")):
            first, last = node.data["fn"]
            loop = self._lambdas.get((first, last))
            if loop is not None:
                yield from _members(loop.body, {})

    def _made_of(self, node: Node) -> Sequence[int]:
        """The children that a node's value is made of."""
        op, children = node.data.get("op"), node.children
        if node.type == "FIELD_REF":
            return children if node.data["path"] in self._steps_on_the_way else ()
        if node.type in {"CONST", "FACT_GET", "COMPLIANCE_EMIT"} or op in _ABOUT:
            return ()
        if op in {"if", "assert"}:
            return children[1:]
        if op in {"derivation", "filter", "requireSome"}:
            return children[:1]
        return children

    def _fact(self, at: int) -> Fact | None:
        """The type of the fact that a node gives; None where it gives something else."""
        while self._nodes[at].type != "FACT_GET":
            made_of = self._made_of(self._nodes[at])
            if not made_of or self._nodes[at].data.get("op") not in {"requireSome", "if", "assert", "unwrapOr"}:
                return None
            at = made_of[0]
        data = self._nodes[at].data
        return Fact(data["fact_type"], data["schema_version"])


def _loops(program: typed.Program) -> Iterator[typed.Loop]:
    for field in program.fields:
        todo: list[typed.Expr] = [field.body]
        while todo:
            expr = todo.pop()
            if isinstance(expr, typed.Loop):
                yield expr
            todo += _parts(expr)


def _parts(expr: typed.Expr) -> Sequence[typed.Expr]:  # noqa: PLR0911 (one rule a case)
    """All that an expression is written of."""
    match expr:
        case typed.GetFact():
            return (expr.key,)
        case typed.GetFacts():
            return (expr.prefix,)
        case typed.Comparison():
            return expr.left, expr.right
        case typed.Logic():
            return expr.first, *(operand.expr for operand in expr.operands)
        case typed.Choice():
            return *(branch.condition for branch in expr.branches), *_values(expr)
        case typed.Emit():
            return expr.status, expr.message
        case typed.Block():
            bound = (each.value if isinstance(each, typed.Bind) else each.condition for each in expr.bindings)
            return *bound, expr.body
        case typed.Loop(op="filter"):
            return expr.items, expr.body
        case _:
            return _values(expr)


def _values(expr: typed.Expr) -> Sequence[typed.Expr]:  # noqa: PLR0911 (one rule a case)
    """The parts of an expression that its value is made of."""
    match expr:
        case typed.Unary():
            return (expr.operand,) if expr.op == "neg" else ()
        case typed.Arithmetic():
            return expr.first, *(step.operand for step in expr.steps)
        case typed.Choice():
            return *(branch.body for branch in expr.branches), expr.otherwise
        case typed.ListOf():
            return expr.items
        case typed.RecordOf():
            return tuple(item for _, item in expr.members)
        case typed.Apply():
            return expr.arguments
        case typed.Loop(op="filter"):
            return (expr.items,)
        case typed.Loop():
            return *((expr.items,) if expr.init is None else (expr.items, expr.init)), expr.body
        case typed.Require():
            return (expr.option,)
        case _:
            return ()


def _members(expr: typed.Expr, bound: Mapping[str, typed.Expr]) -> Iterator[Read]:
    """The members of facts that the value of an expression inside a lambda is made of."""
    match expr:
        case typed.Local() if expr.name in bound:
            yield from _members(bound[expr.name], {name: value for name, value in bound.items() if name != expr.name})
        case typed.Block():
            for each in expr.bindings:
                if isinstance(each, typed.Bind):
                    bound = {**bound, each.name: each.value}
            yield from _members(expr.body, bound)
        case typed.Apply(op="recordGet") if isinstance(expr.arguments[0].type, Fact):
            yield Read(expr.arguments[0].type, str(expr.static["member"]))
        case typed.Apply(op=op) if op in _ABOUT:
            return
        case _:
            for part in _values(expr):
                yield from _members(part, bound)
