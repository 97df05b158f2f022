"""`bpc verify`, `bpc view`, `bpc export` and `bpc why`: work with a bundle. They need no database and no settings."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from bpc.cli.support.output import (
    REFUSED,
    AsJson,
    escape_controls,
    format_count,
    print_bytes,
    print_json,
    print_line,
    print_result,
    read_bytes,
    replace_file,
)
from bpc.cli.support.rule_files import RuleInput, read_package_texts, read_rule_input
from bpc.core.audit.signing import BadKey, PublicKey, from_base64, parse_public_key, read_key_set
from bpc.core.errors import Conflict, Invalid, NotFound
from bpc.core.exports.disclosure import AUDIENCE_DESCRIPTIONS, Audience, choose_audience, choose_language, make_view
from bpc.core.exports.disclosure import ExportFormat as CoreExportFormat
from bpc.core.formats import canonical_json
from bpc.core.formats.timestamps import format_time
from bpc.core.language.checking.requirements import REQUIREMENTS_PATH
from bpc.core.language.package import read_program
from bpc.core.language.reference.derive import Explanation, explain, value_to_json
from bpc.core.language.suggestions import Suggestions
from bpc.core.language.typed import Program, ProgramField, list_requirements
from bpc.core.passport.bundle import read_bundle
from bpc.core.passport.compile import read_compile_input
from bpc.core.passport.payload import get_at_path
from bpc.core.passport.why import Reason, explain_field, explain_findings, list_finding_codes
from bpc.core.tlog.policy import parse_policy
from bpc.core.verify import StepResult, VerificationReport
from bpc.core.verify.artifacts import Pin
from bpc.core.verify.bundle import CLAIM, is_view, verify_bundle_or_view

NAME_WIDTH: Final = 16
ZIP_MAGIC: Final = b"PK"

BundleArgument = Annotated[str, typer.Argument(metavar="BUNDLE", help="The bundle; `-` is standard input.")]
OutOption = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="File to write [default: standard output].")
]


def verify(
    file: Annotated[str, typer.Argument(metavar="BUNDLE|VIEW", help="The file to check; `-` is standard input.")],
    key: Annotated[
        list[str] | None, typer.Option("--key", metavar="BASE64", help="Public key of the issuer (base64).")
    ] = None,
    keys: Annotated[
        Path | None,
        typer.Option("--keys", metavar="FILE", help="Public keys you trust: one a line, or an issuer's bpc-keys.json."),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option("--policy", metavar="FILE", help="Transparency logs and witnesses you trust (C2SP tlog-policy)."),
    ] = None,
    require: Annotated[
        str | None,
        typer.Option("--require", metavar="STEPS", help="Exit 1 also if one of these was not checked: log."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a bundle or a view, step by step.

    Recomputes everything from the file alone: hashes, proof, signature, QR code and finally the compile. Exits 1 if a
    check fails.

    Without --key the signer is unknown. Use the issuer's key, obtained from a source that you trust.

    \b
    bpc verify bundle.zip --key 3q2+7w…
    bpc verify view.json --keys issuers.txt --json
    bpc verify bundle.zip --keys keys.json --policy witnesses.txt --require log
    curl -o keys.json https://issuer.example/.well-known/bpc-keys.json && bpc verify bundle.zip --keys keys.json
    """
    data = read_bytes(file)
    pins = _read_trusted_keys(key or [], keys)
    if require is not None and require != "log":
        raise typer.BadParameter("--require takes `log`.")
    if is_view(data) and (policy is not None or require):
        raise Invalid("a view has no log proof", fix="leave --policy and --require out, or check the bundle")
    trusted = None if policy is None else parse_policy(read_bytes(str(policy)))
    report = verify_bundle_or_view(data, pins=pins, policy=trusted, require_log=bool(require))
    if as_json:
        print_json({"ok": report.ok, "issuer": report.issuer, "steps": [_to_json(step) for step in report.steps]})
    else:
        _print_report(report, view=is_view(data), is_pinned=bool(pins))
    if not report.ok:
        raise typer.Exit(REFUSED)


def _to_json(step: StepResult) -> dict[str, object]:
    """The step; the `code` of a failure only where it has one of its own."""
    return step._asdict() | ({} if step.code is None else {"code": step.code})


def _read_trusted_keys(texts: Sequence[str], file: Path | None) -> list[Pin]:
    keys: list[Pin] = [_parse_public_key(text, "--key") for text in texts]
    if file is None:
        return keys
    file_keys = _read_key_file(file)
    if not file_keys:  # an empty list trusts nobody, which is not the same as no list
        raise Invalid(f"`{file}` contains no key", fix="write one public key a line, in base64")
    return keys + file_keys


def _read_key_file(file: Path) -> list[Pin]:
    """The keys of a file: a key set that an issuer publishes, or a list that a person wrote, with `#` for comments.

    In a key set each key has a name and is trusted only for signatures that name it.
    """
    data = read_bytes(str(file))
    if data.lstrip().startswith(b"{"):
        return list(read_key_set(data))
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError:
        raise Invalid(f"`{file}` is not a list of keys", fix="write one public key a line, in base64") from None
    texts = [(number, line.split("#")[0].strip()) for number, line in enumerate(lines, 1)]
    return [_parse_public_key(text, f"{file}, line {number}") for number, text in texts if text]


