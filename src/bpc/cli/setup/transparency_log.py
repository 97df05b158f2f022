"""`bpc log`: audit and prove entries of the transparency log, serve it, and be a witness of other logs.

log ─► audit ─► the first difference, if there is one
log, index ─► prove ─► a proof that anybody can check without the log
folder or bucket ─► serve, without a database
other logs ─► witness ─► cosignatures, and nothing for a log that changes its history
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from bpc.cli.setup.log_source import LogSource
from bpc.cli.support.arguments import command_group
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
from bpc.cli.support.session import load_settings_and_logs, open_tenant, stop_on_sigterm
from bpc.core.audit.signing import parse_seed
from bpc.core.errors import Conflict, Invalid, NotFound
from bpc.core.formats.ids import PassportVersionId, parse_uuid
from bpc.core.formats.timestamps import format_time
from bpc.core.tlog.audit import LogFault, audit_files, check_earlier
from bpc.core.tlog.checkpoints import LogCheckpoint, OpenedCheckpoint, open_checkpoint
from bpc.core.tlog.entries import read_readable_entry
from bpc.core.tlog.merkle import make_inclusion_proof
from bpc.core.tlog.notes import NoteSigner, VerifierKey
from bpc.core.tlog.policy import LogPolicy, parse_policy
from bpc.core.tlog.proofs import LogProof, find_witnesses
from bpc.core.tlog.tiles import TileTree
from bpc.runtime import clock
from bpc.runtime.settings import Settings
from bpc.runtime.settings.data_dir import load_log_seed
from bpc.runtime.static_server import StaticAnswer, answer_text, serve_requests
from bpc.runtime.time_stamps import parse_roots, read_time_stamp
from bpc.runtime.witness_state import answer_witness_request, open_witness
from bpc.storage.database import open_migrated_database
from bpc.storage.tlog import log_audit, log_rows
from bpc.storage.tlog.log_bucket import open_log, open_named_log
from bpc.storage.tlog.log_files import find_log_file

LOOPBACK: Final = "127.0.0.1"

log_app = command_group(
    "Audit, prove, serve and witness the transparency log.\n\n"
    "The log shows what was issued, activated, superseded, revoked and waived, which rules and keys were published, "
    "and where the audit log stood. Nobody can change it without being seen: not its administrator either."
)

LogOption = Annotated[
    str | None,
    typer.Option("--log", metavar="FOLDER|BUCKET|URL", help="The log to read [default: this installation's]."),
]
KeyOption = Annotated[
    str | None,
    typer.Option("--key", metavar="KEY", help="Verifier key of the log [default: this installation's]."),
]
OutOption = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="File to write [default: standard output].")
]
PortOption = Annotated[int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="Port to listen on.")]
HostOption = Annotated[str, typer.Option("--host", metavar="HOST", help="Address to listen on.")]


@log_app.command("audit")
def audit(
    log: LogOption = None,
    key: KeyOption = None,
    checkpoint: Annotated[
        list[str] | None,
        typer.Option("--checkpoint", metavar="FILE", help="A checkpoint that you kept; may be given more than once."),
    ] = None,
    policy: Annotated[
        Path | None, typer.Option("--policy", metavar="FILE", help="Witnesses that you trust (C2SP tlog-policy).")
    ] = None,
    timestamp_ca: Annotated[
        Path | None,
        typer.Option("--timestamp-ca", metavar="FILE", help="Root certificates of a time stamp authority, in PEM."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read the whole log, compute it again, and name the first difference.

    Checks every entry, every tile, the root and its signature; with checkpoints that you kept, that the log only grew;
    with --timestamp-ca, the last time stamp of RFC 3161: by when, says its authority, the log had how many entries.
    Without --log it also compares the log of this installation with its database: entries, what opens them, and the
    audit events that they are about. Exits 1 if anything is wrong.

    \b
    bpc log audit
    bpc log audit --log https://passports.example/log --key "$(cat log.vkey)" --checkpoint kept.txt
    """
    settings = load_settings_and_logs("log")
    source, verifier = _open_log(settings, log, key)
    earlier = [open_checkpoint(read_bytes(file), verifier).checkpoint for file in checkpoint or []]
    trusted = None if policy is None else parse_policy(read_bytes(str(policy)))
    try:
        report = _audit(settings, source, verifier, earlier, trusted, with_database=log is None)
        if timestamp_ca is not None:
            report["time_stamp"] = _check_time_stamp(source, verifier, read_bytes(str(timestamp_ca)))
    except LogFault as fault:
        if as_json:
            print_json({"ok": False, "fault": fault.says, "where": fault.where})
        else:
            print_line(f"The log is not what it should be: {escape_controls(fault.says)}", colour="red", bold=True)
            print_line("  next: keep a copy of it and of every checkpoint that you have, and tell its operator")
        raise typer.Exit(REFUSED) from None
    _print_audit(report, as_json=as_json)


