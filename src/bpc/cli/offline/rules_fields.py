"""`bpc rules fields`: the fields of rules as people see them."""

from collections.abc import Mapping, Sequence
from typing import Final

from bpc.cli.support.output import AsJson, print_json, print_table
from bpc.cli.support.rule_files import RulesArgument, exit_with_diagnostics, read_package_files
from bpc.core.language.typed import ProgramField

COLUMNS: Final = ("POINT", "LABEL", "FIELD", "TYPE", "AUDIENCE", "CITATION")


def print_fields(rules: RulesArgument, as_json: AsJson = False) -> None:
    """List the fields of rules, by data point: label, path, type, audience, citation.

    A rule says with `about` what its field is for people; docs/rules/language.md explains it.

    \b
    bpc rules fields battery.bpc
    bpc rules fields rules/eu-battery --json
    """
    package = read_package_files(rules)
    if package.program is None:
        exit_with_diagnostics(package.diagnostics, as_json=as_json)
    fields = sorted(package.program.fields, key=_get_order)
    if as_json:
        print_json({"fields": list_fields_as_json(fields)})
    else:
        print_table(COLUMNS, map(_list_cells, fields))


def list_fields_as_json(fields: Sequence[ProgramField]) -> list[Mapping[str, object]]:
    return [
        {
            "path": field.path,
            "type": str(field.type),
            "audiences": list(field.access),
            "about": None if field.about is None else field.about.as_json(),
        }
        for field in fields
    ]


def _get_order(field: ProgramField) -> tuple[bool, list[int], str]:
    """By data point and part, then those without one; by path."""
    point = None if field.about is None else field.about.point
    return point is None, [] if point is None else list(map(int, point.split("."))), field.path


def _list_cells(field: ProgramField) -> Sequence[str | None]:
    about = field.about
    point, label, citation = (None, None, None) if about is None else (about.point, about.label, about.citation)
    return point, label, field.path, str(field.type), ", ".join(field.access), citation
