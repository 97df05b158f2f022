"""Mutation: which small changes of the rules no test notices.

Pure. A mutant is the rules' text with one place changed: an operator, a comparison, a constant, a condition.
Tests that are worth something fail on it. A mutant that the checker refuses is no mutant: nobody could publish it.

    texts ── MutationRun ──► mutants ── judge ──► noticed | survived | invalid ──► MutationReport

A mutant is tried against the tests that compute its field; all the others would give what they gave before. One failing
test is enough, so the rest is not run. The same texts, seed and limit give the same report on every machine.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import date, timedelta
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from bpc.core.errors import Refusal
from bpc.core.formats import canonical_json
from bpc.core.language import syntax
from bpc.core.language.checking.overrides import drop_overridden, get_item_name
from bpc.core.language.package import PackageTexts, check, read_program
from bpc.core.language.parsing.parse import parse
from bpc.core.language.source import Source, Span, span_to_json
from bpc.core.language.testing.generation import collect_fact_usage
from bpc.core.language.testing.run import find_failing_test, trace_tests
from bpc.core.language.typed import Program

Verdict: TypeAlias = Literal["noticed", "survived", "invalid"]

_OPERATORS: Final[Mapping[str, str]] = {
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "==": "!=",
    "!=": "==",
    "+": "-",
    "-": "+",
    "*": "/",
    "/": "*",
    "&&": "||",
    "||": "&&",
}
_FUNCTIONS: Final[Mapping[str, str]] = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "first": "last",
    "last": "first",
    "startsWith": "endsWith",
    "endsWith": "startsWith",
    "laterOf": "earlierOf",
    "latestOf": "earlierOf",
    "earlierOf": "laterOf",
}
# Where a text is a value that something is paths from or compared with, and no name, code or sentence.
_PARENTS_OF_VALUES: Final = (
    *(syntax.Rule, syntax.Let, syntax.Block, syntax.Branch, syntax.If, syntax.Lambda),
    *(syntax.Comparison, syntax.ListLiteral, syntax.RecordLiteral, syntax.MatchArm),
)
# The field that all requirements of a package belong to.
_REQUIREMENTS_FIELD: Final = "requirements.met"
_TESTS: Final = (syntax.Example, syntax.CaseTable, syntax.Property, syntax.SharedFixture)


MAX_TESTS_NAMED: Final = 5


class Change(NamedTuple):
    """Other words for one place, and what they change, in a sentence."""

    span: Span
    words: str
    says: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of the rules, and the name of the field or definition it is in."""

    number: int
    item: str
    change: Change


def list_mutants(tree: syntax.SyntaxTree, source: Source) -> list[Mutant]:
    """Every change of the rules, in the order of the text."""
    places = [
        (get_item_name(item), change)
        for item in tree.items
        if not isinstance(item, _TESTS)
        for change in _list_changes(item, None, source)
    ]
    places.sort(key=lambda place: (place[1].span, place[1].words))
    return [Mutant(number, item, change) for number, (item, change) in enumerate(places)]


def select_mutants(mutants: Sequence[Mutant], limit: int | None, seed: int) -> list[Mutant]:
    """At most `limit` of them, chosen by the seed alone, in the order of the text."""
    if limit is None or len(mutants) <= limit:
        return list(mutants)
    return sorted(
        sorted(mutants, key=lambda mutant: sha256(canonical_json.encode([seed, mutant.number])).digest())[:limit],
        key=lambda mutant: mutant.number,
    )


# Changes


def _list_changes(node: Any, parent: Any, source: Source) -> Iterator[Change]:
    """The changes of a node and of all in it. It knows no node but those below, so new ones are walked too."""
    if isinstance(node, tuple):
        for part in node:
            yield from _list_changes(part, parent, source)
        return
    if not isinstance(node, syntax.SyntaxNode | syntax.ChainLink) or isinstance(node, syntax.FieldRef | syntax.About):
        return
    yield from _change_node(node, parent, source)
    if isinstance(node, syntax.QuantityLiteral | syntax.DateLiteral):
        return
    for part in fields(node):
        yield from _list_changes(getattr(node, part.name), node, source)


