"""Examples that were checked before, taken again: after an edit they are checked only if it matters to them.

What an example says depends on its own text, on the fixtures it starts from, on the fields that it names, with the
enumerations in their types, and on the findings that it names, with their arguments. Where these are as before, and
there was nothing to report, nothing else can be found. Properties contain expressions, which depend on everything: they
are always checked.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from bpc.core.language import syntax
from bpc.core.language.checking.case_tables import AnyExample, CheckedTable
from bpc.core.language.checking.context import PackageContext
from bpc.core.language.checking.findings_of_rules import KnownFindings
from bpc.core.language.checking.fixtures import DeclaredFixture, TestInputs
from bpc.core.language.parsing.parse_again import MovedRows
from bpc.core.language.source import Source
from bpc.core.language.types import FactRecordType, Type


class _Declared(NamedTuple):
    """What examples depend on: of each field its type, of each finding its arguments."""

    language: int
    fields: Mapping[str, tuple[Type | None, bool]]
    findings: Mapping[str, frozenset[str]]


class _Inputs(NamedTuple):
    """What a fixture states, wherever it stands."""

    product: tuple[str, str] | None
    issued_on: str | None
    facts: list[tuple[FactRecordType, str, Mapping[str, object] | None]]


class _Known(NamedTuple):
    """The examples of an item with nothing to report; `origin` is the item, or its rows before any move."""

    origin: object
    source: Source
    examples: list[AnyExample]
    fields: frozenset[str]
    findings: frozenset[str]


class CheckedExamples:
    """What was found in the examples and tables of a package, by the identity of each."""

    def __init__(self, earlier: "CheckedExamples | None" = None) -> None:
        self._earlier: Mapping[int, _Known] = {} if earlier is None else earlier._known
        self._earlier_declared = None if earlier is None else earlier._declared
        self._earlier_fixtures: Mapping[str, _Inputs | None] = {} if earlier is None else earlier._fixtures
        self._known: dict[int, _Known] = {}
        self._declared: _Declared | None = None
        self._changed_fields: set[str] = set()
        self._changed_findings: set[str] = set()
        self._fixtures: dict[str, _Inputs | None] = {}
        self._same_fixtures: set[str] = set()

    def compare(
        self, context: PackageContext, findings: KnownFindings, fixtures: Mapping[str, DeclaredFixture]
    ) -> None:
        """Compare what examples depend on with the time before. Called before the examples of a text are checked."""
        if self._declared is None:
            fields = {path: (field.type, field.can_be_missing) for path, field in context.fields.items()}
            arguments = {code: findings.arguments.get(code, frozenset()) for code in findings.codes}
            self._declared = _Declared(context.language, fields, arguments)
            self._compare_declared(self._declared, self._earlier_declared)
        self._fixtures = {name: _describe_inputs(fixture.inputs) for name, fixture in fixtures.items()}
        earlier = self._earlier_fixtures if self._earlier else {}
        self._same_fixtures = {
            name
            for name, inputs in self._fixtures.items()
            if inputs is not None and name in earlier and inputs == earlier[name]
        }

    def _compare_declared(self, declared: _Declared, earlier: _Declared | None) -> None:
        if earlier is None or earlier.language != declared.language:
            self._earlier = {}
            return
        self._changed_fields = _list_changed(declared.fields, earlier.fields)
        self._changed_findings = _list_changed(declared.findings, earlier.findings)

    def take(
        self, node: syntax.Example | syntax.CaseTable, table: CheckedTable | None, source: Source
    ) -> list[AnyExample] | None:
        """The examples of the time before, if they are still true; those of a table that moved are made anew."""
        origin = _find_origin(node)
        known_example = self._earlier.get(id(origin))
        if known_example is None or known_example.origin is not origin or self._has_changed(node, known_example):
            return None
        if known_example.source is not source:
            if table is None:
                return None
            known_example = known_example._replace(source=source, examples=table.defer_all())
        self._known[id(origin)] = known_example
        return known_example.examples

    def remember(self, node: syntax.Example | syntax.CaseTable, examples: list[AnyExample], source: Source) -> None:
        """Keep the examples of an item in which there was nothing to report."""
        origin = _find_origin(node)
        fields = {each.dotted for each in node.expectations if isinstance(each, syntax.Expectation)}
        self._known[id(origin)] = _Known(origin, source, examples, frozenset(fields), frozenset(_list_findings(node)))

    def _has_changed(self, node: syntax.Example | syntax.CaseTable, known_example: _Known) -> bool:
        """Whether something that the examples depend on is other than the time before."""
        return (
            not self._changed_fields.isdisjoint(known_example.fields)
            or not self._changed_findings.isdisjoint(known_example.findings)
            or not self._same_fixtures.issuperset(_list_bases(node))
        )


def _list_changed(declared: Mapping[str, object], earlier: Mapping[str, object]) -> set[str]:
    """The names that are in one of the two only, or stand for something else."""
    in_both = declared.keys() & earlier.keys()
    return (declared.keys() ^ earlier.keys()) | {name for name in in_both if declared[name] != earlier[name]}


def _list_findings(node: syntax.Example | syntax.CaseTable) -> Iterator[str]:
    """The codes of the findings that a test expects; a column may stand for one."""
    for expectation in node.expectations:
        if isinstance(expectation, syntax.FindingExpectation):
            code = expectation.code
            if isinstance(code, syntax.ColumnRef) and isinstance(node, syntax.CaseTable):
                column = [name.text for name in node.columns].index(code.value)
                cells = [row.cells[column] for row in node.rows]
                yield from (cell.value for cell in cells if isinstance(cell, syntax.TextLiteral))
            else:
                yield code.value


def _describe_inputs(inputs: TestInputs | None) -> _Inputs | None:
    if inputs is None:
        return None
    facts = [(fact.fact, fact.key, fact.payload) for fact in inputs.facts.values()]
    return _Inputs(inputs.product, inputs.issued_on, facts)


def _find_origin(node: syntax.Example | syntax.CaseTable) -> object:
    if isinstance(node, syntax.Example):
        return node
    return node.rows.origin if isinstance(node.rows, MovedRows) else node.rows


def _list_bases(node: syntax.Example | syntax.CaseTable) -> list[str]:
    return [base.text for base in node.bases]