def _audit(
    settings: Settings,
    source: LogSource,
    verifier: VerifierKey,
    earlier: Sequence[LogCheckpoint],
    policy: LogPolicy | None,
    *,
    with_database: bool,
) -> dict[str, object]:
    opened = _open_checkpoint(source, verifier)
    size, readable = opened.checkpoint.size, 0
    entries = []
    for entry in audit_files(opened.checkpoint, source.read_tile):
        readable += read_readable_entry(entry) is not None
        if with_database:
            entries.append(entry)
    for kept in earlier:
        check_earlier(opened.checkpoint, kept, source.read_tile)
    witnesses = () if policy is None else find_witnesses(opened.note, policy)
    if policy is not None and not policy.is_met([witness.name for witness in witnesses]):
        raise LogFault("checkpoint", f"{format_count(len(witnesses), 'witness')} cosigned it: below the quorum")
    events = asyncio.run(_compare_with_database(settings, entries, source, verifier)) if with_database else None
    return {
        "ok": True,
        "origin": opened.checkpoint.origin,
        "size": size,
        "readable": readable,
        "earlier_checkpoints": len(earlier),
        "witnesses": None if policy is None else [witness.name for witness in witnesses],
        "events": events,
    }


def _check_time_stamp(source: LogSource, verifier: VerifierKey, roots: bytes) -> dict[str, object]:
    """What the last time stamp shows. It must be of a tree that the log has grown from."""
    where = "the time stamp"
    parse_roots(roots)
    try:
        stamp = source.read_time_stamp()
        if stamp is None:
            raise LogFault(where, "the log has none")
        stamped = open_checkpoint(stamp.note, verifier).checkpoint
        moment = read_time_stamp(stamp.note, stamp.answer, roots=roots)
    except (Invalid, NotFound) as wrong:
        raise wrong if isinstance(wrong, LogFault) else LogFault(where, wrong.says) from None
    check_earlier(_open_checkpoint(source, verifier).checkpoint, stamped, source.read_tile)
    return {"size": stamped.size, "at": format_time(moment)}


def _open_checkpoint(source: LogSource, verifier: VerifierKey) -> OpenedCheckpoint:
    try:
        return open_checkpoint(source.read_checkpoint(), verifier)
    except Invalid as wrong:
        raise LogFault("checkpoint", wrong.says) from None


async def _compare_with_database(
    settings: Settings, entries: Sequence[bytes], source: LogSource, verifier: VerifierKey
) -> int:
    def read_size() -> int:
        return _open_checkpoint(source, verifier).checkpoint.size

    async with open_migrated_database(settings) as database:
        return await log_audit.compare_with_database(database, entries, read_size)


def _print_audit(report: dict[str, object], *, as_json: bool) -> None:
    if as_json:
        print_json(report)
        return
    size, readable = report["size"], report["readable"]
    print_line(f"{report['origin']}: {size:,} entries, {readable:,} of them readable, intact", colour="green")
    if report["earlier_checkpoints"]:
        print_line(f"  it only grew since {report['earlier_checkpoints']} kept checkpoint(s)")
    if report["events"] is not None:
        print_line(f"  {report['events']:,} entries are about events that the audit log still has, unchanged")
    if report["witnesses"] is None:
        print_line("  witnesses were not checked: give a policy with --policy")
    else:
        names = ", ".join(map(str, report["witnesses"])) or "nobody"  # type: ignore[call-overload]
        print_line(f"  cosigned by {escape_controls(names)}")
    if isinstance(stamp := report.get("time_stamp"), dict):
        print_line(f"  the first {stamp['size']:,} entries existed by {stamp['at']}, says the authority that you trust")
    else:
        print_line("  time stamps were not checked: give the authority's certificates with --timestamp-ca")


@log_app.command("prove")
def prove(
    what: Annotated[
        str, typer.Argument(metavar="INDEX|VERSION", help="Index of an entry, or id of a passport version.")
    ],
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="SLUG", help="Tenant of the passport version.")
    ] = None,
    log: LogOption = None,
    key: KeyOption = None,
    out: OutOption = None,
    as_json: AsJson = False,
) -> None:
    """Write the proof that an entry is in the log (C2SP tlog-proof).

    For a passport version it is the stored proof, with what opens the entry: the first checkpoint that enough
    witnesses cosigned. It never changes. While there is none, the command exits 1 and says that the log is pending.

    \b
    bpc log prove 42 --log https://passports.example/log --key "$(cat log.vkey)" --out 42.tlog-proof
    bpc log prove 0b9d2b1e-… --tenant acme --out passport.tlog-proof
    """
    settings = load_settings_and_logs("log")
    if what.isascii() and what.isdecimal():
        proof = _prove_index(settings, int(what), log, key)
    else:
        if tenant is None:
            raise typer.BadParameter("A passport version needs --tenant.")
        proof = asyncio.run(_load_version_proof(settings, tenant, PassportVersionId(parse_uuid(what))))
    data = proof.encode()
    if out is None:
        print_bytes(data)
        return
    replace_file(out, data)
    size = proof.read_checkpoint().size
    says = f"wrote {escape_controls(str(out))}: entry {proof.index:,} in a log of {size:,}"
    print_result({"index": proof.index, "size": size, "out": out}, says, as_json=as_json)


