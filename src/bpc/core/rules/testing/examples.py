"""Running an example: its world in, what it expected in vain out.

Pure. All `expect`s share one evaluation, so that a field they all need is computed once; an `expectError` tries every
field alone, so that one error does not hide another.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from bpc.core.facts import FactInvalid
from bpc.core.rules.evaluating.evaluate import Session
from bpc.core.rules.failure import RuleFailure
from bpc.core.rules.shown import shown
from bpc.core.rules.testing.trial import Trial, snapshot_fact
from bpc.core.rules.testing.verdict import TestFailure, rule_code
from bpc.core.rules.typed import Const, Example, Expect, ExpectError
from bpc.core.rules.types import Dec, Opt, Type
from bpc.core.rules.world import World

NAMED: Final = 3  # fields named in a sentence before it says how many more

_COMPARE: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def example_failures(trial: Trial, example: Example) -> list[TestFailure]:
    """Every expectation that is not met, in written order."""
    facts = [snapshot_fact(given, given.payload or {}) for given in example.given.facts]
    try:
        world = trial.world(example.given, facts)
    except FactInvalid as invalid:
        return _unreadable(trial, example, invalid)
    session = trial.session(world)
    found = [
        _expect(trial, example, wanted, session)
        if isinstance(wanted, Expect)
        else _expect_error(trial, example, wanted, world)
        for wanted in example.expectations
    ]
    trial.counts(session)
    return [failure for failure in found if failure is not None]


def _unreadable(trial: Trial, example: Example, invalid: FactInvalid) -> list[TestFailure]:
    """Facts that fit no schema end a compilation before any field: each field fails with their code."""
    return [
        _failure(trial, example, wanted, f"the facts cannot be read: {invalid.says}", invalid)
        for wanted in example.expectations
        if not (isinstance(wanted, ExpectError) and wanted.code == invalid.code)
    ]


def _failure(
    trial: Trial,
    example: Example,
    wanted: Expect | ExpectError,
    says: str,
    error: RuleFailure | FactInvalid | None = None,
) -> TestFailure:
    return TestFailure(
        test=example.name,
        kind="example",
        says=says,
        source=example.source,
        span=wanted.span,
        error=None if error is None else trial.error(error, example.source),
    )


def _expect(trial: Trial, example: Example, wanted: Expect, session: Session) -> TestFailure | None:
    try:
        value = session.field(wanted.path)
    except RuleFailure as failure:
        return _failure(trial, example, wanted, f"`{wanted.path}` has no value: {failure.says}", failure)
    kind = next(field.type for field in trial.program.fields if field.path == wanted.path)
    if _COMPARE[wanted.op](*_aligned(kind, value, wanted.constant)):
        return None
    expected = f"{wanted.op} {shown(wanted.constant.type, wanted.constant.value)}"
    return _failure(trial, example, wanted, f"`{wanted.path}` is `{shown(kind, value)}`, expected `{expected}`")


def _expect_error(trial: Trial, example: Example, wanted: ExpectError, world: World) -> TestFailure | None:
    others: dict[str, str] = {}
    for tried in trial.program.fields:
        session = trial.session(world)
        try:
            session.field(tried.path)
        except RuleFailure as failure:
            if wanted.code in {failure.code, rule_code(failure)}:
                trial.counts(session)
                return None
            others[tried.path] = rule_code(failure) or failure.code
    return _failure(trial, example, wanted, f"no field fails with `{wanted.code}`{_instead(others)}")


def _instead(others: Mapping[str, str]) -> str:
    if not others:
        return ", and none fails at all"
    named = [f"`{path}` with `{code}`" for path, code in others.items()][:NAMED]
    more = f" and {len(others) - NAMED} more" if len(others) > NAMED else ""
    return f"; what fails is {', '.join(named)}{more}"


def _aligned(kind: Type, value: Any, constant: Const) -> tuple[Any, Any]:
    """A field's value and a constant as two things that compare: Decs of two scales at the larger one."""
    left, right = _scale(kind), _scale(constant.type)
    if left == right or value is None or constant.value is None:
        return value, constant.value
    scale = max(left, right)
    return value * 10 ** (scale - left), cast("int", constant.value) * 10 ** (scale - right)


def _scale(kind: Type) -> int:
    match kind:
        case Dec(scale) | Opt(Dec(scale)):
            return scale
        case _:
            return 0
