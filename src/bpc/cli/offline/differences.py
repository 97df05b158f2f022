"""`bpc diff`: what differs between two bundles, and why. Needs no database and no settings."""

from dataclasses import asdict
from typing import Annotated

import typer

from bpc.cli.support.output import REFUSED, AsJson, escape_controls, format_count, print_json, print_line, read_bytes
from bpc.core.passport.bundle import read_bundle
from bpc.core.readiness.difference import (
    ComplianceDifference,
    PassportDifference,
    compare_passports,
    format_value,
    read_contents,
)


def print_difference(
    before: Annotated[str, typer.Argument(metavar="A", help="A bundle; `-` is standard input.")],
    after: Annotated[str, typer.Argument(metavar="B", help="The bundle to compare it with.")],
    as_json: AsJson = False,
) -> None:
    """Show what differs between two passports, and why.

    Compares fields, compliance entries, facts and rules. Each field that differs names its cause: the document that
    changed a value, with the place in it, or the rule that was changed. Exits 1 if something differs.

    \b
    bpc diff january.zip february.zip
    """
    contents = [read_contents(read_bundle(read_bytes(file)).entries) for file in (before, after)]
    difference = compare_passports(*contents)
    if as_json:
        facts = [{**asdict(fact), "says": fact.says} for fact in difference.facts]
        print_json({**asdict(difference), "facts": facts})
    else:
        _print_text(difference)
    if not difference.is_empty:
        raise typer.Exit(REFUSED)


def _print_text(difference: PassportDifference) -> None:
    if difference.is_empty:
        print_line("the passports say the same")
        return
    for sentence in difference.product:
        print_line(escape_controls(sentence))
    for field in difference.fields:
        print_line(f"{field.path}: {_escape(field.before)} -> {_escape(field.after)}", bold=True)
        for cause in field.causes or ("no cause is known",):
            print_line(f"  {escape_controls(cause)}")
    for entry in difference.compliance:
        print_line(escape_controls(_describe_entry(entry)), bold=True)
    for path in difference.access:
        print_line(f"{path}: other audiences may see it", bold=True)
    if difference.rules:
        print_line(f"rules: {format_count(len(difference.rules), 'field')}", bold=True)
    for rule in difference.rules:
        print_line(f"  {rule.path}: {rule.change}")
    if difference.facts:
        print_line(f"facts: {format_count(len(difference.facts), 'value')}", bold=True)
    for fact in difference.facts:
        print_line(f"  {escape_controls(fact.says)}")


def _escape(value: object) -> str:
    return escape_controls(format_value(value))  # type: ignore[arg-type] # read from JSON


def _describe_entry(entry: ComplianceDifference) -> str:
    before, after = (
        "absent" if side is None else f"{side['status']} ({side['message']})" for side in (entry.before, entry.after)
    )
    return f"compliance {entry.code}, field {entry.field}: {before} -> {after}"
