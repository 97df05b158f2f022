"""`bpc view`, `bpc export` and `bpc why`: work with a bundle. They need no database and no settings."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from bpc.cli.support.output import (
    REFUSED,
    AsJson,
    escape_controls,
    print_bytes,
    print_json,
    print_line,
    print_result,
    read_bytes,
    replace_file,
)
from bpc.cli.support.rule_files import read_package_texts, read_rule_input
from bpc.core.errors import Invalid
from bpc.core.exports.disclosure import AUDIENCE_DESCRIPTIONS, Audience, choose_audience, choose_language, make_view
from bpc.core.exports.disclosure import ExportFormat as CoreExportFormat
from bpc.core.language.package import read_program
from bpc.core.language.reference.derive import Explanation
from bpc.core.passport.bundle import LOG_PROOF_ENTRY, STATUS_ENTRY, read_bundle
from bpc.core.passport.compile import read_compile_input
from bpc.core.passport.view_envelope import wrap_view
from bpc.core.passport.why import Reason, explain_findings
from bpc.core.passport.why_bundle import explain_bundle, explain_path

ZIP_MAGIC: Final = b"PK"

BundleArgument = Annotated[str, typer.Argument(metavar="BUNDLE", help="The bundle; `-` is standard input.")]
OutOption = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="File to write [default: standard output].")
]


# Everybody; persons with a legitimate interest; notified bodies, market surveillance and the Commission.
AudienceChoice = Literal["public", "interest", "authority"]


def write_view(
    file: BundleArgument,
    audience: Annotated[
        AudienceChoice,
        typer.Option(
            "--audience", help="Who will read it: public, interest (persons with a legitimate interest) or authority."
        ),
    ],
    plain: Annotated[
        bool, typer.Option("--plain", help="Leave out the log proof and where the status is: BPC-VIEW-1.")
    ] = False,
    out: OutOption = None,
    as_json: AsJson = False,
) -> None:
    """Write the part of a passport that one audience may see.

    The view contains the fields of that audience and only salted hashes of the others. With the issuer's public key,
    `bpc verify` proves that the values are in the signed passport and that none is missing.

    \b
    bpc view bundle.zip --audience public --out view.json
    """
    bundle = read_bundle(read_bytes(file))
    data = make_view(bundle, audience)
    if not plain:
        proof, statement = bundle.entries.get(LOG_PROOF_ENTRY), bundle.entries.get(STATUS_ENTRY)
        data = wrap_view(data, log_proof=proof, statement=statement)
    if _write_or_print(data, out):
        says = f"wrote {escape_controls(str(out))}: what the audience `{audience}` may see, {len(data):,} bytes"
        print_result({"audience": audience, "out": out, "bytes": len(data)}, says, as_json=as_json)


def _write_or_print(data: bytes, out: Path | None) -> bool:
    """Write the data to the file, or to standard output without one; return whether there is a file."""
    if out is None:
        print_bytes(data)
        return False
    replace_file(out, data)
    return True


FormatName = Literal["pdf", "json-ld", "xml", "data-points"]
EXPORT_FORMATS: Final[Mapping[FormatName, CoreExportFormat]] = {
    "pdf": "PDF",
    "json-ld": "JSON_LD",
    "xml": "XML",
    "data-points": "DATA_POINTS",
}


def write_export(
    file: BundleArgument,
    format_: Annotated[FormatName, typer.Option("--format", help="Export format.")],
    audience: Annotated[
        Audience | None,
        typer.Option(
            "--audience",
            help="Who will read it; `tenant` includes everything [default: public for pdf, else tenant].",
        ),
    ] = None,
    language: Annotated[
        str | None, typer.Option("--language", metavar="CODE", help="The language of a PDF, such as de [default: en].")
    ] = None,
    catalogue: Annotated[
        Path | None, typer.Option("--catalogue", metavar="FILE", help="The rules' texts in this language, a PO file.")
    ] = None,
    out: OutOption = None,
    as_json: AsJson = False,
) -> None:
    """Export a passport as PDF, JSON-LD, XML or a table.

    The bundle must be complete and signed. This command does not check who signed it: use `bpc verify --key`.

    \b
    bpc export bundle.zip --format pdf --language de --out passport.pdf
    bpc export bundle.zip --format data-points
    """
    from bpc.printing import render_export  # noqa: PLC0415 (the PDF library is slow to import)

    name = EXPORT_FORMATS[format_]
    chosen_audience = choose_audience(name, audience)
    data = render_export(
        read_bundle(read_bytes(file)),
        name,
        chosen_audience,
        language=choose_language(name, language),
        catalogues=() if catalogue is None else (read_bytes(str(catalogue)),),
    )
    if _write_or_print(data, out):
        readers = AUDIENCE_DESCRIPTIONS[chosen_audience]
        says = f"wrote {escape_controls(str(out))}: for {readers}, {len(data):,} bytes"
        document = {"audience": chosen_audience, "bytes": len(data), "format": format_, "out": out}
        print_result(document, says, as_json=as_json)


def print_explanation(
    file: Annotated[
        str, typer.Argument(metavar="BUNDLE|INPUT", help="A bundle, or an input file together with --rules.")
    ],
    path: Annotated[
        str,
        typer.Argument(
            metavar="FIELD", help="The field's path, like battery.capacity_kwh; or the code of a finding in the bundle."
        ),
    ],
    rules: Annotated[str | None, typer.Option("--rules", metavar="FILE", help="The rules for an input file.")] = None,
    picture: Annotated[
        Path | None, typer.Option("--picture", metavar="FILE", help="Draw the steps into this file, as SVG.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Explain how a field got its value, or what a finding is about.

    Prints every step in plain words, with its position in the rules, down to the facts and the cells they are from.
    An input file is the input of `bpc compile` or `bpc rules eval`. If the field has no value, it explains why and
    exits 1.

    \b
    bpc why bundle.zip battery.capacity_kwh
    bpc why input.json battery.capacity_kwh --rules rules.bpc
    bpc why bundle.zip battery.capacity_kwh --picture proof.svg
    """
    data = read_bytes(file)
    if data.startswith(ZIP_MAGIC) == (rules is not None):
        raise Invalid(
            "a bundle already contains its rules" if rules is not None else f"`{file}` is not a bundle",
            fix="leave --rules out" if rules is not None else "for an input file, add --rules FILE",
        )
    if rules is not None:
        program = read_program(read_package_texts(rules).rules, name=rules)
        rule_input = read_rule_input(data)
        world = rule_input.make_world(program.facts)
        _, explanation, reason = explain_path(program, path, world, rule_input.facts, fact_label="fact {} of the input")
        _show_reason(explanation, reason, path, picture, as_json=as_json)
    else:
        show_explanation(data, path, picture, as_json=as_json)


