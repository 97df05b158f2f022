"""`bpc compile`: one passport from files, the same bytes as from the compile job. Needs no database and no settings."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from bpc.cli.support.output import REFUSED, AsJson, print_json, print_line, read_bytes, replace_file
from bpc.cli.support.rule_files import count_diagnostics, print_diagnostics, read_package_texts, select_errors
from bpc.core.audit.signing import BadKey, Signer, from_base64, parse_seed
from bpc.core.errors import Conflict, Invalid
from bpc.core.formats.canonical_json import decode
from bpc.core.formats.hashes import to_hex
from bpc.core.language.checking.context import LocatedDiagnostic
from bpc.core.language.evaluating.machine import Machine
from bpc.core.language.package import RulesRefused, read_package
from bpc.core.language.typed import Program
from bpc.core.passport.bundle import write_bundle
from bpc.core.passport.compile import CompiledPassport, compile_passport, issue_passport
from bpc.core.passport.compile_input import CompileInput, encode_input, read_input
from bpc.core.passport.payload import BLINDING_KEY_BYTES, find_blinding_key, make_blinding_fact
from bpc.runtime import clock

BUNDLE_FILE: Final = "bundle.zip"
BLINDED_INPUT_FILE: Final = "input.blinded.json"
HASHES: Final = ("payload_hash", "proof_root_hash", "receipt_hash", "snapshot_hash")
NO_VIEWS: Final = (
    "this passport cannot have views (partial copies with hidden fields): the snapshot has no blinding secret; "
    "use --blind to add one"
)
NOT_SIGNED: Final = "not signed: use --key to sign the receipt and write bundle.zip"


def compile_files(
    file: Annotated[
        str, typer.Argument(metavar="INPUT.json", help="JSON file with ids, product, time of issue and facts.")
    ],
    rules: Annotated[str, typer.Option("--rules", metavar="FILE", help="Rule file, or folder of a package.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the results; created if missing.")],
    tests: Annotated[
        str | None,
        typer.Option(
            "--tests", metavar="FILE", help="File with the tests of the rules; stored in the bundle, not run."
        ),
    ] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="FILE", help="Private key, as keygen wrote it.")] = None,
    blind: Annotated[
        bool, typer.Option("--blind", help="Add a random secret to the snapshot, which views need to hide fields.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compile a passport from files.

    Writes payload.json (the passport), proof.json (how each value was computed) and receipt.json (their hashes). With
    --key the receipt is signed, and bundle.zip contains everything needed to verify the passport, including hidden
    fields; for people who may not see those, make a view. The same inputs give the same bytes. With --blind the random
    secret is an input too; it is saved in input.blinded.json.

    \b
    bpc compile input.json --rules rules.bpc --tests tests.bpc --key passport.key --out passport
    """
    signer = None if key is None else _read_signer(key)
    texts = read_package_texts(rules, tests)
    compile_input = read_input(read_bytes(file), rules=texts.rules, tests=texts.tests)
    program, warnings = _check_rules(compile_input, texts.rules_name, texts.tests_name, as_json=as_json)
    if blind:
        compile_input = _add_blinding_secret(compile_input)
    passport = compile_passport(compile_input, machine=Machine(program))
    files = _make_files(compile_input, passport, signer)
    if blind:
        files[BLINDED_INPUT_FILE] = encode_input(compile_input)
    _write_files(out, files)
    has_secret = find_blinding_key(compile_input.facts, compile_input.snapshot_id) is not None
    report = _make_report(out, files, passport, has_secret=has_secret)
    if as_json:
        print_json(report)
    else:
        _print_report(report, warnings)


def _check_rules(
    compile_input: CompileInput, name: str, tests_name: str, *, as_json: bool
) -> tuple[Program, tuple[LocatedDiagnostic, ...]]:
    """The checked rules and the warnings; errors are printed and end the command."""
    package = read_package(compile_input.rules, compile_input.tests, name=name, tests_name=tests_name)
    if package.program is not None:
        return package.program, package.diagnostics
    if as_json:
        raise RulesRefused(package.diagnostics)
    print_diagnostics(select_errors(package.diagnostics))
    raise typer.Exit(REFUSED)


def _read_signer(file: str) -> Signer:
    try:
        text = read_bytes(file).decode("ascii").strip()
    except UnicodeDecodeError:
        raise BadKey("not base64") from None
    return Signer(parse_seed(from_base64(text)))


def _add_blinding_secret(compile_input: CompileInput) -> CompileInput:
    if find_blinding_key(compile_input.facts, compile_input.snapshot_id) is not None:
        raise Conflict("the snapshot already has a blinding secret", fix="compile without --blind")
    secret = make_blinding_fact(compile_input.snapshot_id, clock.random_bytes(BLINDING_KEY_BYTES))
    return replace(compile_input, facts=(*compile_input.facts, secret))


def _make_files(compile_input: CompileInput, passport: CompiledPassport, signer: Signer | None) -> dict[str, bytes]:
    files = {"payload.json": passport.payload, "proof.json": passport.proof, "receipt.json": passport.receipt}
    if signer is None:
        return files
    bundle = issue_passport(compile_input, passport, signer)
    return {**files, "receipt.json": bundle["receipt.json"], BUNDLE_FILE: write_bundle(bundle)}


def _write_files(out: Path, files: Mapping[str, bytes]) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        if BUNDLE_FILE not in files:
            # A bundle of an earlier run would contain another passport than the files beside it.
            (out / BUNDLE_FILE).unlink(missing_ok=True)
    except OSError as error:
        says = f"`{out}` cannot be used: {error.strerror}"
        raise Invalid(says, fix="choose a folder that you can write to") from error
    for name, data in files.items():
        replace_file(out / name, data)


def _make_report(
    out: Path, files: Mapping[str, bytes], passport: CompiledPassport, *, has_secret: bool
) -> dict[str, Any]:
    payload: Any = decode(passport.payload)
    statuses = Counter(entry["status"] for entry in payload["compliance"])
    return {
        **{name: to_hex(getattr(passport, name)) for name in HASHES},
        "compliance": {**dict.fromkeys(("FAIL", "WARN"), 0), **dict(sorted(statuses.items()))},
        "signed": BUNDLE_FILE in files,
        "views": has_secret,
        "out": out,
        "files": {name: len(data) for name, data in sorted(files.items())},
    }


def _print_report(report: Mapping[str, Any], warnings: Sequence[LocatedDiagnostic]) -> None:
    for name in HASHES:
        print_line(f"{name:<16} {report[name]}")
    for name, size in report["files"].items():
        print_line(f"{size:>16,} bytes  {report['out'] / name}")
    counts = ", ".join(f"{number} {status}" for status, number in report["compliance"].items())
    print_line(f"compliance       {counts}")
    if warnings:
        print_line(f"{count_diagnostics(warnings)} in the rules: `bpc rules check` shows them")
    if not report["signed"]:
        print_line(NOT_SIGNED)
    if not report["views"]:
        print_line(NO_VIEWS)
