"""Ingesting documents: what is at a URL becomes a version as if it were uploaded, whatever happens on the way."""

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

from bpc import fresh
from bpc.assembly import Assembly, assembled, fetching_guard_of
from bpc.core.events import Act
from bpc.core.ids import DocumentId, DocumentVersionId, TenantId
from bpc.core.outbound_urls import NotHttps
from bpc.db import documents
from bpc.db.address import Address
from bpc.db.database import Database, open_database
from bpc.db.documents import Kind
from bpc.db.jobs import sessions_of
from bpc.errands import ingest
from bpc.errands.ingest import FORGOTTEN_AFTER, Ingested, IngestOrder
from bpc.jobs import Jobs
from bpc.jobs.outcome import Ending
from bpc.jobs.testing import Ran, run_inline
from bpc.settings import Settings
from bpc.worker.run import working
from tests.errands.test_texts import a_pdf
from tests.jobs.http_server import Answer, FileServer
from tests.jobs.working import until_status

BOM = b'{"battery": {"sku": "SKU-1", "name": "Cell"}, "components": []}'
LONG = b"sku;note\n" + b"".join(hashlib.sha256(number.to_bytes(4)).hexdigest().encode() for number in range(40_000))
ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Rig:
    """A tenant with a document, and the jobs that ingest."""

    database: Database
    tenant: TenantId
    settings: Settings
    work: Assembly

    @property
    def folder(self) -> Path:
        return self.settings.data_dir / "ingest"

    @property
    def left(self) -> list[str]:
        return sorted(file.name for file in self.folder.iterdir()) if self.folder.exists() else []

    async def document(self, kind: Kind = "BOM") -> DocumentId:
        async with self.database.tenant(self.tenant) as conn:
            act = Act(None, fresh.now())
            made = await documents.create(conn, self.tenant, kind=kind, external_ref=None, act=act)
        return made.document_id

    async def ingest(self, url: str, *, kind: Kind = "BOM", mime_type: str | None = None) -> Ran[Ingested]:
        order = IngestOrder(document_id=await self.document(kind), file_url=url, mime_type=mime_type, actor_id=None)
        async with self.database.tenant(self.tenant) as conn:
            return await run_inline(self.work.errands.ingest, order, tenant=self.tenant, conn=conn)


def settings_in(data_dir: Path, *allow: str) -> Settings:
    return Settings(env="test", data_dir=data_dir, outbound_allow=allow or ("127.0.0.1",), upload_max_bytes=5_000_000)


@pytest.fixture
def rig(database: Database, tenant: TenantId, tmp_path: Path) -> Rig:
    settings = settings_in(tmp_path)
    return Rig(database, tenant, settings, assembled(settings, signer=lambda _: None, database=database))


async def test_a_file_becomes_a_version_that_is_read_as_if_it_were_uploaded(rig: Rig) -> None:
    async with FileServer(BOM) as server:
        ran = await rig.ingest(server.url)

    made = ran.output
    assert (made.is_new, made.bytes, made.mime_type) == (True, len(BOM), "application/json")
    assert made.sha256 == hashlib.sha256(BOM).hexdigest()
    assert [wish.handler.type for wish in ran.follow_ups] == ["PARSE_FACTS"]
    assert ran.follow_ups[0].key == f"parse:{made.document_version_id}"
    assert ran.follow_ups[0].job_id == made.parse_job_id
    async with rig.database.tenant(rig.tenant) as conn:
        kept = await documents.content(conn, rig.tenant, DocumentVersionId(made.document_version_id))
        said = await conn.fetch("SELECT event_type FROM events WHERE aggregate_id = $1", made.document_version_id)
    assert (kept.content, kept.mime_type) == (BOM, "application/json")
    assert [row[0] for row in said] == ["DOCUMENT_UPLOADED"]
    assert rig.left == []


async def test_the_same_bytes_again_name_the_version_that_is_there(rig: Rig) -> None:
    async with FileServer(BOM) as server:
        first = (await rig.ingest(server.url)).output
        again = await rig.ingest(server.url)

    assert again.output.document_version_id == first.document_version_id
    assert again.output.document_id == first.document_id
    assert not again.output.is_new
    assert again.follow_ups == []
    assert rig.left == []


