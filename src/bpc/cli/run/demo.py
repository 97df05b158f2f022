"""`bpc demo`: one battery from its suppliers' documents to a passport that anybody can check.

Everything happens in the tenant `demo` of the configured database: documents go in over the API, a worker runs the
jobs, and the results are written to files and checked as any reader could. Documents, rules and product of an earlier
demo are used again; each run issues a new version of the passport, which supersedes the version before.
"""

import logging
import shlex
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, contextmanager, nullcontext
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from uuid import UUID

import typer
from bpc_client import ApiError, Client, JobFailed, WaitTimeout
from bpc_client.models import Fact

from bpc.api.http.server import listen, open_service
from bpc.cli.online.remote_rules import RuleAndTestTexts, publish_version, run_tests_remotely, store_rules
from bpc.cli.run.signer import use_signer
from bpc.cli.setup.seed import create_admin_key, find_or_create_tenant, seed_database
from bpc.cli.support.output import AsJson, name_program, print_json, print_line, replace_file
from bpc.cli.support.session import (
    format_url,
    load_peppers,
    load_settings_and_logs,
    load_signing_key,
    make_operator_act,
)
from bpc.core.audit.signing import PublicKey, derive_public_key, to_base64
from bpc.core.errors import Conflict, Invalid
from bpc.core.formats.ids import TenantId
from bpc.core.passport.bundle import read_archive, write_archive
from bpc.core.passport.why_bundle import explain_bundle
from bpc.core.verify.bundle import verify_bundle
from bpc.runtime.settings import ConfigMissing, Settings
from bpc.runtime.settings.data_dir import load_pepper
from bpc.runtime.sockets import LOOPBACK
from bpc.storage.access import api_keys
from bpc.storage.database import Database, open_migrated_database
from bpc.worker.run import run_worker

BATTERY_FILES: Final = files("bpc.cli.run") / "demo_battery"
SKU: Final = "EB-500-36"
PRODUCT_NAME: Final = "City e-bike pack 500"
RULE_PACKAGE: Final = "E-bike batteries"
DOCUMENTS: Final[tuple[tuple[Literal["BOM", "PCF", "DUE_DILIGENCE"], str], ...]] = (
    ("BOM", "bom.json"),
    ("PCF", "pcf.json"),
    ("DUE_DILIGENCE", "due-diligence.json"),
)
EXPLAINED_FIELD: Final = "materials.critical_mass"
SHOWN_DEPTH: Final = 4
ORIGINAL_VALUE: Final = b'"812.500000"'
TAMPERED_VALUE: Final = b'"812.400000"'

OutOption = Annotated[
    Path, typer.Option("--out", metavar="DIR", help="Folder for the bundle, the QR code and the PDF.")
]


class DemoListener:
    """Gets told each step of the demo; this one says nothing."""

    def step(self, what: str) -> AbstractContextManager[None]:  # noqa: ARG002
        """`what` happens in the block."""
        return nullcontext()

    def note(self, what: str) -> None:
        """A remark about the last step."""


class TerminalListener(DemoListener):
    """Prints the steps on the terminal."""

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        started_at = time.monotonic()
        yield
        print_line("✓", colour="green", end=" ")
        print_line(f"{what}  ({(time.monotonic() - started_at) * 1000:.0f} ms)")

    def note(self, what: str) -> None:
        print_line(f"    {what}", dim=True)


async def run_demo(out: OutOption = Path("bpc-demo"), as_json: AsJson = False) -> None:
    """Show all eight steps with an example battery.

    The steps are: upload, facts, snapshot, compile, sign, QR, activate, replay. Starts the database, the API and a
    worker itself. Works only in its own tenant `demo` and can be repeated. Not allowed in prod.
    """
    settings = load_settings_and_logs("demo")
    if settings.env == "prod":
        raise ConfigMissing.for_setting("BPC_ENV", "the demo does not run in prod", fix="set BPC_ENV=dev")
    for name in ("bpc", "service_jobs"):
        logging.getLogger(name).setLevel(logging.WARNING)  # the demo prints what happens
    started_at, folder = time.monotonic(), _make_folder(out)
    if not as_json:
        print_line("Battery Passport Compiler: one battery, from its suppliers' documents to its passport\n")
    version = await _show_demo(settings, folder, DemoListener() if as_json else TerminalListener())
    seconds = time.monotonic() - started_at
    if as_json:
        files = [folder / name for name in ("bundle.zip", "passport.pdf", "qr.png")]
        print_json({"sku": SKU, "passport_version_id": version, "files": files, "seconds": round(seconds, 1)})
        return
    print_line(f"\nDone in {seconds:.1f} s.", colour="green", bold=True)
    _print_next_steps(out, derive_public_key(load_signing_key(settings)))


