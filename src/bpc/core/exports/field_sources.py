"""Field sources: which members of facts a field's value is made of.

Pure. What decides whether or which value there is (a condition, a comparison, a key, an assertion) is not what the
value is made of. Outside of lambdas the nodes of the operators say what was read: those of the proof or, for rules of
level 2, those that the reference evaluator gives. Inside of lambdas, where there are no nodes, the rule text does. A
member that was absent gave nothing. A field that is shown to nobody is a step on the way: who reads it has read what it
read. Any other field that is read stands in the passport itself, unless it is repeated as it is.

    FieldSources(opened bundle).trace_field(node) ──► ValueSources(reads, codes)
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from bpc.core.formats.canonical_json import Json
from bpc.core.language import typed
from bpc.core.language.evaluation import build_world
from bpc.core.language.package import read_program
from bpc.core.language.reference.derive import derive
from bpc.core.language.types import FactRecordType, unwrap_option_type
from bpc.core.verify.canonical import OpenedBundle
from bpc.core.verify.proof_structure import parse_nodes

# What these give is not what they are given, only something about it.
NON_VALUE_OPS: Final = frozenset(
    {
        *("==", "!=", "<", "<=", ">", ">=", "!", "&&", "||", "isSome", "count", "in"),
        *("startsWith", "endsWith", "contains", "length", "isEmpty", "any", "all", "table"),
    }
)
# `attachment:<sku>:<data point>:<hash>`; a SKU may contain colons.
_ATTACHMENT_KEY: Final = re.compile("attachment:.*:([0-9]{2}):", re.DOTALL)
# These may give a fact that another node gave.
_PASSING_OPS: Final = frozenset(
    {
        *("requireSome", "if", "ifSome", "??", "assert", "unwrapOr", "definition", "match"),
        *("first", "last", "latestBy", "sortBy", "filter"),
    }
)
_MEMBER_OPS: Final = frozenset({"recordGet", "member"})
_LAMBDA_OPS: Final = frozenset({"map", "filter", "fold", "groupBy"})
# These give elements of what they are given; what their lambdas give only chooses.
_CHOOSING_OPS: Final = frozenset({"filter", "sortBy", "latestBy"})


class _Node(NamedTuple):
    type: str
    data: Mapping[str, Any]
    children: Sequence[int]


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

    def __init__(self, bundle: OpenedBundle) -> None:
        program = read_program(bundle.entries["rules.bpc"])
        nodes, count = _list_operator_nodes(bundle, program)
        self._nodes = nodes
        self._hidden_paths = {
            node.data["path"] for node in nodes[:count] if not node.data["access"] and node.data["value"] is not None
        }
        self._lambdas = {program.source.byte_range(loop.lambda_span): loop for loop in _iterate_loops(program)}
        self._program = program

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

    def _list_reads(self, node: _Node) -> Iterator[MemberRead]:
        op = node.data.get("op")
        if op in _MEMBER_OPS and node.data.get("value") is not None:
            fact = self._find_fact(node.children[0])
            if fact is not None:
                yield MemberRead(fact, node.data["member"], node.data["value"])
        elif op in _LAMBDA_OPS and [] not in map(node.data.get, ("values", "kept", "groups")):
            first, last = node.data["fn"]
            loop = self._lambdas.get((first, last))
            if loop is not None:
                yield from _iterate_members(loop.body, _Names({}, self._program))

    def _list_attached_points(self, node: _Node) -> Iterator[str]:
        """The code of the data point whose attached files a node looks up: their key names it."""
        if node.type == "FACT_GET" and node.data["fact_type"] == "Attachment":
            match = _ATTACHMENT_KEY.match(str(self._nodes[node.children[0]].data.get("value")))
            if match is not None:
                yield f"DP{match[1]}"

    def _list_value_children(self, node: _Node) -> Sequence[int]:
        """The children that a node's value is made of."""
        op, children = node.data.get("op"), node.children
        if node.type == "FIELD_REF":
            return children if node.data["path"] in self._hidden_paths else ()
        if node.type in {"CONST", "FACT_GET", "COMPLIANCE_EMIT"} or op in NON_VALUE_OPS or op == "missing":
            return ()
        if op in {"if", "ifSome", "assert", "match"}:
            return children[1:]
        if op == "??":
            return children[-1:]
        if op in {"derivation", "definition", "requireSome"} or op in _CHOOSING_OPS:
            return children[:1]
        return children

    def _find_fact(self, at: int) -> FactRecordType | None:
        """The type of the fact that a node gives; None where it gives something else."""
        while self._nodes[at].type != "FACT_GET":
            value_children = self._list_value_children(self._nodes[at])
            if not value_children or self._nodes[at].data.get("op") not in _PASSING_OPS:
                return None
            at = value_children[0]
        data = self._nodes[at].data
        return FactRecordType(data["fact_type"], data["schema_version"])


def _list_operator_nodes(bundle: OpenedBundle, program: typed.Program) -> tuple[Sequence[_Node], int]:
    """The nodes of a bundle's computation, one for each operator, and the number of fields."""
    if program.language == 1:
        nodes, count = parse_nodes(bundle)
        return [_Node(node.type, node.data, node.children) for node in nodes], count
    product, issued_at = bundle.payload["battery_product"], bundle.receipt.issued_at
    world = build_world(bundle.facts, program.facts, sku=product["sku"], name=product["name"], issued_at=issued_at)
    # No salt is shown; the path in its place keeps equal derivations apart.
    derivation = derive(
        program, world, battery_product=product, facts_hash="", salt=lambda path: (path, path), by_operator=True
    )
    return [_Node(node.type, node.data, node.children) for node in derivation.nodes], len(derivation.field_index)