async def test_a_pdf_is_kept_and_its_text_is_asked_for(rig: Rig) -> None:
    async with FileServer(a_pdf("a report")) as server:
        other = await rig.ingest(server.url, kind="OTHER")
        server.content = a_pdf("another report")
        bom = await rig.ingest(server.url, kind="BOM")

    assert other.output.mime_type == "application/pdf"
    assert [wish.handler.type for wish in other.follow_ups] == ["EXTRACT_TEXT"]
    assert sorted(wish.handler.type for wish in bom.follow_ups) == ["EXTRACT_TEXT", "PARSE_FACTS"]


async def test_a_file_of_an_open_folder_is_taken_and_no_other(
    database: Database, tenant: TenantId, tmp_path: Path
) -> None:
    folder = tmp_path / "supplied"
    folder.mkdir()
    (folder / "bom.json").write_bytes(BOM)
    settings = settings_in(tmp_path / "data", str(folder))
    rig = Rig(database, tenant, settings, assembled(settings, signer=lambda _: None))

    taken = await rig.ingest((folder / "bom.json").as_uri())
    outside = await rig.ingest("file:///etc/passwd")
    missing = await rig.ingest((folder / "none.json").as_uri())

    assert taken.output.bytes == len(BOM)
    assert outside.error is not None
    assert outside.error.code == "OUTBOUND_BLOCKED"
    assert missing.error is not None
    assert (missing.ending, missing.error.code) == (Ending.FAILED, "NOT_FOUND")
    assert rig.left == []


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
async def test_what_the_server_answers_decides_whether_it_is_tried_again(
    rig: Rig, answer: Answer, ending: Ending, code: str
) -> None:
    async with FileServer(BOM) as server:
        server.instead = lambda _: answer
        ran = await rig.ingest(server.url)

    assert ran.error is not None
    assert (ran.ending, ran.error.code) == (ending, code), ran.error
    assert ran.follow_ups == []
    if ending is Ending.FAILED:
        assert rig.left == []
    assert len(server.requests) == 1


async def test_a_file_that_is_replaced_on_our_disk_is_not_the_servers_doing(rig: Rig) -> None:
    def replaced(_: object) -> None:
        [part] = rig.folder.iterdir()
        part.unlink()
        part.write_bytes(b"somebody else's")

    async with FileServer(BOM) as server:
        server.instead = replaced
        ran = await rig.ingest(server.url)

    assert ran.error is not None
    assert (ran.ending, ran.error.code) == (Ending.RETRY, "INTERNAL_ERROR"), ran.error


async def test_a_file_without_an_announced_length_ends_at_the_limit(rig: Rig) -> None:
    async with FileServer(b" " * 5_000_001) as server:
        server.says_length = False
        ran = await rig.ingest(server.url)

    assert ran.error is not None
    assert (ran.ending, "larger than the 5,000,000 bytes" in ran.error.message) == (Ending.FAILED, True)
    assert rig.left == []


async def test_another_type_than_was_said_is_refused_with_both(rig: Rig) -> None:
    async with FileServer(a_pdf("a report")) as server:
        ran = await rig.ingest(server.url, mime_type="application/json")

    assert ran.error is not None
    assert ran.error.message == "the file is `application/pdf` by its bytes, not `application/json` as was said"
    assert ran.ending is Ending.FAILED
    async with rig.database.tenant(rig.tenant) as conn:
        assert await conn.fetchval("SELECT count(*) FROM document_versions") == 0
    assert rig.left == []


@pytest.mark.parametrize("url", ["http://10.0.0.1/x", "http://[::1]/x", "http://169.254.169.254/latest"])
async def test_nothing_inside_is_reached(rig: Rig, url: str) -> None:
    ran = await rig.ingest(url)

    assert ran.error is not None
    assert (ran.ending, ran.error.code) == (Ending.FAILED, "OUTBOUND_BLOCKED")