def _print_next_steps(out: Path, issuer: PublicKey) -> None:
    """Commands that work when they are pasted, also where `bpc` is not on the path of this shell."""
    bpc = name_program()
    print_line(f"Look at {out / 'passport.pdf'}. Check the passport again:")
    print_line(f"  {bpc} verify {shlex.quote(str(out / 'bundle.zip'))} --key {to_base64(issuer)}")
    print_line("Start the service, and leave it running:")
    print_line(f"  {bpc} up")
    print_line(f"All commands: {bpc} --help")


async def _show_demo(settings: Settings, out: Path, printer: DemoListener) -> UUID:
    async with AsyncExitStack() as stack:
        with printer.step("start the database, the API and a worker"):
            database = await stack.enter_async_context(open_migrated_database(settings, migrate_first=True))
            await seed_database(database, settings)
            tenant = (await find_or_create_tenant(database, "demo", name="Demo Manufacturing")).tenant_id
            url = await stack.enter_async_context(_run_api_and_worker(settings, database))
            api_key = await stack.enter_async_context(_issue_temporary_key(settings, database, tenant))
        printer.note(f"{url}, on {database.address}")
        client = await stack.enter_async_context(Client(url, api_key))
        try:
            version = await issue_passport(client, printer, out)
        except (ApiError, JobFailed, WaitTimeout) as error:
            raise Conflict(str(error), fix="`bpc jobs list --tenant demo --status FAILED` may say why") from error
    public = derive_public_key(load_signing_key(settings))
    if not check_bundle((out / "bundle.zip").read_bytes(), public, printer):
        raise Conflict(
            "the check of the bundle did not detect the change that was made for the demo",
            fix="please report this bug of bpc",
        )
    return version


@asynccontextmanager
async def _run_api_and_worker(settings: Settings, database: Database) -> AsyncIterator[str]:
    """The API and a worker in this process, and the signer in one of its own."""
    async with (
        use_signer(settings) as signer,
        open_service(settings, database, peppers=load_peppers(settings), key_ring=signer) as service,
        run_worker(settings, database, key_ring=signer, metrics=service.jobs.metrics),
        listen(service, LOOPBACK, 0) as port,
    ):
        yield format_url(LOOPBACK, port)


@asynccontextmanager
async def _issue_temporary_key(settings: Settings, database: Database, tenant: TenantId) -> AsyncIterator[str]:
    """An API key that is revoked when the demo ends."""
    async with database.tenant(tenant) as conn:
        key = await create_admin_key(conn, tenant, load_pepper(settings), name="Demo", label="bpc demo")
    try:
        yield key.text
    finally:
        async with database.tenant(tenant) as conn:
            await api_keys.revoke_key_by_prefix(conn, tenant, key.prefix, act=make_operator_act())


def _make_folder(out: Path) -> Path:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        says = f"`{out}` cannot be created: {error.strerror}"
        raise Invalid(says, fix="choose another folder with --out") from error
    return out


async def issue_passport(bpc: Client, listener: DemoListener, out: Path) -> UUID:
    """Take the battery through all eight steps, write the results to `out`, and return the passport version's id."""
    with listener.step("1 upload: three documents of suppliers"):
        documents = [await _upload(bpc, kind, file) for kind, file in DOCUMENTS]
    listener.note(", ".join(file for _, file in DOCUMENTS))

    with listener.step("2 facts: each value with its place in the document"):
        facts = [fact for document in documents for fact in await _wait_for_facts(bpc, document)]
    cathode_fact = next(fact for fact in facts if fact.fact_key.endswith(":cathode"))
    listener.note(
        f"{len(facts)} facts; {cathode_fact.fact_key} is from {cathode_fact.source_path} of the bill of materials"
    )

    with listener.step("3 snapshot: those facts, sealed"):
        snapshot, digest = await _seal_snapshot(bpc, facts)
    listener.note(f"SHA-256 {digest}; nothing in it changes any more")

    with listener.step("rules: checked, tested, published"):
        rules = await _publish_rules(bpc)
    run = (await bpc.list_rule_test_runs(rules, limit=1)).items[0]
    listener.note(f"{run.passed} of {run.cases} cases passed; publishing needs at least 500")

    with listener.step("4 compile, 5 sign, 6 QR: one job, in one transaction"):
        version = await _compile(bpc, snapshot, rules)
        passport_version = await bpc.get_passport_version(version)
    listener.note(
        f"payload {passport_version.payload_hash[:16]}…, proof {passport_version.proof_root_hash[:16]}…, "
        f"signed by {passport_version.signing_key_id}"
    )

    with listener.step("7 activate: this version is now the valid one"):
        activation = await bpc.activate_passport_version(version)
    before = activation.superseded_passport_version_id
    listener.note(f"{version}" + (f", instead of {before}" if before else ""))

    with listener.step("8 replay: compiled again from what is stored, compared byte for byte"):
        replay = await bpc.replay_passport_version(version)
    listener.note(f"{len(replay.steps)} checks passed: {', '.join(step.name for step in replay.steps)}")

    with listener.step("export: a bundle for auditors, a QR code for the battery, a PDF for people"):
        exports = {
            "bundle.zip": (await bpc.get_bundle(version)).content,
            "qr.png": (await bpc.get_qr_code(version)).content,
            "passport.pdf": await _export_pdf(bpc, version),
        }
        for name, content in exports.items():
            replace_file(out / name, content)
    listener.note(", ".join(f"{out / name} ({len(content):,} bytes)" for name, content in exports.items()))

    with listener.step("audit: every hash of the tenant's record, computed again"):
        verification = await bpc.verify_events()
    listener.note(f"{verification.events} events in {verification.chains} chains, {len(verification.faults)} faults")
    return version


