"""Check requirements, and write each as what it means: nested `if`s that emit one entry.

    require CODE "title" when scope in force from start to end on day: condition else "message";

out of scope: the scope is false · undetermined: nobody knows the day it starts · not yet in force, expired: the day,
that of issue unless one is named, is before the start, or not before the end · else it is assessed: PASS with the title
or FAIL with the message.
"""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from bpc.core.language import syntax, typed
from bpc.core.language.checking import explain, literals, operators
from bpc.core.language.checking.abouts import check_line
from bpc.core.language.checking.context import Checker, FieldDeclaration, Node
from bpc.core.language.checking.definitions import CheckedBody
from bpc.core.language.checking.insisted_layers import read_layer
from bpc.core.language.source import DiagnosticNote, Source, Span
from bpc.core.language.types import BOOL, DATE, TEXT, Opt

REQUIREMENTS_PATH: Final = "requirements.met"

_START: Final = "the start"  # names with blanks, which no rule can write


class _Text(NamedTuple):
    """A title or message: the lets that bind the texts in it, the text itself, and those texts by name."""

    bindings: tuple[typed.TypedLet, ...]
    message: typed.Expr
    args: tuple[tuple[str, typed.Expr], ...]


def declare_requirements(checker: Checker, requirements: Sequence[syntax.Requirement]) -> None:
    """Declare the field of all requirements, which has no audience."""
    first: dict[str, Span] = {}
    for requirement in requirements:
        known = first.setdefault(requirement.code.text, requirement.code.span)
        if known is not requirement.code.span:
            message = f"there are two requirements `{requirement.code.text}`"
            note = DiagnosticNote(known, "the first is here")
            files = [checker.findings.source.resolve(span)[0] for span in (known, requirement.code.span)]
            hint = (
                "join the conditions with `&&`, or give this one a code of its own"
                if files[0] is files[1]
                else f'to replace it, write `override "reason"` before `require {requirement.code.text}`'
            )
            checker.error("duplicate-requirement", requirement.code.span, message, hint, note)
    if requirements:
        span = requirements[0].code.span
        checker.fields[REQUIREMENTS_PATH] = FieldDeclaration(BOOL, (), span, span)


def check_requirements(checker: Checker, requirements: Sequence[syntax.Requirement]) -> CheckedBody:
    """The body of the field of all requirements."""
    checker.rule = REQUIREMENTS_PATH
    checker.reads = {}
    items = [_check_requirement(checker, requirement) for requirement in requirements]
    checker.rule = None
    known = tuple(item for item in items if item is not None)
    met = typed.RequirementsMet(BOOL, known, requirements[0].code.span)
    return CheckedBody(met if len(known) == len(items) else None, checker.reads)


def _check_requirement(checker: Checker, node: syntax.Requirement) -> typed.RequirementCheck | None:
    errors = len(checker.findings.errors)
    scope = None if node.scope is None else _check_bool(checker, node.scope, "what stands after `when`")
    start, end = _check_day(checker, node.start), _check_day(checker, node.end)
    day = None if node.day is None else _check_governing_day(checker, node.day)
    condition = _check_bool(checker, node.condition, "what is required")
    title = _check_text(checker, node.heading)
    message = title if node.message is None else _check_text(checker, node.message)
    if node.cite is not None:
        check_line(checker, node.cite, "citation")
    if len(checker.findings.errors) > errors or condition is None or title is None or message is None:
        return None
    severity: Literal["FAIL", "WARN"] = "WARN" if node.severity is not None and node.severity.text == "warn" else "FAIL"
    writer = _RequirementWriter(checker, node, title)
    body = writer.choose(condition, writer.emit("PASS", "assessed"), writer.emit(severity, "assessed", message))
    body = writer.limit_period(start, end, day, body)
    if scope is not None:
        body = writer.choose(scope, body, writer.emit("NOT_APPLICABLE", "out_of_scope"))
    cite = None if node.cite is None else node.cite.value
    layer = read_layer(node.layer)
    return typed.RequirementCheck(BOOL, node.code.text, severity, body, node.code.span, node.span, cite, layer)


