"""What rules read: the members of facts that each field needs, and those that a failed check asked for.

Pure. The text of the rules says it, so it is known also where a field has no value and a proof does not exist.

    Program ── RuleReads ──► get_value_members(path)   members that the value is made of
                       ├──► get_members(path)          all members that its rule reads, conditions included
                       └──► find_reads_at(path, span)  what the check at this place asked for
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

from bpc.core.exports.data_points import find_coded_points, read_point_code
from bpc.core.exports.field_sources import NON_VALUE_OPS, get_fact_type, list_value_parts
from bpc.core.language import typed
from bpc.core.language.source import Span
from bpc.core.language.types import FactRecordType

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
        self._functions = {function.name: function for function in program.functions}
        self._definitions = {definition.name: definition for definition in program.definitions}
        self._members: dict[str, frozenset[FactMember]] = {}
        self._value_members: dict[str, frozenset[FactMember]] = {}
        self._passport_reads: dict[str, frozenset[str]] = {}
        for field in program.fields:  # each after those that it needs
            self._add_field(field)

    def _add_field(self, field: typed.ProgramField) -> None:
        nodes = list(self._iterate_nodes(field.body))
        own = (_get_member(node) for node in nodes)
        through = (member for need in field.needs for member in self._members[need])
        self._members[field.path] = frozenset([*(member for member in own if member is not None), *through])
        self._value_members[field.path] = frozenset(self._iterate_value_members(field.body, self._bind(field.body)))
        passport_ops = [node.op for node in nodes if isinstance(node, typed.BuiltinCall) and node.op in _PASSPORT_OPS]
        asked_through = (op for need in field.needs for op in self._passport_reads[need])
        self._passport_reads[field.path] = frozenset([*passport_ops, *asked_through])

    def get_members(self, path: str) -> frozenset[FactMember]:
        """Every member that the field's rule reads, also through other fields."""
        return self._members[path]

    def get_entry_members(self, path: str, code: str) -> frozenset[FactMember]:
        """Every member that the entry with this code rests on: of a requirement, what that one reads."""
        checks = [
            node
            for node in _iterate_nodes(self._fields[path].body)
            if isinstance(node, typed.RequirementCheck) and node.code == code
        ]
        if not checks:
            return self.get_members(path)
        nodes = [node for check in checks for node in self._iterate_nodes(check.body)]
        own = [member for node in nodes if (member := _get_member(node)) is not None]
        through = [m for node in nodes if isinstance(node, typed.FieldValue) for m in self._members[node.path]]
        return frozenset([*own, *through])

    def get_value_members(self, path: str) -> frozenset[FactMember]:
        """The members that the field's value is made of; what only decides about the value is not among them."""
        return self._value_members[path]

    def get_passport_reads(self, path: str) -> frozenset[str]:
        """What the field reads of the passport itself: `issuedOn`, `productName`, `productSku`."""
        return self._passport_reads[path]

    def list_points_named(self, path: str) -> frozenset[int]:
        """The data point that a rule is about or, if it says none, those that codes of its checks name (`DP12`)."""
        body = self._fields[path].body
        if isinstance(body, typed.RequirementsMet):  # whose checks say what is there, and show nothing
            return frozenset()
        if (stated_point := self.get_stated_point(path)) is not None:
            return frozenset([stated_point[0]])
        nodes = list(self._iterate_nodes(body))
        codes = [node.code for node in nodes if isinstance(node, _CHECKS)]
        names = {node.name for node in nodes if isinstance(node, typed.DefinitionValue)}
        clauses = [self._definitions[name].missing for name in names]
        codes += [clause.code for clause in clauses if clause is not None]
        return frozenset(find_coded_points(codes))

    def get_stated_point(self, path: str) -> tuple[int, int | None] | None:
        """The data point that a rule says it is about, and the part of it where it names one."""
        about = self._fields[path].about
        if about is None or about.point is None:
            return None
        number, _, part = about.point.partition(".")
        return int(number), int(part) if part else None

    def get_title(self, path: str) -> str:
        """What a sentence calls a field: its label with the path in brackets, or the path."""
        return self._fields[path].display_name

    def list_entry_titles(self, path: str, code: str) -> list[str]:
        """What people call what an entry is about: its field or, for a requirement, the fields of its data point."""
        if not isinstance(self._fields[path].body, typed.RequirementsMet):
            return [self.get_title(path)]
        number = read_point_code(code)
        stated_points = ((other, self.get_stated_point(other)) for other in self._fields)
        titles = [self.get_title(other) for other, point in stated_points if point is not None and point[0] == number]
        return titles or [f"requirement {code}"]

    def find_reads_at(self, path: str, span: Span) -> CheckedReads:
        """What the check of a field's rule at this place asked for; nothing if no check is there."""
        body = self._fields[path].body
        for node in self._iterate_nodes(body):
            if isinstance(node, _CHECKS) and node.span == span:
                operand = node.option if isinstance(node, typed.RequireSome) else node.condition
                return self._collect_reads(operand, self._bind(body), node.code)
        return CheckedReads()

    def _iterate_nodes(self, part: object) -> Iterator[Any]:
        """All parts of an expression, and of the definitions that it needs, each definition once."""
        pending, names = [part], set[str]()
        while pending:
            for node in _iterate_nodes(pending.pop()):
                yield node
                if isinstance(node, typed.DefinitionValue) and node.name not in names:
                    names.add(node.name)
                    pending.append(self._definitions[node.name].body)
                elif isinstance(node, typed.FunctionCall) and f"fn {node.name}" not in names:
                    names.add(f"fn {node.name}")
                    pending.append(self._functions[node.name].body)

    def _bind(self, body: typed.Expr) -> "_Bindings":
        return _Bindings(self._definitions, self._functions, list(self._iterate_nodes(body)))

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


