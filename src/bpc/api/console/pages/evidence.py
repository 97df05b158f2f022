"""/console/evidence: what suppliers sent, and one document with its versions, its problems and its facts."""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import Response

from bpc.api.console.page_routes import PageFamily
from bpc.api.console.translations import N_
from bpc.api.console.visit import Visit
from bpc.core.errors import Invalid

pages = PageFamily(
    "evidence",
    notices={
        "created": N_("The document is there. Its file is being read."),
        "uploaded": N_("The file is there and is being read."),
        "withdrawn": N_("The document says nothing any more."),
    },
)
NO_FACTS: Final[Mapping[str, Any]] = {"items": [], "next_cursor": None}
STATUSES: Final = {
    "UPLOADED": (N_("being read"), "info"),
    "VALIDATED": (N_("read"), "good"),
    "REJECTED": (N_("rejected"), "bad"),
}
KINDS: Final = (
    ("BOM", N_("Bill of materials")),
    ("PCF", N_("Carbon footprint")),
    ("DUE_DILIGENCE", N_("Due diligence")),
    ("OTHER", N_("Something else")),
)


@pages.show("/console/evidence", title=N_("Evidence"), permission="docs:read", command="bpc documents list")
async def show_documents(visit: Visit) -> Response:
    """The documents of the tenant, newest first."""
    answer = await visit.api.get(
        "/v1/documents",
        q=visit.query.get("q"),
        sku=visit.query.get("sku"),
        supplier=visit.query.get("supplier"),
        cursor=visit.query.get("cursor"),
    )
    return visit.render(
        "evidence/list.html.jinja", documents=answer["items"], next_cursor=answer["next_cursor"], kinds=KINDS
    )


@pages.submit("/console/evidence", permission="docs:upload")
async def create_document(visit: Visit) -> Response:
    """A new document with its first file."""
    body = {"kind": visit.form.get("kind"), "name": visit.form.get("name"), "supplier": visit.form.get("supplier")}
    document = (await visit.submit("POST", "/v1/documents", body)).body["document_id"]
    await _upload(visit, document, step="-file")
    return visit.go_to(f"/console/evidence/{document}", done="created")


@pages.submit("/console/evidence/{document_id}/upload", permission="docs:upload")
async def upload_version(visit: Visit) -> Response:
    document = visit.path["document_id"]
    await _upload(visit, document)
    return visit.go_to(f"/console/evidence/{document}", done="uploaded")


async def _upload(visit: Visit, document: str, *, step: str = "") -> None:
    file = visit.form.file
    if file is None or not file.content:
        raise Invalid("no file was chosen", fix="choose one, and send the form again")
    body = {
        "mime_type": file.media_type or "application/octet-stream",
        "file_name": file.file_name,
        "content_base64": b64encode(file.content).decode(),
    }
    await visit.submit("POST", f"/v1/documents/{document}/versions", body, step=step)


@pages.show(
    "/console/evidence/{document_id}",
    title=N_("Document"),
    permission="docs:read",
    command="bpc documents show DOCUMENT",
)
async def show_document(visit: Visit) -> Response:
    """One document: its versions, and the problems and facts of one of them."""
    path = f"/v1/documents/{visit.path['document_id']}"
    document = await visit.api.get(path)
    versions = (await visit.api.get(f"{path}/versions"))["items"]
    statements = (await visit.api.get(f"{path}/statements"))["items"]
    chosen_id = visit.find_id("version") or next((each["document_version_id"] for each in versions), None)
    version, facts = None, NO_FACTS
    if chosen_id is not None:
        version = await visit.api.get(f"/v1/document-versions/{chosen_id}")
        facts = await visit.api.get("/v1/facts", document_version_id=chosen_id, cursor=visit.query.get("cursor"))
    return visit.render(
        "evidence/document.html.jinja",
        command=f"bpc documents show {document['document_id']}",
        document=document,
        versions=versions,
        statements=statements,
        version=version,
        facts=facts["items"],
        next_cursor=facts["next_cursor"],
        statuses=STATUSES,
    )


@pages.submit("/console/evidence/{document_id}/withdraw", permission="docs:upload")
async def withdraw_document(visit: Visit) -> Response:
    document = visit.path["document_id"]
    await visit.submit("POST", f"/v1/documents/{document}:withdraw", {"reason": visit.form.get("reason")})
    return visit.go_to(f"/console/evidence/{document}", done="withdrawn")
