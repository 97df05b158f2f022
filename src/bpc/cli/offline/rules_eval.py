"""`bpc rules eval`: what the fields of a package are over some facts, without making a passport of them.

RULES, INPUT ─► World ─► each field on its own ─► its value, or why there is none and where
"""

from collections.abc import Iterator, Sequence
from dataclasses import fields as parts_of
from dataclasses import is_dataclass
from typing import Annotated, Final, NamedTuple, NoReturn

import typer

from bpc.cli.files import read_bytes
from bpc.cli.output import CONTROL_IN_LINES, REFUSED, AsJson, print_json, print_refusal, say
from bpc.cli.rules_diagnostics import errors, print_diagnostics
from bpc.cli.rules_input import read_given
from bpc.core.errors import Invalid
from bpc.core.rules.checking.check import check_expression
from bpc.core.rules.checking.findings import Found
from bpc.core.rules.compliance import Compliance
from bpc.core.rules.evaluating.evaluate import Machine, Session, written
from bpc.core.rules.failure import AssertionFailed, RuleFailure
from bpc.core.rules.nearest import Suggestions
from bpc.core.rules.package import read_package
from bpc.core.rules.parsing.parse import parse_expression
from bpc.core.rules.shown import shown
from bpc.core.rules.source import Source, excerpt
from bpc.core.rules.source import as_json as diagnostic_json
from bpc.core.rules.typed import Expr, Field, GetFact, GetFacts, Program, Value
from bpc.core.rules.types import Fact, Type, contains_fact

EXPRESSION: Final = "--expr"
LISTED: Final = 20  # fields that a person is told have no value because of another


class Result(NamedTuple):
    """A field, or the expression: its value, or why there is none and in which text."""

    label: str
    type: Type
    value: Value
    failure: RuleFailure | None
    source: Source


