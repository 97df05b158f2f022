"""Check tests: examples, tables of cases and properties, their expectations and claims.

The constant of an expectation takes its type from the field.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from bpc.core.language import syntax, typed
from bpc.core.language.checking import explain, literals, operators
from bpc.core.language.checking.case_tables import CheckedTable, DeferredExample
from bpc.core.language.checking.context import BoundVariable, Checker, require_all
from bpc.core.language.checking.declarations import get_path_span
from bpc.core.language.checking.examples_again import CheckedExamples
from bpc.core.language.checking.expressions import report_unknown_field
from bpc.core.language.checking.findings_of_rules import KnownFindings, check_finding
from bpc.core.language.checking.fixtures import DeclaredFixture, check_inputs, declare_fixture
from bpc.core.language.checking.list_functions import bind_name
from bpc.core.language.checking.literals import resolve_type
from bpc.core.language.source import DiagnosticNote, Source, Span
from bpc.core.language.types import BOOL, DATE, INT, TEXT, Dec, EnumType, List, Map, Opt, Qty, Record, Type

MAX_CASES: Final = 100_000
SEED_BITS: Final = 63

# How a message names the constants that are not literals of one type.
_FORMS: Final[Mapping[type, str]] = {
    syntax.NoneLiteral: "`none`",
    syntax.SomeConstant: "`some(…)`",
    syntax.ListConstant: "a list",
    syntax.RecordConstant: "a record",
}


@dataclass(slots=True)
class PackageTests:
    """The tests of a package, from one file or two. `complete` is False if one of them has a mistake."""

    findings: KnownFindings
    examples: list[typed.TypedExample | DeferredExample] = field(default_factory=list)
    properties: list[typed.TypedProperty] = field(default_factory=list)
    names: dict[str, tuple[Source, Span]] = field(default_factory=dict)
    fixtures: dict[str, DeclaredFixture] = field(default_factory=dict)
    overrides: list[typed.AppliedOverride] = field(default_factory=list)
    complete: bool = True

    def copy(self) -> "PackageTests":
        """The same tests, to which others can be added."""
        return replace(
            self,
            examples=[*self.examples],
            properties=[*self.properties],
            names={**self.names},
            fixtures={**self.fixtures},
            overrides=[*self.overrides],
        )


def check_tests(checker: Checker, tree: syntax.SyntaxTree, tests: PackageTests, memory: CheckedExamples) -> None:
    """Add the tests of one text to `tests`. Its fixtures come first, wherever they stand."""
    for item in tree.items:
        if isinstance(item, syntax.SharedFixture):
            declare_fixture(checker, item, tests.fixtures)
    if any(isinstance(item, syntax.Example | syntax.CaseTable) for item in tree.items):
        memory.compare(checker.shared, tests.findings, tests.fixtures)
    for item in tree.items:
        if isinstance(item, syntax.Example | syntax.CaseTable | syntax.Property):
            _check_name(checker, tests, item.name)
            _check_test(checker, item, tests, memory)


def _check_test(
    checker: Checker,
    node: syntax.Example | syntax.CaseTable | syntax.Property,
    tests: PackageTests,
    memory: CheckedExamples,
) -> None:
    if isinstance(node, syntax.Property):
        prop = _check_property(checker, node, tests)
        tests.properties += [] if prop is None else [prop]
        tests.complete = tests.complete and prop is not None
        return
    table = _CaseTableTests(checker, node, tests) if isinstance(node, syntax.CaseTable) else None
    examples = memory.take(node, table, checker.findings.source)
    if examples is None:
        count_before = checker.findings.count()
        examples = _check_one(checker, node, tests) if table is None else table.check()
        if examples is not None and checker.findings.count() == count_before:
            memory.remember(node, examples, checker.findings.source)
    tests.examples += examples or ()
    tests.complete = tests.complete and examples is not None


def _check_one(checker: Checker, node: Any, tests: PackageTests) -> list[typed.TypedExample | DeferredExample] | None:
    example = _check_example(checker, node, tests)
    return None if example is None else [example]


class _CaseTableTests(CheckedTable):
    """A table of cases among the tests of its package."""

    def __init__(self, checker: Checker, table: syntax.CaseTable, tests: PackageTests) -> None:
        super().__init__(checker, table)
        self._tests = tests

    def check_example(self, checker: Checker, node: syntax.Example) -> typed.TypedExample | None:
        return _check_example(checker, node, self._tests)

    def check_expectation(self, checker: Checker, node: syntax.AnyExpectation) -> bool:
        return _check_expectation(checker, node, self._tests) is not None


def _check_name(checker: Checker, tests: PackageTests, name: syntax.Name) -> None:
    source = checker.findings.source
    first = tests.names.setdefault(name.text, (source, name.span))
    if first[1] is name.span:
        return
    message = f"there are two tests called `{name.text}`"
    if first[0] is source:
        checker.error("duplicate-test", name.span, message, None, DiagnosticNote(first[1], "the first is here"))
    else:
        checker.error("duplicate-test", name.span, message, f"the first is in {first[0].name}")


def _report_nothing_expected(checker: Checker, name: syntax.Name, hint: str) -> None:
    checker.error("nothing-expected", name.span, f"the test `{name.text}` expects nothing", hint)


# Examples


def _check_example(checker: Checker, node: syntax.Example, tests: PackageTests) -> typed.TypedExample | None:
    inputs = check_inputs(checker, node.bases, node.fixtures, tests.fixtures)
    expectations: tuple[typed.AnyTypedExpectation, ...] | None = require_all(
        [_check_expectation(checker, expectation, tests) for expectation in node.expectations]
    )
    if not node.expectations:
        _report_nothing_expected(checker, node.name, 'add `expect(path, == value);` or `expectError("CODE");`')
    if inputs is None or not expectations:
        return None
    return typed.TypedExample(
        node.name.text, inputs.fill_defaults(), expectations, checker.findings.source, node.name.span
    )


def _check_expectation(
    checker: Checker, node: syntax.AnyExpectation, tests: PackageTests
) -> typed.AnyTypedExpectation | None:
    because = None if node.because is None else node.because.value
    if isinstance(node, syntax.ErrorExpectation):
        return typed.TypedErrorExpectation(node.code.value, node.span, because)
    if isinstance(node, syntax.FindingExpectation):
        return check_finding(checker, node, tests.findings)
    declared = checker.fields.get(node.dotted)
    if declared is None:
        report_unknown_field(checker, node.dotted, get_path_span(node.path))
        return None
    kind = declared.type
    if kind is None or not operators.check_comparable(checker, node.op, get_path_span(node.path), kind):
        return None
    message = f"`{node.dotted}` is {checker.format_type(kind)}"
    checker.because = DiagnosticNote(get_path_span(node.path), message)
    if declared.can_be_missing and isinstance(node.constant, syntax.NoneLiteral):
        kind = kind if isinstance(kind, Opt) else checker.types.opt(kind)
    expected = _check_constant(checker, node.constant, kind)
    checker.because = None
    if expected is None:
        return None
    return typed.TypedExpectation(node.dotted, cast("Any", node.op), expected, node.span, because)


# Constants of expectations


class ConstantRejected(Exception):
    """A constant with a reported mistake."""


def _check_constant(checker: Checker, node: syntax.Constant, kind: Type) -> typed.Const | None:
    """The constant a field of type `kind` is compared with; None after a mistake that was reported."""
    try:
        if isinstance(node, syntax.NumberLiteral) and isinstance(kind, Dec):
            return literals.type_beside(node, kind) if literals.check_number_bounds(checker, node) else None
        return typed.Const(kind, read_constant(checker, node, kind), node.span)
    except ConstantRejected:
        return None


def read_constant(checker: Checker, node: syntax.Constant, kind: Type) -> typed.Value:
    """The value of a constant of type `kind`; `ConstantRejected` after a mistake that was reported."""
    match node, kind:
        case syntax.NoneLiteral(), Opt():
            return None
        case syntax.SomeConstant(item), Opt(inner):
            return read_constant(checker, item, inner)
        case syntax.ListConstant(items), List(inner):
            return [read_constant(checker, item, inner) for item in items]
        case syntax.RecordConstant(), Record():
            return _read_record(checker, node, kind)
        case _:
            return _read_scalar(checker, node, kind)


def _read_scalar(checker: Checker, node: syntax.Constant, kind: Type) -> typed.Value:
    if type(node) in _FORMS:
        _report_mismatch(checker, node, kind, "wrong-type", _FORMS[type(node)])
        raise ConstantRejected
    if isinstance(node, syntax.VariableRef) and not _may_be_member(checker, node, kind):
        message = f"a value is needed here, and `{node.name}` is a name"
        checker.error("literal-needed", node.span, message, _describe_notation(kind), explain.find_type_reason(checker))
        raise ConstantRejected
    const = checker.handlers[type(node)](checker, node, kind)
    if not isinstance(const, typed.Const):
        raise ConstantRejected
    if const.type is not kind:
        mistake = "unit-mismatch" if isinstance(const.type, Qty) and isinstance(kind, Qty) else "wrong-type"
        _report_mismatch(checker, node, kind, mistake, checker.format_type(const.type))
        raise ConstantRejected
    return const.value


def _may_be_member(checker: Checker, node: syntax.VariableRef, kind: Type) -> bool:
    """Whether a name is a member of an enumeration, or could be meant as one; not what the rules call a value."""
    shared = checker.shared
    return node.name in shared.enums_by_member or (isinstance(kind, EnumType) and node.name not in shared.definitions)


def _report_mismatch(checker: Checker, node: syntax.Constant, kind: Type, mistake: str, got: str) -> None:
    message = f"expected {checker.format_type(kind)}, but this is {got}"
    checker.error(mistake, node.span, message, _describe_notation(kind), explain.find_type_reason(checker))


def _describe_notation(kind: Type) -> str | None:
    """How a constant of a type is written."""
    scalars = {BOOL: "`true` or `false`", INT: "`42`", TEXT: '`"text"`', DATE: '`date("2027-02-18")`'}
    match kind:
        case Dec():
            example: str | None = "`75.5`"
        case Qty(unit):
            example = f"`qty(75.5, {unit})`"
        case Opt():
            example = "`none` or `some(…)`"
        case List():
            example = "`[…, …]`"
        case Record(members):
            example = f"`{{ {members[0][0]}: …, … }}`"
        case EnumType(_, members):
            example = f"`{members[0]}`"
        case Map():
            return "a Map has no literal; test a field that reads from it"
        case _:
            example = next((text for scalar, text in scalars.items() if scalar is kind), None)
    return None if example is None else f"write it like {example}"


def _read_record(checker: Checker, node: syntax.RecordConstant, kind: Record) -> typed.Value:
    names = [name for name, _ in node.members]
    has_duplicates = explain.report_duplicate_members(checker, names)
    if has_duplicates or not explain.check_member_names(checker, node.span, names, dict(kind.members)):
        raise ConstantRejected
    members = {name.text: item for name, item in node.members}
    return {name: read_constant(checker, members[name], item) for name, item in kind.members}


# Properties


def _check_property(checker: Checker, node: syntax.Property, tests: PackageTests) -> typed.TypedProperty | None:
    cases = _check_bounded(checker, node.cases, 1, MAX_CASES, "a property has 1 to 100,000 cases")
    seed = _check_bounded(checker, node.seed, 0, (1 << SEED_BITS) - 1, "a seed is below 2^63")
    inputs = check_inputs(checker, node.bases, node.fixtures, tests.fixtures)
    claims = require_all([_check_claim(checker, claim) for claim in node.claims])
    if not node.claims:
        _report_nothing_expected(checker, node.name, "add `forall x: Int . implies(true, …);`")
    if cases is None or seed is None or inputs is None or not claims:
        return None
    fixtures = inputs.fill_defaults()
    return typed.TypedProperty(node.name.text, cases, seed, fixtures, claims, checker.findings.source, node.name.span)


def _check_bounded(checker: Checker, node: syntax.NumberLiteral, least: int, most: int, message: str) -> int | None:
    digits = node.digits.lstrip("0") or "0"
    # The length is checked first: Python refuses to parse very long numbers.
    if "." not in digits and not node.negative and len(digits) <= len(str(most)) and least <= int(digits) <= most:
        return int(digits)
    checker.error("bad-cases", node.span, message)
    return None


def _check_claim(checker: Checker, node: syntax.Claim) -> typed.TypedClaim | None:
    kind = resolve_type(checker, node.type)
    name = node.variable.text
    bind_name(checker, node.variable, BoundVariable(kind, node.variable.span, "forall", None, 0))
    premise = operators.require_bool(checker, node.premise, checker.check(node.premise), "the premise of `implies`")
    conclusion = operators.require_bool(
        checker, node.conclusion, checker.check(node.conclusion), "the conclusion of `implies`"
    )
    checker.scope.unbind(name, None)
    if kind is None or premise is None or conclusion is None:
        return None
    return typed.TypedClaim(name, kind, premise, conclusion, node.span)
