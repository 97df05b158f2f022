"""Check tables of cases: an example for each row.

A package has thousands of rows, and most of their cells are alike. The first row is checked as an example. What another
row adds depends on the cells of the places where its columns stand: a member of a fact, a day, an expectation. A place
that was checked with the same cells needs no other check, and a row whose places all hold becomes an example when
somebody asks for it. A row that does not hold is checked as an example: its mistakes are those of an example.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from functools import partial
from typing import Any, TypeAlias, overload

from bpc.core.facts.fact_table import FactInvalid, check_member
from bpc.core.language import syntax, typed
from bpc.core.language.checking import functions, literals
from bpc.core.language.checking.context import Checker, Findings
from bpc.core.language.checking.fixtures import (
    Cells,
    CellUnfit,
    fill_expectation,
    fill_fixture,
    fill_json,
    fill_text,
    read_json_value,
)
from bpc.core.language.source import DiagnosticNote, Span, TooManyErrors


class DeferredExample:
    """An example of a row that holds, made when it is first asked for."""

    __slots__ = ("_example", "_make")

    def __init__(self, make: Callable[[], typed.TypedExample]) -> None:
        self._make = make
        self._example: typed.TypedExample | None = None

    def get(self) -> typed.TypedExample:
        if self._example is None:
            self._example = self._make()
        return self._example


AnyExample: TypeAlias = typed.TypedExample | DeferredExample


class ExampleList(Sequence[typed.TypedExample]):
    """The examples of a package; one that is deferred is made when it is read."""

    __slots__ = ("_examples",)

    def __init__(self, examples: Sequence[AnyExample]) -> None:
        self._examples = examples

    def __len__(self) -> int:
        return len(self._examples)

    @overload
    def __getitem__(self, index: int) -> typed.TypedExample: ...
    @overload
    def __getitem__(self, index: slice) -> "ExampleList": ...
    def __getitem__(self, index: int | slice) -> "typed.TypedExample | ExampleList":
        if isinstance(index, slice):
            return ExampleList(self._examples[index])
        return _make_example(self._examples[index])

    def __iter__(self) -> Iterator[typed.TypedExample]:
        return map(_make_example, self._examples)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return tuple(self).__hash__()


def _make_example(example: AnyExample) -> typed.TypedExample:
    return example.get() if isinstance(example, DeferredExample) else example


class UnreadExamples(Sequence[typed.TypedExample]):
    """So many examples, which `read` gives when somebody asks for one."""

    __slots__ = ("_count", "_examples", "_read")

    def __init__(self, count: int, read: Callable[[], Sequence[typed.TypedExample]]) -> None:
        self._count = count
        self._read = read
        self._examples: Sequence[typed.TypedExample] | None = None

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> typed.TypedExample: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[typed.TypedExample]: ...
    def __getitem__(self, index: int | slice) -> typed.TypedExample | Sequence[typed.TypedExample]:
        if self._examples is None:
            self._examples = self._read()
        return self._examples[index]


class _Place:
    """Where columns stand; `check` says whether the cells of a row can stand there."""

    __slots__ = ("_check", "_columns", "_known")

    def __init__(self, columns: Sequence[int], check: Callable[[Cells], bool]) -> None:
        self._columns = columns
        self._check = check
        self._known: set[tuple[str, ...]] = set()

    def holds(self, texts: Sequence[str], cells: Cells) -> bool:
        key = tuple([texts[column] for column in self._columns])
        if key in self._known:
            return True
        if not self._check(cells):
            return False
        self._known.add(key)
        return True


class CheckedTable(ABC):
    """A table of cases, and how its examples are checked."""

    def __init__(self, checker: Checker, table: syntax.CaseTable) -> None:
        self._checker = checker
        self._table = table
        self._names = [column.text for column in table.columns]
        # Finds out whether something holds; what it reports is nobody's.
        self._silent = Checker(checker.shared, Findings(checker.findings.source), checker.handlers, in_rules=False)

    @abstractmethod
    def check_example(self, checker: Checker, node: syntax.Example) -> typed.TypedExample | None:
        """The example; None after a mistake that was reported."""

    @abstractmethod
    def check_expectation(self, checker: Checker, node: syntax.AnyExpectation) -> bool:
        """Whether the expectation holds; else its mistake was reported."""

    def check(self) -> list[AnyExample] | None:
        """An example for each row; None after a mistake that was reported."""
        table, findings = self._table, self._checker.findings
        self._check_columns()
        if not table.rows:
            message, hint = f"the table `{table.name.text}` has no row", "add a row: a cell for each column, then `;`"
            self._checker.error("nothing-expected", table.name.span, message, hint)
        text = findings.source.text
        examples: list[AnyExample | None] = [] if table.rows else [None]
        places: list[_Place] | None = None
        for index, row in enumerate(table.rows):
            if places is not None and len(row.cells) == len(self._names):
                cells = dict(zip(self._names, row.cells, strict=True))
                texts = [text[cell.span.start : cell.span.end] for cell in row.cells]
                if all(place.holds(texts, cells) for place in places):
                    examples.append(self._defer(index))
                    continue
            count_before = findings.count()
            examples.append(self._check_row(row, index))
            if places is None and examples[-1] is not None and findings.count() == count_before:
                places = self._list_places()
        return None if None in examples else [example for example in examples if example is not None]

    def defer_all(self) -> list[AnyExample]:
        """An example for each row of a table that was checked before."""
        return [self._defer(index) for index in range(len(self._table.rows))]

    def _defer(self, index: int) -> DeferredExample:
        return DeferredExample(partial(self._make, index))

    def _make(self, index: int) -> typed.TypedExample:
        example = self.check_example(self._silent, self._fill_row(self._table.rows[index], index))
        if example is None:
            raise AssertionError(f"row {index + 1} of `{self._table.name.text}` was checked and has a mistake")
        return example

    def _check_row(self, row: syntax.CaseRow, index: int) -> typed.TypedExample | None:
        try:
            return self.check_example(self._checker, self._fill_row(row, index))
        except CellUnfit as unfit:
            self._checker.error("wrong-cells", unfit.span, str(unfit))
            return None

    def _fill_row(self, row: syntax.CaseRow, index: int) -> syntax.Example:
        table = self._table
        if len(row.cells) != len(self._names):
            message = f"cells in this row: {len(row.cells)}, columns of the table: {len(self._names)}"
            raise CellUnfit(message, row.span)
        cells = dict(zip(self._names, row.cells, strict=True))
        return syntax.Example(
            syntax.Name(f"{table.name.text}[{index + 1}]", span=row.span),
            tuple(fill_fixture(fixture, cells) for fixture in table.fixtures),
            tuple(fill_expectation(expectation, cells, row.span) for expectation in table.expectations),
            table.bases,
            span=row.span,
        )

    def _check_columns(self) -> None:
        table, checker = self._table, self._checker
        first: dict[str, Span] = {}
        used_columns = {column.value for part in (table.fixtures, table.expectations) for column in _list_columns(part)}
        for column in table.columns:
            if first.setdefault(column.text, column.span) is not column.span:
                note = DiagnosticNote(first[column.text], "the first is here")
                checker.error("shadowed-name", column.span, f"there are two columns `{column.text}`", None, note)
            elif column.text not in used_columns:
                message = f"the column `{column.text}` is never used"
                checker.findings.warning("unused-column", column.span, message, "use it in a fact or an expectation")

    # Places of columns

    def _list_places(self) -> list[_Place] | None:
        """Every place where a column stands; None if a column says which fact it is about: that concerns all facts."""
        places: list[_Place] = []
        for fixture in self._table.fixtures:
            if isinstance(fixture, syntax.FactFixture | syntax.RemovedFact) and [
                *_list_columns((fixture.fact_type, fixture.key))
            ]:
                return None
            if isinstance(fixture, syntax.FactFixture) and fixture.payload is not None:
                for name, value in fixture.payload.members:
                    places += self._make_place(value, partial(self._holds_member, fixture, name.value, value))
            elif isinstance(fixture, syntax.ProductFixture | syntax.IssuedFixture):
                places += self._make_place(fixture, partial(self._holds_fixture, fixture))
        for expectation in self._table.expectations:
            places += self._make_place(expectation, partial(self._holds_expectation, expectation))
        return places

    def _make_place(self, node: Any, check: Callable[[Cells], bool]) -> list[_Place]:
        """A place for what refers to columns."""
        columns = sorted({self._names.index(column.value) for column in _list_columns(node)})
        return [_Place(columns, partial(self._holds_silently, check))] if columns else []

    def _holds_silently(self, check: Callable[[Cells], bool], cells: Cells) -> bool:
        try:
            if check(cells) and not self._silent.findings.count():
                return True
        except (CellUnfit, FactInvalid, TooManyErrors):
            pass
        self._silent = Checker(
            self._checker.shared, Findings(self._checker.findings.source), self._checker.handlers, in_rules=False
        )
        return False

    def _holds_member(self, fact: syntax.FactFixture, name: str, value: syntax.JsonValue, cells: Cells) -> bool:
        kind = functions.resolve_fact_type(self._silent, fact.fact_type.value, fact.fact_type.span)
        if kind is None:
            return False
        check_member(kind, fact.key.value, name, read_json_value(self._silent, fill_json(value, cells)))
        return True

    def _holds_fixture(self, fixture: syntax.ProductFixture | syntax.IssuedFixture, cells: Cells) -> bool:
        if isinstance(fixture, syntax.IssuedFixture):
            day = fill_text(fixture.day, cells)
            literals.check_calendar_day(self._silent, day.value, day.span)
        else:
            fill_fixture(fixture, cells)
        return True

    def _holds_expectation(self, expectation: syntax.AnyExpectation, cells: Cells) -> bool:
        return self.check_expectation(self._silent, fill_expectation(expectation, cells, expectation.span))


def _list_columns(node: Any) -> Iterator[syntax.ColumnRef]:
    if isinstance(node, tuple):
        for part in node:
            yield from _list_columns(part)
    elif isinstance(node, syntax.ColumnRef):
        yield node
    elif isinstance(node, syntax.SyntaxNode):
        for part in fields(node):
            yield from _list_columns(getattr(node, part.name))
