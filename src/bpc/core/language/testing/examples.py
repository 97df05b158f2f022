"""Run an example: compute what it expects something of, compare, and say what is not as expected.

Pure. Every expectation that is not met is a failure of its own, in the order of the text.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from bpc.core.facts.fact_table import FactInvalid
from bpc.core.language.evaluating.machine import Session
from bpc.core.language.evaluating.values import format_as_literal
from bpc.core.language.evaluation import ComplianceEntry, RuleFailure, World
from bpc.core.language.reference.values import compare
from bpc.core.language.testing.report import RunContext, TestFailure, build_snapshot_fact, get_rule_code
from bpc.core.language.typed import (
    AnyTypedExpectation,
    TypedErrorExpectation,
    TypedExample,
    TypedExpectation,
    TypedFindingExpectation,
    Value,
)
from bpc.core.language.types import Type, unwrap_option_type

MAX_NAMED_FIELDS: Final = 3  # fields named in a message; it gives the number of the others
UNREADABLE_FACTS: Final = "the facts cannot be read"


class CaseOutcome(NamedTuple):
    """Whether a case counts, whether it evaluates a field or definition of the rules, and what is wrong with it."""

    counts: bool
    evaluates_field: bool
    failures: Sequence[TestFailure] = ()


def run_example(context: RunContext, example: TypedExample) -> CaseOutcome:
    """Run an example; every expectation that is not met is a failure, in the order of the text."""
    facts = [build_snapshot_fact(fixture, fixture.payload or {}) for fixture in example.fixtures.facts]
    try:
        world = context.build_world(example.fixtures, facts)
    except FactInvalid as invalid:
        failures = _report_unreadable_facts(context, example, invalid)
        return CaseOutcome(counts=True, evaluates_field=False, failures=failures)
    session = context.open_session(world)
    outcomes = [_check(context, example, expectation, session, world) for expectation in example.expectations]
    context.record_reached(session)
    failures = [failure for failure in outcomes if failure is not None]
    # Every expectation evaluates the field it names, or all of them until one fails.
    return CaseOutcome(counts=True, evaluates_field=bool(outcomes), failures=failures)


def _check(
    context: RunContext, example: TypedExample, expectation: AnyTypedExpectation, session: Session, world: World
) -> TestFailure | None:
    if isinstance(expectation, TypedExpectation):
        return _check_expectation(context, example, expectation, session)
    if isinstance(expectation, TypedErrorExpectation):
        return _check_expected_error(context, example, expectation, world)
    return _check_expected_finding(context, example, expectation, session)


def _format_reason(expectation: AnyTypedExpectation) -> str:
    return "" if expectation.because is None else f" because {expectation.because}"


def _report_unreadable_facts(context: RunContext, example: TypedExample, invalid: FactInvalid) -> list[TestFailure]:
    """Facts that do not fit their schema stop a compilation before any field, so every field fails with their code."""
    return [
        context.build_failure(example, expectation.span, f"{UNREADABLE_FACTS}: {invalid.says}", invalid)
        for expectation in example.expectations
        if not (isinstance(expectation, TypedErrorExpectation) and expectation.code == invalid.code)
    ]


def _check_expectation(
    context: RunContext, example: TypedExample, expectation: TypedExpectation, session: Session
) -> TestFailure | None:
    try:
        value = session.compute_field(expectation.path)
    except RuleFailure as failure:
        reason = _format_reason(expectation)
        says = f"`{expectation.path}` has no value{reason and f', but needs one{reason}'}: {failure.says}"
        return context.build_failure(example, expectation.span, says, failure)
    kind = next(field.type for field in context.program.fields if field.path == expectation.path)
    constant = expectation.constant
    if _holds(expectation.op, (kind, value), (constant.type, constant.value)):
        return None
    expected = f"{expectation.op} {format_as_literal(constant.type, constant.value)}"
    reason = _format_reason(expectation)
    says = f"`{expectation.path}` is `{format_as_literal(kind, value)}`, expected `{expected}`{reason}"
    return context.build_failure(example, expectation.span, says)


def _holds(op: str, left: tuple[Type, Value], right: tuple[Type, Value]) -> bool:
    """Whether `left op right`. A field that is missing is less or more than nothing, and equals only `none`."""
    if left[1] is None or right[1] is None:
        is_same = left[1] is None and right[1] is None
        return is_same if op == "==" else op == "!=" and not is_same
    return compare(op, (unwrap_option_type(left[0]), left[1]), (unwrap_option_type(right[0]), right[1]))


def _check_expected_finding(
    context: RunContext, example: TypedExample, expectation: TypedFindingExpectation, session: Session
) -> TestFailure | None:
    """Compute the fields that can have the finding; each finding with its code has to be as expected."""
    try:
        for path in context.list_emitters(expectation.code):
            session.compute_field(path)
    except RuleFailure as failure:
        says = f"`{failure.field}` has no value: {failure.says}"
        return context.build_failure(example, expectation.span, says, failure)
    entries = [entry for entry in session.compliance if entry.code == expectation.code]
    if expectation.status is None:
        return _check_no_finding(context, example, expectation, entries)
    expected = f"{_format_expected_finding(expectation)}{_format_reason(expectation)}"
    if not entries:
        says = f"there is no finding `{expectation.code}`, expected {expected}"
        return context.build_failure(example, expectation.span, says)
    for entry in entries:
        if not _is_expected(entry, expectation):
            message = None if expectation.message is None and entry.status == expectation.status else entry.message
            verdict = None if expectation.verdict is None else entry.verdict
            names = {name for name, _ in expectation.args}
            args = tuple((name, value) for name, value in entry.args if name in names)
            actual = format_finding(entry.code, entry.status, message, verdict, args)
            return context.build_failure(example, expectation.span, f"found {actual}, expected {expected}")
    return None


def _check_no_finding(
    context: RunContext,
    example: TypedExample,
    expectation: TypedFindingExpectation,
    entries: Sequence[ComplianceEntry],
) -> TestFailure | None:
    if not entries:
        return None
    entry = entries[0]
    says = (
        f"found {format_finding(entry.code, entry.status, entry.message)}, expected none{_format_reason(expectation)}"
    )
    return context.build_failure(example, expectation.span, says)


def _is_expected(entry: ComplianceEntry, expectation: TypedFindingExpectation) -> bool:
    return (
        entry.status == expectation.status
        and expectation.message in {None, entry.message}
        and expectation.verdict in {None, entry.verdict}
        and set(expectation.args) <= set(entry.args)
    )


def _format_expected_finding(expected: TypedFindingExpectation) -> str:
    return format_finding(expected.code, str(expected.status), expected.message, expected.verdict, expected.args)


def format_finding(
    code: str,
    status: str,
    message: str | None,
    verdict: str | None = None,
    args: Sequence[tuple[str, str]] = (),
) -> str:
    words = [f"`{code}`", status]
    words += [] if message is None else [f"`{message}`"]
    words += [] if verdict is None else [f"({verdict})"]
    words += [f"with {', '.join(f'`{name}` `{value}`' for name, value in args)}"] if args else []
    return " ".join(words)


def _check_expected_error(
    context: RunContext, example: TypedExample, expectation: TypedErrorExpectation, world: World
) -> TestFailure | None:
    other_codes: dict[str, str] = {}
    for path in (program_field.path for program_field in context.program.fields):
        session = context.open_session(world)
        try:
            session.compute_field(path)
        except RuleFailure as failure:
            if expectation.code in {failure.code, get_rule_code(failure)}:
                context.record_reached(session)
                return None
            other_codes[path] = get_rule_code(failure) or failure.code
    reason = _format_reason(expectation)
    says = f"expected the error `{expectation.code}`{reason}, but {_describe_other_errors(other_codes)}"
    return context.build_failure(example, expectation.span, says)


def _describe_other_errors(other_codes: Mapping[str, str]) -> str:
    if not other_codes:
        return "no field failed"
    named = [f"`{path}` with `{code}`" for path, code in other_codes.items()][:MAX_NAMED_FIELDS]
    more = f" and {len(other_codes) - MAX_NAMED_FIELDS} more" if len(other_codes) > MAX_NAMED_FIELDS else ""
    return f"the fields failed differently: {', '.join(named)}{more}"
