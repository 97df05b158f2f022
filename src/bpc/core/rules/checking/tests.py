"""Tests: the world each runs in, and what it expects or claims of the fields there."""

from typing import Any, Final, cast

from bpc.core.rules import syntax, typed
from bpc.core.rules.checking import comparisons, operators
from bpc.core.rules.checking.constants import constant
from bpc.core.rules.checking.context import Checking
from bpc.core.rules.checking.declarations import path_span
from bpc.core.rules.checking.expressions import unknown_field
from bpc.core.rules.checking.fixtures import given
from bpc.core.rules.checking.scope import Variable
from bpc.core.rules.checking.written_types import written_type
from bpc.core.rules.source import Note, Source, Span

MAX_CASES: Final = 100_000
SEED_BITS: Final = 63


class Tests:
    """The tests of a package, from one file or two. `complete` is False as soon as one could not be made."""

    __slots__ = ("complete", "examples", "names", "properties")

    def __init__(self) -> None:
        self.examples: list[typed.Example] = []
        self.properties: list[typed.Property] = []
        self.names: dict[str, tuple[Source, Span]] = {}
        self.complete = True


def check_tests(checking: Checking, tree: syntax.Tree, tests: Tests) -> None:
    """Add the tests of one text to `tests`."""
    for item in tree.items:
        if isinstance(item, syntax.Example):
            _name(checking, tests, item.name)
            example = _example(checking, item)
            if example is not None:
                tests.examples.append(example)
            tests.complete &= example is not None
        elif isinstance(item, syntax.Property):
            _name(checking, tests, item.name)
            claimed = _property(checking, item)
            if claimed is not None:
                tests.properties.append(claimed)
            tests.complete &= claimed is not None


def _name(checking: Checking, tests: Tests, name: syntax.Name) -> None:
    source = checking.findings.source
    first = tests.names.setdefault(name.text, (source, name.span))
    if first[1] is name.span:
        return
    same_text = first[0] is source
    checking.error(
        "duplicate-test",
        name.span,
        f"there are two tests called `{name.text}`",
        hint=None if same_text else f"the first is in {first[0].name}",
        notes=(Note(first[1], "the first is here"),) if same_text else (),
    )


def _nothing_expected(checking: Checking, name: syntax.Name, way_out: str) -> None:
    checking.error("nothing-expected", name.span, f"the test `{name.text}` expects nothing", hint=way_out)


# Examples


def _example(checking: Checking, node: syntax.Example) -> typed.Example | None:
    world = given(checking, node.fixtures)
    expectations = [_expectation(checking, each) for each in node.expectations]
    if not expectations:
        _nothing_expected(checking, node.name, 'add `expect(path, == value);` or `expectError("CODE");`')
    made = tuple([each for each in expectations if each is not None])
    if world is None or not made or len(made) < len(expectations):
        return None
    return typed.Example(node.name.text, world, made, checking.findings.source, node.name.span)


def _expectation(
    checking: Checking, node: syntax.Expect | syntax.ExpectError
) -> typed.Expect | typed.ExpectError | None:
    if isinstance(node, syntax.ExpectError):
        return typed.ExpectError(node.code.value, node.span)
    declared = checking.fields.get(node.dotted)
    if declared is None:
        unknown_field(checking, node.dotted, path_span(node.path))
        return None
    kind = declared.type
    if kind is None or not comparisons.comparable(checking, node.op, path_span(node.path), kind):
        return None
    says = f"`{node.dotted}` is {checking.shown(kind)}"
    checking.because = Note(path_span(node.path), says)
    expected = constant(checking, node.constant, kind)
    checking.because = None
    return None if expected is None else typed.Expect(node.dotted, cast("Any", node.op), expected, node.span)


# Properties


def _property(checking: Checking, node: syntax.Property) -> typed.Property | None:
    cases = _bounded(checking, node.cases, 1, MAX_CASES, "a property has 1 to 100,000 cases")
    seed = _bounded(checking, node.seed, 0, (1 << SEED_BITS) - 1, "a seed is below 2^63")
    world = given(checking, node.givens)
    claims = [_claim(checking, each) for each in node.claims]
    if not claims:
        _nothing_expected(checking, node.name, "add `forall x: Int . implies(true, …);`")
    made = tuple([each for each in claims if each is not None])
    if cases is None or seed is None or world is None or not made or len(made) < len(claims):
        return None
    return typed.Property(node.name.text, cases, seed, world, made, checking.findings.source, node.name.span)


def _bounded(checking: Checking, node: syntax.Number, least: int, most: int, says: str) -> int | None:
    digits = node.digits.lstrip("0") or "0"
    # The lexer bounds digits too; Python itself refuses to read very long numbers.
    if "." not in digits and not node.negative and len(digits) <= len(str(most)) and least <= int(digits) <= most:
        return int(digits)
    checking.error("bad-cases", node.span, says)
    return None


def _claim(checking: Checking, node: syntax.Claim) -> typed.Claim | None:
    kind = written_type(checking, node.type)
    name = node.variable.text
    checking.scope.bind(name, Variable(kind, node.variable.span, "forall", None, 0))
    premise = operators.truth(checking, node.premise, checking.check(node.premise), "the premise of `implies`")
    conclusion = operators.truth(
        checking, node.conclusion, checking.check(node.conclusion), "the conclusion of `implies`"
    )
    checking.scope.unbind(name, None)
    if kind is None or premise is None or conclusion is None:
        return None
    return typed.Claim(name, kind, premise, conclusion, node.span)
