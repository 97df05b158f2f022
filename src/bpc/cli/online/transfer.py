"""`bpc upload`, `bpc bundle` and `bpc get`: files and answers over the API.

A file that is uploaded again is not stored twice. With the same reference it is a version of the same document, which
from then on says what the file says. For a URL only the URL is sent: the server fetches the file in a job.
"""

import hashlib
import json
import mimetypes
import re
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from uuid import UUID

import typer
from bpc_client import Client, JobFailed
from bpc_client.models import DocumentRemark, DocumentVersionRead

from bpc.cli.online.api_client import open_api
from bpc.cli.support.arguments import UrlOption, require_utf8
from bpc.cli.support.output import (
    REFUSED,
    AsJson,
    format_count,
    print_bytes,
    print_json,
    print_line,
    print_refusal,
    print_result,
    read_bytes,
    replace_file,
)
from bpc.core.errors import Conflict, Invalid
from bpc.core.formats.ids import parse_uuid

IS_URL: Final = re.compile(r"(https?|file)://", re.ASCII | re.IGNORECASE)
UNKNOWN_MEDIA_TYPE: Final = "application/octet-stream"
UploadKind = Literal["BOM", "PCF", "DUE_DILIGENCE", "OTHER"]


async def upload(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE|URL",
            help="The file; `-` is standard input. A URL (https://…, or file:///… on the server) is fetched by the "
            "server.",
            show_default=False,
        ),
    ],
    kind: Annotated[
        UploadKind,
        typer.Option(
            "--kind", help="Kind of document; OTHER is stored but no facts are read from it.", case_sensitive=False
        ),
    ],
    ref: Annotated[
        str | None,
        typer.Option(
            "--ref",
            metavar="REF",
            help="Its name in another system. The same name again adds a version to the same document.",
        ),
    ] = None,
    document: Annotated[
        str | None, typer.Option("--document", metavar="ID", help="The document to add a version to.")
    ] = None,
    mime_type: Annotated[
        str | None,
        typer.Option(
            "--mime-type",
            metavar="TYPE",
            help="Media type [default: guessed from the file name, or from the content of a URL].",
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the facts are read; exit 1 if that fails.")] = False,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Upload a document over the API.

    \b
    bpc upload bom.json --kind BOM --ref ERP-4711 --wait
    bpc upload https://supplier.example/bom.json --kind BOM --wait
    """
    name = None if ref is None else require_utf8("the reference", ref)
    target = None if document is None else parse_uuid(document)
    media = None if mime_type is None else require_utf8("the type", mime_type)
    if IS_URL.match(file):
        await _ingest(require_utf8("the URL", file), kind, name, target, media, url, wait=wait, as_json=as_json)
        return
    content = read_bytes(file)
    if not content:
        raise Invalid("the file is empty", fix="choose the file that holds the document")
    media = media or mimetypes.guess_type(file)[0] or UNKNOWN_MEDIA_TYPE
    async with open_api(url, as_json=as_json) as bpc:
        source = hashlib.sha256(content).hexdigest()
        document_id = target or await _find_or_create_document(bpc, kind, name, source)
        uploaded = await bpc.upload_document_version(
            document_id, mime_type=media, content_base64=b64encode(content).decode()
        )
        if wait and uploaded.job_id is not None:
            await _wait_until_read(bpc, uploaded.job_id)
        version = await bpc.get_document_version(uploaded.document_version_id)
    _print_version(document_id, version, uploaded.job_id, as_json=as_json)


async def _ingest(
    file_url: str,
    kind: UploadKind,
    ref: str | None,
    target: UUID | None,
    mime_type: str | None,
    url: str | None,
    *,
    wait: bool,
    as_json: bool,
) -> None:
    async with open_api(url, as_json=as_json) as bpc:
        document = target or await _find_or_create_document(bpc, kind, ref, file_url)
        job = (await bpc.ingest_document(document, file_url=file_url, mime_type=mime_type)).job_id
        version = await _wait_for_ingested(bpc, job) if wait else None
    if version is not None:
        _print_version(document, version, job, as_json=as_json)
    else:
        sentences = f"document  {document}", f"job       {job}"
        print_result({"document_id": document, "job_id": job}, *sentences, as_json=as_json)


async def _wait_for_ingested(bpc: Client, job: UUID) -> DocumentVersionRead:
    """The version that a job stored from a URL, once its facts are read."""
    await bpc.wait(job)
    result: Any = (await bpc.get_job_result(job)).result
    if result["parse_job_id"] is not None:
        await _wait_until_read(bpc, UUID(result["parse_job_id"]))
    return await bpc.get_document_version(UUID(result["document_version_id"]))


async def _wait_until_read(bpc: Client, job: UUID) -> None:
    """Wait until a document is read. A rejected document is no error here: it carries its problems."""
    try:
        await bpc.wait(job)
    except JobFailed as failed:
        if failed.error is None or failed.error.get("code") != "VALIDATION_ERROR":
            raise


async def _find_or_create_document(bpc: Client, kind: UploadKind, ref: str | None, source: str) -> UUID:
    """The document with this reference; without a reference, one of its own for each `source` (a hash, or a URL).

    Two commands with one API key at once, and a command that is repeated, get the same document.
    """
    if ref is not None:
        existing = [document async for document in bpc.list_all(bpc.list_documents, external_ref=ref)]
        matching = [document.document_id for document in existing if document.kind == kind]
        if len(matching) == 1:
            return matching[0]
        if matching:
            raise Conflict(
                f"there are {len(matching)} documents of kind {kind} with the reference `{ref}`",
                fix="choose one of them with --document",
                details={"document_ids": sorted(map(str, matching))},
            )
    identity = json.dumps([bpc.key_prefix, kind, ref, None if ref is not None else source])
    key = f"bpc-upload:{hashlib.sha256(identity.encode()).hexdigest()}"
    return (await bpc.create_document(kind=kind, external_ref=ref, idempotency_key=key)).document_id


def _print_version(document: UUID, version: DocumentVersionRead, job_id: UUID | None, *, as_json: bool) -> None:
    summary = {
        "document_id": document,
        "document_version_id": version.document_version_id,
        "version": version.version,
        "sha256": version.sha256,
        "status": version.status,
        "job_id": job_id,
        "problems": [remark.model_dump() for remark in version.problems],
        "warnings": [remark.model_dump() for remark in version.warnings],
    }
    if version.status == "REJECTED":
        says = f"the document was rejected: {format_count(version.problems_total, 'problem')}; no facts were stored"
        print_refusal("VALIDATION_ERROR", says, "correct it and upload it again", summary, as_json=as_json)
    elif as_json:
        print_json(summary)
    if not as_json:
        _print_details(document, version, job_id)
    if version.status == "REJECTED":
        raise typer.Exit(REFUSED)


def _print_details(document: UUID, version: DocumentVersionRead, job_id: UUID | None) -> None:
    print_line(f"document  {document}")
    print_line(f"version   {version.document_version_id} ({version.status})")
    print_line(f"sha256    {version.sha256}")
    if job_id is not None:
        print_line(f"job       {job_id}")
    _print_remarks(version.problems, version.problems_total, "problem", "red")
    _print_remarks(version.warnings, version.warnings_total, "warning", "yellow")


def _print_remarks(remarks: Sequence[DocumentRemark], total: int, what: str, colour: str) -> None:
    for remark in remarks:
        print_line(f"{what}   {remark.at} {remark.says}", colour=colour)
    if total > len(remarks):
        print_line(f"… and {total - len(remarks):,} more", colour=colour)


async def fetch_bundle(
    version: Annotated[
        str, typer.Argument(metavar="VERSION_ID", help="The passport version's id.", show_default=False)
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="File to write.")],
    attachments: Annotated[
        bool, typer.Option("--attachments", help="Include the files that are attached to the passport.")
    ] = False,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Download a passport version as a bundle.

    A bundle is a ZIP file that anyone can verify with `bpc verify`. It contains all facts, so give it only to people
    who may see everything.

    \b
    bpc bundle 01932f5c-7b1e-7cc0-9d3a-52a4c0f0a1b2 --out bundle.zip
    """
    version_id = parse_uuid(version)
    async with open_api(url, as_json=as_json) as bpc:
        bundle = await bpc.get_bundle(version_id, attachments=attachments)
    replace_file(out, bundle.content)
    print_result(
        {"file": out, "bytes": len(bundle.content), "sha256": (bundle.etag or "").strip('"')},
        f"wrote {out}: {len(bundle.content):,} bytes; `bpc verify {out}` checks it",
        as_json=as_json,
    )


async def get_path(
    path: Annotated[str, typer.Argument(metavar="PATH", help="Such as /v1/documents?limit=3.", show_default=False)],
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Send a GET request to the API and print the answer.

    \b
    bpc get '/v1/documents?limit=3'
    """
    checked_path = require_utf8("the path", path)
    if not checked_path.startswith("/") or checked_path.startswith("//") or not checked_path.isprintable():
        raise Invalid(f"`{path}` is not a path of the API", fix="write it like /v1/documents")
    async with open_api(url, as_json=as_json) as bpc:
        content = await bpc.get(checked_path)
    print_bytes(content if content.endswith(b"\n") else content + b"\n")
