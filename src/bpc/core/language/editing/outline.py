"""The items of a file as an editor lists them; which tests there are of each, and how they ended.

Pure. A test is of a field if it expects something of it, and of a requirement if it expects its finding. Results are
those of the last run; a package that changed since shows counts only.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from bpc.core.language import syntax
from bpc.core.language.editing.occurrences import SymbolKind, get_kind
from bpc.core.language.editing.places import CheckedPlace, get_item_name, list_items_of, list_texts
from bpc.core.language.package import PackageReading
from bpc.core.language.source import Span


class OutlineEntry(NamedTuple):
    """An item of a file, or a member of an enumeration; the spans are in the checked text."""

    name: str
    kind: SymbolKind
    detail: str
    span: Span
    name_span: Span
    parts: "tuple[OutlineEntry, ...]" = ()


def list_outline(place: CheckedPlace) -> list[OutlineEntry]:
    """What the file around a place contains, in its order."""
    return [_outline_item(item, place.source.text) for item in list_items_of(place)]


def _outline_item(item: syntax.Item, text: str) -> OutlineEntry:
    name = get_item_name(item)
    parts: tuple[OutlineEntry, ...] = ()
    if isinstance(item, syntax.EnumDeclaration):
        parts = tuple(
            OutlineEntry(member.name.text, "member", "", member.span, member.name.span) for member in item.members
        )
    return OutlineEntry(name.text, get_kind(item), _find_detail(item, text), item.span, name.span, parts)


def _find_detail(item: syntax.Item, text: str) -> str:  # noqa: PLR0911 (one row a kind of item)
    match item:
        case syntax.Rule(type=kind) | syntax.FunctionDefinition(type=kind) | syntax.TableDeclaration(type=kind):
            return text[kind.span.start : kind.span.end]
        case syntax.Definition(is_constant=is_constant):
            return "constant" if is_constant else "definition"
        case syntax.Requirement():
            return "requirement"
        case syntax.CaseTable(rows=rows):
            return f"{len(rows)} cases"
        case syntax.Example():
            return "example"
        case syntax.Property(cases=cases):
            return f"property of {cases.digits} cases"
        case _:
            return ""


class TestOutcome(NamedTuple):
    """How tests ended: how many cases ran, the tests that failed, and the fields that no test reached."""

    cases: int
    failed_tests: frozenset[str]
    unreached_fields: frozenset[str]


class LensText(NamedTuple):
    """A line above an item: what it says, and the tests it is about."""

    span: Span
    words: str
    tests: tuple[str, ...]


def list_lenses(reading: PackageReading, place: CheckedPlace, run: TestOutcome | None) -> list[LensText]:
    """What stands above the items of a file."""
    tests = index_tests(reading)
    lenses = []
    for item in list_items_of(place):
        name = get_item_name(item)
        if isinstance(item, syntax.Rule | syntax.Requirement):
            names = tests.get(name.text, {})
            lenses.append(LensText(name.span, _describe(names, run, item), tuple(names)))
        elif isinstance(item, syntax.Example | syntax.CaseTable | syntax.Property):
            names = {name.text: _count_cases(item)}
            lenses.append(LensText(name.span, _describe(names, run, item), (name.text,)))
    return lenses


def index_tests(reading: PackageReading) -> Mapping[str, Mapping[str, int]]:
    """By field path and by code: the tests that expect something of it, and the cases of each."""
    index: dict[str, dict[str, int]] = defaultdict(dict)
    for text, _ in list_texts(reading):
        for item in text.parsed.tree.items:
            for target in _list_targets(item):
                index[target][get_item_name(item).text] = _count_cases(item)
    return index


def _list_targets(item: syntax.Item) -> Iterator[str]:
    if not isinstance(item, syntax.Example | syntax.CaseTable):
        return
    for expectation in item.expectations:
        if isinstance(expectation, syntax.Expectation):
            yield expectation.dotted
        elif isinstance(expectation, syntax.FindingExpectation):
            yield expectation.code.value


def _count_cases(item: syntax.Item) -> int:
    return len(item.rows) if isinstance(item, syntax.CaseTable) else 1


def _describe(tests: Mapping[str, int], run: TestOutcome | None, item: syntax.Item) -> str:
    if not tests:
        is_unreached = run is not None and get_item_name(item).text in run.unreached_fields
        return "no test, and none reaches it" if is_unreached else "no test"
    cases = sum(tests.values())
    counts = (
        f"{cases} cases in {_format_count(len(tests), 'test')}"
        if cases > len(tests)
        else _format_count(len(tests), "test")
    )
    if run is None:
        return counts
    failures = count_failed(tests, run.failed_tests)
    return f"{failures} of {counts} failed" if failures else f"{counts} passed"


def count_failed(tests: Collection[str], failed_tests: Collection[str]) -> int:
    """How many failed; a row of a table is called `name[3]`."""
    return sum(test.partition("[")[0] in tests for test in failed_tests)


def _format_count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
