"""`bpc verify`: check a bundle or a view, step by step. It needs no database, and asks nobody by itself."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from bpc.cli.offline.status_source import StatusSource, find_hosts, find_key_set_address
from bpc.cli.offline.trusted_keys import read_trusted_keys
from bpc.cli.support.output import (
    REFUSED,
    AsJson,
    format_count,
    print_json,
    print_line,
    read_bytes,
)
from bpc.core.errors import Invalid
from bpc.core.formats.timestamps import format_time
from bpc.core.tlog.policy import LogPolicy, parse_policy
from bpc.core.verify import StepResult, VerificationReport
from bpc.core.verify.artifacts import Pin
from bpc.core.verify.bundle import CLAIM, is_view
from bpc.core.verify.item_bundle import verify_anything
from bpc.core.verify.status_step import StatusQuestion
from bpc.runtime import clock

NAME_WIDTH: Final = 16
REQUIRABLE: Final = ("status", "log")


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
    status: Annotated[
        list[Path] | None,
        typer.Option("--status", metavar="FILE", help="A signed status list, or a statement about this passport."),
    ] = None,
    online: Annotated[
        bool,
        typer.Option("--online", help="Ask for the status, and only at hosts that your keys or your policy name."),
    ] = False,
    require: Annotated[
        str | None,
        typer.Option("--require", metavar="STEPS", help="Exit 1 also if one of these was not checked: status,log."),
    ] = None,
    unpinned: Annotated[
        bool, typer.Option("--unpinned", help="Check only that the bundle is consistent, whoever signed it.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check a bundle or a view, of a product or of one battery, step by step.

    Recomputes everything from the file alone: hashes, proof, signature, QR code and finally the compile. Exits 1 if a
    check fails, or if the issuer has revoked the passport. A file cannot tell that: give a status list, or --online.

    Without the issuer's key, from a source that you trust, anybody may have signed it: the check fails, unless you say
    --unpinned. A key of a tenant proves the tenant.

    \b
    bpc verify bundle.zip --key 3q2+7w…
    bpc verify bundle.zip --unpinned
    bpc verify view.json --keys issuers.txt --json
    bpc verify bundle.zip --keys keys.json --policy witnesses.txt --require status,log --online
    bpc verify bundle.zip --keys keys.json --status list.json
    curl -o keys.json https://issuer.example/.well-known/bpc-keys/acme.json && bpc verify bundle.zip --keys keys.json
    """
    data = read_bytes(file)
    pins = read_trusted_keys(key or [], keys)
    required = _read_required(require)
    if unpinned and pins:
        raise Invalid("--unpinned is for a check without keys", fix="leave out --unpinned, or --key and --keys")
    if status and online:
        raise typer.BadParameter("Use --status or --online, not both.")
    trusted = None if policy is None else parse_policy(read_bytes(str(policy)))
    documents = tuple(read_bytes(str(path)) for path in status or ())
    question = StatusQuestion(documents=documents, now=clock.now())
    if online:
        question = _ask_online(data, keys, pins, trusted)
    report = verify_anything(
        data,
        pins=pins,
        policy=trusted,
        question=question,
        require_log="log" in required,
        require_status="status" in required,
        require_pin=not unpinned,
    )
    if as_json:
        steps = [_to_json(step) for step in report.steps]
        print_json({"ok": report.ok, "issuer": report.issuer, "status": _status_to_json(report), "steps": steps})
    else:
        _print_report(report, view=is_view(data), is_pinned=bool(pins))
    if not report.ok:
        raise typer.Exit(REFUSED)


def _to_json(step: StepResult) -> dict[str, object]:
    """The step; the `code` of a failure only where it has one of its own."""
    return step._asdict() | ({} if step.code is None else {"code": step.code})


def _status_to_json(report: VerificationReport) -> dict[str, object]:
    verdict = report.status
    return {
        "verdict": verdict.name,
        "since": None if verdict.since is None else format_time(verdict.since),
        "successor": None if verdict.successor is None else str(verdict.successor),
        "reason": verdict.reason,
    }


def _read_required(text: str | None) -> frozenset[str]:
    names = frozenset(() if text is None else (name.strip() for name in text.split(",")))
    if not names <= set(REQUIRABLE):
        raise typer.BadParameter("--require takes `status`, `log` or both: `status,log`.")
    return names


def _ask_online(data: bytes, keys: Path | None, pins: Sequence[Pin], policy: LogPolicy | None) -> StatusQuestion:
    """What the issuer's host answers now; the file decides only which list is asked for, never the host."""
    address = None if keys is None else find_key_set_address(read_bytes(str(keys)))
    hosts = find_hosts(address, policy)
    if not hosts:
        raise Invalid(
            "neither your keys nor your policy name a host to ask",
            fix="give the issuer's bpc-keys.json with --keys, or a policy with its log",
        )
    return StatusSource(hosts, pins).ask(data, clock.now())


def _print_report(report: VerificationReport, *, view: bool, is_pinned: bool) -> None:
    for step in report.steps:
        mark, colour = ("  ok", "green") if step.ok else ("skip", "yellow") if step.skipped else ("fail", "red")
        print_line(mark, colour=colour, end="  ")
        print_line(f"{step.name.ljust(NAME_WIDTH)} {step.detail}")
    print_line("")
    what = "view" if view else "bundle"
    if not is_pinned and set(report.failed_steps) in ({"signature"}, {"signature", "replay"}):
        print_line(
            f"Do not rely on this {what} yet: the signer was not checked. Give the issuer's key with --key.",
            colour="red",
        )
        if not view:
            print_line("  next: get the key from a source that you trust; --unpinned checks the rest without it")
    elif (cause := report.cause) is not None:
        skipped_count = sum(step.skipped for step in report.steps)
        others = f" {format_count(skipped_count, 'step')} could not be checked because of it." if skipped_count else ""
        failed_steps = ", ".join(step.name for step in report.steps if not step.ok and not step.skipped) or cause.name
        print_line(f"Do not rely on this {what}: {failed_steps} failed.{others}", colour="red", bold=True)
        print_line(f"  next: {_choose_next_step(cause.name, report, what)}")
    elif report.status.name in {"superseded", "ceased"}:
        print_line(f"The {what} is genuine, but it does not count any more: {report.status.says}.", colour="yellow")
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
    if name == "key":
        return "ask the issuer for a version that a valid key signed"
    if name == "status" and report.status.name == "revoked":
        return "ask the issuer for the passport that is in force"
    if name == "signature" and report.failed_steps in {("signature",), ("signature", "replay")}:
        return "check that the key is the issuer's, from a source that you trust"
    if name == "canonical" and len(report.failed_steps) == len(report.steps):
        return f"check that this file is a {what}, and that it was copied whole"
    return f"get the {what} from its issuer again; if it fails again, tell the issuer which step failed"
