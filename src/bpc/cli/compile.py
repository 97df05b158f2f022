"""`bpc compile`: one passport from files, as the compile job would make it. Needs no database and no settings."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from bpc import fresh
from bpc.cli.files import read_bytes, replace_file
from bpc.cli.output import REFUSED, AsJson, print_json, say
from bpc.cli.rules_diagnostics import counts, errors, print_diagnostics
from bpc.core.blinding import KEY_BYTES, blinding_fact, blinding_key
from bpc.core.bundle import write_bundle
from bpc.core.canon import decode
from bpc.core.compile import Compiled, compile_passport
from bpc.core.compile_input import CompileInput, read_input, written_input
from bpc.core.digest import to_hex
from bpc.core.errors import Conflict, Invalid
from bpc.core.issue import issue
from bpc.core.rules.checking.findings import Found
from bpc.core.rules.evaluating.evaluate import Machine
from bpc.core.rules.package import RulesRefused, read_package
from bpc.core.rules.typed import Program
from bpc.core.signing import BadKey, Signer, from_base64, seed_of

app = typer.Typer(add_completion=False, rich_markup_mode=None)

BUNDLE: Final = "bundle.zip"
BLINDED: Final = "input.blinded.json"
NO_VIEWS: Final = "the snapshot has no secret, so views would hide nothing and are refused: add one with --blind"
NOT_SIGNED: Final = "not signed: with --key the receipt is, and bundle.zip is written"


@app.command()
def compile_command(
    file: Annotated[str, typer.Argument(metavar="INPUT.json", help="Ids, product, moment and facts.")],
    rules: Annotated[str, typer.Option("--rules", metavar="FILE", help="The rules.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for what is made; created if missing.")],
    tests: Annotated[
        str | None, typer.Option("--tests", metavar="FILE", help="The rules' tests: checked and kept, not run.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="FILE", help="Private key, as keygen wrote it.")] = None,
    blind: Annotated[bool, typer.Option("--blind", help="Add a fresh secret to the snapshot, for views.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compile a passport from files.

    Writes payload.json, proof.json and receipt.json; with --key the receipt is signed, and bundle.zip holds all that
    a stranger needs to check the passport, hidden fields included: whoever may not see those gets a view. Equal inputs
    give equal bytes. With --blind a fresh secret is an input too, and input.blinded.json is the input with it.

    \b
    bpc compile input.json --rules rules.bpc --tests tests.bpc --key passport.key --out passport
    """
    signer = None if key is None else _signer(key)
    given = read_input(read_bytes(file), rules=read_bytes(rules), tests=b"" if tests is None else read_bytes(tests))
    program, warnings = _checked(given, rules, tests or "tests.bpc", as_json=as_json)
    if blind:
        given = _blinded(given)
    compiled = compile_passport(given, machine=Machine(program))
    files = _files(given, compiled, signer)
    if blind:
        files[BLINDED] = written_input(given)
    _write(out, files)
    has_secret = blinding_key(given.facts, given.snapshot_id) is not None
    if as_json:
        print_json(_report(out, files, compiled, has_secret=has_secret))
        return
    _say(out, files, compiled, warnings=warnings)
    if signer is None:
        say(NOT_SIGNED)
    if not has_secret:
        say(NO_VIEWS)


def _checked(given: CompileInput, name: str, tests_name: str, *, as_json: bool) -> tuple[Program, tuple[Found, ...]]:
    """The rules, checked together with their tests, and the warnings; mistakes are printed and end the command."""
    package = read_package(given.rules, given.tests, name=name, tests_name=tests_name)
    if package.program is not None:
        return package.program, package.found
    if as_json:
        raise RulesRefused(package.found)
    print_diagnostics(errors(package.found))
    raise typer.Exit(REFUSED)


def _signer(file: str) -> Signer:
    try:
        text = read_bytes(file).decode("ascii").strip()
    except UnicodeDecodeError:
        raise BadKey("not base64") from None
    return Signer(seed_of(from_base64(text)))


def _blinded(given: CompileInput) -> CompileInput:
    if blinding_key(given.facts, given.snapshot_id) is not None:
        raise Conflict("the snapshot has its secret already", fix="compile without --blind")
    secret = blinding_fact(given.snapshot_id, fresh.entropy(KEY_BYTES))
    return replace(given, facts=(*given.facts, secret))


def _files(given: CompileInput, compiled: Compiled, signer: Signer | None) -> dict[str, bytes]:
    files = {"payload.json": compiled.payload, "proof.json": compiled.proof, "receipt.json": compiled.receipt}
    if signer is None:
        return files
    issued = issue(given, compiled, signer)
    return {**files, "receipt.json": issued.receipt, BUNDLE: write_bundle(issued.bundle)}


def _write(out: Path, files: Mapping[str, bytes]) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        if BUNDLE not in files:
            # One of an earlier run would hold another passport than the files beside it.
            (out / BUNDLE).unlink(missing_ok=True)
    except OSError as failed:
        raise Invalid(f"`{out}` cannot be used: {failed.strerror}", fix="choose a folder that is yours") from failed
    for name, data in files.items():
        replace_file(out / name, data)


def _hashes(compiled: Compiled) -> dict[str, str]:
    return {
        "payload_hash": to_hex(compiled.payload_hash),
        "proof_root_hash": to_hex(compiled.proof_root_hash),
        "receipt_hash": to_hex(compiled.receipt_hash),
        "snapshot_hash": to_hex(compiled.snapshot_hash),
    }


def _report(out: Path, files: Mapping[str, bytes], compiled: Compiled, *, has_secret: bool) -> dict[str, object]:
    return {
        **_hashes(compiled),
        "compliance": _statuses(compiled),
        "signed": BUNDLE in files,
        "views": has_secret,
        "out": str(out),
        "files": {name: len(data) for name, data in sorted(files.items())},
    }


def _statuses(compiled: Compiled) -> dict[str, int]:
    """How many compliance entries there are of each status."""
    payload: Any = decode(compiled.payload)
    return dict(sorted(Counter(entry["status"] for entry in payload["compliance"]).items()))


def _say(out: Path, files: Mapping[str, bytes], compiled: Compiled, *, warnings: Sequence[Found]) -> None:
    for name, value in _hashes(compiled).items():
        say(f"{name:<16} {value}")
    for name, data in sorted(files.items()):
        say(f"{len(data):>16,} bytes  {out / name}")
    found = _statuses(compiled)
    if found:
        say(f"compliance       {', '.join(f'{number} {status}' for status, number in found.items())}")
    if warnings:
        say(f"{counts(warnings)} in the rules: `bpc rules check` shows them")
