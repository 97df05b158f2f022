"""Examples that were checked before, taken again: after an edit they are checked only if it matters to them.

What an example says depends on its own text, on the fixtures it starts from, on the fields that the rules declare, on
the enumerations that their types name, and on the codes and arguments of their findings. Where these are as before, and
there was nothing to report, nothing else can be found. Properties contain expressions, which depend on everything: they
are always checked.
"""

from collections.abc import Mapping
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
    """What examples depend on."""

    language: int
    fields: Mapping[str, tuple[Type | None, bool]]
    codes: frozenset[str]
    arguments: Mapping[str, frozenset[str]]


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


class CheckedExamples:
    """What was found in the examples and tables of a package, by the identity of each."""

    def __init__(self, earlier: "CheckedExamples | None" = None) -> None:
        self._earlier: Mapping[int, _Known] = {} if earlier is None else earlier._known
        self._earlier_declared = None if earlier is None else earlier._declared
        self._earlier_fixtures: Mapping[str, _Inputs | None] = {} if earlier is None else earlier._fixtures
        self._known: dict[int, _Known] = {}
        self._declared: _Declared | None = None
        self._fixtures: dict[str, _Inputs | None] = {}
        self._same_fixtures: set[str] = set()

    def compare(
        self, context: PackageContext, findings: KnownFindings, fixtures: Mapping[str, DeclaredFixture]
    ) -> None:
        """Compare what examples depend on with the time before. Called before the examples of a text are checked."""
        if self._declared is None:
            fields = {path: (field.type, field.can_be_missing) for path, field in context.fields.items()}
            self._declared = _Declared(context.language, fields, findings.codes, findings.arguments)
            if self._declared != self._earlier_declared:
                self._earlier = {}
        self._fixtures = {name: _describe_inputs(fixture.inputs) for name, fixture in fixtures.items()}
        earlier = self._earlier_fixtures if self._earlier else {}
        self._same_fixtures = {
            name
            for name, inputs in self._fixtures.items()
            if inputs is not None and name in earlier and inputs == earlier[name]
        }

    def take(
        self, node: syntax.Example | syntax.CaseTable, table: CheckedTable | None, source: Source
    ) -> list[AnyExample] | None:
        """The examples of the time before, if they are still true; those of a table that moved are made anew."""
        origin = _find_origin(node)
        known_example = self._earlier.get(id(origin))
        if (
            known_example is None
            or known_example.origin is not origin
            or not self._same_fixtures.issuperset(_list_bases(node))
        ):
            return None
        if known_example.source is not source:
            if table is None:
                return None
            known_example = _Known(origin, source, table.defer_all())
        self._known[id(origin)] = known_example
        return known_example.examples

    def remember(self, node: syntax.Example | syntax.CaseTable, examples: list[AnyExample], source: Source) -> None:
        """Keep the examples of an item in which there was nothing to report."""
        origin = _find_origin(node)
        self._known[id(origin)] = _Known(origin, source, examples)


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
