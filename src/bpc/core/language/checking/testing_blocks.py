"""Check tests: their fixtures (the product, the day and the facts), expectations and claims.

The constant of an expectation takes its type from the field.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast

from bpc.core.facts.fact_table import FactInvalid, read_members
from bpc.core.formats.canonical_json import Json
from bpc.core.language import syntax, typed
from bpc.core.language.checking import explain, functions, literals, operators
from bpc.core.language.checking.context import BoundVariable, Checker, require_all
from bpc.core.language.checking.declarations import get_path_span
from bpc.core.language.checking.expressions import report_unknown_field
from bpc.core.language.checking.literals import resolve_type
from bpc.core.language.source import DiagnosticNote, Source, Span
from bpc.core.language.types import BOOL, DATE, INT, TEXT, Dec, FactRecordType, List, Map, Opt, Qty, Record, Type

MAX_CASES: Final = 100_000
SEED_BITS: Final = 63

_DEFAULT_PRODUCT: Final = ("SKU-1", "Product")
_DEFAULT_DAY: Final = "2027-02-18"

# How a message names the constants that are not literals of one type.
_FORMS: Final[Mapping[type, str]] = {
    syntax.NoneLiteral: "`none`",
    syntax.SomeConstant: "`some(…)`",
    syntax.ListConstant: "a list",
    syntax.RecordConstant: "a record",
}

_T = TypeVar("_T", syntax.ProductFixture, syntax.IssuedFixture)


def check_fixtures(checker: Checker, fixtures: Sequence[syntax.Fixture]) -> typed.Fixtures | None:
    """The inputs of a test, with defaults; None after a mistake that was reported."""
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
    sku, name = _DEFAULT_PRODUCT if product is None else (product.sku.value, product.name.value)
    return typed.Fixtures(sku, name, _DEFAULT_DAY if issued is None else issued.day.value, facts)


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
    payload = _read_json(checker, node.payload)
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
            read_members(fact, key, {name.value: payload[name.value]})
        except FactInvalid as error:
            checker.error("bad-fixture", value.span, error.says)


def _read_json(checker: Checker, node: syntax.JsonValue) -> Json:
    match node:
        case syntax.JsonAtom(value):
            return value
        case syntax.JsonList(items):
            return [_read_json(checker, item) for item in items]
        case syntax.JsonObject(members):
            return _read_object(checker, members)


def _read_object(checker: Checker, members: Sequence[tuple[syntax.TextLiteral, syntax.JsonValue]]) -> dict[str, Json]:
    explain.report_duplicate_members(checker, [name for name, _ in members])
    return {name.value: _read_json(checker, value) for name, value in members}


@dataclass(slots=True)
class PackageTests:
    """The tests of a package, from one file or two. `complete` is False if one of them has a mistake."""

    examples: list[typed.TypedExample] = field(default_factory=list)
    properties: list[typed.TypedProperty] = field(default_factory=list)
    names: dict[str, tuple[Source, Span]] = field(default_factory=dict)
    complete: bool = True


def check_tests(checker: Checker, tree: syntax.SyntaxTree, tests: PackageTests) -> None:
    """Add the tests of one text to `tests`."""
    for item in tree.items:
        if isinstance(item, syntax.Rule):
            continue
        _check_name(checker, tests, item.name)
        test = _check_example(checker, item) if isinstance(item, syntax.Example) else _check_property(checker, item)
        if test is None:
            tests.complete = False
        elif isinstance(test, typed.TypedExample):
            tests.examples.append(test)
        else:
            tests.properties.append(test)


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


def _check_example(checker: Checker, node: syntax.Example) -> typed.TypedExample | None:
    fixtures = check_fixtures(checker, node.fixtures)
    expectations: tuple[typed.TypedExpectation | typed.TypedErrorExpectation, ...] | None = require_all(
        [_check_expectation(checker, expectation) for expectation in node.expectations]
    )
    if not node.expectations:
        _report_nothing_expected(checker, node.name, 'add `expect(path, == value);` or `expectError("CODE");`')
    if fixtures is None or not expectations:
        return None
    return typed.TypedExample(node.name.text, fixtures, expectations, checker.findings.source, node.name.span)


def _check_expectation(
    checker: Checker, node: syntax.Expectation | syntax.ErrorExpectation
) -> typed.TypedExpectation | typed.TypedErrorExpectation | None:
    if isinstance(node, syntax.ErrorExpectation):
        return typed.TypedErrorExpectation(node.code.value, node.span)
    declared = checker.fields.get(node.dotted)
    if declared is None:
        report_unknown_field(checker, node.dotted, get_path_span(node.path))
        return None
    kind = declared.type
    if kind is None or not operators.check_comparable(checker, node.op, get_path_span(node.path), kind):
        return None
    message = f"`{node.dotted}` is {checker.format_type(kind)}"
    checker.because = DiagnosticNote(get_path_span(node.path), message)
    expected = _check_constant(checker, node.constant, kind)
    checker.because = None
    return None if expected is None else typed.TypedExpectation(node.dotted, cast("Any", node.op), expected, node.span)


# Constants of expectations


class _ConstantRejected(Exception):
    """A constant with a reported mistake; never leaves this file."""


def _check_constant(checker: Checker, node: syntax.Constant, kind: Type) -> typed.Const | None:
    """The constant a field of type `kind` is compared with; None after a mistake that was reported."""
    try:
        if isinstance(node, syntax.NumberLiteral) and isinstance(kind, Dec):
            return literals.type_beside(node, kind) if literals.check_number_bounds(checker, node) else None
        return typed.Const(kind, _read_value(checker, node, kind), node.span)
    except _ConstantRejected:
        return None


def _read_value(checker: Checker, node: syntax.Constant, kind: Type) -> typed.Value:
    match node, kind:
        case syntax.NoneLiteral(), Opt():
            return None
        case syntax.SomeConstant(item), Opt(inner):
            return _read_value(checker, item, inner)
        case syntax.ListConstant(items), List(inner):
            return [_read_value(checker, item, inner) for item in items]
        case syntax.RecordConstant(), Record():
            return _read_record(checker, node, kind)
        case _:
            return _read_scalar(checker, node, kind)


def _read_scalar(checker: Checker, node: syntax.Constant, kind: Type) -> typed.Value:
    if type(node) in _FORMS:
        _report_mismatch(checker, node, kind, "wrong-type", _FORMS[type(node)])
        raise _ConstantRejected
    const = checker.handlers[type(node)](checker, node, kind)
    if not isinstance(const, typed.Const):
        raise _ConstantRejected
    if const.type is not kind:
        mistake = "unit-mismatch" if isinstance(const.type, Qty) and isinstance(kind, Qty) else "wrong-type"
        _report_mismatch(checker, node, kind, mistake, checker.format_type(const.type))
        raise _ConstantRejected
    return const.value


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
        case Map():
            return "a Map has no literal; test a field that reads from it"
        case _:
            example = next((text for scalar, text in scalars.items() if scalar is kind), None)
    return None if example is None else f"write it like {example}"


def _read_record(checker: Checker, node: syntax.RecordConstant, kind: Record) -> typed.Value:
    names = [name for name, _ in node.members]
    has_duplicates = explain.report_duplicate_members(checker, names)
    if has_duplicates or not explain.check_member_names(checker, node.span, names, dict(kind.members)):
        raise _ConstantRejected
    members = {name.text: item for name, item in node.members}
    return {name: _read_value(checker, members[name], item) for name, item in kind.members}


# Properties


def _check_property(checker: Checker, node: syntax.Property) -> typed.TypedProperty | None:
    cases = _check_bounded(checker, node.cases, 1, MAX_CASES, "a property has 1 to 100,000 cases")
    seed = _check_bounded(checker, node.seed, 0, (1 << SEED_BITS) - 1, "a seed is below 2^63")
    fixtures = check_fixtures(checker, node.fixtures)
    claims = require_all([_check_claim(checker, claim) for claim in node.claims])
    if not node.claims:
        _report_nothing_expected(checker, node.name, "add `forall x: Int . implies(true, …);`")
    if cases is None or seed is None or fixtures is None or not claims:
        return None
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
    checker.scope.bind(name, BoundVariable(kind, node.variable.span, "forall", None, 0))
    premise = operators.require_bool(checker, node.premise, checker.check(node.premise), "the premise of `implies`")
    conclusion = operators.require_bool(
        checker, node.conclusion, checker.check(node.conclusion), "the conclusion of `implies`"
    )
    checker.scope.unbind(name, None)
    if kind is None or premise is None or conclusion is None:
        return None
    return typed.TypedClaim(name, kind, premise, conclusion, node.span)
