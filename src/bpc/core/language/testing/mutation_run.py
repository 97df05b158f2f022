"""Try mutants: which tests can notice a change, and whether one of them does.

Pure. A test can notice a change of what it depends on: of the fields and findings that it expects something of, and of
all they need. Expectations nearest to the change run first, a few at a time, on a program that has only what they
depend on: most changes are noticed by one of the first, and a program of ten rules is checked in a hundredth of the
time of one of a thousand. One that fails is enough, so the rest is not run.

    tests, items ── TestReach ──► tests of an item, nearest first ── MutationRun.judge ──► Verdict

A change that lets a rule end with an error may be noticed by tests of something else, too. They are not run for it.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, TypeAlias

from bpc.core.errors import Refusal
from bpc.core.language import syntax
from bpc.core.language.checking.overrides import drop_overridden
from bpc.core.language.checking.requirements import REQUIREMENTS_PATH
from bpc.core.language.package import PackageTexts, check, read_program
from bpc.core.language.parsing.parse import parse
from bpc.core.language.source import Source
from bpc.core.language.testing.generation import collect_fact_usage
from bpc.core.language.testing.mutation import TESTS, Mutant, Verdict, list_mutants
from bpc.core.language.testing.report import index_emitters
from bpc.core.language.testing.run import find_failing_test, trace_tests
from bpc.core.language.typed import (
    Program,
    TypedErrorExpectation,
    TypedExample,
    TypedExpectation,
    TypedProperty,
)

Test: TypeAlias = TypedExample | TypedProperty

MAX_TESTS_NAMED: Final = 5
# So many tests are tried on one program first, then so many times more on the next.
_FIRST_TESTS: Final = 4
_MORE_TESTS: Final = 4


class BaselineFailed(Refusal):
    """The tests fail on the rules as they are, so that they fail on a mutant proves nothing."""

    code = "RULE_TESTS_FAILED"

    def __init__(self, tests: Sequence[str]) -> None:
        test_names = ", ".join(f"`{test}`" for test in tests[:MAX_TESTS_NAMED])
        more = f" and {len(tests) - MAX_TESTS_NAMED:,} more" if len(tests) > MAX_TESTS_NAMED else ""
        says = f"tests fail before anything is changed: {test_names}{more}"
        super().__init__(says, fix="`bpc rules test` shows why", details={"tests": list(tests)})


# What depends on what


class ItemGraph:
    """Which items of the rules each of them names. An item is its position."""

    def __init__(self, items: Sequence[syntax.Item]) -> None:
        self._names: dict[str, set[int]] = {}
        for position, item in enumerate(items):
            for name in _list_declared_names(item):
                self._names.setdefault(name, set()).add(position)
        self._edges = [self.find(_list_references(item)) - {position} for position, item in enumerate(items)]
        self._distances: dict[int, dict[int, int]] = {}

    def find(self, names: Iterable[str]) -> set[int]:
        """The items that these names may mean."""
        nothing: set[int] = set()
        return nothing.union(*(self._names.get(name, nothing) for name in names))

    def measure(self, root: int) -> Mapping[int, int]:
        """How many steps away each item is that `root` depends on; itself is none away."""
        if root not in self._distances:
            distances = {root: 0}
            pending = [root]
            for item in pending:
                for other in self._edges[item]:
                    if other not in distances:
                        distances[other] = distances[item] + 1
                        pending.append(other)
            self._distances[root] = distances
        return self._distances[root]


def _list_declared_names(item: syntax.Item) -> Iterator[str]:
    match item:
        case syntax.Rule():
            yield item.dotted
        case syntax.Requirement():
            yield REQUIREMENTS_PATH
            yield _name_requirement(item.code.text)
        case syntax.EnumDeclaration():
            yield item.name.text
            yield from (member.name.text for member in item.members)
        case _:
            yield item.name.text


def _name_requirement(code: str) -> str:
    """A name that no rule can write."""
    return f"require {code}"


def _list_references(node: Any) -> Iterator[str]:
    """Every name that may stand for an item, and the paths of fields that are read."""
    if isinstance(node, tuple):
        for part in node:
            yield from _list_references(part)
    elif isinstance(node, syntax.FieldRef):
        yield node.path.value
    elif isinstance(node, syntax.Member):
        yield from _list_references(node.record)
        yield node.member.text  # `Category.EV`
    elif isinstance(node, syntax.Name):
        yield node.text
    elif isinstance(node, syntax.SyntaxNode | syntax.ChainLink):
        if isinstance(node, syntax.VariableRef | syntax.SimpleType):
            yield node.name
        for part in fields(node):
            yield from _list_references(getattr(node, part.name))


class TestReach:
    """The items that each test looks at, and so the tests that can notice a change of an item.

    A test is here a property, or an example with one expectation.
    """

    __test__ = False

    def __init__(self, program: Program, graph: ItemGraph, properties: Iterable[syntax.Property]) -> None:
        self._graph = graph
        # An expectation by itself: of a test that expects a hundred things, one or two can notice a change.
        self._tests: tuple[Test, ...] = (
            *(replace(test, expectations=(each,)) for test in program.examples for each in test.expectations),
            *program.properties,
        )
        self._paths = [field.path for field in program.fields]
        self._emitters = index_emitters(program)
        nodes = {node.name.text: node for node in properties}
        self._roots = [frozenset(graph.find(self._list_names(test, nodes))) for test in self._tests]
        # Of tests that are equally near, those that depend on less: their programs are smaller.
        self._sizes = {
            roots: len({item for root in roots for item in graph.measure(root)}) for roots in set(self._roots)
        }
        self._tests_of_root: dict[int, list[int]] = {}
        for number, roots in enumerate(self._roots):
            for root in roots:
                self._tests_of_root.setdefault(root, []).append(number)

    def _list_names(self, test: Test, properties: Mapping[str, syntax.Property]) -> Iterator[str]:
        if isinstance(test, TypedProperty):
            yield from _list_references(properties[test.name])
            return
        for expectation in test.expectations:
            if isinstance(expectation, TypedExpectation):
                yield expectation.path
            elif isinstance(expectation, TypedErrorExpectation):
                yield from self._paths
            else:
                yield _name_requirement(expectation.code)
                yield from (path for path in self._emitters.get(expectation.code, ()) if path != REQUIREMENTS_PATH)

    def list_tests(self, item: int, tracing: frozenset[str] | None) -> list[int]:
        """The tests that can notice a change of an item, the nearest first; of a field, those that computed it."""
        distances: dict[int, int] = {}
        for root, numbers in self._tests_of_root.items():
            distance = self._graph.measure(root).get(item)
            if distance is not None:
                for number in numbers:
                    distances[number] = min(distance, distances.get(number, distance))
        numbers = [number for number in distances if tracing is None or self._tests[number].name in tracing]
        return sorted(numbers, key=lambda number: (distances[number], self._sizes[self._roots[number]], number))

    def get_tests(self, numbers: Sequence[int]) -> list[Test]:
        return [self._tests[number] for number in numbers]

    def list_items(self, numbers: Iterable[int]) -> set[int]:
        """All items that some tests depend on."""
        return {item for number in numbers for root in self._roots[number] for item in self._graph.measure(root)}


# Judging


@dataclass(frozen=True, slots=True)
class Baseline:
    """The tests that compute each field."""

    tests_of_field: Mapping[str, frozenset[str]]


class MutationRun:
    """A package and its mutants. `RulesRefused` if the package has errors."""

    def __init__(self, texts: PackageTexts, *, seed: int = 0) -> None:
        self._seed = seed
        self._program = read_program(texts.rules, texts.tests, name=texts.rules_name, tests_name=texts.tests_name)
        self.source = self._program.source
        tree = drop_overridden(parse(self.source).tree, self.source)
        self.mutants = list_mutants(tree, self.source)
        self._rules = replace(tree, items=tuple(item for item in tree.items if not isinstance(item, TESTS)))
        self._starts = [item.span.start for item in self._rules.items]
        tests_source = Source(texts.tests_name, texts.tests.decode())
        beside = drop_overridden(parse(tests_source, tests_only=True, language=tree.language).tree, tests_source)
        # No change names another fact or member, so what the tests need of them is the same for all mutants.
        self._usage = collect_fact_usage(self._program)
        self._types = {definition.name: definition.type for definition in self._program.definitions}
        properties = [item for item in (*tree.items, *beside.items) if isinstance(item, syntax.Property)]
        self._graph = ItemGraph(self._rules.items)
        self._reach = TestReach(self._program, self._graph, properties)
        self._tests_of_item: dict[int, list[int]] = {}

    def run_baseline(self) -> Baseline:
        """Run every test on the rules as they are; `BaselineFailed` if one of them fails."""
        footprints = list(trace_tests(self._program, seed=self._seed))
        if failing := [footprint.test for footprint in footprints if footprint.failed]:
            raise BaselineFailed(failing)
        tests_of_field: dict[str, set[str]] = {}
        for test, paths, _ in footprints:
            for path in paths:
                tests_of_field.setdefault(path, set()).add(test)
        return Baseline({path: frozenset(tests) for path, tests in tests_of_field.items()})

    def judge(self, mutant: Mutant, baseline: Baseline) -> Verdict:
        position = bisect_right(self._starts, mutant.change.span.start) - 1
        item = self._parse_mutant(mutant, position)
        if item is None:
            return "invalid"
        numbers = self._list_tests(position, baseline)
        kept_items = {*self._graph.measure(position), *self._reach.list_items(numbers[:_FIRST_TESTS])}
        program = self._check_mutant(position, item, kept_items)
        if program is None or not self._fits_others(position, item, program):
            return "invalid"
        done, count = 0, _FIRST_TESTS
        while done < len(numbers):
            chunk = numbers[done : done + count]
            done, count = done + count, count * _MORE_TESTS
            if not kept_items.issuperset(items := self._reach.list_items(chunk)):
                kept_items |= items
                program = self._check_mutant(position, item, kept_items)
                if program is None:
                    return "invalid"
            if find_failing_test(program, self._reach.get_tests(chunk), self._usage, seed=self._seed) is not None:
                return "noticed"
        return "survived"

    def _list_tests(self, position: int, baseline: Baseline) -> list[int]:
        if position not in self._tests_of_item:
            item = self._rules.items[position]
            tracing = baseline.tests_of_field.get(item.dotted, frozenset()) if isinstance(item, syntax.Rule) else None
            self._tests_of_item[position] = self._reach.list_tests(position, tracing)
        return self._tests_of_item[position]

    def _parse_mutant(self, mutant: Mutant, position: int) -> syntax.Item | None:
        """The changed item. The places in it are not those of the text, but nothing asks for them."""
        (start, end), words, _ = mutant.change
        item, text = self._rules.items[position], self.source.text
        mutant_text = f"{text[item.span.start : start]}{words}{text[end : item.span.end]}"
        mutant_tree = parse(Source("mutant", mutant_text), language=self._rules.language)
        return None if mutant_tree.diagnostics or len(mutant_tree.tree.items) != 1 else mutant_tree.tree.items[0]

    def _check_mutant(self, position: int, item: syntax.Item, kept_items: set[int]) -> Program | None:
        """The changed rules, of which only some are kept, with the tests as they are."""
        items = tuple(item if at == position else self._rules.items[at] for at in sorted(kept_items))
        program = check(self.source, replace(self._rules, items=items)).program
        if program is None:
            return None
        return replace(program, examples=self._program.examples, properties=self._program.properties)

    def _fits_others(self, position: int, item: syntax.Item, program: Program) -> bool:
        """Whether the rules that are not kept stay valid: a definition may have got another type."""
        if not isinstance(item, syntax.Definition) or item.type is not None:
            return True
        kind = next(definition.type for definition in program.definitions if definition.name == item.name.text)
        if kind == self._types[item.name.text]:
            return True
        return self._check_mutant(position, item, set(range(len(self._rules.items)))) is not None
