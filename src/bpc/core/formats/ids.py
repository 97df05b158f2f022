"""Ids: a type for each kind of thing, one spelling, and two ways to make one.

Pure: randomness is handed in. The types are UUIDs at run time; to the type checker a `TenantId` is
not a `PassportId`, so two ids in the wrong order do not get as far as a test.
"""

import re
from typing import Final, NewType
from uuid import UUID

from bpc.core.errors import Invalid
from bpc.core.formats.hashes import Digest

TenantId = NewType("TenantId", UUID)
ActorId = NewType("ActorId", UUID)
ApprovalId = NewType("ApprovalId", UUID)
ApiKeyId = NewType("ApiKeyId", UUID)
ConsoleSessionId = NewType("ConsoleSessionId", UUID)
RoleId = NewType("RoleId", UUID)
EventId = NewType("EventId", UUID)
AggregateId = NewType("AggregateId", UUID)
DocumentId = NewType("DocumentId", UUID)
DocumentVersionId = NewType("DocumentVersionId", UUID)
FactId = NewType("FactId", UUID)
SnapshotId = NewType("SnapshotId", UUID)
StatementId = NewType("StatementId", UUID)
SupplierId = NewType("SupplierId", UUID)
RulePackageId = NewType("RulePackageId", UUID)
RulePackageVersionId = NewType("RulePackageVersionId", UUID)
BatteryProductId = NewType("BatteryProductId", UUID)
PassportId = NewType("PassportId", UUID)
PassportVersionId = NewType("PassportVersionId", UUID)
CompileRunId = NewType("CompileRunId", UUID)
JobId = NewType("JobId", UUID)
RuleTestsRunId = NewType("RuleTestsRunId", UUID)
WebhookEndpointId = NewType("WebhookEndpointId", UUID)
WebhookSubscriptionId = NewType("WebhookSubscriptionId", UUID)
WebhookDeliveryId = NewType("WebhookDeliveryId", UUID)
PolicyId = NewType("PolicyId", UUID)
PolicyVersionId = NewType("PolicyVersionId", UUID)
ExportId = NewType("ExportId", UUID)
WaiverId = NewType("WaiverId", UUID)
AttachmentId = NewType("AttachmentId", UUID)
BatteryId = NewType("BatteryId", UUID)
BatteryBatchId = NewType("BatteryBatchId", UUID)
RegistrationId = NewType("RegistrationId", UUID)
ItemRunId = NewType("ItemRunId", UUID)
ItemChunkId = NewType("ItemChunkId", UUID)
TransferId = NewType("TransferId", UUID)
ViewGrantId = NewType("ViewGrantId", UUID)
ViewRequestId = NewType("ViewRequestId", UUID)

_UUID_BYTES: Final = 16
_ENTROPY_BYTES: Final = 10
# RFC 9562 section 4: the version is octet 6's upper half, the variant (binary 10) octet 8's upper two bits.
_VERSION_AT: Final = 76
_VARIANT_AT: Final = 62


class NotAnId(Invalid):
    """A text that is not the one spelling of any UUID."""

    def __init__(self, text: str) -> None:
        super().__init__(f"`{text[:80]}` is not an id; write it as a lower-case uuid with hyphens")


def parse_uuid(text: str) -> UUID:
    """The UUID written as `text`, of any version; `NotAnId` unless it is lower-case with hyphens."""
    try:
        uuid = UUID(text)
    except ValueError:
        raise NotAnId(text) from None
    # `UUID` also takes braces, `urn:uuid:`, upper case and hyphens anywhere.
    if str(uuid) != text:
        raise NotAnId(text)
    return uuid


def make_ordered_uuid(milliseconds: int, entropy: bytes) -> UUID:
    """A version 7 UUID of a moment since 1970 and 10 random bytes, of which it keeps 74 bits.

    Ids made one after the other are neighbours in an index, where random ones each touch a page of their own.
    """
    return _stamp_version(milliseconds.to_bytes(_UUID_BYTES - _ENTROPY_BYTES, "big") + entropy, version=7)


def uuid_from_hash(digest: Digest) -> UUID:
    """The version 8 UUID of a digest: its first 16 bytes. Everyone who knows the digest can check the id."""
    return _stamp_version(digest[:_UUID_BYTES], version=8)


def _stamp_version(raw: bytes, *, version: int) -> UUID:
    if len(raw) != _UUID_BYTES:
        raise ValueError(f"a UUID is made of 16 bytes, not of {len(raw)}")
    bits = int.from_bytes(raw, "big")
    bits = bits & ~(0b1111 << _VERSION_AT) | version << _VERSION_AT
    bits = bits & ~(0b11 << _VARIANT_AT) | 0b10 << _VARIANT_AT
    return UUID(int=bits)


# Article numbers: what a product is called in its tenant, in its facts and on its passport.


# Control characters, blanks without width, marks that turn the direction of what follows, and what is not a character.
_INVISIBLE: Final = re.compile("[\0-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufffe\uffff]")
_BLANK: Final = re.compile("[ \xa0\u2000-\u200a\u202f\u205f\u3000]*")


def find_sku_fault(sku: str) -> str | None:
    """What keeps a text from being a SKU, or from being part of the key of a fact."""
    if _BLANK.fullmatch(sku):
        return "is blank"
    if _INVISIBLE.search(sku):
        return "has an invisible character"
    return None
