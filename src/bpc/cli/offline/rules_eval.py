"""`bpc rules eval`: compute the fields of a package from facts, without a passport.

RULES, INPUT ─► World ─► each field by itself ─► its value, or why it has none, and where
"""

from collections.abc import Iterator, Sequence
from dataclasses import fields as parts_of
from dataclasses import is_dataclass
from typing import Annotated, Final, NamedTuple

import typer

from bpc.cli.support.output import (
    CONTROL_ESCAPES_IN_LINES,
    REFUSED,
    AsJson,
    print_json,
    print_line,
    print_refusal,
    read_bytes,
)
from bpc.cli.support.rule_files import RulesArgument, exit_with_diagnostics, read_package_files, read_rule_input
from bpc.core.errors import Invalid
from bpc.core.language.checking.context import LocatedDiagnostic
from bpc.core.language.evaluating.machine import Machine, Session
from bpc.core.language.evaluating.values import format_as_literal, value_to_json
from bpc.core.language.evaluation import AssertionFailed, ComplianceEntry, RuleFailure
from bpc.core.language.package import check_expression
from bpc.core.language.parsing.parse import parse_expression
from bpc.core.language.source import Source, render_excerpt, span_to_json
from bpc.core.language.suggestions import Suggestions
from bpc.core.language.typed import Expr, FactLookup, FactPrefixLookup, Program, ProgramField, Value
from bpc.core.language.types import FactRecordType, Type, contains_fact_record

EXPRESSION_LABEL: Final = "--expr"
MAX_FIELDS_LISTED: Final = 20


class EvalResult(NamedTuple):
    """A field, or the expression: its value, or why it has none and in which text."""

    label: str
    type: Type
    value: Value
    failure: RuleFailure | None
    source: Source