class _RequirementWriter:
    """Writes the expressions of one requirement."""

    def __init__(self, checker: Checker, node: syntax.Requirement, title: _Text) -> None:
        self._checker = checker
        self._code = node.code.text
        self._span = node.code.span
        self._title = title

    def emit(self, status: str, verdict: str, text: _Text | None = None) -> typed.Expr:
        bindings, message, args = text or self._title
        emit = typed.EmitCompliance(
            BOOL, self._code, typed.Const(TEXT, status, self._span), message, self._span, verdict, args
        )
        return typed.TypedBlock(BOOL, bindings, emit) if bindings else emit

    def choose(self, condition: typed.Expr, then: typed.Expr, otherwise: typed.Expr) -> typed.Expr:
        return typed.TypedIf(BOOL, (typed.TypedBranch(condition, then, self._span),), otherwise)

    def limit_period(
        self, start: typed.Expr | None, end: typed.Expr | None, day: typed.Expr | None, body: typed.Expr
    ) -> typed.Expr:
        """The body on a day within the period; a start that nobody knows leaves it undetermined."""
        governing = typed.BuiltinCall(DATE, "issuedOn", (), {}, self._span) if day is None else day
        if end is not None:
            body = self._compare_day(governing, ">=", end, "expired", body)
        if start is not None:
            body = self._compare_day(governing, "<", start, "not_yet_in_force", body)
        return body

    def _compare_day(
        self, governing: typed.Expr, op: Literal["<", ">="], day: typed.Expr, verdict: str, body: typed.Expr
    ) -> typed.Expr:
        is_option = isinstance(day.type, Opt)
        limit = typed.Local(DATE, _START, self._span) if is_option else day
        is_outside = typed.TypedComparison(BOOL, op, "Date", governing, limit, self._span)
        inside = self.choose(is_outside, self.emit("NOT_APPLICABLE", verdict), body)
        if not is_option:
            return inside
        # Without an end it never expires; without a start nobody knows whether it applies.
        otherwise = body if op == ">=" else self.emit("NOT_APPLICABLE", "undetermined")
        return typed.TypedIf(BOOL, (typed.TypedBranch(day, inside, self._span, _START),), otherwise)


def _check_bool(checker: Checker, node: Node, what: str) -> typed.Expr | None:
    return operators.require_bool(checker, node, checker.check(node), what)


def _check_day(checker: Checker, node: Node | None) -> typed.Expr | None:
    if node is None:
        return None
    if isinstance(node, syntax.NoneLiteral):
        return checker.check(node, checker.types.opt(DATE))
    expr = checker.check(node)
    if expr is None or expr.type is DATE or expr.type is checker.types.opt(DATE):
        return expr
    message = f"a requirement is in force from a `Date` or an `Opt(Date)`, but this is {checker.format_type(expr.type)}"
    hint = explain.suggest_conversion(checker.quote(node), expr.type, DATE, checker.shared.language)
    checker.error("wrong-type", node.span, message, hint)
    return None


def _check_governing_day(checker: Checker, node: Node) -> typed.Expr | None:
    """The day that decides what is in force: always a day, because without one nobody could say."""
    expr = checker.check(node)
    if expr is None or expr.type is DATE:
        return expr
    message = f"what is in force is decided by a `Date`, but this is {checker.format_type(expr.type)}"
    hint = "say which day counts where it is absent: `day ?? issuedOn()`" if isinstance(expr.type, Opt) else None
    checker.error("wrong-type", node.span, message, hint)
    return None


def name_arguments(node: syntax.Interpolation, source: Source) -> list[str | None]:
    """What each part of a message is called as an argument: its own name, or its text; None for a fixed text."""
    own_names = node.names or (None,) * len(node.parts)
    return [
        None
        if isinstance(part, syntax.TextLiteral)
        else name or " ".join(source.text[part.span.start : part.span.end].split())
        for part, name in zip(node.parts, own_names, strict=True)
    ]


def _check_text(checker: Checker, node: Node) -> _Text | None:
    expr = literals.check_text_argument(checker, node, "the message of a requirement must be a `Text`")
    if expr is None or not isinstance(node, syntax.Interpolation) or not isinstance(expr, typed.BuiltinCall):
        return None if expr is None else _Text((), expr, ())
    bindings: list[typed.TypedLet] = []
    parts: list[typed.Expr] = []
    args: list[tuple[str, typed.Expr]] = []
    names = name_arguments(node, checker.findings.source)
    for part_node, part, argument in zip(node.parts, expr.arguments, names, strict=True):
        if isinstance(part_node, syntax.TextLiteral):
            parts.append(part)
            continue
        name = f"argument {len(bindings)}"
        bindings.append(typed.TypedLet(name, part, part_node.span))
        local = typed.Local(TEXT, name, part_node.span)
        parts.append(local)
        args.append((str(argument), local))
    message = typed.BuiltinCall(TEXT, "concat", tuple(parts), {}, node.span)
    return _Text(tuple(bindings), message, tuple(dict(args).items()))