def _change_node(node: Any, parent: Any, source: Source) -> Iterator[Change]:
    match node:
        case syntax.Comparison(op=op) | syntax.ChainLink(op=op) if op in _OPERATORS:
            yield _write_change(source, node.op_span, _OPERATORS[op])
        case syntax.Unary():
            kept = source.text[node.operand.span.start : node.operand.span.end]
            yield Change(node.span, f"({kept})", f"`{node.op}` is left out")
        case syntax.NumberLiteral():
            yield from _change_number(node, node.span, source)
        case syntax.QuantityLiteral():
            yield from _change_number(node.number, node.number.span, source)
        case syntax.DateLiteral():
            yield from _change_date(node, source)
        case syntax.BoolLiteral(value):
            yield _write_change(source, node.span, "false" if value else "true")
        case syntax.TextLiteral(value) if isinstance(parent, _PARENTS_OF_VALUES):
            yield _write_change(source, node.span, '""' if value else '"?"')
        case syntax.Branch():
            yield from _change_condition(node.condition, source, ("true", "false"))
        case syntax.Presence(is_present=is_present):
            end, word = node.span.end, "present" if is_present else "absent"
            yield _write_change(source, Span(end - len(word), end), "absent" if is_present else "present")
        case syntax.Assert():
            yield from _change_condition(node.condition, source, ("true",))
        case syntax.Call(function) if function.text in _FUNCTIONS:
            yield _write_change(source, function.span, _FUNCTIONS[function.text])
        case _:
            pass


def _write_change(source: Source, span: Span, words: str) -> Change:
    return Change(span, words, f"`{source.text[span.start : span.end]}` becomes `{words}`")


def _change_condition(node: Any, source: Source, values: Iterable[str]) -> Iterator[Change]:
    for value in values:
        if not isinstance(node, syntax.BoolLiteral):
            yield Change(node.span, value, f"the condition `{_quote(source, node.span)}` becomes `{value}`")


def _change_number(node: syntax.NumberLiteral, span: Span, source: Source) -> Iterator[Change]:
    """One step up and one step down in the last decimal that is written."""
    digits = node.digits.replace(".", "")
    decimals = len(node.digits) - node.digits.find(".") - 1 if "." in node.digits else 0
    amount = -int(digits) if node.negative else int(digits)
    for changed in (amount - 1, amount + 1):
        text = str(abs(changed)).rjust(decimals + 1, "0")
        text = f"{text[:-decimals]}.{text[-decimals:]}" if decimals else text
        text = f"-{text}" if changed < 0 else text
        # Two minus signs would start a comment.
        is_after_minus = changed < 0 and source.text[: span.start].endswith("-")
        yield _write_change(source, span, f"({text})" if is_after_minus else text)


def _change_date(node: syntax.DateLiteral, source: Source) -> Iterator[Change]:
    """The day before and the day after."""
    for days in (-1, 1):
        try:
            day = date.fromisoformat(node.text.value) + timedelta(days=days)
        except (OverflowError, ValueError):  # no such day, or the first or last of all
            continue
        yield _write_change(source, node.text.span, f'"{day.isoformat()}"')


def _quote(source: Source, span: Span) -> str:
    text = " ".join(source.text[span.start : span.end].split())
    return text if len(text) <= 60 else f"{text[:59]}…"


# Which tests can notice


def find_readers(tree: syntax.SyntaxTree) -> dict[str, set[str]]:
    """For each definition: the fields and tests that name it, directly or through other definitions."""
    mentions = {get_item_name(item): set(_list_names(item)) for item in tree.items}
    roots = {get_item_name(item): _get_reader(item) for item in tree.items}
    readers: dict[str, set[str]] = {name: set() for name, reader in roots.items() if reader is None}
    for root, reader in roots.items():
        pending = [] if reader is None else [root]
        reached = {root}
        while pending:
            for name in mentions[pending.pop()] & readers.keys() - reached:
                reached.add(name)
                readers[name].add(reader or root)
                pending.append(name)
    return readers


def _get_reader(item: syntax.Item) -> str | None:
    """The field or test that an item is, or the field that it belongs to; None for a definition, which others read."""
    if isinstance(item, (syntax.Rule, *_TESTS)):
        return get_item_name(item)
    return _REQUIREMENTS_FIELD if hasattr(item, "code") else None


def _list_names(node: Any) -> Iterator[str]:
    """Every name that may stand for a definition."""
    if isinstance(node, tuple):
        for part in node:
            yield from _list_names(part)
    elif isinstance(node, syntax.Name):
        yield node.text
    elif isinstance(node, syntax.SyntaxNode | syntax.ChainLink):
        if isinstance(node, syntax.VariableRef | syntax.SimpleType):
            yield node.name
        for part in fields(node):
            yield from _list_names(getattr(node, part.name))


# Judging


class BaselineFailed(Refusal):
    """The tests fail on the rules as they are, so that they fail on a mutant proves nothing."""

    code = "RULE_TESTS_FAILED"

    def __init__(self, tests: Sequence[str]) -> None:
        named = ", ".join(f"`{test}`" for test in tests[:MAX_TESTS_NAMED])
        more = f" and {len(tests) - MAX_TESTS_NAMED:,} more" if len(tests) > MAX_TESTS_NAMED else ""
        says = f"tests fail before anything is changed: {named}{more}"
        super().__init__(says, fix="`bpc rules test` shows why", details={"tests": list(tests)})


