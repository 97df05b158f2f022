"""Upload, the first step: bytes in, a document version out, and a job that reads its facts.

An uploaded version never changes, and the same bytes, read in the same way, are one version, no matter who sends them
or how often. An upload also states something: from now on the document says what this version says
(`storage.evidence.statements`).

    bytes ┬─ new ──────────────────────────► a version, a statement, a job that reads it
          ├─ read under other options ─────► the same: a further version with the same bytes
          ├─ those of another statement ───► a statement: it is said again, now
          └─ those of the newest statement ► nothing changes

Bytes that retention removed are stored again, in the version that had them.

The options of a table are the locale of its numbers and its supplier's column mapping, as they are when it is uploaded.
Bytes that were rejected are new: as a document of another kind, or in a build that can read them, they may be accepted.
"""

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from service_jobs import NORMAL, Handler, SubmitQueue

from bpc.core.audit.events import Act
from bpc.core.documents.number_texts import NumberLocale
from bpc.core.documents.reader import detect_mime_type
from bpc.core.errors import Conflict, Invalid
from bpc.core.formats import canonical_json
from bpc.core.formats.file_types import CSV, XLSX
from bpc.core.formats.hashes import Digest, sha256, to_hex
from bpc.core.formats.ids import DocumentId, DocumentVersionId, JobId, TenantId
from bpc.pipeline.facts import ParseOrder
from bpc.runtime import clock
from bpc.storage.audit import events
from bpc.storage.connection import Connection
from bpc.storage.evidence import documents, statements, suppliers
from bpc.storage.evidence.documents import (
    NO_OPTIONS,
    DocumentKind,
    DocumentRow,
    ReferredVersion,
    UploadedDocument,
    VersionWithHash,
)
from bpc.storage.evidence.statements import StatementRow
from bpc.storage.evidence.suppliers import SupplierRow

NOT_PARSED: Final = "OTHER"
TABLE_TYPES: Final = frozenset({CSV, XLSX})


@dataclass(frozen=True, slots=True, kw_only=True)
class FileUpload:
    """A file that is uploaded, and the name that it was sent under."""

    content: bytes
    mime_type: str
    file_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentReference:
    """Which document an upload is for, by its name in another system, and what the sender declares about it.

    `kind` may be left out once the document is there. The same `version_ref` is the same upload, sent again.
    """

    external_ref: str
    kind: DocumentKind | None = None
    supplier: str | None = None
    locale: NumberLocale | None = None
    version_ref: str | None = None


class BytesOfAnotherKind(Conflict):
    """The bytes were read as a document of another kind, so this document cannot say what they say."""

    def __init__(self, version: VersionWithHash) -> None:
        super().__init__(
            f"these bytes have been uploaded before, as a document of kind {version.kind}",
            fix="upload them to a document of that kind, or use the existing version",
            details={
                "document_version_id": str(version.document_version_id),
                "document_id": str(version.document_id),
                "kind": version.kind,
            },
        )


class DocumentOfAnotherKind(Conflict):
    """The reference belongs to a document of another kind than the upload names."""

    def __init__(self, document: DocumentRow) -> None:
        super().__init__(
            f"the document with the reference `{document.external_ref}` is of kind {document.kind}",
            fix="use another reference for documents of another kind, or name that kind",
            details={"document_id": str(document.document_id), "kind": document.kind},
        )


class SeveralDocuments(Conflict):
    """Several documents have one reference, so it does not say which of them is meant."""

    def __init__(self, external_ref: str, document_ids: list[DocumentId]) -> None:
        super().__init__(
            f"there are {len(document_ids)} documents with the reference `{external_ref}`",
            fix="upload to one of them by its id, or use another reference",
            details={"document_ids": [str(document) for document in document_ids]},
        )


class VersionRefTaken(Conflict):
    """The sender's number of a version stands for other bytes."""

    def __init__(self, version_ref: str, version: ReferredVersion) -> None:
        super().__init__(
            f"`{version_ref}` is version {version.version} of this document, which has other bytes",
            fix="use a new version_ref for new bytes",
            details={
                "document_version_id": str(version.document_version_id),
                "version": version.version,
                "sha256": to_hex(version.sha256),
            },
        )


class _RefClaimedMeanwhile(Exception):
    """Another upload with the same reference has just created the document."""


async def upload(
    conn: Connection,
    queue: SubmitQueue,
    parse: Handler[ParseOrder, Any],
    tenant: TenantId,
    document_id: DocumentId,
    file: FileUpload,
    *,
    act: Act,
) -> UploadedDocument:
    """Let a document say what these bytes say, and submit the job that reads them. A document OTHER is only stored."""
    digest = await asyncio.to_thread(sha256, file.content)
    document = await documents.lock_document(conn, tenant, document_id)
    version, is_new = await _state_bytes(conn, tenant, document, file, digest, act)
    is_stored = is_new or await _restore_content(conn, tenant, version, file, act)
    return await _submit_reading(queue, parse, document, version, digest, act, is_new=is_new, is_stored=is_stored)


