"""Attachments: files that stand behind a data point of a product, as facts that name them by their hash.

Pure. Only types that a browser shows without running anything are accepted, and the bytes decide the type, never the
name or the sender: no HTML, and no SVG, which may carry scripts.

    AttachedFile ── build_attachment_fact ──► a fact `attachment:<sku>:<data point>:<first 16 digits of the hash>`
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from bpc.core.errors import Invalid
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.file_types import PDF, detect_type
from bpc.core.formats.hashes import Digest, to_hex
from bpc.core.formats.ids import DocumentVersionId, parse_uuid

ATTACHMENT_FACT_TYPE: Final = "Attachment"
ATTACHMENT_SCHEMA_VERSION: Final = 1
# Labels, declaration of conformity, waste; sources of parts, dismantling, safety, test reports.
ATTACHABLE_POINTS: Final = (40, 41, 42, 43, 47, 48, 49, 50)
ATTACHABLE_TYPES: Final = (PDF, "image/png", "image/jpeg")
HASH_DIGITS_IN_KEY: Final = 16


class NotAttachable(Invalid):
    """The file is of a type that is not served to readers."""

    def __init__(self, detected: str) -> None:
        super().__init__(
            f"a file of type `{detected}` cannot be attached",
            fix="send it as PDF, PNG or JPEG",
            details={"found": detected, "allowed": list(ATTACHABLE_TYPES)},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedFile:
    """A file that is bound to a data point of a product now."""

    sku: str
    data_point: int
    document_version_id: DocumentVersionId
    heading: str | None
    file_name: str | None
    mime_type: str
    size: int
    sha256: Digest


class NamedFile(NamedTuple):
    """A file as an attachment fact names it."""

    sha256: str
    mime_type: str
    document_version_id: DocumentVersionId


def require_attachable(content: bytes) -> str:
    """The media type of a file that may be attached, by its bytes."""
    detected = detect_type(content)
    if detected not in ATTACHABLE_TYPES:
        raise NotAttachable(detected)
    return detected


def build_attachment_fact(file: AttachedFile) -> SnapshotFact:
    digest = to_hex(file.sha256)
    members: dict[str, Json] = {
        "sku": file.sku,
        "data_point": file.data_point,
        "title": file.heading,
        "file_name": file.file_name,
        "mime_type": file.mime_type,
        "size": file.size,
        "sha256": digest,
        "document_version_id": str(file.document_version_id),
    }
    return SnapshotFact(
        fact_type=ATTACHMENT_FACT_TYPE,
        fact_key=f"attachment:{file.sku}:{file.data_point}:{digest[:HASH_DIGITS_IN_KEY]}",
        schema_version=ATTACHMENT_SCHEMA_VERSION,
        payload={name: value for name, value in members.items() if value is not None},
    )


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