def show_explanation(bundle: bytes, path: str, picture: Path | None = None, *, as_json: bool) -> None:
    """Print how a field of a bundle got its value, or what a finding in it is about."""
    if finding_reasons := _explain_bundle_findings(bundle, path):
        if picture is not None:
            raise Invalid(f"`{path}` is a finding, and only fields have a picture", fix="leave --picture out")
        _print_finding_reasons(finding_reasons, as_json=as_json)
    else:
        _show_reason(*explain_bundle(bundle, path), path, picture, as_json=as_json)


def _show_reason(explanation: Explanation, reason: Reason, path: str, picture: Path | None, *, as_json: bool) -> None:
    if picture is not None:
        _write_picture(reason, path, picture)
    if as_json:
        print_json(reason.as_json())
    elif picture is not None:
        print_line(f"wrote {escape_controls(str(picture))}: {sum(1 for _ in reason.iterate_lines())} steps")
    else:
        _print_reason(reason)
    if explanation.failure is not None:
        raise typer.Exit(REFUSED)


def _write_picture(reason: Reason, path: str, file: Path) -> None:
    from bpc.printing.proof_picture import draw_proof  # noqa: PLC0415 (the PDF library is slow to import)

    replace_file(file, draw_proof(reason, title=f"How {reason.subject or path} got its value").encode())


def _explain_bundle_findings(data: bytes, name: str) -> list[Reason]:
    return explain_findings(read_compile_input(read_bundle(data).entries).facts, name)


def _print_finding_reasons(reasons: Sequence[Reason], *, as_json: bool) -> None:
    if as_json:
        print_json({"findings": [reason.as_json() for reason in reasons]})
    else:
        for reason in reasons:
            _print_reason(reason)


def _print_reason(reason: Reason) -> None:
    for depth, says, place in reason.iterate_lines():
        print_line(f"{'  ' * depth}{escape_controls(says)}", bold=depth == 0, end="")
        print_line(f"   {escape_controls(place)}" if place else "", dim=True)
