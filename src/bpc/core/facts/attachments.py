"""Attachments: files that stand behind a data point of a product, as facts that name them by their hash.

Pure. Only types that a browser shows without running anything are accepted, and the bytes decide the type, never the
name or the sender: no HTML, and no SVG, which may carry scripts.

    AttachedFile ┬─ build_attachment_fact ────► a fact `attachment:<sku>:<data point>:<first 16 digits of the hash>`
                 └─ locate_attachment_members ► where each member of that fact is from
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from bpc.core.errors import Invalid
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.facts.provenance import WHOLE_FILE, DocumentOrigin, MemberOrigin
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.file_types import PDF, detect_type
from bpc.core.formats.hashes import to_hex
from bpc.core.formats.ids import AttachmentId, DocumentVersionId, parse_uuid

ATTACHMENT_FACT_TYPE: Final = "Attachment"
ATTACHMENT_SCHEMA_VERSION: Final = 1
# Labels, declaration of conformity, waste; sources of parts, dismantling, safety, test reports.
ATTACHABLE_POINTS: Final = (40, 41, 42, 43, 47, 48, 49, 50)
ATTACHABLE_TYPES: Final = (PDF, "image/png", "image/jpeg")
HASH_DIGITS_IN_KEY: Final = 16
# What the person who attached a file said about it; everything else comes from the file.
_BINDING_MEMBERS: Final = frozenset({"sku", "data_point", "title"})


class NotAttachable(Invalid):
    """The file is of a type that is not served to readers."""

    def __init__(self, actual_type: str) -> None:
        super().__init__(
            f"a file of type `{actual_type}` cannot be attached",
            fix="send it as PDF, PNG or JPEG",
            details={"found": actual_type, "allowed": list(ATTACHABLE_TYPES)},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedFile:
    """A file that is bound to a data point of a product now, and the document that says it."""

    attachment_id: AttachmentId
    sku: str
    data_point: int
    heading: str | None
    mime_type: str
    size: int
    document: DocumentOrigin


class NamedFile(NamedTuple):
    """A file as an attachment fact names it."""

    sha256: str
    mime_type: str
    document_version_id: DocumentVersionId


def require_attachable(content: bytes) -> str:
    """The media type of a file that may be attached, by its bytes."""
    actual_type = detect_type(content)
    if actual_type not in ATTACHABLE_TYPES:
        raise NotAttachable(actual_type)
    return actual_type


def build_attachment_fact(file: AttachedFile) -> SnapshotFact:
    digest = to_hex(file.document.sha256)
    members: dict[str, Json] = {
        "sku": file.sku,
        "data_point": file.data_point,
        "title": file.heading,
        "file_name": file.document.file_name,
        "mime_type": file.mime_type,
        "size": file.size,
        "sha256": digest,
        "document_version_id": str(file.document.document_version_id),
    }
    return SnapshotFact(
        fact_type=ATTACHMENT_FACT_TYPE,
        fact_key=f"attachment:{file.sku}:{file.data_point}:{digest[:HASH_DIGITS_IN_KEY]}",
        schema_version=ATTACHMENT_SCHEMA_VERSION,
        payload={name: value for name, value in members.items() if value is not None},
    )


def locate_attachment_members(file: AttachedFile, fact: SnapshotFact) -> Mapping[str, MemberOrigin]:
    """Where each member of the fact of an attached file is from: the file, or the person who attached it."""
    binding = MemberOrigin(file.document, f"attachment {file.attachment_id}")
    content = MemberOrigin(file.document, WHOLE_FILE)
    return {member: binding if member in _BINDING_MEMBERS else content for member in fact.payload}


def iterate_named_files(facts: Iterable[SnapshotFact]) -> Iterator[NamedFile]:
    """The files that the attachment facts of a snapshot name; one that does not say its hash or version names none."""
    for fact in facts:
        if fact.fact_type != ATTACHMENT_FACT_TYPE:
            continue
        members: Any = fact.payload
        try:
            version = DocumentVersionId(parse_uuid(members["document_version_id"]))
            yield NamedFile(members["sha256"], members["mime_type"], version)
        except (KeyError, Invalid):
            continue
