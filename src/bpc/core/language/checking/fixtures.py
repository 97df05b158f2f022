"""Check what tests are given: product, day and facts, fixtures that tests share, and the cells of tables in them.

A test starts from the shared fixtures it names, in their order, and then from what it states itself. What comes later
replaces what came before: the product, the day, and of a fact the members that are stated again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar, cast

from bpc.core.facts.fact_table import FactInvalid, check_member
from bpc.core.formats.canonical_json import Json
from bpc.core.language import syntax, typed
from bpc.core.language.checking import explain, functions, literals
from bpc.core.language.checking.context import Checker, require_all
from bpc.core.language.source import DiagnosticNote, Source, Span
from bpc.core.language.tree_nodes import change_node
from bpc.core.language.types import FactRecordType

MAX_FACTS: Final = 1_000

_DEFAULT_PRODUCT: Final = ("SKU-1", "Product")
_DEFAULT_DAY: Final = "2027-02-18"

_T = TypeVar("_T", syntax.ProductFixture, syntax.IssuedFixture)
_FactKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class TestInputs:
    """What a fixture or a test states, and what it starts from; facts by type and key."""

    product: tuple[str, str] | None = None
    issued_on: str | None = None
    facts: Mapping[_FactKey, typed.FixtureFact] = field(default_factory=dict)

    def fill_defaults(self) -> typed.Fixtures:
        sku, name = self.product or _DEFAULT_PRODUCT
        return typed.Fixtures(sku, name, self.issued_on or _DEFAULT_DAY, tuple(self.facts.values()))

    def build_on(self, earlier: "TestInputs") -> "TestInputs":
        """The same, with what `earlier` states and this does not."""
        facts = dict(earlier.facts)
        for key, fact in self.facts.items():
            before = facts.get(key)
            if before is not None and before.payload is not None and fact.payload is not None:
                facts[key] = change_node(fact, payload={**before.payload, **fact.payload})
            else:
                facts[key] = fact
        return TestInputs(self.product or earlier.product, self.issued_on or earlier.issued_on, facts)


@dataclass(frozen=True, slots=True)
class DeclaredFixture:
    """A shared fixture; `inputs` is None after a mistake that was reported."""

    inputs: TestInputs | None
    source: Source
    span: Span


def declare_fixture(checker: Checker, node: syntax.SharedFixture, declared: dict[str, DeclaredFixture]) -> None:
    """Add a shared fixture to those that tests can start from."""
    inputs = check_inputs(checker, node.bases, node.fixtures, declared)
    name, source = node.name.text, checker.findings.source
    first = declared.setdefault(name, DeclaredFixture(inputs, source, node.name.span))
    if first.span is node.name.span:
        return
    message = f"there are two fixtures called `{name}`"
    if first.source is source:
        checker.error("shadowed-name", node.name.span, message, None, DiagnosticNote(first.span, "the first is here"))
    else:
        checker.error("shadowed-name", node.name.span, message, f"the first is in {first.source.name}")


def check_inputs(
    checker: Checker,
    bases: Sequence[syntax.Name],
    fixtures: Sequence[syntax.Fixture],
    declared: Mapping[str, DeclaredFixture],
) -> TestInputs | None:
    """What a test is given; None after a mistake that was reported."""
    start: TestInputs | None = TestInputs()
    for base in bases:
        inputs = _find_fixture(checker, base, declared)
        start = None if inputs is None or start is None else inputs.build_on(start)
    own = _check_own_inputs(checker, fixtures)
    if start is None or own is None:
        return None
    removed_facts = _check_removed(checker, fixtures, start)
    if removed_facts is None:
        return None
    rest = {key: fact for key, fact in start.facts.items() if key not in removed_facts}
    inputs = own.build_on(replace(start, facts=rest))
    if len(inputs.facts) > MAX_FACTS:
        place = bases[-1].span if bases else fixtures[-1].span
        checker.error("bad-fixture", place, f"a test has at most {MAX_FACTS:,} facts, this has {len(inputs.facts):,}")
        return None
    return inputs


def _find_fixture(checker: Checker, name: syntax.Name, declared: Mapping[str, DeclaredFixture]) -> TestInputs | None:
    fixture = declared.get(name.text)
    if fixture is None:
        message = f"there is no fixture `{name.text}` here"
        hint = checker.shared.suggestions.suggest(name.text, declared)
        checker.error("unknown-fixture", name.span, message, hint or "a fixture stands before those that start from it")
        return None
    return fixture.inputs


def _check_own_inputs(checker: Checker, fixtures: Sequence[syntax.Fixture]) -> TestInputs | None:
    before = len(checker.findings.errors)
    product = _require_one(
        checker, [fixture for fixture in fixtures if isinstance(fixture, syntax.ProductFixture)], "product"
    )
    issued = _require_one(
        checker, [fixture for fixture in fixtures if isinstance(fixture, syntax.IssuedFixture)], "issued"
    )
    fact_fixtures = [fixture for fixture in fixtures if isinstance(fixture, syntax.FactFixture)]
    facts = require_all([_check_fact(checker, fixture) for fixture in fact_fixtures])
    _report_duplicate_facts(checker, fact_fixtures)
    if issued is not None:
        literals.check_calendar_day(checker, issued.day.value, issued.day.span)
    if len(checker.findings.errors) > before or facts is None:
        return None
    return TestInputs(
        None if product is None else (product.sku.value, product.name.value),
        None if issued is None else issued.day.value,
        {(fact.fact.name, fact.key): fact for fact in facts},
    )


def _check_removed(checker: Checker, fixtures: Sequence[syntax.Fixture], start: TestInputs) -> set[_FactKey] | None:
    """The facts that a test takes away from those it starts from."""
    removed_facts = [fixture for fixture in fixtures if isinstance(fixture, syntax.RemovedFact)]
    keys = [(fixture.fact_type.value.partition("@")[0], fixture.key.value) for fixture in removed_facts]
    unknown = [fixture for fixture, key in zip(removed_facts, keys, strict=True) if key not in start.facts]
    for fixture in unknown:
        message = f"no fixture gives a fact `{fixture.key.value[:80]}` of type `{fixture.fact_type.value[:80]}`"
        checker.error("bad-fixture", fixture.span, message, "`without` takes away a fact of a fixture after `with`")
    return None if unknown else set(keys)


def _require_one(checker: Checker, fixtures: Sequence[_T], word: str) -> _T | None:
    for again in fixtures[1:]:
        message = f"a test has at most one `{word}`"
        checker.error("bad-fixture", again.span, message, None, DiagnosticNote(fixtures[0].span, "the first is here"))
    return fixtures[0] if fixtures else None


def _report_duplicate_facts(checker: Checker, fact_fixtures: Sequence[syntax.FactFixture]) -> None:
    """A snapshot can contain only one fact of each type and key."""
    seen: dict[tuple[str, str], Span] = {}
    for fact in fact_fixtures:
        key = fact.fact_type.value.partition("@")[0], fact.key.value
        first = seen.setdefault(key, fact.span)
        if first is not fact.span:
            message = f"there are two facts `{key[1][:80]}` of type `{key[0][:80]}`"
            checker.error("bad-fixture", fact.key.span, message, None, DiagnosticNote(first, "the first is here"))


def _check_fact(checker: Checker, node: syntax.FactFixture) -> typed.FixtureFact | None:
    fact = functions.resolve_fact_type(checker, node.fact_type.value, node.fact_type.span)
    if node.payload is None:
        return None if fact is None else typed.FixtureFact(fact, node.key.value, None, node.span)
    payload = read_json_value(checker, node.payload)
    if fact is None or not isinstance(payload, dict):
        return None
    _check_members(checker, fact, node.key.value, node.payload, payload)
    return typed.FixtureFact(fact, node.key.value, payload, node.span)


def _check_members(
    checker: Checker, fact: FactRecordType, key: str, node: syntax.JsonObject, payload: dict[str, Json]
) -> None:
    known = checker.shared.get_members(fact)
    for name, value in node.members:
        if name.value not in known:
            message = f"{checker.format_type(fact)} has no member `{name.value[:80]}`, so no rule can read it"
            hint = checker.shared.suggestions.suggest(name.value, known)
            checker.findings.warning("unread-member", name.span, message, hint)
            continue
        try:
            check_member(fact, key, name.value, payload[name.value])
        except FactInvalid as error:
            checker.error("bad-fixture", value.span, error.says)


def read_json_value(checker: Checker, node: syntax.JsonValue) -> Json:
    match node:
        case syntax.JsonAtom(value):
            return value
        case syntax.JsonList(items):
            return [read_json_value(checker, item) for item in items]
        case syntax.JsonObject(members):
            return _read_object(checker, members)
        case syntax.ColumnRef():
            raise TypeError("a column stands for no value outside its table")


def _read_object(checker: Checker, members: Sequence[tuple[syntax.TextLiteral, syntax.JsonValue]]) -> dict[str, Json]:
    explain.report_duplicate_members(checker, [name for name, _ in members])
    return {name.value: read_json_value(checker, value) for name, value in members}


# Tables


class CellUnfit(Exception):
    """A cell that cannot stand where its column does; `span` is the cell's."""

    def __init__(self, message: str, span: Span) -> None:
        super().__init__(message)
        self.span = span