def _iterate_loops(program: typed.Program) -> Iterator[typed.Loop]:
    pending: list[typed.Expr] = [*program.bodies]
    while pending:
        expr = pending.pop()
        if isinstance(expr, typed.Loop):
            yield expr
        pending += _list_parts(expr)


def _list_parts(expr: typed.Expr) -> Sequence[typed.Expr]:  # noqa: PLR0911, PLR0912 (one rule a case)
    """All that an expression is written of."""
    match expr:
        case typed.FactLookup():
            return (expr.key,)
        case typed.TableLookup():
            return expr.arguments
        case typed.FactPrefixLookup():
            return (expr.prefix,)
        case typed.TypedComparison():
            return expr.left, expr.right
        case typed.Logic() | typed.Coalesce():
            return expr.first, *(operand.expr for operand in expr.operands)
        case typed.TypedMatch():
            return expr.subject, *list_value_parts(expr)
        case typed.TypedIf():
            return *(branch.condition for branch in expr.branches), *list_value_parts(expr)
        case typed.EmitCompliance():
            return expr.status, expr.message
        case typed.RequirementsMet():
            return expr.items
        case typed.RequirementCheck():
            return (expr.body,)
        case typed.TypedBlock():
            bound = (
                binding.value if isinstance(binding, typed.TypedLet) else binding.condition for binding in expr.bindings
            )
            return *bound, expr.body
        case typed.Loop() if expr.op in _CHOOSING_OPS or expr.op in NON_VALUE_OPS:
            return expr.items, expr.body
        case _:
            return list_value_parts(expr)


def get_fact_type(call: typed.BuiltinCall) -> FactRecordType | None:
    """The type of the fact whose member a call reads; None if it reads that of another record."""
    kind = unwrap_option_type(call.arguments[0].type)
    return kind if isinstance(kind, FactRecordType) else None


def list_value_parts(expr: typed.Expr) -> Sequence[typed.Expr]:  # noqa: PLR0911, PLR0912 (one rule a case)
    """The parts of an expression that its value is made of."""
    match expr:
        case typed.TypedUnary():
            return (expr.operand,) if expr.op == "neg" else ()
        case typed.Arithmetic():
            return expr.first, *(step.operand for step in expr.steps)
        case typed.Coalesce():
            return expr.first, *(operand.expr for operand in expr.operands)
        case typed.TypedIf():
            return *(branch.body for branch in expr.branches), expr.otherwise
        case typed.TypedMatch():
            return tuple(arm.body for arm in expr.arms)
        case typed.TypedList():
            return expr.items
        case typed.TypedRecord():
            return tuple(item for _, item in expr.members)
        case typed.BuiltinCall() | typed.FunctionCall():
            return expr.arguments
        case typed.Loop() if expr.op in NON_VALUE_OPS:
            return ()
        case typed.Loop() if expr.op in _CHOOSING_OPS:
            return (expr.items,)
        case typed.Loop():
            return *((expr.items,) if expr.init is None else (expr.items, expr.init)), expr.body
        case typed.RequireSome():
            return (expr.option,)
        case _:
            return ()


class _Names(NamedTuple):
    """What names stand for: those of lets and parameters with the names at their place, and what the rules define."""

    local: "Mapping[str, tuple[typed.Expr, _Names]]"
    program: typed.Program

    def bind(self, name: str, value: typed.Expr, names: "_Names") -> "_Names":
        return _Names({**self.local, name: (value, names)}, self.program)

    def resolve(
        self, expr: typed.Local | typed.DefinitionValue | typed.FunctionCall
    ) -> "tuple[typed.Expr, _Names] | None":
        """What a name stands for; None for an element of a lambda."""
        if isinstance(expr, typed.Local):
            return self.local.get(expr.name)
        inner = _Names({}, self.program)
        if isinstance(expr, typed.DefinitionValue):
            return next(each.body for each in self.program.definitions if each.name == expr.name), inner
        function = next(each for each in self.program.functions if each.name == expr.name)
        for parameter, argument in zip(function.parameters, expr.arguments, strict=True):
            inner = inner.bind(parameter, argument, self)
        return function.body, inner


def _iterate_members(expr: typed.Expr, names: _Names) -> Iterator[MemberRead]:
    """The members of facts that the value of an expression inside a lambda is made of."""
    match expr:
        case typed.Local() | typed.DefinitionValue() | typed.FunctionCall():
            value = names.resolve(expr)
            if value is not None:
                yield from _iterate_members(*value)
        case typed.TypedBlock():
            for binding in expr.bindings:
                if isinstance(binding, typed.TypedLet):
                    names = names.bind(binding.name, binding.value, names)
            yield from _iterate_members(expr.body, names)
        case typed.TypedIf():
            options = {branch.binding: branch.condition for branch in expr.branches if branch.binding is not None}
            for name, option in options.items():
                names = names.bind(name, option, names)
            for part in list_value_parts(expr):
                yield from _iterate_members(part, names)
        case typed.BuiltinCall(op="recordGet" | "member") if (fact := get_fact_type(expr)) is not None:
            yield MemberRead(fact, str(expr.static["member"]))
        case _:
            is_value = not isinstance(expr, typed.BuiltinCall) or expr.op not in NON_VALUE_OPS
            for part in list_value_parts(expr) if is_value else ():
                yield from _iterate_members(part, names)
