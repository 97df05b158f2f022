"""What rules read: the members of facts that each field needs, and those that a failed check asked for.

Pure. The text of the rules says it, so it is known also where a field has no value and a proof does not exist.

    Program ── RuleReads ──► get_value_members(path)   members that the value is made of
                       ├──► get_members(path)          all members that its rule reads, conditions included
                       └──► find_reads_at(path, span)  what the check at this place asked for
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

from bpc.core.exports.data_points import POINTS
from bpc.core.exports.field_sources import NON_VALUE_OPS, list_value_parts
from bpc.core.language import typed
from bpc.core.language.source import Span
from bpc.core.language.types import FactRecordType

_POINT_CODE: Final = re.compile("DP([0-9]{2})")
_PASSPORT_OPS: Final = frozenset({"issuedOn", "productName", "productSku"})
_PLAIN_MEMBERS: Final = frozenset({"type", "span", "lambda_span", "static", "parameters", "captured"})


class FactMember(NamedTuple):
    """A member of a fact type."""

    fact_type: str
    member: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedReads:
    """What a check asked for: members, fact types that were looked up, and the data point that its code names."""

    members: frozenset[FactMember] = frozenset()
    fact_types: frozenset[str] = frozenset()
    point: int | None = None


class RuleReads:
    """The rules of one package, asked for what their fields read."""

    def __init__(self, program: typed.Program) -> None:
        self._fields = {field.path: field for field in program.fields}
        self._members: dict[str, frozenset[FactMember]] = {}
        self._value_members: dict[str, frozenset[FactMember]] = {}
        self._passport_reads: dict[str, frozenset[str]] = {}
        for field in program.fields:  # each after those that it needs
            self._add_field(field)

    def _add_field(self, field: typed.ProgramField) -> None:
        nodes = list(_iterate_nodes(field.body))
        own = (_get_member(node) for node in nodes)
        through = (member for need in field.needs for member in self._members[need])
        self._members[field.path] = frozenset([*(member for member in own if member is not None), *through])
        self._value_members[field.path] = frozenset(self._iterate_value_members(field.body, _Bindings(field.body)))
        asked = [node.op for node in nodes if isinstance(node, typed.BuiltinCall) and node.op in _PASSPORT_OPS]
        asked_through = (op for need in field.needs for op in self._passport_reads[need])
        self._passport_reads[field.path] = frozenset([*asked, *asked_through])

    def get_members(self, path: str) -> frozenset[FactMember]:
        """Every member that the field's rule reads, also through other fields."""
        return self._members[path]

    def get_value_members(self, path: str) -> frozenset[FactMember]:
        """The members that the field's value is made of; what only decides about the value is not among them."""
        return self._value_members[path]

    def get_passport_reads(self, path: str) -> frozenset[str]:
        """What the field reads of the passport itself: `issuedOn`, `productName`, `productSku`."""
        return self._passport_reads[path]

    def list_points_named(self, path: str) -> frozenset[int]:
        """The data points that the checks of a rule name by their codes, such as `DP12`."""
        checks = (node for node in _iterate_nodes(self._fields[path].body) if isinstance(node, _CHECKS))
        return frozenset(point for check in checks if (point := read_point_code(check.code)) is not None)

    def find_reads_at(self, path: str, span: Span) -> CheckedReads:
        """What the check of a field's rule at this place asked for; nothing if no check is there."""
        body = self._fields[path].body
        for node in _iterate_nodes(body):
            if isinstance(node, _CHECKS) and node.span == span:
                asked = node.option if isinstance(node, typed.RequireSome) else node.condition
                return self._collect_reads(asked, _Bindings(body), node.code)
        return CheckedReads()

    def _collect_reads(self, expr: typed.Expr, bindings: "_Bindings", code: str) -> CheckedReads:
        nodes = list(bindings.iterate_resolved(expr))
        direct = [member for node in nodes if (member := _get_member(node)) is not None]
        through = [m for node in nodes if isinstance(node, typed.FieldValue) for m in self.get_value_members(node.path)]
        lookups = [n.fact.name for n in nodes if isinstance(n, typed.FactLookup | typed.FactPrefixLookup)]
        return CheckedReads(
            members=frozenset([*direct, *through]), fact_types=frozenset(lookups), point=read_point_code(code)
        )

    def _iterate_value_members(self, expr: typed.Expr, bindings: "_Bindings") -> Iterator[FactMember]:
        pending, seen = [expr], set[int]()
        while pending:
            node = pending.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            member = _get_member(node)
            if member is not None:
                yield member
            elif isinstance(node, typed.FieldValue):
                yield from self._value_members[node.path]
            else:
                pending += _list_value_nodes(node, bindings)


def read_point_code(code: str) -> int | None:
    """The number of the data point that a code such as `DP12` names."""
    match = _POINT_CODE.fullmatch(code)
    return int(match[1]) if match and 1 <= int(match[1]) <= len(POINTS) else None


_CHECKS: Final = (typed.RequireSome, typed.TypedAssert)


class _Bindings:
    """What the names in a rule stand for: the values of lets, and for a lambda's element the list it is from."""

    def __init__(self, body: typed.Expr) -> None:
        self._body = body

    @cached_property
    def _values(self) -> Mapping[str, list[typed.Expr]]:
        # Siblings may reuse a name; then it stands for either, which only names one member too many.
        values: dict[str, list[typed.Expr]] = {}
        for node in _iterate_nodes(self._body):
            if isinstance(node, typed.TypedLet):
                values.setdefault(node.name, []).append(node.value)
            elif isinstance(node, typed.Loop):
                values.setdefault(node.parameters[-1], []).append(node.items)
        return values

    def get_values(self, local: typed.Local) -> list[typed.Expr]:
        return self._values.get(local.name, [])

    def iterate_resolved(self, expr: typed.Expr) -> Iterator[Any]:
        """Every part of an expression, and every part of what its names stand for."""
        pending, names = [expr], set[str]()
        while pending:
            for node in _iterate_nodes(pending.pop()):
                yield node
                # A fact that is only the holder of a member was read before, and is not what is asked for.
                if isinstance(node, typed.Local) and node.name not in names and not _is_fact(node):
                    names.add(node.name)
                    pending += self.get_values(node)


def _is_fact(node: typed.Local) -> bool:
    return isinstance(node.type, FactRecordType)


def _list_value_nodes(node: typed.Expr, bindings: _Bindings) -> Iterable[typed.Expr]:
    match node:
        case typed.Local():
            return bindings.get_values(node)
        case typed.TypedBlock():
            return (node.body,)
        case typed.BuiltinCall(op=op) if op in NON_VALUE_OPS:
            return ()
        case _:
            return list_value_parts(node)


def _get_member(node: object) -> FactMember | None:
    if isinstance(node, typed.BuiltinCall) and node.op == "recordGet":
        kind = node.arguments[0].type
        if isinstance(kind, FactRecordType):
            return FactMember(kind.name, str(node.static["member"]))
    return None


def _iterate_nodes(part: object) -> Iterator[Any]:
    """An expression and all its parts, each once, in no promised order."""
    pending: list[object] = [part]
    while pending:
        node = pending.pop()
        if isinstance(node, tuple) and not hasattr(node, "_fields"):
            pending += node
        elif is_dataclass(node) and not isinstance(node, type):
            yield node
            pending += (getattr(node, each.name) for each in fields(node) if each.name not in _PLAIN_MEMBERS)
