"""`bpc upload`: a file becomes a document over the API. Uploading the same file again gives the same answer.

Of a URL only the URL is sent: the service fetches the file itself, by a job.
"""

import hashlib
import json
import mimetypes
import re
from base64 import b64encode
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal
from uuid import UUID

import typer

from bpc.cli.files import read_bytes
from bpc.cli.online import ask
from bpc.cli.output import REFUSED, AsJson, print_json, print_refusal, say
from bpc.cli.text import checked_text
from bpc.cli.url import Url
from bpc.client import Client, JobFailed
from bpc.client.models import DocumentVersionRead, Remark
from bpc.core.errors import Invalid

app = typer.Typer(add_completion=False, rich_markup_mode=None)

IS_URL: Final = re.compile(r"(https?|file)://", re.ASCII | re.IGNORECASE)
UNKNOWN: Final = "application/octet-stream"
Kind = Literal["BOM", "PCF", "DUE_DILIGENCE", "OTHER"]


@app.command()
def upload(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE|URL",
            help="The file; `-` is standard input. A URL (https://…, or file:///… on the service's own machine) is "
            "fetched by the service.",
            show_default=False,
        ),
    ],
    kind: Annotated[
        Kind, typer.Option("--kind", help="What it is; OTHER is stored and not read.", case_sensitive=False)
    ],
    ref: Annotated[str | None, typer.Option("--ref", metavar="REF", help="Its name in another system.")] = None,
    mime_type: Annotated[
        str | None,
        typer.Option("--mime-type", metavar="TYPE", help="By the file's name, or the bytes of a URL, if left out."),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until its facts are read; exit 1 if they are not.")
    ] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Upload a document over the API.

    \b
    bpc upload bom.json --kind BOM --ref ERP-4711 --wait
    bpc upload https://supplier.example/bom.json --kind BOM --wait
    """
    if IS_URL.match(file):
        _ingest(file, kind, ref, mime_type, url, wait=wait, as_json=as_json)
        return
    content = read_bytes(file)
    if not content:
        raise Invalid("the file is empty", fix="name the file that has the document")
    name = None if ref is None else checked_text("the reference", ref)
    media = checked_text("the type", mime_type or mimetypes.guess_type(file)[0] or UNKNOWN)

    async def send(bpc: Client) -> tuple[DocumentVersionRead, str | None]:
        key = _key(bpc.key_prefix, kind, name, media, content)
        document = await bpc.create_document(kind=kind, external_ref=name, idempotency_key=f"{key}:document")
        made = await bpc.upload_document_version(
            document.document_id,
            mime_type=media,
            content_base64=b64encode(content).decode(),
            idempotency_key=f"{key}:version",
        )
        if wait and made.job_id is not None:
            await _read(bpc, made.job_id)
        job_id = None if made.job_id is None else str(made.job_id)
        return await bpc.get_document_version(made.document_version_id), job_id

    version, job_id = ask(url, send, as_json=as_json)
    _print(version, job_id, as_json=as_json)


def _ingest(
    file_url: str, kind: Kind, ref: str | None, mime_type: str | None, url: str | None, *, wait: bool, as_json: bool
) -> None:
    name = None if ref is None else checked_text("the reference", ref)
    media = None if mime_type is None else checked_text("the type", mime_type)

    async def send(bpc: Client) -> tuple[UUID, UUID, DocumentVersionRead | None]:
        document = (await bpc.create_document(kind=kind, external_ref=name)).document_id
        job = (await bpc.ingest_document(document, file_url=checked_text("the URL", file_url), mime_type=media)).job_id
        return document, job, await _fetched(bpc, job) if wait else None

    document, job, version = ask(url, send, as_json=as_json)
    if version is not None:
        _print(version, str(job), as_json=as_json)
    elif as_json:
        print_json({"document_id": str(document), "job_id": str(job)})
    else:
        say(f"document  {document}")
        say(f"job       {job}")


async def _fetched(bpc: Client, job: UUID) -> DocumentVersionRead:
    """The version that a job made of a URL, when its facts are read."""
    await bpc.wait(job)
    made: Any = (await bpc.get_job_result(job)).result
    if made["parse_job_id"] is not None:
        await _read(bpc, UUID(made["parse_job_id"]))
    return await bpc.get_document_version(UUID(made["document_version_id"]))


async def _read(bpc: Client, job: UUID) -> None:
    """Wait until a document was read. One that was rejected has its problems with it, each at its place."""
    try:
        await bpc.wait(job)
    except JobFailed as failed:
        if failed.error is None or failed.error.get("code") != "VALIDATION_ERROR":
            raise


def _key(prefix: str | None, kind: Kind, ref: str | None, mime_type: str, content: bytes) -> str:
    """The same for the same upload: a second one makes no second document."""
    what = json.dumps([prefix, kind, ref, mime_type, hashlib.sha256(content).hexdigest()])
    return f"bpc-upload:{hashlib.sha256(what.encode()).hexdigest()}"


def _print(version: DocumentVersionRead, job_id: str | None, *, as_json: bool) -> None:
    about = {
        "document_id": str(version.document_id),
        "document_version_id": str(version.document_version_id),
        "version": version.version,
        "sha256": version.sha256,
        "status": version.status,
        "job_id": job_id,
        "problems": [remark.model_dump() for remark in version.problems],
        "warnings": [remark.model_dump() for remark in version.warnings],
    }
    if version.status == "REJECTED":
        says = f"the document was rejected, for {version.problems_total:,} problem(s); nothing of it became a fact"
        print_refusal("VALIDATION_ERROR", says, "correct it and upload it again", about, as_json=as_json)
    elif as_json:
        print_json(about)
    if not as_json:
        _tell(version, job_id)
    if version.status == "REJECTED":
        raise typer.Exit(REFUSED)


def _tell(version: DocumentVersionRead, job_id: str | None) -> None:
    say(f"document  {version.document_id}")
    say(f"version   {version.document_version_id} ({version.status})")
    say(f"sha256    {version.sha256}")
    if job_id is not None:
        say(f"job       {job_id}")
    _list(version.problems, version.problems_total, "problem", "red")
    _list(version.warnings, version.warnings_total, "warning", "yellow")


def _list(remarks: Sequence[Remark], total: int, what: str, colour: str) -> None:
    for remark in remarks:
        say(f"{what}   {remark.at} {remark.says}", colour=colour)
    if total > len(remarks):
        say(f"… and {total - len(remarks):,} more", colour=colour)
