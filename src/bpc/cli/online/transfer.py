"""`bpc upload`, `bpc bundle` and `bpc get`: files and answers over the API.

A file that is uploaded again is not stored twice. With a reference it is a version of the same document, which from
then on says what the file says; that is one call. For a URL only the URL is sent: the server fetches the file in a job.
"""

import hashlib
import json
import mimetypes
import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from uuid import UUID

import typer
from bpc_client import Client, JobFailed
from bpc_client.models import DocumentRemark, DocumentVersionRead

from bpc.cli.online.api_client import open_api
from bpc.cli.online.lookup import find_version
from bpc.cli.online.passport_gate import VersionArgument
from bpc.cli.support.arguments import UrlOption, require_utf8
from bpc.cli.support.completion import complete_documents, complete_suppliers
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
from bpc.cli.support.progress import explain_interrupt, show_progress
from bpc.core.errors import Conflict, Invalid
from bpc.core.formats.ids import parse_uuid

IS_URL: Final = re.compile(r"(https?|file)://", re.ASCII | re.IGNORECASE)
UNKNOWN_MEDIA_TYPE: Final = "application/octet-stream"
UploadKind = Literal["BOM", "PCF", "DUE_DILIGENCE", "OTHER"]
Locale = Literal["comma", "point"]


async def upload(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|URL...",
            help="The files; `-` is standard input. A URL (https://…, or file:///… on the server) is fetched by the "
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
        str | None,
        typer.Option(
            "--document", metavar="ID", help="The document to add a version to.", autocompletion=complete_documents
        ),
    ] = None,
    supplier: Annotated[
        str | None,
        typer.Option(
            "--supplier",
            metavar="NAME",
            help="Who sent it. A supplier that is not known is created.",
            autocompletion=complete_suppliers,
        ),
    ] = None,
    locale: Annotated[
        Locale | None,
        typer.Option("--locale", help="Decimal separator of numbers in its tables: comma (1.000,5), point (1,000.5)."),
    ] = None,
    version_ref: Annotated[
        str | None,
        typer.Option(
            "--version-ref",
            metavar="TEXT",
            help="Your own number of this version, with --ref. The same number again changes nothing.",
        ),
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
    """Upload documents over the API.

    \b
    bpc upload bom.json --kind BOM --ref ERP-4711 --supplier "Example Cells GmbH" --wait
    bpc upload https://supplier.example/bom.json --kind BOM --wait
    """
    order = UploadOrder(
        kind=kind,
        ref=None if ref is None else require_utf8("the reference", ref),
        document=None if document is None else parse_uuid(document),
        supplier=None if supplier is None else require_utf8("the supplier", supplier),
        locale=locale,
        version_ref=None if version_ref is None else require_utf8("the version reference", version_ref),
        mime_type=None if mime_type is None else require_utf8("the type", mime_type),
    )
    order.check(files)
    for file in files:
        if IS_URL.match(file):
            require_utf8("the URL", file)
    summaries: list[UploadSummary] = []
    async with open_api(url, as_json=as_json) as bpc:
        with (
            explain_interrupt(lambda: _describe_stopped(files, len(summaries))),
            show_progress("uploading", as_json=as_json or len(files) == 1) as bar,
        ):
            for file in files:
                send = _ingest if IS_URL.match(file) else _send_file
                summaries.append(await send(bpc, file, order, wait=wait))
                bar.update(len(summaries), len(files), "files")
    _print_summaries(summaries, as_json=as_json)


def _describe_stopped(files: Sequence[str], done: int) -> str:
    """For Ctrl-C: what was sent stays and is read by the service."""
    return (
        f"stopped at file {done + 1} of {len(files)}; files that were sent stay, and the service reads them\n"
        "  go on:      run the same command again; it stores nothing twice\n"
        "  look at it: bpc documents list"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadOrder:
    """What the options say about the files."""

    kind: UploadKind
    ref: str | None
    document: UUID | None
    supplier: str | None
    locale: Locale | None
    version_ref: str | None
    mime_type: str | None

    def check(self, files: Sequence[str]) -> None:
        """Refuse options that contradict each other."""
        if len(files) > 1 and (self.ref is not None or self.document is not None):
            raise Invalid("several files cannot be one document", fix="upload each with a --ref of its own")
        if self.ref is not None and self.document is not None:
            raise Invalid("--ref and --document both name the document", fix="use one of them")
        if self.version_ref is not None and (self.ref is None or IS_URL.match(files[0])):
            raise Invalid("--version-ref is for a file with a --ref", fix="add --ref, or leave it out")


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadSummary:
    """What became of a file; without `version`, a job still fetches it."""

    document: UUID
    version: DocumentVersionRead | None
    job_id: UUID | None


async def _send_file(bpc: Client, file: str, order: UploadOrder, *, wait: bool) -> UploadSummary:
    content = read_bytes(file)
    if not content:
        raise Invalid("the file is empty", fix="choose the file that holds the document")
    media = order.mime_type or mimetypes.guess_type(file)[0] or UNKNOWN_MEDIA_TYPE
    name = None if file == "-" else Path(file).name.encode("utf-8", "replace").decode()
    if order.ref is not None:
        result = await bpc.upload_document(
            order.ref,
            content=content,
            content_type=media,
            kind=order.kind,
            supplier=order.supplier,
            locale=order.locale,
            file_name=name,
            version_ref=order.version_ref,
        )
        document, version_id, job_id = result.document_id, result.document_version_id, result.job_id
    else:
        document = await _find_or_create_document(bpc, order, hashlib.sha256(content).hexdigest())
        version = await bpc.upload_document_version(
            document, mime_type=media, content_base64=b64encode(content).decode(), file_name=name
        )
        version_id, job_id = version.document_version_id, version.job_id
    if wait and job_id is not None:
        await _wait_until_read(bpc, job_id)
    return UploadSummary(document=document, version=await bpc.get_document_version(version_id), job_id=job_id)


async def _ingest(bpc: Client, file_url: str, order: UploadOrder, *, wait: bool) -> UploadSummary:
    document = await _find_or_create_document(bpc, order, file_url)
    job = (await bpc.ingest_document(document, file_url=file_url, mime_type=order.mime_type)).job_id
    version = await _wait_for_ingested(bpc, job) if wait else None
    return UploadSummary(document=document, version=version, job_id=job)


async def _wait_for_ingested(bpc: Client, job: UUID) -> DocumentVersionRead:
    """The version that a job stored from a URL, once its facts are read."""
    await bpc.wait(job)
    result: Any = (await bpc.get_job_result(job)).result
    if result["parse_job_id"] is not None:
        await _wait_until_read(bpc, UUID(result["parse_job_id"]))
    return await bpc.get_document_version(UUID(result["document_version_id"]))


async def _wait_until_read(bpc: Client, job: UUID) -> None:
    """Wait until a document is read. A rejected document is not an error here: it carries its problems."""
    try:
        await bpc.wait(job)
    except JobFailed as failure:
        if failure.error is None or failure.error.get("code") != "VALIDATION_ERROR":
            raise


async def _find_or_create_document(bpc: Client, order: UploadOrder, source: str) -> UUID:
    """The document of the order; without one or a reference, one of its own for each `source` (a hash, or a URL).

    Two commands with one API key at once, and a command that is repeated, get the same document.
    """
    document, ref = order.document, order.ref
    if document is None and ref is not None:
        existing = [document async for document in bpc.list_all(bpc.list_documents, external_ref=ref)]
        matching = [document.document_id for document in existing if document.kind == order.kind]
        if len(matching) > 1:
            raise Conflict(
                f"there are {len(matching)} documents of kind {order.kind} with the reference `{ref}`",
                fix="choose one of them with --document",
                details={"document_ids": sorted(map(str, matching))},
            )
        document = matching[0] if matching else None
    if document is None:
        identity = json.dumps([bpc.key_prefix, order.kind, ref, None if ref is not None else source])
        key = f"bpc-upload:{hashlib.sha256(identity.encode()).hexdigest()}"
        document = (await bpc.create_document(kind=order.kind, external_ref=ref, idempotency_key=key)).document_id
    if order.supplier is not None or order.locale is not None:
        await bpc.change_document(document, supplier=order.supplier, locale=order.locale)
    return document


def _print_summaries(summaries: Sequence[UploadSummary], *, as_json: bool) -> None:
    """Print what became of each file. Of one file, JSON is an object, of several a list."""
    rejected_versions = [
        summary.version for summary in summaries if summary.version and summary.version.status == "REJECTED"
    ]
    items = [_describe_summary(summary) for summary in summaries]
    if rejected_versions:
        total = sum(version.problems_total for version in rejected_versions)
        which = (
            "the document was" if len(summaries) == 1 else f"{format_count(len(rejected_versions), 'document')} were"
        )
        says = f"{which} rejected: {format_count(total, 'problem')}; no facts were stored"
        details = items[0] if len(items) == 1 else {"documents": items}
        print_refusal("VALIDATION_ERROR", says, "correct it and upload it again", details, as_json=as_json)
    elif as_json:
        print_json(items[0] if len(items) == 1 else items)
    if not as_json:
        for summary in summaries:
            _print_details(summary)
    if rejected_versions:
        raise typer.Exit(REFUSED)


def _describe_summary(summary: UploadSummary) -> dict[str, object]:
    version = summary.version
    if version is None:
        return {"document_id": summary.document, "job_id": summary.job_id}
    return {
        "document_id": summary.document,
        "document_version_id": version.document_version_id,
        "version": version.version,
        "sha256": version.sha256,
        "status": version.status,
        "job_id": summary.job_id,
        "problems": [remark.model_dump() for remark in version.problems],
        "warnings": [remark.model_dump() for remark in version.warnings],
    }


def _print_details(summary: UploadSummary) -> None:
    print_line(f"document  {summary.document}")
    version = summary.version
    if version is not None:
        print_line(f"version   {version.document_version_id} ({version.status})")
        print_line(f"sha256    {version.sha256}")
    if summary.job_id is not None:
        print_line(f"job       {summary.job_id}")
    if version is not None:
        _print_remarks(version.problems, "problem", "red")
        _print_remarks(version.warnings, "warning", "yellow")


def _print_remarks(remarks: Sequence[DocumentRemark], what: str, colour: str) -> None:
    """Print all remarks; if a document has more than are kept, the last one says so."""
    for remark in remarks:
        print_line(f"{what}   {remark.at} {remark.says}", colour=colour)


async def fetch_bundle(
    version: VersionArgument,
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
    bpc bundle A-1 --out bundle.zip
    bpc bundle 01932f5c-7b1e-7cc0-9d3a-52a4c0f0a1b2 --out bundle.zip
    """
    async with open_api(url, as_json=as_json) as bpc:
        bundle = await bpc.get_bundle((await find_version(bpc, version)).passport_version_id, attachments=attachments)
    replace_file(out, bundle.content)
    print_result(
        {"file": out, "bytes": len(bundle.content), "sha256": (bundle.etag or "").strip('"')},
        f"wrote {out}: {len(bundle.content):,} bytes; `bpc verify {out} --keys FILE` checks it",
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
