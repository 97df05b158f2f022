"""Specification of ingestion: the file at a URL becomes a document version like an upload."""

import asyncio
import hashlib
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
import pytest
from service_jobs import Jobs
from service_jobs.job import Ending
from service_jobs.testing import InlineRun, run_inline
from tests.jobs.support.file_server import Answer, FileServer
from tests.jobs.support.run_workers import wait_until_status

from bpc.core.audit.events import Act
from bpc.core.formats.ids import DocumentId, DocumentVersionId, TenantId
from bpc.core.outbound_urls import NotHttps
from bpc.runtime import clock
from bpc.runtime.key_ring import KeyRing
from bpc.runtime.postgres.address import Address
from bpc.runtime.settings import Settings
from bpc.storage.database import Database, open_database
from bpc.storage.evidence import documents
from bpc.storage.evidence.documents import DocumentKind
from bpc.storage.jobs import open_job_sessions
from bpc.tasks import ingest
from bpc.tasks.ingest import ABANDONED_AFTER_SECONDS, IngestOrder, IngestResult
from bpc.tasks.job_types import JobTypes, declare_job_types, make_fetch_guard
from bpc.worker.run import run_worker
from tests.tasks.test_pdf_text import make_pdf

BOM = b'{"battery": {"sku": "SKU-1", "name": "Cell"}, "components": []}'
LONG = b"sku;note\n" + b"".join(hashlib.sha256(number.to_bytes(4)).hexdigest().encode() for number in range(40_000))
ROOT = Path(__file__).resolve().parents[2]


@dataclass
class IngestRig:
    """A tenant with a document, and the jobs that ingest."""

    database: Database
    tenant: TenantId
    settings: Settings
    job_types: JobTypes

    @property
    def folder(self) -> Path:
        return self.settings.data_dir / "ingest"

    @property
    def files_left(self) -> list[str]:
        return sorted(file.name for file in self.folder.iterdir()) if self.folder.exists() else []

    async def create_document(self, kind: DocumentKind = "BOM") -> DocumentId:
        async with self.database.tenant(self.tenant) as conn:
            act = Act(None, clock.now())
            document = await documents.create_document(conn, self.tenant, kind=kind, external_ref=None, act=act)
        return document.document_id

    async def ingest(
        self, url: str, *, kind: DocumentKind = "BOM", mime_type: str | None = None
    ) -> InlineRun[IngestResult]:
        order = IngestOrder(
            document_id=await self.create_document(kind), file_url=url, mime_type=mime_type, actor_id=None
        )
        async with self.database.tenant(self.tenant) as conn:
            return await run_inline(self.job_types.task_jobs.ingest, order, tenant=self.tenant, conn=conn)


def make_settings(data_dir: Path, *allow: str) -> Settings:
    return Settings(env="test", data_dir=data_dir, outbound_allow=allow or ("127.0.0.1",), upload_max_bytes=5_000_000)


@pytest.fixture
def rig(database: Database, tenant: TenantId, tmp_path: Path) -> IngestRig:
    settings = make_settings(tmp_path)
    return IngestRig(database, tenant, settings, declare_job_types(settings, database=database, key_ring=KeyRing({})))


async def test_a_fetched_file_becomes_a_version_like_an_upload(rig: IngestRig) -> None:
    async with FileServer(BOM) as server:
        ran = await rig.ingest(server.url)

    output = ran.output
    assert (output.is_new, output.bytes, output.mime_type) == (True, len(BOM), "application/json")
    assert output.sha256 == hashlib.sha256(BOM).hexdigest()
    assert [wish.handler.type for wish in ran.follow_ups] == ["PARSE_FACTS"]
    assert ran.follow_ups[0].key == f"parse:{output.document_version_id}"
    assert ran.follow_ups[0].job_id == output.parse_job_id
    async with rig.database.tenant(rig.tenant) as conn:
        content_row = await documents.load_content(conn, rig.tenant, DocumentVersionId(output.document_version_id))
        rows = await conn.fetch("SELECT event_type FROM events WHERE aggregate_id = $1", output.document_version_id)
    assert (content_row.content, content_row.mime_type) == (BOM, "application/json")
    assert [row[0] for row in rows] == ["DOCUMENT_UPLOADED"]
    assert rig.files_left == []


async def test_fetching_the_same_bytes_again_names_the_existing_version(rig: IngestRig) -> None:
    async with FileServer(BOM) as server:
        first = (await rig.ingest(server.url)).output
        again = await rig.ingest(server.url)

    assert again.output.document_version_id == first.document_version_id
    assert again.output.document_id == first.document_id
    assert not again.output.is_new
    assert [wish.handler.type for wish in again.follow_ups] == ["PARSE_FACTS"]  # under the same key: it has not run yet
    assert rig.files_left == []


