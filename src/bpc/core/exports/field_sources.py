"""Field sources: which members of facts a field's value is made of.

Pure. What decides whether or which value there is (a condition, a comparison, a key, an assertion) is not what the
value is made of. Outside of lambdas the proof says what was read; inside of them, where proofs have no nodes, the rule
text does. A member that was absent gave nothing. A field that is shown to nobody is a step on the way: who reads it
has read what it read. Any other field that is read stands in the passport itself, unless it is repeated as it is.

    FieldSources(opened bundle).trace_field(node) ──► ValueSources(reads, codes)
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from bpc.core.formats.canonical_json import Json
from bpc.core.language import typed
from bpc.core.language.package import read_program
from bpc.core.language.types import FactRecordType
from bpc.core.verify.canonical import OpenedBundle
from bpc.core.verify.proof_structure import ParsedNode, parse_nodes

# What these give is not what they are given, only something about it.
NON_VALUE_OPS: Final = frozenset({"==", "!=", "<", "<=", ">", ">=", "!", "&&", "||", "isSome", "count"})
# `attachment:<sku>:<data point>:<hash>`; a SKU may contain colons.
_ATTACHMENT_KEY: Final = re.compile("attachment:.*:([0-9]{2}):", re.DOTALL)
_LAMBDA_OPS: Final = frozenset({"map", "filter", "fold"})


class MemberRead(NamedTuple):
    """A member of a fact type. `value` is None where a lambda read it, of facts that the proof does not repeat."""

    fact: FactRecordType
    member: str
    value: Json = None


class ValueSources(NamedTuple):
    """What a value is made of, and the codes of the assertions that held on the way."""

    reads: Sequence[MemberRead]
    codes: frozenset[str]


class FieldSources:
    """The proof and the rules of a bundle, asked for what fields are made of."""

    def __init__(self, opened: OpenedBundle) -> None:
        nodes, count = parse_nodes(opened)
        program = read_program(opened.entries["rules.bpc"])
        self._nodes = nodes
        self._hidden_paths = {
            node.data["path"] for node in nodes[:count] if not node.data["access"] and node.data["value"] is not None
        }
        self._lambdas = {program.source.byte_range(loop.lambda_span): loop for loop in _iterate_loops(program)}

    def trace_field(self, field: int) -> ValueSources:
        """What the value of a field, given by its node, is made of."""
        reads: dict[tuple[FactRecordType, str], MemberRead] = {}
        codes: set[str] = set()
        pending, seen = [self._find_result(field)], set[int]()
        while pending:
            at = pending.pop()
            if at in seen:
                continue
            seen.add(at)
            node = self._nodes[at]
            if node.type == "ASSERT":
                codes.add(node.data["code"])
            codes.update(self._list_attached_points(node))
            for read in self._list_reads(node):
                reads.setdefault((read.fact, read.member), read)
            pending += reversed(self._list_value_children(node))
        return ValueSources(list(reads.values()), frozenset(codes))

    def _find_result(self, field: int) -> int:
        """Where a field's value comes from; for one that only repeats another field, where that one's does."""
        result = self._nodes[self._nodes[field].children[0]].children[0]
        while self._nodes[result].type == "FIELD_REF":
            result = self._nodes[self._nodes[result].children[0]].children[0]
        return result

    def _list_reads(self, node: ParsedNode) -> Iterator[MemberRead]:
        op = node.data.get("op")
        if op == "recordGet" and node.data.get("value") is not None:
            fact = self._find_fact(node.children[0])
            if fact is not None:
                yield MemberRead(fact, node.data["member"], node.data["value"])
        elif op in _LAMBDA_OPS and [] not in (node.data.get("values"), node.data.get("kept")):
            first, last = node.data["fn"]
            loop = self._lambdas.get((first, last))
            if loop is not None:
                yield from _iterate_members(loop.body, {})

    def _list_attached_points(self, node: ParsedNode) -> Iterator[str]:
        """The code of the data point whose attached files a node looks up: their key names it."""
        if node.type == "FACT_GET" and node.data["fact_type"] == "Attachment":
            match = _ATTACHMENT_KEY.match(str(self._nodes[node.children[0]].data.get("value")))
            if match is not None:
                yield f"DP{match[1]}"

    def _list_value_children(self, node: ParsedNode) -> Sequence[int]:
        """The children that a node's value is made of."""
        op, children = node.data.get("op"), node.children
        if node.type == "FIELD_REF":
            return children if node.data["path"] in self._hidden_paths else ()
        if node.type in {"CONST", "FACT_GET", "COMPLIANCE_EMIT"} or op in NON_VALUE_OPS:
            return ()
        if op in {"if", "assert"}:
            return children[1:]
        if op in {"derivation", "filter", "requireSome"}:
            return children[:1]
        return children

    def _find_fact(self, at: int) -> FactRecordType | None:
        """The type of the fact that a node gives; None where it gives something else."""
        while self._nodes[at].type != "FACT_GET":
            value_children = self._list_value_children(self._nodes[at])
            if not value_children or self._nodes[at].data.get("op") not in {"requireSome", "if", "assert", "unwrapOr"}:
                return None
            at = value_children[0]
        data = self._nodes[at].data
        return FactRecordType(data["fact_type"], data["schema_version"])


