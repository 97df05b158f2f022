"""The checker: a syntax tree in, a program that means something out, or what is wrong with it.

Pure. All mistakes of a text are found in one run, each reported once. Whoever holds the resulting `typed.Program`
need not doubt it: a rule that passes here fails later only by `assert`, `requireSome`, a division by zero or a limit.

    Source, Tree ──┐
                   ├─► check ─► Checked(program, found)
    tests, Tree ───┘
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bpc.core.rules import syntax, typed
from bpc.core.rules.checking.context import UNREAD, Checking, Declared, Shared
from bpc.core.rules.checking.declarations import check_rules
from bpc.core.rules.checking.expressions import HANDLERS
from bpc.core.rules.checking.findings import Findings, Found, TooManyErrors
from bpc.core.rules.checking.tests import Tests, check_tests
from bpc.core.rules.source import Diagnostic, Source, in_order
from bpc.core.rules.types import Fact

__all__ = ["Checked", "Found", "check", "check_expression"]


@dataclass(frozen=True, slots=True)
class Checked:
    """A program, if there is no error, and whatever was found: the rules' first, then the tests'."""

    program: typed.Program | None
    found: tuple[Found, ...]


def check(
    source: Source,
    tree: syntax.Tree,
    tests: tuple[Source, syntax.Tree] | None = None,
    *,
    unread: Sequence[str] = (),
) -> Checked:
    """Check a package: its rules with the tests among them, and the tests of a file beside them.

    `unread` are fields whose rules could not be parsed: they exist, and nothing more is known about them.
    """
    shared = Shared()
    shared.fields.update((path, UNREAD) for path in unread)
    found_tests = Tests()
    in_rules = Findings(source)
    rules = _rules_and_tests(Checking(shared, in_rules, HANDLERS, in_rules=True), tree, found_tests)
    found = in_rules.found()
    if tests is not None:
        beside = Findings(tests[0])
        _only_tests(Checking(shared, beside, HANDLERS, in_rules=False), tests[1], found_tests)
        found += beside.found()
    if rules is None or not found_tests.complete or any(each.diagnostic.is_error for each in found):
        return Checked(None, tuple(found))
    fields, facts = rules
    examples, properties = tuple(found_tests.examples), tuple(found_tests.properties)
    return Checked(typed.Program(source, fields, facts, examples, properties), tuple(found))


def _rules_and_tests(
    checking: Checking, tree: syntax.Tree, tests: Tests
) -> tuple[tuple[typed.Field, ...], tuple[Fact, ...]] | None:
    """The fields and the fact types they name. What only a test names is no reason to refuse anybody's facts."""
    try:
        fields = check_rules(checking, [item for item in tree.items if isinstance(item, syntax.Rule)])
        facts = tuple(sorted(checking.shared.facts, key=_by_name))
        check_tests(checking, tree, tests)
    except TooManyErrors:
        checking.findings.stopped()
        return None
    return None if fields is None else (fields, facts)


def _only_tests(checking: Checking, tree: syntax.Tree, tests: Tests) -> None:
    try:
        check_tests(checking, tree, tests)
    except TooManyErrors:
        checking.findings.stopped()


def _by_name(fact: Fact) -> tuple[str, int]:
    return fact.name, fact.version


def check_expression(
    program: typed.Program, source: Source, expr: syntax.Expr
) -> tuple[typed.Expr | None, tuple[Diagnostic, ...]]:
    """An expression outside of any rule, which may read the program's fields."""
    shared = Shared()
    for field in program.fields:
        shared.fields[field.path] = Declared(shared.types.of(field.type), field.access, field.span, field.span)
    findings = Findings(source)
    made = None
    try:
        made = Checking(shared, findings, HANDLERS, in_rules=False).check(expr)
    except TooManyErrors:
        findings.stopped()
    return (None if findings.errors else made), tuple(in_order([*findings.errors, *findings.warnings]))
