"""A life for a database that is to be frozen: everything the product stores, made by asking for it over the API.

    lived(client, …)           with a worker: documents, rules, passports in every status, exports, webhooks, refusals
    left_waiting(client, …)    without one: jobs that nobody has begun

The documents, rules and product are those of `bpc demo`, which every version brings along. A version that stores more
has more to ask for here.
"""

import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Literal
from uuid import UUID

from bpc_client import ApiError, Client, JobFailed
from bpc_client.models import BulkItem, Conditions, DocumentVersionMade

from bpc.cli.run.demo import SKU, DemoListener, issue_passport, read_battery_file

SECONDS = 120
NOBODY = UUID(int=0)
PDF = b"""%PDF-1.4
1 0 obj << /Type /Catalog /Pages 2 0 R >> endobj
2 0 obj << /Type /Pages /Kids [4 0 R] /Count 1 >> endobj
3 0 obj << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> endobj
4 0 obj << /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 5 0 R
  /Resources << /Font << /F1 3 0 R >> >> >> endobj
5 0 obj << /Length 42 >>
stream
BT /F1 12 Tf 72 720 Td (A paper of a supplier) Tj ET
endstream
endobj
trailer << /Root 1 0 R >>
%%EOF
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeInputs:
    """What the second part of the life goes on with."""

    passport: UUID
    snapshot: UUID
    rules: UUID
    version: UUID


class ExternalServer(BaseHTTPRequestHandler):
    """Other people's servers: suppliers that are asked for files, and receivers of webhooks."""

    ended = threading.Event()

    def do_GET(self) -> None:
        if self.path == "/slow":  # whoever asked is killed while it waits
            self.ended.wait(SECONDS)
            return
        self._answer(
            {"/broken": 503, "/missing": 404}.get(self.path, 200), read_battery_file("bom.json").encode() + b"\n"
        )

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(500 if self.path == "/refusing" else 200, b"noted" if self.path != "/refusing" else b"not today")

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(body)

    def version_string(self) -> str:
        return "elsewhere"  # and not the versions of this machine, which would be stored with the answer

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@contextmanager
def serve_external() -> Iterator[str]:
    """Their address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), ExternalServer)
    server.daemon_threads = True
    running = threading.Thread(target=server.serve_forever)
    running.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        ExternalServer.ended.set()
        server.shutdown()
        running.join()
        server.server_close()


async def fill_database(bpc: Client, url: str, external_url: str, out: Path) -> LifeInputs:
    """Everything that ends; at the end one job is under way, of which only whoever runs it can say how it ends."""
    await _create_people(bpc, url)
    await _create_webhooks(bpc, external_url)
    inputs = await _load_inputs(bpc, await issue_passport(bpc, DemoListener(), out))
    await _create_passports(bpc, inputs)
    await _create_exports(bpc, inputs)
    await _create_documents(bpc, external_url)
    await _create_rules(bpc)
    await _run_bulk_compile(bpc, inputs)
    await _wait_for_deliveries(bpc)
    await _start_slow_ingest(bpc, external_url)
    return inputs


async def _create_people(bpc: Client, url: str) -> None:
    """Roles, actors, policies, keys: of each one that counts and one that does not any more."""
    await bpc.create_role(name="Reader", permissions=["passport:read", "docs:read"])
    reader = await bpc.create_actor(type="USER", display_name="A reader", roles=["Reader"])
    denied = await bpc.create_policy(
        effect="DENY", target="docs:upload", name="readers upload nothing", policy_json=Conditions(roles=["Reader"])
    )
    await bpc.create_policy_version(
        denied.policy_id, effect="DENY", target="docs:*", priority=7, policy_json=Conditions(roles=["Reader"])
    )
    await bpc.deactivate_policy(denied.policy_id)
    await bpc.create_policy(
        effect="ALLOW", target="audit:read", name="readers audit", policy_json=Conditions(roles=["Reader"])
    )
    key = await bpc.create_api_key(actor_id=reader.actor_id, label="read")
    with suppress(ApiError):  # which is on record
        async with Client(url, key.api_key) as as_reader:
            await as_reader.create_document(kind="BOM")
    await bpc.rotate_api_key(key.api_key_id)
    await bpc.revoke_api_key(key.api_key_id)


async def _create_webhooks(bpc: Client, external_url: str) -> None:
    taking = await bpc.create_webhook_endpoint(url=f"{external_url}/taking")
    refusing = await bpc.create_webhook_endpoint(url=f"{external_url}/refusing")
    await bpc.rotate_webhook_secret(taking.webhook_endpoint_id)
    for event_type in ("passport.version.active", "passport.version.revoked"):
        await bpc.create_webhook_subscription(webhook_endpoint_id=taking.webhook_endpoint_id, event_type=event_type)
    await bpc.create_webhook_subscription(
        webhook_endpoint_id=refusing.webhook_endpoint_id, event_type="passport.version.revoked"
    )


async def _load_inputs(bpc: Client, version: UUID) -> LifeInputs:
    passport_version = await bpc.get_passport_version(version)
    return LifeInputs(
        passport=passport_version.passport_id,
        snapshot=passport_version.snapshot_id,
        rules=passport_version.rule_package_version_id,
        version=version,
    )


async def _create_passports(bpc: Client, inputs: LifeInputs) -> None:
    """That of the demo is superseded, the next one revoked, the last one signed and never activated."""
    revoked = await _compile_version(bpc, inputs)
    await bpc.activate_passport_version(revoked)
    await bpc.revoke_passport_version(revoked, reason="made to be revoked")
    await _compile_version(bpc, inputs)


async def _compile_version(bpc: Client, inputs: LifeInputs) -> UUID:
    requested = await bpc.compile_passport(
        inputs.passport, snapshot_id=inputs.snapshot, rule_package_version_id=inputs.rules
    )
    await bpc.wait(requested.job_id, seconds=SECONDS)
    version = requested.passport_version_id
    await bpc.wait_until(lambda: bpc.get_passport_version(version), lambda seen: seen.has_qr, seconds=SECONDS)
    return version


async def _create_exports(bpc: Client, inputs: LifeInputs) -> None:
    formats: tuple[Literal["JSON_LD", "XML"], ...] = ("JSON_LD", "XML")
    for form in formats:
        requested = await bpc.create_export(inputs.version, format=form, audience="public")
        await bpc.wait(requested.job_id, seconds=SECONDS)


async def _create_documents(bpc: Client, external_url: str) -> None:
    """Uploaded as a table, as nonsense and as a PDF; fetched, missing, and from a server that is never well."""
    for kind, mime_type, content in (
        ("PCF", "text/csv", b"sku;total_gco2e\nSKU-CSV;4500.5\n"),
        ("BOM", "application/json", b'{"battery": 7}'),
    ):
        read = (await _upload_document(bpc, kind, mime_type, content)).job_id
        with suppress(JobFailed):
            await bpc.wait(read or NOBODY, seconds=SECONDS)
    paper = await _upload_document(bpc, "OTHER", "application/pdf", PDF)
    await bpc.wait_until(lambda: bpc.get_document_text(paper.document_version_id), seconds=SECONDS)
    for path in ("/bom.json", "/missing", "/broken"):
        document = await bpc.create_document(kind="BOM", external_ref=path)
        requested = await bpc.ingest_document(
            document.document_id, file_url=f"{external_url}{path}", mime_type="application/json"
        )
        with suppress(JobFailed):
            await bpc.wait(requested.job_id, seconds=SECONDS)


async def _upload_document(bpc: Client, kind: str, mime_type: str, content: bytes) -> DocumentVersionMade:
    document = await bpc.create_document(kind=kind)  # type: ignore[arg-type]
    return await bpc.upload_document_version(
        document.document_id, mime_type=mime_type, content_base64=b64encode(content).decode()
    )


async def _create_rules(bpc: Client) -> None:
    """A draft beside the published version."""
    package = await bpc.create_rule_package(name="Drafts")
    await bpc.create_rule_version(
        package.rule_package_id,
        dsl_source=read_battery_file("rules.bpc") + "\n",
        tests_source=read_battery_file("tests.bpc"),
    )


async def _run_bulk_compile(bpc: Client, inputs: LifeInputs) -> None:
    """A row that is done and one that cannot be."""
    rows = [BulkItem(sku=SKU, snapshot_id=inputs.snapshot), BulkItem(sku="SKU-NOBODY-KNOWS")]
    run = await bpc.bulk_compile(rule_package_version_id=inputs.rules, items=rows, activate=True)
    await bpc.wait_until(
        lambda: bpc.get_compile_run(run.run_id), lambda seen: seen.finished_at is not None, seconds=SECONDS
    )


async def _wait_for_deliveries(bpc: Client) -> None:
    """Until what was announced was sent: taken by one, refused by the other, to whom it will be sent again."""
    await bpc.wait_until(
        lambda: bpc.list_webhook_deliveries(limit=200),
        lambda page: all(delivery.attempt > 0 for delivery in page.items) and len(page.items) > 0,
        seconds=SECONDS,
    )


async def _start_slow_ingest(bpc: Client, external_url: str) -> None:
    document = await bpc.create_document(kind="PCF", external_ref="/slow")
    requested = await bpc.ingest_document(
        document.document_id, file_url=f"{external_url}/slow", mime_type="application/json"
    )
    await bpc.wait_until(lambda: bpc.get_job(requested.job_id), lambda job: job.status == "RUNNING", seconds=SECONDS)


async def queue_waiting_jobs(bpc: Client, inputs: LifeInputs) -> list[UUID]:
    """Jobs that nobody has begun; one of them was cancelled. Returns those that a worker has to do."""
    content = read_battery_file("pcf.json").replace("34020", "34021").encode()
    parse_job = (await _upload_document(bpc, "PCF", "application/json", content)).job_id
    compile_request = await bpc.compile_passport(
        inputs.passport, snapshot_id=inputs.snapshot, rule_package_version_id=inputs.rules
    )
    export = await bpc.create_export(inputs.version, format="DATA_POINTS")
    cancelled_export = await bpc.create_export(inputs.version, format="BUNDLE")
    await bpc.cancel_job(cancelled_export.job_id, reason="not needed after all")
    await bpc.bulk_compile(rule_package_version_id=inputs.rules, items=[BulkItem(sku=SKU)], activate=False)
    return [parse_job or NOBODY, compile_request.job_id, export.job_id]