Cells = Mapping[str, syntax.Constant]


def fill_fixture(fixture: syntax.Fixture, cells: Cells) -> syntax.Fixture:
    """The fixture with the cells of a row in place of the columns."""
    match fixture:
        case syntax.ProductFixture():
            return change_node(fixture, sku=fill_text(fixture.sku, cells), name=fill_text(fixture.name, cells))
        case syntax.IssuedFixture():
            return change_node(fixture, day=fill_text(fixture.day, cells))
        case syntax.RemovedFact():
            return change_node(
                fixture, fact_type=fill_text(fixture.fact_type, cells), key=fill_text(fixture.key, cells)
            )
        case syntax.FactFixture():
            payload = None if fixture.payload is None else cast("syntax.JsonObject", fill_json(fixture.payload, cells))
            fact_type, key = fill_text(fixture.fact_type, cells), fill_text(fixture.key, cells)
            return change_node(fixture, fact_type=fact_type, key=key, payload=payload)


def fill_expectation(expectation: syntax.AnyExpectation, cells: Cells, row: Span) -> syntax.AnyExpectation:
    """The same for an expectation, which then stands for its row."""
    match expectation:
        case syntax.Expectation():
            return change_node(expectation, constant=_fill_constant(expectation.constant, cells), span=row)
        case syntax.ErrorExpectation():
            return change_node(expectation, code=fill_text(expectation.code, cells), span=row)
        case syntax.FindingExpectation():
            status = None if expectation.status is None else fill_text(expectation.status, cells)
            message = None if expectation.message is None else fill_text(expectation.message, cells)
            verdict = None if expectation.verdict is None else fill_text(expectation.verdict, cells)
            args = None if expectation.args is None else cast("syntax.JsonObject", fill_json(expectation.args, cells))
            code = fill_text(expectation.code, cells)
            return change_node(
                expectation, code=code, status=status, message=message, verdict=verdict, args=args, span=row
            )