def _iterate_loops(program: typed.Program) -> Iterator[typed.Loop]:
    for field in program.fields:
        pending: list[typed.Expr] = [field.body]
        while pending:
            expr = pending.pop()
            if isinstance(expr, typed.Loop):
                yield expr
            pending += _list_parts(expr)


def _list_parts(expr: typed.Expr) -> Sequence[typed.Expr]:  # noqa: PLR0911 (one rule a case)
    """All that an expression is written of."""
    match expr:
        case typed.FactLookup():
            return (expr.key,)
        case typed.FactPrefixLookup():
            return (expr.prefix,)
        case typed.TypedComparison():
            return expr.left, expr.right
        case typed.Logic():
            return expr.first, *(operand.expr for operand in expr.operands)
        case typed.TypedIf():
            return *(branch.condition for branch in expr.branches), *list_value_parts(expr)
        case typed.EmitCompliance():
            return expr.status, expr.message
        case typed.TypedBlock():
            bound = (
                binding.value if isinstance(binding, typed.TypedLet) else binding.condition for binding in expr.bindings
            )
            return *bound, expr.body
        case typed.Loop(op="filter"):
            return expr.items, expr.body
        case _:
            return list_value_parts(expr)


def list_value_parts(expr: typed.Expr) -> Sequence[typed.Expr]:  # noqa: PLR0911 (one rule a case)
    """The parts of an expression that its value is made of."""
    match expr:
        case typed.TypedUnary():
            return (expr.operand,) if expr.op == "neg" else ()
        case typed.Arithmetic():
            return expr.first, *(step.operand for step in expr.steps)
        case typed.TypedIf():
            return *(branch.body for branch in expr.branches), expr.otherwise
        case typed.TypedList():
            return expr.items
        case typed.TypedRecord():
            return tuple(item for _, item in expr.members)
        case typed.BuiltinCall():
            return expr.arguments
        case typed.Loop(op="filter"):
            return (expr.items,)
        case typed.Loop():
            return *((expr.items,) if expr.init is None else (expr.items, expr.init)), expr.body
        case typed.RequireSome():
            return (expr.option,)
        case _:
            return ()


def _iterate_members(expr: typed.Expr, bound: Mapping[str, typed.Expr]) -> Iterator[MemberRead]:
    """The members of facts that the value of an expression inside a lambda is made of."""
    match expr:
        case typed.Local() if expr.name in bound:
            yield from _iterate_members(
                bound[expr.name], {name: value for name, value in bound.items() if name != expr.name}
            )
        case typed.TypedBlock():
            for binding in expr.bindings:
                if isinstance(binding, typed.TypedLet):
                    bound = {**bound, binding.name: binding.value}
            yield from _iterate_members(expr.body, bound)
        case typed.BuiltinCall(op="recordGet") if isinstance(expr.arguments[0].type, FactRecordType):
            yield MemberRead(expr.arguments[0].type, str(expr.static["member"]))
        case typed.BuiltinCall(op=op) if op in NON_VALUE_OPS:
            return
        case _:
            for part in list_value_parts(expr):
                yield from _iterate_members(part, bound)
