"""`bpc diff`: what differs between two passports, and why. Bundles need no service; versions come from the API."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Annotated
from uuid import UUID

import typer

from bpc.cli.online.api_client import open_api
from bpc.cli.support.arguments import UrlOption
from bpc.cli.support.output import REFUSED, AsJson, escape_controls, format_count, print_json, print_line, read_bytes
from bpc.core.errors import Invalid
from bpc.core.facts.findings import FINDING_FACT_TYPE
from bpc.core.formats.ids import parse_uuid
from bpc.core.passport.bundle import read_bundle
from bpc.core.readiness.difference import (
    ComplianceDifference,
    FactDifference,
    PassportDifference,
    compare_passports,
    format_value,
    read_contents,
)


async def print_difference(
    before: Annotated[
        str, typer.Argument(metavar="A", help="A bundle, or the id of a passport version; `-` is standard input.")
    ],
    after: Annotated[str, typer.Argument(metavar="B", help="The bundle or version to compare it with.")],
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Show what differs between two passports, and why.

    Compares fields, compliance entries, facts and rules. Each field that differs names its cause: the document that
    changed a value, with the place in it, or the rule that was changed. Exits 1 if something differs. Versions are
    fetched from the API; two bundles need no service.

    \b
    bpc diff january.zip february.zip
    bpc diff 01932f5c-7b1e-7cc0-9d3a-52a4c0f0a1b2 01a1e995-8e98-738c-8e83-51098538c2ab
    """
    bundles = [await _load_bundle(source, url, as_json=as_json) for source in (before, after)]
    show_difference(*bundles, as_json=as_json)


def show_difference(before: bytes, after: bytes, *, as_json: bool) -> None:
    """Print what differs between two bundles; exit 1 if something does."""
    difference = compare_passports(*(read_contents(read_bundle(bundle).entries) for bundle in (before, after)))
    if as_json:
        facts = [{**asdict(fact), "says": fact.says} for fact in difference.facts]
        print_json({**asdict(difference), "facts": facts})
    else:
        _print_text(difference)
    if not difference.is_empty:
        raise typer.Exit(REFUSED)


async def _load_bundle(source: str, url: str | None, *, as_json: bool) -> bytes:
    version = _parse_version(source)
    if version is None:
        return read_bytes(source)
    async with open_api(url, as_json=as_json) as bpc:
        return (await bpc.get_bundle(version)).content


def _parse_version(source: str) -> UUID | None:
    """The id of a version; None if it is a file, or not an id."""
    if Path(source).exists():
        return None
    try:
        return parse_uuid(source)
    except Invalid:
        return None


def _print_text(difference: PassportDifference) -> None:
    if difference.is_empty:
        print_line("the passports say the same")
        return
    for sentence in difference.product:
        print_line(escape_controls(sentence))
    for field in difference.fields:
        print_line(f"{escape_controls(field.title)}: {_escape(field.before)} -> {_escape(field.after)}", bold=True)
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
    values = [fact for fact in difference.facts if fact.fact_type != FINDING_FACT_TYPE]
    if values:
        print_line(f"facts: {format_count(len(values), 'value')}", bold=True)
    for fact in values:
        print_line(f"  {escape_controls(fact.says)}")
    findings = list(_describe_findings(difference.facts))
    if findings:
        print_line(f"findings: {len(findings)}", bold=True)
    for sentence in findings:
        print_line(f"  {escape_controls(sentence)}")


def _describe_findings(facts: Sequence[FactDifference]) -> Iterator[str]:
    """A sentence for each finding that is new, gone or another one. JSON has all its members."""
    for key, group in groupby((fact for fact in facts if fact.fact_type == FINDING_FACT_TYPE), key=_get_key):
        messages = {fact.member: (fact.before, fact.after) for fact in group}
        before, after = messages.get("message", (None, None))
        if before is None and after is not None:
            yield f"`{key}` is new: {after}"
        elif after is None and before is not None:
            yield f"`{key}` is gone: {before}"
        elif before is not None:
            yield f"`{key}` was: {before}; is: {after}"
        else:
            yield f"`{key}` differs in {', '.join(messages)}"


def _get_key(fact: FactDifference) -> str:
    return fact.fact_key


def _escape(value: object) -> str:
    return escape_controls(format_value(value))  # type: ignore[arg-type] # read from JSON


def _describe_entry(entry: ComplianceDifference) -> str:
    before, after = (
        "absent" if side is None else f"{side['status']} ({side['message']})" for side in (entry.before, entry.after)
    )
    return f"compliance {entry.code}, field {entry.field}: {before} -> {after}"
