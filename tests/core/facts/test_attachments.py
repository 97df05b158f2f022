"""Attached files as facts: the bytes decide what may be attached, and a fact names a file by its hash."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from bpc.core.facts.attachments import (
    ATTACHABLE_POINTS,
    AttachedFile,
    NotAttachable,
    build_attachment_fact,
    iterate_named_files,
    locate_attachment_members,
    require_attachable,
)
from bpc.core.facts.fact_table import SnapshotFact, read_members
from bpc.core.facts.provenance import DocumentOrigin, ProvenanceIndex, build_provenance_facts
from bpc.core.facts.schemas import SCHEMA_MEMBERS
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.formats.ids import AttachmentId, DocumentId, DocumentVersionId
from bpc.core.language.types import FactRecordType
from tools import reference_input

VERSION = DocumentVersionId(UUID("4e8d7c60-6000-4000-8000-000000000001"))
ATTACHMENT = AttachmentId(UUID(int=7))
PDF = reference_input.make_pdf("A report")


def make_file(title: str | None = "A report", file_name: str | None = None) -> AttachedFile:
    return AttachedFile(
        attachment_id=ATTACHMENT,
        sku="A:1",
        data_point=50,
        heading=title,
        mime_type="application/pdf",
        size=len(PDF),
        document=DocumentOrigin(
            document_id=DocumentId(UUID(int=1)),
            document_version_id=VERSION,
            kind="OTHER",
            sha256=sha256(PDF),
            file_name=file_name,
            supplier="Example Labs GmbH",
            stated_at=datetime(2026, 11, 16, 9, tzinfo=UTC),
        ),
    )


@pytest.mark.parametrize(
    ("content", "mime_type"),
    [
        (PDF, "application/pdf"),
        (reference_input.make_png(), "image/png"),
        (b"\xff\xd8\xff\xe0 a picture", "image/jpeg"),
    ],
)
def test_a_file_that_a_browser_only_shows_may_be_attached(content: bytes, mime_type: str) -> None:
    assert require_attachable(content) == mime_type


@pytest.mark.parametrize(
    "content",
    [
        b"<!doctype html><script>alert(1)</script>",
        b"<html>%PDF-1.4</html>",
        b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>',
        b'<?xml version="1.0"?><svg/>',
        b"GIF89a",
        b"PK\x03\x04",
        b"{}",
        b"",
    ],
)
def test_no_other_file_may_be_attached_whatever_it_is_called(content: bytes) -> None:
    with pytest.raises(NotAttachable):
        require_attachable(content)


def test_a_fact_fits_its_schema_and_its_key_names_product_point_and_hash() -> None:
    fact = build_attachment_fact(make_file())

    members = read_members(FactRecordType("Attachment", 1), fact.fact_key, fact.payload)
    assert fact.fact_key == f"attachment:A:1:50:{to_hex(sha256(PDF))[:16]}"
    assert set(fact.payload) == set(SCHEMA_MEMBERS[FactRecordType("Attachment", 1)]) - {"file_name"}
    assert (members["data_point"], members["size"], members["file_name"]) == (50, len(PDF), None)


def test_what_is_not_known_of_a_file_is_not_in_its_fact() -> None:
    assert "title" not in build_attachment_fact(make_file(title=None)).payload


def test_every_member_of_the_fact_leads_to_the_file_or_to_whoever_attached_it() -> None:
    file = make_file(file_name="report.pdf")
    fact = build_attachment_fact(file)
    origins = {(fact.fact_type, fact.fact_key): locate_attachment_members(file, fact)}

    index = ProvenanceIndex(build_provenance_facts(origins))

    sealed = {member: index.find_origin(fact.fact_type, fact.fact_key, member) for member in fact.payload}
    by = "uploaded on 16 November 2026 by Example Labs GmbH"
    from_file, from_binding = (
        f"report.pdf, sha256 {to_hex(sha256(PDF))}, {by}",
        f"report.pdf, attachment {ATTACHMENT}, {by}",
    )
    assert {member: origin and origin.describe() for member, origin in sealed.items()} == {
        **dict.fromkeys(fact.payload, from_file),
        **dict.fromkeys(("sku", "data_point", "title"), from_binding),
    }


def test_files_are_read_from_facts_and_other_facts_name_none() -> None:
    fact = build_attachment_fact(make_file())
    nameless = SnapshotFact(fact_type="Attachment", fact_key="attachment:A:1:50:x", schema_version=1, payload={})
    battery = SnapshotFact(fact_type="Battery", fact_key="battery:A", schema_version=1, payload=fact.payload)

    [file] = iterate_named_files([battery, nameless, fact])

    assert file == (to_hex(sha256(PDF)), "application/pdf", VERSION)


def test_the_points_that_are_files_are_those_of_the_guidance() -> None:
    assert ATTACHABLE_POINTS == (40, 41, 42, 43, 47, 48, 49, 50)