async def test_a_pdf_is_stored_and_its_text_job_is_submitted(rig: IngestRig) -> None:
    async with FileServer(make_pdf("a report")) as server:
        other = await rig.ingest(server.url, kind="OTHER")
        server.content = make_pdf("another report")
        bom = await rig.ingest(server.url, kind="BOM")

    assert other.output.mime_type == "application/pdf"
    assert [wish.handler.type for wish in other.follow_ups] == ["EXTRACT_TEXT"]
    assert sorted(wish.handler.type for wish in bom.follow_ups) == ["EXTRACT_TEXT", "PARSE_FACTS"]


async def test_only_files_of_an_allowed_folder_are_read(database: Database, tenant: TenantId, tmp_path: Path) -> None:
    folder = tmp_path / "supplied"
    folder.mkdir()
    (folder / "bom.json").write_bytes(BOM)
    settings = make_settings(tmp_path / "data", str(folder))
    rig = IngestRig(database, tenant, settings, declare_job_types(settings, database=database, key_ring=KeyRing({})))

    taken = await rig.ingest((folder / "bom.json").as_uri())
    outside = await rig.ingest("file:///etc/passwd")
    missing = await rig.ingest((folder / "none.json").as_uri())

    assert taken.output.bytes == len(BOM)
    assert outside.error is not None
    assert outside.error.code == "OUTBOUND_BLOCKED"
    assert missing.error is not None
    assert (missing.ending, missing.error.code) == (Ending.FAILED, "NOT_FOUND")
    assert rig.files_left == []


# What goes wrong ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "ending", "code"),
    [
        (Answer(404), Ending.FAILED, "NOT_FOUND"),
        (Answer(403), Ending.FAILED, "VALIDATION_ERROR"),
        (Answer(302, {"Location": "http://169.254.169.254/"}), Ending.FAILED, "VALIDATION_ERROR"),
        (Answer(500), Ending.RETRY, "OUTBOUND_FAILED"),
        (Answer(503), Ending.RETRY, "OUTBOUND_FAILED"),
        (Answer(200, {"Content-Length": "5000001"}), Ending.FAILED, "VALIDATION_ERROR"),
        (Answer(200, {"Content-Length": "0"}), Ending.FAILED, "VALIDATION_ERROR"),
    ],
    ids=["404", "403", "redirect", "500", "503", "too-large", "empty"],
)
async def test_the_servers_answer_decides_whether_the_download_is_retried(
    rig: IngestRig, answer: Answer, ending: Ending, code: str
) -> None:
    async with FileServer(BOM) as server:
        server.instead = lambda _: answer
        ran = await rig.ingest(server.url)

    assert ran.error is not None
    assert (ran.ending, ran.error.code) == (ending, code), ran.error
    assert ran.follow_ups == []
    if ending is Ending.FAILED:
        assert rig.files_left == []
    assert len(server.requests) == 1


async def test_a_file_that_is_replaced_on_our_disk_is_not_the_servers_fault(rig: IngestRig) -> None:
    def replaced(_: object) -> None:
        [part] = rig.folder.iterdir()
        part.unlink()
        part.write_bytes(b"somebody else's")

    async with FileServer(BOM) as server:
        server.instead = replaced
        ran = await rig.ingest(server.url)

    assert ran.error is not None
    assert (ran.ending, ran.error.code) == (Ending.RETRY, "INTERNAL_ERROR"), ran.error


async def test_a_file_without_an_announced_length_ends_at_the_limit(rig: IngestRig) -> None:
    async with FileServer(b" " * 5_000_001) as server:
        server.says_length = False
        ran = await rig.ingest(server.url)

    assert ran.error is not None
    assert (ran.ending, "larger than the 5,000,000 bytes" in ran.error.message) == (Ending.FAILED, True)
    assert rig.files_left == []


async def test_a_file_of_another_type_than_announced_is_refused_with_both_types(rig: IngestRig) -> None:
    async with FileServer(make_pdf("a report")) as server:
        ran = await rig.ingest(server.url, mime_type="application/json")

    assert ran.error is not None
    assert ran.error.message == "the bytes of the file are `application/pdf`, not `application/json` as declared"
    assert ran.ending is Ending.FAILED
    async with rig.database.tenant(rig.tenant) as conn:
        assert await conn.fetchval("SELECT count(*) FROM document_versions") == 0
    assert rig.files_left == []


@pytest.mark.parametrize("url", ["http://10.0.0.1/x", "http://[::1]/x", "http://169.254.169.254/latest"])
async def test_no_internal_address_is_reached(rig: IngestRig, url: str) -> None:
    ran = await rig.ingest(url)

    assert ran.error is not None
    assert (ran.ending, ran.error.code) == (Ending.FAILED, "OUTBOUND_BLOCKED")


async def test_only_hosts_in_the_settings_are_fetched_without_tls(rig: IngestRig) -> None:
    ran = await rig.ingest("http://supplier.example/bom.json")

    assert ran.error is not None
    assert (ran.ending, ran.error.code) == (Ending.FAILED, "VALIDATION_ERROR")
    assert ran.error.message == "the URL must begin with `https://`"