def evaluate(
    rules: Annotated[str, typer.Argument(metavar="RULES", help="A rule file; `-` is standard input.")],
    given: Annotated[
        str | None,
        typer.Argument(metavar="INPUT.json", help="Facts, product and day, as for `bpc compile`.", show_default=False),
    ] = None,
    field: Annotated[
        list[str] | None, typer.Option("--field", metavar="PATH", help="Only this field; may be repeated.")
    ] = None,
    expr: Annotated[
        str | None, typer.Option("--expr", metavar="TEXT", help="An expression instead; it may read fields and facts.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what fields are over some facts.

    INPUT.json is what `bpc compile` takes. Less will do: of {"battery_product": {"sku", "name"}, "issued_at", "facts":
    [{"fact_type", "fact_key", "payload"}]} what is missing is as in a test. A field that has no value is shown with the
    reason and its place in the rules; the others are computed all the same. Exits 1 if one has none.

    \b
    bpc rules eval battery.bpc input.json
    bpc rules eval battery.bpc input.json --field battery.capacity_kwh
    bpc rules eval battery.bpc --expr 'toDec(2, 1 / 3)'
    """
    if expr is not None and field:
        raise typer.BadParameter("--field and --expr do not go together.")
    program = _program(rules, as_json=as_json)
    asked = None if expr is None else _expression(program, expr, as_json=as_json)
    data = b"{}" if given is None else read_bytes(given)
    machine = Machine(program)
    named = dict.fromkeys([*program.facts, *([] if asked is None else _facts_in(asked))])
    session = machine.session(read_given(data).world(named))
    if asked is not None and expr is not None:
        results = [_run(machine, session, asked, Source(EXPRESSION, expr))]
    else:
        results = [_computed(session, program, one) for one in _fields(program, field or [])]
    _print(results, session.compliance, as_json=as_json)
    if any(result.failure for result in results):
        raise typer.Exit(REFUSED)


def _program(file: str, *, as_json: bool) -> Program:
    package = read_package(read_bytes(file), name=file)
    if package.program is None:
        _stop(package.found, as_json=as_json)
    return package.program


def _expression(program: Program, text: str, *, as_json: bool) -> Expr:
    source = Source(EXPRESSION, text)
    tree, found = parse_expression(source)
    checked = None
    if tree is not None and not found:
        checked, found = check_expression(program, source, tree)
    if checked is None:
        _stop([Found(source, each) for each in found], as_json=as_json)
    return checked


def _stop(found: Sequence[Found], *, as_json: bool) -> NoReturn:
    if as_json:
        print_json({"diagnostics": [diagnostic_json(each.source, each.diagnostic) for each in found]})
    else:
        print_diagnostics(errors(found))
    raise typer.Exit(REFUSED)


def _facts_in(part: object) -> Iterator[Fact]:
    """The fact types an expression reads, which need not be among those of the rules."""
    if isinstance(part, GetFact | GetFacts):
        yield part.fact
    if isinstance(part, tuple):
        for item in part:
            yield from _facts_in(item)
    elif is_dataclass(part):
        for name in parts_of(part):
            yield from _facts_in(getattr(part, name.name))


def _fields(program: Program, asked: Sequence[str]) -> list[Field]:
    """The fields that were asked for, or all in the order they are written in."""
    known = {field.path: field for field in sorted(program.fields, key=lambda field: field.span)}
    for path in asked:
        if path not in known:
            near = Suggestions().nearest(path, list(known))
            raise Invalid(f"there is no field `{path}`", fix=near and f"did you mean `{near}`?")
    return [known[path] for path in asked or known]


def _computed(session: Session, program: Program, field: Field) -> Result:
    try:
        return Result(field.path, field.type, session.field(field.path), None, program.source)
    except RuleFailure as failure:
        return Result(field.path, field.type, None, failure, program.source)


def _run(machine: Machine, session: Session, asked: Expr, source: Source) -> Result:
    try:
        return Result(EXPRESSION, asked.type, session.run(machine.expression(asked, ()), {}), None, source)
    except RuleFailure as failure:
        # Without a field it happened in the expression itself.
        at = source if failure.field is None else machine.program.source
        return Result(EXPRESSION, asked.type, None, failure, at)


def _print(results: Sequence[Result], compliance: Sequence[Compliance], *, as_json: bool) -> None:
    if as_json:
        print_json(_as_json(results, compliance))
        return
    values = [result for result in results if result.failure is None]
    width = max((len(result.label) for result in values), default=0)
    for result in values:
        label = "" if result.label == EXPRESSION else f"{result.label.ljust(width)}  "
        say(f"{label}{shown(result.type, result.value)}")
    for entry in compliance:
        say(f"{entry.status}  {entry.code}  {entry.message}  (field {entry.field})")
    _print_failures([result for result in results if result.failure])


def _print_failures(failed: Sequence[Result]) -> None:
    """Each failure once, at its place, and then the fields that have no value because of it."""
    shown_already: set[str | None] = set()
    needing = _needing(failed)
    for result in failed:
        failure = result.failure
        if failure is None or failure.field in shown_already:
            continue
        shown_already.add(failure.field)
        at = result.source.place(failure.span.start)
        where = "" if failure.field is None else f", field `{failure.field}`"
        print_refusal(failure.code, failure.says, None, {}, as_json=False)
        typer.echo(
            f"  at {result.source.name}:{at.line}:{at.column}{where}\n{excerpt(result.source, failure.span)}"
            f"{_dependents(needing.get(failure.field, []))}".translate(CONTROL_IN_LINES),
            err=True,
            nl=False,
        )


def _needing(failed: Sequence[Result]) -> dict[str | None, list[str]]:
    """The fields that have no value because another has none, by that other one."""
    needing: dict[str | None, list[str]] = {}
    for result in failed:
        if result.failure and result.label not in {result.failure.field, EXPRESSION}:
            needing.setdefault(result.failure.field, []).append(f"`{result.label}`")
    return needing


def _dependents(needing: Sequence[str]) -> str:
    more = f" and {len(needing) - LISTED:,} more" if len(needing) > LISTED else ""
    return f"so there is no {', '.join(needing[:LISTED])}{more} either\n" if needing else ""


def _as_json(results: Sequence[Result], compliance: Sequence[Compliance]) -> dict[str, object]:
    values = {result.label: _written(result) for result in results if result.failure is None}
    answer: dict[str, object] = (
        {"value": values.get(EXPRESSION)}
        if [result.label for result in results] == [EXPRESSION]
        else {"fields": values}
    )
    return {
        **answer,
        "compliance": [entry.as_json() for entry in compliance],
        "failures": [_failure(result.label, result.failure, result.source) for result in results if result.failure],
    }


def _written(result: Result) -> object:
    return shown(result.type, result.value) if contains_fact(result.type) else written(result.type, result.value)


def _failure(label: str, failure: RuleFailure, source: Source) -> dict[str, object]:
    start, end = source.place(failure.span.start), source.place(failure.span.end)
    return {
        "of": label,
        "code": failure.code,
        "rule_code": failure.rule_code if isinstance(failure, AssertionFailed) else None,
        "message": failure.says,
        "field": failure.field,
        "file": source.name,
        "line": start.line,
        "column": start.column,
        "end_line": end.line,
        "end_column": end.column,
    }