_CHECKS: Final = (typed.RequireSome, typed.TypedAssert)


class _Bindings:
    """What the names in a rule stand for: the values of lets, definitions and parameters.

    The element of a lambda stands for its list. `nodes` are those of the rule and of what it needs: definitions and
    functions.
    """

    def __init__(
        self,
        definitions: Mapping[str, typed.ProgramDefinition],
        functions: Mapping[str, typed.ProgramFunction],
        nodes: list[Any],
    ) -> None:
        self._definitions = definitions
        self._functions = functions
        self._nodes = nodes

    def get_function_body(self, call: typed.FunctionCall) -> typed.Expr:
        return self._functions[call.name].body

    @cached_property
    def _values(self) -> Mapping[str, list[typed.Expr]]:
        # Siblings may reuse a name; then it stands for either, which only names one member too many.
        values: dict[str, list[typed.Expr]] = {}
        for node in self._nodes:
            if isinstance(node, typed.TypedLet):
                values.setdefault(node.name, []).append(node.value)
            elif isinstance(node, typed.TypedBranch) and node.binding is not None:
                values.setdefault(node.binding, []).append(node.condition)
            elif isinstance(node, typed.Loop):
                values.setdefault(node.parameters[-1], []).append(node.items)
            elif isinstance(node, typed.FunctionCall):
                for name, argument in zip(self._functions[node.name].parameters, node.arguments, strict=True):
                    values.setdefault(name, []).append(argument)
        return values

    def get_values(self, name: typed.Local | typed.DefinitionValue) -> list[typed.Expr]:
        if isinstance(name, typed.DefinitionValue):
            return [self._definitions[name.name].body]
        return self._values.get(name.name, [])

    def iterate_resolved(self, expr: typed.Expr) -> Iterator[Any]:
        """Every part of an expression, and every part of what its names stand for."""
        pending, names = [expr], set[str]()
        while pending:
            for node in _iterate_nodes(pending.pop()):
                yield node
                # A fact that is only the holder of a member was read before, and is not what is asked for.
                is_name = isinstance(node, typed.Local | typed.DefinitionValue)
                if is_name and node.name not in names and not _is_fact(node):
                    names.add(node.name)
                    pending += self.get_values(node)


def _is_fact(node: typed.Expr) -> bool:
    return isinstance(node.type, FactRecordType)


def _list_value_nodes(node: typed.Expr, bindings: _Bindings) -> Iterable[typed.Expr]:
    match node:
        case typed.Local() | typed.DefinitionValue():
            return bindings.get_values(node)
        case typed.FunctionCall():
            return (bindings.get_function_body(node),)
        case typed.TypedBlock():
            return (node.body,)
        case typed.BuiltinCall(op=op) if op in NON_VALUE_OPS:
            return ()
        case _:
            return list_value_parts(node)


def _get_member(node: object) -> FactMember | None:
    if isinstance(node, typed.BuiltinCall) and node.op in {"recordGet", "member"}:
        fact = get_fact_type(node)
        if fact is not None:
            return FactMember(fact.name, str(node.static["member"]))
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