async def test_only_what_the_installation_names_is_fetched_in_the_clear(rig: Rig) -> None:
    ran = await rig.ingest("http://supplier.example/bom.json")

    assert ran.error is not None
    assert (ran.ending, ran.error.code) == (Ending.FAILED, "VALIDATION_ERROR")
    assert ran.error.message == "the URL must begin with `https://`"


async def test_in_prod_nothing_is_fetched_in_the_clear(tmp_path: Path) -> None:
    named = settings_in(tmp_path, "127.0.0.1", "*.internal")
    guards = fetching_guard_of(named), fetching_guard_of(named.model_copy(update={"env": "prod"}))

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


async def test_what_a_job_left_that_never_ended_is_removed_by_a_later_one(rig: Rig) -> None:
    rig.folder.mkdir(parents=True)
    for name, age in (("forgotten.part", FORGOTTEN_AFTER + 60), ("in-use.part", 60.0)):
        (rig.folder / name).write_bytes(b"x")
        os.utime(rig.folder / name, times=(0, fresh.now().timestamp() - age))

    async with FileServer(BOM) as server:
        await rig.ingest(server.url)

    assert rig.left == ["in-use.part"]


async def test_a_file_that_another_job_removes_at_the_same_moment_costs_nothing(rig: Rig) -> None:
    rig.folder.mkdir(parents=True)
    (rig.folder / "gone.part").symlink_to(rig.folder / "nowhere")  # it is listed, and is not there

    async with FileServer(BOM) as server:
        ran = await rig.ingest(server.url)

    assert ran.ending is Ending.SUCCEEDED


# Killed in the middle -----------------------------------------------------------------------------------------------


async def work(address: dict[str, Any], data_dir: str) -> None:
    """A worker as a process of its own, which notes every piece that comes."""
    vars(ingest).update(CHECKPOINT_EVERY=0.0)
    database = await open_database(Address(**address), pool_size=5)
    async with working(settings_in(Path(data_dir)), database, signer=lambda _: None):
        await asyncio.Event().wait()


@asynccontextmanager
async def working_elsewhere(address: Address, data_dir: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    given = {field.name: getattr(address, field.name) for field in fields(address)}
    program = f"import asyncio; from {__name__} import work; asyncio.run(work({given!r}, {str(data_dir)!r}))"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_an_ingestion_goes_on_where_it_was_after_kill_9_and_a_cut_connection(
    rig: Rig, address: Address, tmp_path: Path
) -> None:
    document = await rig.document()
    async with FileServer(LONG) as server, sessions_of(rig.database) as sessions:
        jobs = Jobs(rig.work.handlers, sessions)
        server.hold_at = len(LONG) // 2
        order = IngestOrder(document_id=document, file_url=server.url, mime_type="text/csv", actor_id=None)
        job_id = await jobs.submit(rig.work.errands.ingest, order, tenant=rig.tenant)
        async with asyncio.timeout(60), working_elsewhere(address, tmp_path) as first:
            await server.holds.wait()
            while await _bytes_saved(rig, job_id) < len(LONG) // 4:
                await asyncio.sleep(0.02)
            first.kill()
            await first.wait()
        had = await _bytes_saved(rig, job_id)
        assert len(rig.left) == 1

        server.cut_after = 300_000
        async with working_elsewhere(address, tmp_path):
            await until_status(jobs, rig.tenant, job_id, "SUCCEEDED", "FAILED", "DEAD_LETTER", seconds=60)

    assert server.starts[:2] == [0, had]
    assert server.starts[2] > had
    async with rig.database.tenant(rig.tenant) as conn:
        result = orjson.loads(await conn.fetchval("SELECT result FROM jobs.job WHERE job_id = $1", job_id))
        kept = await conn.fetchval("SELECT content FROM document_versions")
    assert result["sha256"] == hashlib.sha256(LONG).hexdigest()
    assert kept == LONG
    assert rig.left == []


async def _bytes_saved(rig: Rig, job_id: UUID) -> int:
    async with rig.database.tenant(rig.tenant) as conn:
        text = await conn.fetchval("SELECT checkpoint FROM jobs.job WHERE job_id = $1", job_id)
    return int(orjson.loads(text or "{}").get("bytes", 0))