def evaluate_rules(
    rules: RulesArgument,
    input_file: Annotated[
        str | None,
        typer.Argument(metavar="INPUT.json", help="Facts, product and day, as for `bpc compile`.", show_default=False),
    ] = None,
    field: Annotated[
        list[str] | None, typer.Option("--field", metavar="PATH", help="Only this field; may be repeated.")
    ] = None,
    expr: Annotated[
        str | None, typer.Option("--expr", metavar="TEXT", help="Evaluate this expression instead of fields.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compute fields from facts.

    INPUT.json is the input of `bpc compile`; a smaller one is enough: {"battery_product": {"sku", "name"}, "issued_at",
    "facts": [{"fact_type", "fact_key", "payload"}]}. Missing parts have the defaults of a rule test. A field without a
    value is shown with the reason and the position in the rules. Exits 1 if a field has no value.

    \b
    bpc rules eval battery.bpc input.json
    bpc rules eval battery.bpc input.json --field battery.capacity_kwh
    bpc rules eval battery.bpc --expr 'toDec(2, 1 / 3)'
    """
    if expr is not None and field:
        raise typer.BadParameter("--field and --expr cannot be combined.")
    program = _read_program(rules, as_json=as_json)
    expression = None if expr is None else _check_expression(program, expr, as_json=as_json)
    data = b"{}" if input_file is None else read_bytes(input_file)
    machine = Machine(program)
    fact_types = dict.fromkeys([*program.facts, *([] if expression is None else _find_fact_types(expression))])
    session = machine.open_session(read_rule_input(data).make_world(fact_types))
    if expression is not None and expr is not None:
        results = [_run_expression(machine, session, expression, Source(EXPRESSION_LABEL, expr))]
    else:
        results = [_compute_field(session, program, one) for one in _select_fields(program, field or [])]
    _print_results(results, session.compliance, as_json=as_json)
    if any(result.failure for result in results):
        raise typer.Exit(REFUSED)


def _read_program(file: str, *, as_json: bool) -> Program:
    package = read_package_files(file)
    if package.program is None:
        exit_with_diagnostics(package.diagnostics, as_json=as_json)
    return package.program


def _check_expression(program: Program, text: str, *, as_json: bool) -> Expr:
    source = Source(EXPRESSION_LABEL, text)
    tree, diagnostics = parse_expression(source, language=program.language)
    expression = None
    if tree is not None and not diagnostics:
        expression, diagnostics = check_expression(program, source, tree)
    if expression is None:
        exit_with_diagnostics([LocatedDiagnostic(source, diagnostic) for diagnostic in diagnostics], as_json=as_json)
    return expression


def _find_fact_types(part: object) -> Iterator[FactRecordType]:
    """The fact types that an expression reads; the rules may not read them."""
    if isinstance(part, FactLookup | FactPrefixLookup):
        yield part.fact
    if isinstance(part, tuple):
        for item in part:
            yield from _find_fact_types(item)
    elif is_dataclass(part):
        for name in parts_of(part):
            yield from _find_fact_types(getattr(part, name.name))


def _select_fields(program: Program, paths: Sequence[str]) -> list[ProgramField]:
    """The fields with these paths, or all fields in the order of the file."""
    fields_by_path = {field.path: field for field in sorted(program.fields, key=lambda field: field.span)}
    for path in paths:
        if path not in fields_by_path:
            near = Suggestions().find_nearest(path, list(fields_by_path))
            raise Invalid(f"there is no field `{path}`", fix=near and f"did you mean `{near}`?")
    return [fields_by_path[path] for path in paths or fields_by_path]


def _compute_field(session: Session, program: Program, field: ProgramField) -> EvalResult:
    try:
        return EvalResult(field.path, field.type, session.compute_field(field.path), None, program.source)
    except RuleFailure as failure:
        return EvalResult(field.path, field.type, None, failure, program.source)


def _run_expression(machine: Machine, session: Session, expression: Expr, source: Source) -> EvalResult:
    try:
        return EvalResult(
            EXPRESSION_LABEL, expression.type, session.run(machine.compile_expression(expression, ()), {}), None, source
        )
    except RuleFailure as failure:
        # Without a field it happened in the expression itself.
        is_own = failure.field is None and failure.definition is None
        at = source if is_own else machine.program.source
        return EvalResult(EXPRESSION_LABEL, expression.type, None, failure, at)


def _print_results(results: Sequence[EvalResult], compliance: Sequence[ComplianceEntry], *, as_json: bool) -> None:
    if as_json:
        print_json(_results_to_json(results, compliance))
        return
    values = [result for result in results if result.failure is None]
    width = max((len(result.label) for result in values), default=0)
    for result in values:
        label = "" if result.label == EXPRESSION_LABEL else f"{result.label.ljust(width)}  "
        print_line(f"{label}{format_as_literal(result.type, result.value)}")
    for entry in compliance:
        verdict = "" if entry.verdict == "assessed" else f"{entry.verdict}, "
        print_line(f"{entry.status}  {entry.code}  {entry.message}  ({verdict}field {entry.field})")
    _print_failures([result for result in results if result.failure])


def _print_failures(failures: Sequence[EvalResult]) -> None:
    """Each failure once, at its position, then the fields that have no value because of it."""
    printed_fields: set[str | None] = set()
    needing = _group_dependents(failures)
    for result in failures:
        failure = result.failure
        if failure is None or failure.field in printed_fields:
            continue
        printed_fields.add(failure.field)
        where = "" if failure.field is None else f", field `{failure.field}`"
        print_refusal(failure.code, failure.says, None, {}, as_json=False)
        typer.echo(
            f"  at {result.source.find_place(failure.span.start)}{where}\n{render_excerpt(result.source, failure.span)}"
            f"{_describe_dependents(needing.get(failure.field, []))}".translate(CONTROL_ESCAPES_IN_LINES),
            err=True,
            nl=False,
        )


def _group_dependents(failures: Sequence[EvalResult]) -> dict[str | None, list[str]]:
    """The fields that have no value because another has none, by that other one."""
    needing: dict[str | None, list[str]] = {}
    for result in failures:
        if result.failure and result.label not in {result.failure.field, EXPRESSION_LABEL}:
            needing.setdefault(result.failure.field, []).append(f"`{result.label}`")
    return needing


def _describe_dependents(needing: Sequence[str]) -> str:
    if not needing:
        return ""
    more = f" and {len(needing) - MAX_FIELDS_LISTED:,} more" if len(needing) > MAX_FIELDS_LISTED else ""
    return f"therefore these fields have no value either: {', '.join(needing[:MAX_FIELDS_LISTED])}{more}\n"


def _results_to_json(results: Sequence[EvalResult], compliance: Sequence[ComplianceEntry]) -> dict[str, object]:
    values = {result.label: _value_to_json(result) for result in results if result.failure is None}
    answer: dict[str, object] = (
        {"value": values.get(EXPRESSION_LABEL)}
        if [result.label for result in results] == [EXPRESSION_LABEL]
        else {"fields": values}
    )
    return {
        **answer,
        "compliance": [{**entry.to_json(), "verdict": entry.verdict, "args": dict(entry.args)} for entry in compliance],
        "failures": [
            _failure_to_json(result.label, result.failure, result.source) for result in results if result.failure
        ],
    }


def _value_to_json(result: EvalResult) -> object:
    convert = format_as_literal if contains_fact_record(result.type) else value_to_json
    return convert(result.type, result.value)


def _failure_to_json(label: str, failure: RuleFailure, source: Source) -> dict[str, object]:
    return {
        "of": label,
        "code": failure.code,
        "rule_code": failure.rule_code if isinstance(failure, AssertionFailed) else None,
        "message": failure.says,
        "field": failure.field,
        **span_to_json(source, failure.span),
    }