@dataclass(frozen=True, slots=True)
class Baseline:
    """The tests that compute each field; `readers` are the fields and tests that each definition can change."""

    tests_of_field: Mapping[str, frozenset[str]]
    readers: Mapping[str, set[str]]

    def list_tests(self, item: str) -> frozenset[str]:
        """The tests that a change of a field or definition can make fail. A test is named by itself."""
        nothing: frozenset[str] = frozenset()
        if item not in self.readers:
            return self.tests_of_field.get(item) or self.tests_of_field.get(_REQUIREMENTS_FIELD, nothing)
        return nothing.union(*(self.tests_of_field.get(reader, {reader}) for reader in self.readers[item]))


class MutationRun:
    """A package and its mutants. `RulesRefused` if the package has errors."""

    def __init__(self, texts: PackageTexts, *, seed: int = 0) -> None:
        self._seed = seed
        self._program = read_program(texts.rules, texts.tests, name=texts.rules_name, tests_name=texts.tests_name)
        self.source = self._program.source
        tree = drop_overridden(parse(self.source).tree, self.source)
        self.mutants = list_mutants(tree, self.source)
        self._rules = replace(tree, items=tuple(item for item in tree.items if not isinstance(item, _TESTS)))
        self._starts = [item.span.start for item in self._rules.items]
        tests_source = Source(texts.tests_name, texts.tests.decode())
        beside = drop_overridden(parse(tests_source, tests_only=True, language=tree.language).tree, tests_source)
        # No change names another fact or member, so what the tests need of them is the same for all mutants.
        self._usage = collect_fact_usage(self._program)
        self._readers = find_readers(replace(tree, items=tree.items + beside.items))

    def run_baseline(self) -> Baseline:
        """Run every test on the rules as they are; `BaselineFailed` if one of them fails."""
        footprints = list(trace_tests(self._program, seed=self._seed))
        if failing := [footprint.test for footprint in footprints if footprint.failed]:
            raise BaselineFailed(failing)
        tests_of_field: dict[str, frozenset[str]] = {}
        for test, paths, _ in footprints:
            for field in paths:
                tests_of_field[field] = tests_of_field.get(field, frozenset()) | {test}
        return Baseline(tests_of_field, self._readers)

    def judge(self, mutant: Mutant, baseline: Baseline) -> Verdict:
        program = self._read_mutant(mutant)
        if program is None:
            return "invalid"
        tests = baseline.list_tests(mutant.item)
        if not tests or find_failing_test(program, tests, self._usage, seed=self._seed) is None:
            return "survived"
        return "noticed"

    def _read_mutant(self, mutant: Mutant) -> Program | None:
        """The changed rules with the tests as they are; the types of fields, which tests depend on, do not change.

        Only the changed item is parsed again. The places in it are not those of the text, but nothing asks for them.
        """
        (start, end), words, _ = mutant.change
        position = bisect_right(self._starts, start) - 1
        item, text = self._rules.items[position], self.source.text
        changed = f"{text[item.span.start : start]}{words}{text[end : item.span.end]}"
        parsed = parse(Source("mutant", changed), language=self._rules.language)
        if parsed.diagnostics or len(parsed.tree.items) != 1:
            return None
        items = (*self._rules.items[:position], *parsed.tree.items, *self._rules.items[position + 1 :])
        program = check(self.source, replace(self._rules, items=items)).program
        if program is None:
            return None
        return replace(program, examples=self._program.examples, properties=self._program.properties)


@dataclass(frozen=True, slots=True)
class MutationReport:
    """What became of the mutants that were tried; `total` is how many there are."""

    source: Source
    total: int
    verdicts: tuple[tuple[Mutant, Verdict], ...]

    def count(self, verdict: Verdict) -> int:
        return sum(each == verdict for _, each in self.verdicts)

    @property
    def score(self) -> int:
        """Per cent of the valid mutants that a test noticed, rounded down; 100 if there is none."""
        noticed_count, valid = self.count("noticed"), len(self.verdicts) - self.count("invalid")
        return noticed_count * 100 // valid if valid else 100

    def list_survivors(self) -> list[Mutant]:
        return [mutant for mutant, verdict in self.verdicts if verdict == "survived"]

    def as_json(self, locate: "Callable[[Source, Span], Mapping[str, object]]" = span_to_json) -> dict[str, object]:
        return {
            "score": self.score,
            "mutants": self.total,
            "tried": len(self.verdicts),
            **{verdict: self.count(verdict) for verdict in ("noticed", "survived", "invalid")},
            "survivors": [
                {"item": mutant.item, "change": mutant.change.says, **locate(self.source, mutant.change.span)}
                for mutant in self.list_survivors()
            ],
        }