def _parse_public_key(text: str, where: str) -> PublicKey:
    try:
        return parse_public_key(from_base64(text))
    except BadKey as refusal:
        raise Invalid(f"{where}: {refusal.says}", fix="give the public key as `bpc keygen` printed it") from None


def _print_report(report: VerificationReport, *, view: bool, is_pinned: bool) -> None:
    for step in report.steps:
        mark, colour = ("  ok", "green") if step.ok else ("skip", "yellow") if step.skipped else ("fail", "red")
        print_line(mark, colour=colour, end="  ")
        print_line(f"{step.name.ljust(NAME_WIDTH)} {step.detail}")
    print_line("")
    what = "view" if view else "bundle"
    if view and not is_pinned and report.failed_steps == ("signature",):
        print_line(
            "Do not rely on this view yet: the signer was not checked. Give the issuer's key with --key.",
            colour="red",
        )
    elif (cause := report.cause) is not None:
        skipped_count = sum(step.skipped for step in report.steps)
        others = f" {format_count(skipped_count, 'step')} could not be checked because of it." if skipped_count else ""
        failed_steps = ", ".join(step.name for step in report.steps if not step.ok and not step.skipped) or cause.name
        print_line(f"Do not rely on this {what}: {failed_steps} failed.{others}", colour="red", bold=True)
        print_line(f"  next: {_choose_next_step(cause.name, report, what)}")
    elif view:
        print_line(CLAIM)
    elif report.issuer == "unpinned":
        print_line("The bundle is consistent. The signer was not checked: give the issuer's key with --key.")
    else:
        print_line(
            "The bundle is signed by the issuer, and its values follow from its rules and facts.", colour="green"
        )


def _choose_next_step(name: str, report: VerificationReport, what: str) -> str:
    """What to do about the step that failed first."""
    if name == "signature" and report.failed_steps in {("signature",), ("signature", "replay")}:
        return "check that the key is the issuer's, from a source that you trust"
    if name == "canonical" and len(report.failed_steps) == len(report.steps):
        return f"check that this file is a {what}, and that it was copied whole"
    return f"get the {what} from its issuer again; if it fails again, tell the issuer which step failed"


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
    out: OutOption = None,
    as_json: AsJson = False,
) -> None:
    """Write the part of a passport that one audience may see.

    The view contains the fields of that audience and only salted hashes of the others. With the issuer's public key,
    `bpc verify` proves that the values are in the signed passport and that none is missing.

    \b
    bpc view bundle.zip --audience public --out view.json
    """
    data = make_view(read_bundle(read_bytes(file)), audience)
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
        _, explanation, reason = _explain(program, path, read_rule_input(data), fact_label="fact {} of the input")
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


def explain_bundle(data: bytes, path: str) -> tuple[Explanation, Reason]:
    """Explain a field of a bundle. Refuses a bundle whose value differs from its rules."""
    entries = read_bundle(data).entries
    compile_input = read_compile_input(entries)
    rule_input = RuleInput(
        sku=compile_input.product.sku,
        name=compile_input.product.name,
        issued_on=format_time(compile_input.issued_at)[:10],
        facts=compile_input.facts,
    )
    field, explanation, reason = _explain(read_program(compile_input.rules), path, rule_input)
    document: Any = canonical_json.decode(entries["payload.json"])
    stated_value = get_at_path(document["fields"], field.path)
    if explanation.failure is not None or stated_value != (value_to_json(field.type, explanation.value),):
        raise Conflict(
            f"the value of `{field.path}` in the bundle does not follow from its rules and facts",
            fix="`bpc verify` shows what was changed",
        )
    return explanation, reason


def _explain(
    program: Program, path: str, rule_input: RuleInput, *, fact_label: str = "line {} of the facts"
) -> tuple[ProgramField, Explanation, Reason]:
    requirement = next((check for check in list_requirements(program) if check.code == path), None)
    path = path if requirement is None else REQUIREMENTS_PATH
    field = next((field for field in program.fields if field.path == path), None)
    if field is None:
        paths = [field.path for field in program.fields]
        codes = [*list_finding_codes(rule_input.facts), *(check.code for check in list_requirements(program))]
        fix = Suggestions().suggest(path, [*paths, *codes]) or f"known fields: {', '.join(sorted(paths)[:20])}"
        raise NotFound(f"no field is called `{escape_controls(path)}`", fix=fix)
    explanation = explain(program, rule_input.make_world(program.facts), path)
    return (
        field,
        explanation,
        explain_field(
            field,
            explanation,
            program.source,
            rule_input.facts,
            tables=program.tables,
            fields=program.fields,
            number_format=fact_label,
            requirement=requirement,
        ),
    )


def _print_reason(reason: Reason) -> None:
    for depth, says, place in reason.iterate_lines():
        print_line(f"{'  ' * depth}{escape_controls(says)}", bold=depth == 0, end="")
        print_line(f"   {escape_controls(place)}" if place else "", dim=True)