def _prove_index(settings: Settings, index: int, log: str | None, key: str | None) -> LogProof:
    source, verifier = _open_log(settings, log, key)
    opened = open_checkpoint(source.read_checkpoint(), verifier)
    tree = TileTree(opened.checkpoint.size, source.read_tile)
    hashes = make_inclusion_proof(index, opened.checkpoint.size, tree.read)
    return LogProof(index=index, hashes=hashes, checkpoint=opened.note.encode())


async def _load_version_proof(settings: Settings, tenant: str, version: PassportVersionId) -> LogProof:
    async with open_tenant(settings, tenant) as (tenant_id, conn):
        proof = await log_rows.find_version_proof(conn, tenant_id, version)
    if proof is None:
        raise Conflict(
            f"log: pending. There is no proof of passport version `{version}` yet",
            fix="try again in a few seconds; if it stays so, check that a worker runs and reaches its witnesses",
        )
    return proof


def _open_log(settings: Settings, log: str | None, key: str | None) -> tuple[LogSource, VerifierKey]:
    if log is not None and key is None:
        raise typer.BadParameter("--log needs --key: the verifier key that its operator published.")
    verifier = load_own_verifier(settings) if key is None else VerifierKey.parse(key.strip())
    return LogSource(open_log(settings).name if log is None else log), verifier


def load_own_verifier(settings: Settings) -> VerifierKey:
    """The verifier key of this installation's log."""
    seed = load_log_seed(settings)
    if seed is None:
        raise Conflict(
            "this installation keeps no log: there is no key for it",
            fix="set BPC_TLOG_ORIGIN and BPC_TLOG_ED25519_PRIVATE_KEY_BASE64",
        )
    return NoteSigner(settings.tlog_origin, parse_seed(seed)).verifier


@log_app.command("key")
def show_key(as_json: AsJson = False) -> None:
    """Print the verifier key of this installation's log.

    Publish it where people who check your passports find it: a policy names it.
    """
    verifier = load_own_verifier(load_settings_and_logs("log"))
    print_result({"verifier_key": str(verifier), "origin": verifier.name}, str(verifier), as_json=as_json)


@log_app.command("serve")
async def serve(
    folder: Annotated[
        str | None,
        typer.Option(
            "--folder", metavar="DIR|BUCKET", help="Folder or bucket of the log [default: this installation's]."
        ),
    ] = None,
    host: HostOption = LOOPBACK,
    port: PortOption = 8082,
    as_json: AsJson = False,
) -> None:
    """Serve the files of a log until Ctrl-C, without database and API.

    The API serves the same files at /log/. This is for a machine that only has a copy of the folder, or the bucket.
    """
    settings = load_settings_and_logs("log")
    store = open_log(settings) if folder is None else open_named_log(folder)

    def answer(method: str, path: str, body: bytes) -> StaticAnswer:  # noqa: ARG001 (nothing takes a body)
        file = find_log_file(store, path.removeprefix("/")) if method == "GET" else None
        if file is None:
            return answer_text(404, "there is no such file in this log")
        return StaticAnswer(status=200, body=file.data, headers=file.headers)

    with serve_requests(host, port, answer) as actual_port:
        url = f"http://{host}:{actual_port}"
        print_result({"url": url}, f"the log is at {url}/checkpoint; press Ctrl-C to stop", as_json=as_json)
        await stop_on_sigterm().wait()


@log_app.command("witness")
async def witness(
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Name of this witness, like example.org/w1.")],
    log: Annotated[
        list[str], typer.Option("--log", metavar="KEY", help="Verifier key of a log to witness; may be repeated.")
    ],
    state: Annotated[
        Path, typer.Option("--state", metavar="DIR", help="Folder of its keys and of what it has seen.")
    ] = Path("witness"),
    host: HostOption = LOOPBACK,
    port: PortOption = 8083,
    as_json: AsJson = False,
) -> None:
    """Cosign the checkpoints of logs, and refuse a log that changes its history (C2SP tlog-witness).

    Needs no database and can run anywhere; best not where the log runs. The first start makes two keys, Ed25519 and
    ML-DSA-44, and prints their verifier keys. Back up the folder: a witness that forgets can be made to cosign a fork.

    \b
    bpc log witness --name example.org/w1 --log "$(cat log.vkey)" --state /var/lib/witness
    """
    keys = [VerifierKey.parse(text.strip()) for text in log]
    witness_state = open_witness(state, name, {key.name: key for key in keys}, now=clock.now)
    try:
        with serve_requests(
            host, port, lambda *request: answer_witness_request(witness_state, *request)
        ) as actual_port:
            verifier_keys = [str(cosigner.key) for cosigner in witness_state.cosigners]
            url = f"http://{host}:{actual_port}"
            says = f"the witness {name} answers at {url}; press Ctrl-C to stop. Its verifier keys:"
            print_result({"url": url, "verifier_keys": verifier_keys}, says, *verifier_keys, as_json=as_json)
            await stop_on_sigterm().wait()
    finally:
        witness_state.close()
