"""`bpc upload`: a file becomes a document over the API. Uploading the same file again gives the same answer."""

import hashlib
import json
import mimetypes
from base64 import b64encode
from enum import StrEnum
from typing import Annotated, Final

import typer

from bpc.cli.files import read_bytes
from bpc.cli.online import Url, ask
from bpc.cli.output import AsJson, print_json, say
from bpc.cli.session import checked_text
from bpc.client import Client
from bpc.client.models import DocumentVersionRead
from bpc.core.errors import Invalid

app = typer.Typer(add_completion=False, rich_markup_mode=None)

UNKNOWN: Final = "application/octet-stream"


class Kind(StrEnum):
    """What a document is."""

    BOM = "BOM"
    PCF = "PCF"
    DUE_DILIGENCE = "DUE_DILIGENCE"
    OTHER = "OTHER"


@app.command()
def upload(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file; `-` is standard input.", show_default=False)],
    kind: Annotated[
        Kind, typer.Option("--kind", help="What it is; OTHER is stored and not read.", case_sensitive=False)
    ],
    ref: Annotated[str | None, typer.Option("--ref", metavar="REF", help="Its name in another system.")] = None,
    mime_type: Annotated[
        str | None, typer.Option("--mime-type", metavar="TYPE", help="By the file's name if left out.")
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
    """
    content = read_bytes(file)
    if not content:
        raise Invalid("the file is empty")
    name = None if ref is None else checked_text("the reference", ref)
    media = checked_text("the type", mime_type or mimetypes.guess_type(file)[0] or UNKNOWN)

    async def send(bpc: Client) -> tuple[DocumentVersionRead, str | None]:
        key = _key(bpc.key_prefix, kind, name, media, content)
        document = await bpc.create_document(kind=kind.value, external_ref=name, idempotency_key=f"{key}:document")
        made = await bpc.upload_document_version(
            document.document_id,
            mime_type=media,
            content_base64=b64encode(content).decode(),
            idempotency_key=f"{key}:version",
        )
        if wait and made.job_id is not None:
            await bpc.wait(made.job_id)
        job_id = None if made.job_id is None else str(made.job_id)
        return await bpc.get_document_version(made.document_version_id), job_id

    version, job_id = ask(url, send, as_json=as_json)
    _print(version, job_id, as_json=as_json)


def _key(prefix: str | None, kind: Kind, ref: str | None, mime_type: str, content: bytes) -> str:
    """The same for the same upload: a second one makes no second document."""
    what = json.dumps([prefix, kind, ref, mime_type, hashlib.sha256(content).hexdigest()])
    return f"bpc-upload:{hashlib.sha256(what.encode()).hexdigest()}"


def _print(version: DocumentVersionRead, job_id: str | None, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "document_id": str(version.document_id),
                "document_version_id": str(version.document_version_id),
                "version": version.version,
                "sha256": version.sha256,
                "status": version.status,
                "job_id": job_id,
            }
        )
        return
    say(f"document  {version.document_id}")
    say(f"version   {version.document_version_id} ({version.status})")
    say(f"sha256    {version.sha256}")
    if job_id is not None:
        say(f"job       {job_id}")