async def upload_by_ref(
    conn: Connection,
    queue: SubmitQueue,
    parse: Handler[ParseOrder, Any],
    tenant: TenantId,
    reference: DocumentReference,
    file: FileUpload,
    *,
    act: Act,
) -> UploadedDocument:
    """Upload to the document with a reference, which is created if there is none.

    A `version_ref` that came with the same bytes before changes nothing, whatever was uploaded meanwhile.
    """
    digest = await asyncio.to_thread(sha256, file.content)
    document_id = await find_or_create_document(conn, tenant, reference, act=act)
    document = await documents.lock_document(conn, tenant, document_id)
    if reference.kind is not None and reference.kind != document.kind:
        raise DocumentOfAnotherKind(document)
    if reference.version_ref is not None:
        earlier_version = await documents.find_referred_version(conn, tenant, document_id, reference.version_ref)
        if earlier_version is not None:
            if earlier_version.sha256 != digest:
                raise VersionRefTaken(reference.version_ref, earlier_version)
            is_stored = await _restore_content(conn, tenant, earlier_version, file, act)
            return await _submit_reading(
                queue, parse, document, earlier_version, digest, act, is_new=False, is_stored=is_stored
            )
    supplier = await find_or_create_supplier(conn, tenant, reference.supplier, act=act)
    document = await documents.declare_source(
        conn, tenant, document, supplier=supplier, locale=reference.locale, act=act
    )
    version, is_new = await _state_bytes(conn, tenant, document, file, digest, act)
    if reference.version_ref is not None:
        await documents.insert_version_ref(
            conn, tenant, document_id, reference.version_ref, version.document_version_id, act=act
        )
    is_stored = is_new or await _restore_content(conn, tenant, version, file, act)
    return await _submit_reading(queue, parse, document, version, digest, act, is_new=is_new, is_stored=is_stored)


async def find_or_create_document(
    conn: Connection, tenant: TenantId, reference: DocumentReference, *, act: Act
) -> DocumentId:
    """The one document that uploads with a reference go to. Of several uploads at once, one creates it."""
    ref = reference.external_ref
    document = await documents.find_document_by_ref(conn, tenant, ref)
    if document is None:
        existing_ids = await documents.list_ids_by_ref(conn, tenant, ref)
        if len(existing_ids) > 1:
            raise SeveralDocuments(ref, existing_ids)
        try:
            async with conn.transaction():  # a caller that comes too late takes back what it has created
                document = await _claim_document(conn, tenant, reference, existing_ids, act)
        except _RefClaimedMeanwhile:
            document = await documents.find_document_by_ref(conn, tenant, ref)
    if document is None:
        raise Conflict(f"the document with the reference `{ref}` was just created", fix="send the request again")
    return document


async def find_or_create_supplier(
    conn: Connection, tenant: TenantId, name: str | None, *, act: Act
) -> SupplierRow | None:
    """The supplier with this name, which is created if there is none; None without a name."""
    if name is None:
        return None
    supplier = await suppliers.find_supplier(conn, tenant, name)
    if supplier is None:
        supplier = await suppliers.create_supplier(conn, tenant, name=name, locale=None, act=act)
    # Another request may just have created it.
    return supplier or await suppliers.find_supplier(conn, tenant, name)


async def withdraw(conn: Connection, tenant: TenantId, document: DocumentId, *, reason: str, act: Act) -> StatementRow:
    """Let a document say nothing any more. Its versions and facts stay; they no longer count by this document."""
    await documents.lock_document(conn, tenant, document)
    newest = await statements.find_newest_statement(conn, tenant, document)
    if newest is None:
        raise Conflict(f"document `{document}` says nothing: it has no version", fix="upload a version first")
    if newest.document_version_id is None:
        raise Conflict(f"document `{document}` is already withdrawn", fix="upload a version to let it say something")
    return await statements.insert_statement(conn, tenant, document, None, reason=reason, act=act)


async def _claim_document(
    conn: Connection, tenant: TenantId, reference: DocumentReference, existing_ids: list[DocumentId], act: Act
) -> DocumentId:
    """Let uploads with a reference go to the document that has it, or to a new one."""
    document = existing_ids[0] if existing_ids else await _create_document(conn, tenant, reference, act)
    if not await documents.claim_ref(conn, tenant, reference.external_ref, document, act=act):
        raise _RefClaimedMeanwhile
    return document


async def _create_document(conn: Connection, tenant: TenantId, reference: DocumentReference, act: Act) -> DocumentId:
    if reference.kind is None:
        raise Invalid(
            f"there is no document with the reference `{reference.external_ref}`",
            fix="name the `kind` of the document, so that it can be created",
        )
    supplier = await find_or_create_supplier(conn, tenant, reference.supplier, act=act)
    document = await documents.create_document(
        conn,
        tenant,
        kind=reference.kind,
        external_ref=reference.external_ref,
        supplier=supplier,
        locale=reference.locale,
        act=act,
    )
    return document.document_id


