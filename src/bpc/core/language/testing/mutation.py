"""Mutation: which small changes of the rules no test notices.

Pure. A mutant is the rules' text with one place changed: an operator, a comparison, a constant, a condition.
Tests that are worth something fail on it. A mutant that the checker refuses is no mutant: nobody could publish it.

    texts ── list_mutants ──► mutants ── MutationRun.judge ──► noticed | survived | invalid ──► MutationReport

The same texts, seed and limit give the same report on every machine. `mutation_run` tries the mutants.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date, timedelta
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from bpc.core.formats import canonical_json
from bpc.core.language import syntax
from bpc.core.language.checking.overrides import get_item_name
from bpc.core.language.source import Source, Span, span_to_json

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
TESTS: Final = (syntax.Example, syntax.CaseTable, syntax.Property, syntax.SharedFixture)
# Days before and after all that a rule is about.
_ALWAYS: Final = 'date("1900-01-01")'
_NEVER: Final = 'date("2999-12-31")'


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
    """Every change of the rules, in the order of the text; what is imported has its tests where it is from."""
    places = [
        (get_item_name(item), change)
        for item in tree.items
        if not isinstance(item, TESTS) and not source.is_imported(item.span)
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
            yield from _change_larger_part(node, source)


def _change_larger_part(node: Any, source: Source) -> Iterator[Change]:
    match node:
        case syntax.OperatorChain() if node.links[-1].op == "??":
            last = node.links[-1].operand.span
            says = f"`{_quote(source, node.span)}` becomes `{_quote(source, last)}`"
            yield Change(node.span, f"({_get_words(source, last)})", says)
        case syntax.Requirement():
            yield from _change_requirement(node, source)
        case syntax.TableDeclaration() if len(node.rows) > 1:
            for row in node.rows:
                says = f"the row `{_quote(source, row.span)}` is left out"
                yield Change(Span(row.span.start, source.text.index(";", row.span.end) + 1), "", says)
        case syntax.EnumMember():
            for spelling in node.spellings:
                yield _write_change(source, spelling.span, f'{_get_words(source, spelling.span)[:-1]}?"')
        case syntax.MissingClause() if node.code is not None:
            yield _write_change(source, node.code.span, f'"{node.code.value}_"')
        case syntax.Comparison("in", _, syntax.ListLiteral(items)) if len(items) > 1:
            for item in items:
                others = ", ".join(_get_words(source, other.span) for other in items if other is not item)
                yield Change(node.right.span, f"[{others}]", f"`{_quote(source, item.span)}` is left out of the list")
        case _:
            pass


def _change_requirement(node: syntax.Requirement, source: Source) -> Iterator[Change]:
    """The conditions of a requirement, its period and its severity."""
    if node.scope is not None:
        yield from _change_condition(node.scope, source, ("true", "false"))
    if node.start is not None:
        says = f"`in force from {_quote(source, node.start.span)}` is left out"
        yield Change(node.start.span, _ALWAYS, says)
    if node.end is not None:
        yield Change(node.end.span, _NEVER, f"`to {_quote(source, node.end.span)}` is left out")
    yield from _change_condition(node.condition, source, ("true", "false"))
    if node.severity is not None:
        yield _write_change(source, node.severity.span, "fail" if node.severity.text == "warn" else "warn")
    else:
        at = (node.message or node.condition).span.end
        yield Change(Span(at, at), " severity warn", "severity `fail` becomes `warn`")


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


def _get_words(source: Source, span: Span) -> str:
    return source.text[span.start : span.end]


def _quote(source: Source, span: Span) -> str:
    text = " ".join(source.text[span.start : span.end].split())
    return text if len(text) <= 60 else f"{text[:59]}…"


# The report


def compute_score(noticed: int, survived: int) -> int:
    return noticed * 100 // (noticed + survived) if noticed + survived else 100


class FileScore(NamedTuple):
    """What became of the mutants of one file."""

    file: str
    noticed: int
    survived: int
    invalid: int

    @property
    def score(self) -> int:
        return compute_score(self.noticed, self.survived)


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
        return compute_score(self.count("noticed"), self.count("survived"))

    def list_files(self) -> list[FileScore]:
        """The score of each file, in the order of the text."""
        counts: dict[str, dict[Verdict, int]] = {}
        for mutant, verdict in self.verdicts:
            file = self.source.find_place(mutant.change.span.start).file
            count = counts.setdefault(file, {"noticed": 0, "survived": 0, "invalid": 0})
            count[verdict] += 1
        return [FileScore(file, **count) for file, count in counts.items()]

    def list_survivors(self) -> list[Mutant]:
        return [mutant for mutant, verdict in self.verdicts if verdict == "survived"]

    def as_json(self, locate: "Callable[[Source, Span], Mapping[str, object]]" = span_to_json) -> dict[str, object]:
        return {
            "score": self.score,
            "mutants": self.total,
            "tried": len(self.verdicts),
            **{verdict: self.count(verdict) for verdict in ("noticed", "survived", "invalid")},
            "files": [{**file._asdict(), "score": file.score} for file in self.list_files()],
            "survivors": [
                {"item": mutant.item, "change": mutant.change.says, **locate(self.source, mutant.change.span)}
                for mutant in self.list_survivors()
            ],
        }