async def test_in_prod_nothing_is_fetched_without_tls(tmp_path: Path) -> None:
    named = make_settings(tmp_path, "127.0.0.1", "*.internal")
    guards = make_fetch_guard(named), make_fetch_guard(named.model_copy(update={"env": "prod"}))

    for url in ("http://127.0.0.1:8080/x", "http://files.internal/x"):
        guards[0].check(url)
        with pytest.raises(NotHttps):
            guards[1].check(url)
    for guard in guards:
        guard.check("https://supplier.example/x")
        with pytest.raises(NotHttps):
            guard.check("http://supplier.example/x")
        with pytest.raises(NotHttps):
            async with guard.open_url("http://supplier.example/x", start=0, validator=None):
                pass


async def test_a_later_job_removes_the_file_of_an_abandoned_job(rig: IngestRig) -> None:
    rig.folder.mkdir(parents=True)
    for name, age in (("forgotten.part", ABANDONED_AFTER_SECONDS + 60), ("in-use.part", 60.0)):
        (rig.folder / name).write_bytes(b"x")
        os.utime(rig.folder / name, times=(0, clock.now().timestamp() - age))

    async with FileServer(BOM) as server:
        await rig.ingest(server.url)

    assert rig.files_left == ["in-use.part"]


async def test_a_file_that_another_job_removes_meanwhile_is_not_an_error(rig: IngestRig) -> None:
    rig.folder.mkdir(parents=True)
    (rig.folder / "gone.part").symlink_to(rig.folder / "nowhere")  # it is listed, and is not there

    async with FileServer(BOM) as server:
        ran = await rig.ingest(server.url)

    assert ran.ending is Ending.SUCCEEDED


# Killed in the middle -----------------------------------------------------------------------------------------------


async def ingest_in_process(address: dict[str, Any], data_dir: str) -> None:
    """A worker as a process of its own, which notes every piece that comes."""
    vars(ingest).update(CHECKPOINT_EVERY=0.0)
    database = await open_database(Address(**address), pool_size=5)
    async with run_worker(make_settings(Path(data_dir)), database, key_ring=KeyRing({})):
        await asyncio.Event().wait()


@asynccontextmanager
async def start_worker_process(address: Address, data_dir: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    address_values = {field.name: getattr(address, field.name) for field in fields(address)}
    call = f"ingest_in_process({address_values!r}, {str(data_dir)!r})"
    program = f"import asyncio; from {__name__} import ingest_in_process; asyncio.run({call})"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_an_ingestion_continues_after_kill_9_and_a_cut_connection(
    rig: IngestRig, address: Address, tmp_path: Path
) -> None:
    document = await rig.create_document()
    async with FileServer(LONG) as server, open_job_sessions(rig.database) as sessions:
        jobs = Jobs(rig.job_types.handlers, sessions)
        server.hold_at = len(LONG) // 2
        order = IngestOrder(document_id=document, file_url=server.url, mime_type="text/csv", actor_id=None)
        job_id = await jobs.submit(rig.job_types.task_jobs.ingest, order, tenant=rig.tenant)
        async with asyncio.timeout(60), start_worker_process(address, tmp_path) as first:
            await server.holds.wait()
            while await _read_bytes_saved(rig, job_id) < len(LONG) // 4:
                await asyncio.sleep(0.02)
            first.kill()
            await first.wait()
        had = await _read_bytes_saved(rig, job_id)
        assert len(rig.files_left) == 1

        server.cut_after = 300_000
        async with start_worker_process(address, tmp_path):
            await wait_until_status(jobs, rig.tenant, job_id, "SUCCEEDED", "FAILED", "DEAD_LETTER", seconds=60)

    assert server.starts[:2] == [0, had]
    assert server.starts[2] > had
    async with rig.database.tenant(rig.tenant) as conn:
        result = orjson.loads(await conn.fetchval("SELECT result FROM jobs.job WHERE job_id = $1", job_id))
        content = await conn.fetchval("SELECT content FROM document_versions")
    assert result["sha256"] == hashlib.sha256(LONG).hexdigest()
    assert content == LONG
    assert rig.files_left == []


async def _read_bytes_saved(rig: IngestRig, job_id: UUID) -> int:
    async with rig.database.tenant(rig.tenant) as conn:
        text = await conn.fetchval("SELECT checkpoint FROM jobs.job WHERE job_id = $1", job_id)
    return int(orjson.loads(text or "{}").get("bytes", 0))


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://supplier.example/files/St%C3%BCckliste.xlsx?token=abc", "St\u00fcckliste.xlsx"),
        ("https://supplier.example/share/9f86d081884c7d65", None),  # it may be a secret
        ("https://supplier.example/", None),
        ("file:///srv/documents/bom.CSV", "bom.CSV"),
    ],
)
def test_the_name_of_a_file_is_taken_from_its_url_only_if_it_looks_like_one(url: str, name: str | None) -> None:
    assert ingest._read_file_name(url) == name