def read_battery_file(file: str) -> str:
    return BATTERY_FILES.joinpath(file).read_text(encoding="utf-8")


async def _create_or_find(creation: Awaitable[object], id_name: str) -> UUID:
    """Create it; return its id, or the id of the existing one."""
    try:
        answer: Any = await creation
    except ApiError as error:
        if error.code == "CONFLICT" and id_name in error.details:
            return UUID(error.details[id_name])
        raise
    return UUID(str(getattr(answer, id_name)))


async def _upload(bpc: Client, kind: Literal["BOM", "PCF", "DUE_DILIGENCE"], file: str) -> UUID:
    document = await bpc.create_document(kind=kind, external_ref=file)
    content = b64encode(read_battery_file(file).encode()).decode()
    upload = bpc.upload_document_version(document.document_id, mime_type="application/json", content_base64=content)
    return await _create_or_find(upload, "document_version_id")


async def _wait_for_facts(bpc: Client, document: UUID) -> list[Fact]:
    await bpc.wait_until(
        lambda: bpc.get_document_version(document), lambda version: version.status == "VALIDATED", seconds=60
    )
    return [fact async for fact in bpc.list_all(bpc.list_facts, document_version_id=document)]


async def _seal_snapshot(bpc: Client, facts: list[Fact]) -> tuple[UUID, str]:
    snapshot = (await bpc.create_snapshot(label="demo")).snapshot_id
    await bpc.add_snapshot_items(snapshot, fact_ids=[fact.fact_id for fact in facts])
    await bpc.wait((await bpc.build_snapshot(snapshot)).job_id)
    return snapshot, (await bpc.seal_snapshot(snapshot)).snapshot_hash


async def _publish_rules(bpc: Client) -> UUID:
    """The version of the rules, stored, tested and published unless an earlier demo did that."""
    remote_rules = await store_rules(
        bpc, RULE_PACKAGE, RuleAndTestTexts(read_battery_file("rules.bpc"), read_battery_file("tests.bpc"))
    )
    test_run = await run_tests_remotely(bpc, remote_rules.version, seed=1)
    return (await publish_version(bpc, test_run.version)).rule_package_version_id


async def _compile(bpc: Client, snapshot: UUID, rules: UUID) -> UUID:
    product = bpc.create_battery_product(sku=SKU, name=PRODUCT_NAME)
    product_id = await _create_or_find(product, "battery_product_id")
    passport_id = await _create_or_find(bpc.create_passport(battery_product_id=product_id), "passport_id")
    request = await bpc.compile_passport(passport_id, snapshot_id=snapshot, rule_package_version_id=rules)
    await bpc.wait(request.job_id)
    version = request.passport_version_id
    await bpc.wait_until(lambda: bpc.get_passport_version(version), lambda current: current.has_qr, seconds=60)
    return version


async def _export_pdf(bpc: Client, version: UUID) -> bytes:
    request = await bpc.create_export(version, format="PDF")
    await bpc.wait(request.job_id)
    return (await bpc.get_export_content(request.export_id)).content


def check_bundle(bundle: bytes, issuer: PublicKey, listener: DemoListener) -> bool:
    """Whether the bundle passes all checks and a changed copy does not."""
    with listener.step("check the bundle with nothing but the issuer's key"):
        report = verify_bundle(bundle, pins=[issuer])
    listener.note(f"{sum(step.ok for step in report.steps)} of {len(report.steps)} checks passed")

    with listener.step(f"explain the value of {EXPLAINED_FIELD}"):
        _, reason = explain_bundle(bundle, EXPLAINED_FIELD)
    for depth, says, _ in reason.iterate_lines():
        if depth < SHOWN_DEPTH:
            listener.note(f"{'  ' * depth}{says}")

    with listener.step("change a copy by a tenth of a gram and check it"):
        tampered_report = verify_bundle(_tamper(bundle), pins=[issuer])
    failed_step = next((step for step in tampered_report.steps if not step.ok), None)
    if failed_step is not None:
        listener.note(f"caught: {failed_step.name}: {failed_step.detail}")
    return report.ok and failed_step is not None


def _tamper(bundle: bytes) -> bytes:
    """The bundle with one fact changed."""
    entries = read_archive(bundle)
    return write_archive(entries | {"facts.jsonl": entries["facts.jsonl"].replace(ORIGINAL_VALUE, TAMPERED_VALUE, 1)})