def fill_text(text: syntax.TextLiteral, cells: Cells) -> syntax.TextLiteral:
    if not isinstance(text, syntax.ColumnRef):
        return text
    cell = cells[text.value]
    if isinstance(cell, syntax.DateLiteral):
        return cell.text
    if not isinstance(cell, syntax.TextLiteral):
        raise CellUnfit(f"the column `{text.value}` stands for a text, so this cell has to be one", cell.span)
    return cell


def _fill_constant(constant: syntax.Constant, cells: Cells) -> syntax.Constant:
    match constant:
        case syntax.ColumnRef(name):
            return cells[name]
        case syntax.SomeConstant(item):
            return change_node(constant, item=_fill_constant(item, cells))
        case syntax.ListConstant(items):
            return change_node(constant, items=tuple(_fill_constant(item, cells) for item in items))
        case syntax.RecordConstant(members):
            return change_node(constant, members=tuple((name, _fill_constant(item, cells)) for name, item in members))
        case _:
            return constant


def fill_json(value: syntax.JsonValue, cells: Cells) -> syntax.JsonValue:
    match value:
        case syntax.ColumnRef(name):
            return _convert_to_json(cells[name])
        case syntax.JsonList(items):
            return change_node(value, items=tuple(fill_json(item, cells) for item in items))
        case syntax.JsonObject(members):
            return change_node(value, members=tuple((name, fill_json(item, cells)) for name, item in members))
        case _:
            return value


def _convert_to_json(cell: syntax.Constant) -> syntax.JsonValue:  # noqa: PLR0911 - one row a constant
    """A constant as a document says it: a number with decimals is a text."""
    span = cell.span
    match cell:
        case syntax.SomeConstant(item):
            return _convert_to_json(item)
        case syntax.ListConstant(items):
            return syntax.JsonList(tuple(_convert_to_json(item) for item in items), span=span)
        case syntax.RecordConstant(members):
            texts = ((syntax.TextLiteral(name.text, span=name.span), item) for name, item in members)
            return syntax.JsonObject(tuple((name, _convert_to_json(item)) for name, item in texts), span=span)
        case syntax.QuantityLiteral(amount):
            return _convert_to_json(amount)
        case syntax.DateLiteral(text):
            return syntax.JsonAtom(text.value, span=span)
        case syntax.VariableRef(member):
            return syntax.JsonAtom(member, span=span)
        case syntax.NumberLiteral(digits, negative):
            number = f"-{digits}" if negative else digits
            return syntax.JsonAtom(number if "." in digits else int(number), span=span)
        case syntax.NoneLiteral():
            return syntax.JsonAtom(None, span=span)
        case syntax.TextLiteral(value) | syntax.BoolLiteral(value):
            return syntax.JsonAtom(value, span=span)
