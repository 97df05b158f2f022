"""`bpc why`: how a field came to its value, or why it has none. Needs no database and no settings."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from bpc.cli.files import read_bytes
from bpc.cli.output import REFUSED, AsJson, print_json, say, visible
from bpc.cli.rules_input import Given, read_given
from bpc.core import canon
from bpc.core.bundle import read_bundle
from bpc.core.compile_input import CompileInput
from bpc.core.errors import Conflict, Invalid, NotFound
from bpc.core.payload import at_path
from bpc.core.replay import input_of
from bpc.core.rules.nearest import Suggestions
from bpc.core.rules.package import checked_program
from bpc.core.rules.reference.derive import Explained, explain, written
from bpc.core.rules.typed import Field, Program
from bpc.core.timestamps import format_time
from bpc.core.why import Reason, why

app = typer.Typer(add_completion=False, rich_markup_mode=None)

ZIP = b"PK"


@app.command("why")
def why_command(
    file: Annotated[str, typer.Argument(metavar="BUNDLE|INPUT", help="A bundle, or with --rules an input.")],
    path: Annotated[str, typer.Argument(metavar="FIELD", help="The field's path, like battery.capacity_kwh.")],
    rules: Annotated[str | None, typer.Option("--rules", metavar="FILE", help="The rules, for an input.")] = None,
    as_json: AsJson = False,
) -> None:
    """Tell how a field came to its value.

    Every step in plain words, with its place in the rules, down to the facts. An input is what `bpc compile` or
    `bpc rules eval` takes; where its rules fail, it tells why the field has no value, and exits 1.

    \b
    bpc why bundle.zip battery.capacity_kwh
    bpc why input.json battery.capacity_kwh --rules rules.bpc
    """
    data = read_bytes(file)
    if data.startswith(ZIP) == (rules is not None):
        raise Invalid(
            "a bundle has its rules in it" if rules is not None else f"`{file}` is not a bundle",
            fix="leave --rules out" if rules is not None else "for an input, say --rules FILE",
        )
    if rules is not None:
        program = checked_program(read_bytes(rules), name=rules)
        _, explained, reason = _explained(program, path, read_given(data), numbered="fact {} of the input")
    else:
        entries = read_bundle(data).entries
        kept = input_of(entries)
        field, explained, reason = _explained(checked_program(kept.rules), path, _given(kept))
        _refuse_another_value(field, explained, entries["payload.json"])
    if as_json:
        print_json(reason.as_json())
    else:
        _print(reason)
    if explained.failure is not None:
        raise typer.Exit(REFUSED)


def _given(kept: CompileInput) -> Given:
    return Given(
        sku=kept.product.sku, name=kept.product.name, issued_on=format_time(kept.issued_at)[:10], facts=kept.facts
    )


def _explained(
    program: Program, path: str, given: Given, *, numbered: str = "line {} of the facts"
) -> tuple[Field, Explained, Reason]:
    field = next((field for field in program.fields if field.path == path), None)
    if field is None:
        raise _unknown(path, [field.path for field in program.fields])
    explained = explain(program, given.world(program.facts), path)
    return field, explained, why(field, explained, program.source, given.facts, numbered=numbered)


def _unknown(path: str, known: Sequence[str]) -> NotFound:
    fix = Suggestions().help(path, known) or f"there are {', '.join(sorted(known)[:20])}"
    return NotFound(f"no field is called `{visible(path)}`", fix=fix)


def _refuse_another_value(field: Field, explained: Explained, payload: bytes) -> None:
    """A bundle that says something else than its rules is not explained but refused."""
    found: Any = canon.decode(payload)
    said = at_path(found["fields"], field.path)
    if explained.failure is not None or said != (written(field.type, explained.value),):
        raise Conflict(
            f"the bundle's rules and facts do not give what it says of `{field.path}`",
            fix="`bpc verify` finds out what was changed",
        )


def _print(reason: Reason) -> None:
    for depth, says, place in reason.lines():
        say(f"{'  ' * depth}{visible(says)}", bold=depth == 0, end="")
        say(f"   {visible(place)}" if place else "", dim=True)