async def _state_bytes(
    conn: Connection, tenant: TenantId, document: DocumentRow, file: FileUpload, digest: Digest, act: Act
) -> tuple[VersionWithHash, bool]:
    """Let a document say what these bytes say. Return the version that has them, and whether it is new."""
    if not document.is_active:
        raise documents.DocumentInactive(document)
    read_options = await _choose_options(conn, tenant, document, file)
    version, is_new = await _find_or_insert_version(conn, tenant, document, file, digest, read_options, act)
    newest = await statements.find_newest_statement(conn, tenant, document.document_id)
    if newest is None or newest.document_version_id != version.document_version_id:
        await statements.insert_statement(
            conn, tenant, document.document_id, version.document_version_id, file_name=file.file_name, act=act
        )
    return version, is_new


async def _choose_options(conn: Connection, tenant: TenantId, document: DocumentRow, file: FileUpload) -> bytes:
    """How to read a table, as canonical JSON: what its document declares, else its supplier."""
    if document.kind == NOT_PARSED or detect_mime_type(file.mime_type, file.content) not in TABLE_TYPES:
        return NO_OPTIONS
    locale, mapping = document.locale, None
    if document.supplier_id is not None:
        locale = locale or (await suppliers.get_supplier(conn, tenant, document.supplier_id)).locale
        mapping = await suppliers.find_column_mapping(conn, tenant, document.supplier_id, document.kind)
    members = {"locale": locale, "mapping": None if mapping is None else mapping.mapping}
    return canonical_json.encode({name: value for name, value in members.items() if value is not None})


async def _find_or_insert_version(
    conn: Connection,
    tenant: TenantId,
    document: DocumentRow,
    file: FileUpload,
    digest: Digest,
    read_options: bytes,
    act: Act,
) -> tuple[VersionWithHash, bool]:
    """The version with these bytes and options, and whether it is new.

    Another upload may commit the same bytes between our look and our write: then we look again.
    """
    for _ in range(3):
        versions = await documents.list_versions_by_hash(conn, tenant, digest)
        if (other := next((version for version in versions if version.kind != document.kind), None)) is not None:
            raise BytesOfAnotherKind(other)
        if (same := next((version for version in versions if version.read_options == read_options), None)) is not None:
            return same, False
        version = await _insert_version(
            conn, tenant, document, file, digest, read_options, act, is_reread=bool(versions)
        )
        if version is not None:
            return version, True
    raise Conflict("the same bytes were uploaded and rejected just now", fix="upload them again")


async def _insert_version(
    conn: Connection,
    tenant: TenantId,
    document: DocumentRow,
    file: FileUpload,
    digest: Digest,
    read_options: bytes,
    act: Act,
    *,
    is_reread: bool,
) -> VersionWithHash | None:
    """The new version; None if another upload has just committed the same bytes."""
    version_id = DocumentVersionId(clock.new_id())
    number = await documents.insert_document_version(
        conn,
        tenant,
        document.document_id,
        version_id,
        mime_type=file.mime_type,
        sha256=digest,
        content=file.content,
        read_options=read_options,
        is_reread=is_reread,
        at=act.at,
    )
    if number is None:
        return None
    payload: dict[str, object] = {
        "document_id": str(document.document_id),
        "version": number,
        "mime_type": file.mime_type,
        "sha256": to_hex(digest),
        "bytes": len(file.content),
    }
    if read_options != NO_OPTIONS:
        payload["options"] = canonical_json.read_json(read_options)
    await events.append_act(conn, act, tenant, "DocumentVersion", version_id, "DOCUMENT_UPLOADED", payload)
    return VersionWithHash(
        document_version_id=version_id,
        document_id=document.document_id,
        kind=document.kind,
        version=number,
        status="UPLOADED",
        read_options=read_options,
        has_content=True,
    )


async def _restore_content(
    conn: Connection, tenant: TenantId, version: VersionWithHash | ReferredVersion, file: FileUpload, act: Act
) -> bool:
    """Store the bytes of a version again if retention removed them; whether they were stored."""
    if version.has_content:
        return False
    return await documents.restore_content(conn, tenant, version.document_version_id, file.content, act=act)


async def _submit_reading(
    queue: SubmitQueue,
    parse: Handler[ParseOrder, Any],
    document: DocumentRow,
    version: VersionWithHash | ReferredVersion,
    digest: Digest,
    act: Act,
    *,
    is_new: bool,
    is_stored: bool,
) -> UploadedDocument:
    """Submit the job that reads a version, unless it was read or is only stored. The same version has one job."""
    job_id = None
    if version.status == "UPLOADED" and document.kind != NOT_PARSED:
        order = ParseOrder(document_version_id=version.document_version_id, actor_id=act.actor_id)
        job_id = JobId(await queue.submit(parse, order, key=f"parse:{version.document_version_id}", priority=NORMAL))
    return UploadedDocument(
        document_id=document.document_id,
        document_version_id=version.document_version_id,
        version=version.version,
        sha256=digest,
        status=version.status,
        job_id=job_id,
        is_new=is_new,
        is_stored=is_stored,
    )
