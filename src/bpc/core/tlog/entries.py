"""Entries of our log, BPC-LOG-1: what happened, sealed or readable.

Pure. A statement is canonical JSON: what happened, when, to what. A sealed entry shows a salted hash of it, always 33
bytes, so nobody can tell what it is about or count a tenant's passports. Whoever has the opening, salt and statement,
can compute the entry again. A readable entry is the statement itself; only keys and the log's own history are readable.

    event of the audit log ─► make_statement ─► statement, salt ─► LogEntry ─► bytes in the log
    opening in a bundle ─► parse_opening ─► the same bytes
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from bpc.core.errors import Invalid
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import Digest, sha256, to_hex
from bpc.core.formats.timestamps import format_time
from bpc.core.tlog.merkle import hash_leaf

ENTRY_VERSION: Final = "BPC-LOG-1"
SEALED: Final = b"\x01"
READABLE: Final = b"\x02"
SALT_BYTES: Final = 32
SEALED_ENTRY_BYTES: Final = 1 + 32
MAX_STATEMENT_BYTES: Final = 60_000
_COMMITMENT_PREFIX: Final = f"{ENTRY_VERSION}\n".encode()

# Events of the audit log that become entries, and their kinds. A trigger on the table of events has the same list.
ENTRY_KINDS: Final[Mapping[str, str]] = {
    "PASSPORT_SIGNED": "PASSPORT_ISSUED",
    "PASSPORT_ACTIVATED": "PASSPORT_ACTIVATED",
    "PASSPORT_SUPERSEDED": "PASSPORT_SUPERSEDED",
    "PASSPORT_REVOKED": "PASSPORT_REVOKED",
    "PASSPORT_WAIVED": "PASSPORT_WAIVED",
    "BATTERY_RECYCLED": "PASSPORT_CEASED",
    "RULES_PUBLISHED": "RULES_PUBLISHED",
    "SIGNING_KEY_CREATED": "KEY_ADDED",
    "SIGNING_KEY_CHANGED": "KEY_RETIRED",
    "SIGNING_KEY_COMPROMISED": "KEY_COMPROMISED",
    "TENANT_KEY_CREATED": "KEY_ADDED",
    "TENANT_KEY_RETIRED": "KEY_RETIRED",
    "TENANT_KEY_COMPROMISED": "KEY_COMPROMISED",
    "RetentionApplied": "RETENTION_APPLIED",
}
PASSPORT_ISSUED: Final = "PASSPORT_ISSUED"
PASSPORT_EXISTED: Final = "PASSPORT_EXISTED"  # signed before the log began: it existed by then
AUDIT_HEAD: Final = "AUDIT_HEAD"
LOG_RESTORED: Final = "LOG_RESTORED"
READABLE_KINDS: Final = frozenset({"KEY_ADDED", "KEY_RETIRED", "KEY_COMPROMISED", LOG_RESTORED})
# What a statement takes over from the payload of the event.
PAYLOAD_MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    PASSPORT_ISSUED: ("receipt_hash", "signing_key_id"),
    PASSPORT_EXISTED: ("receipt_hash", "signing_key_id"),
    AUDIT_HEAD: ("chains", "heads_hash"),
    "RETENTION_APPLIED": ("cutoffs", "part", "run_id"),
    "KEY_ADDED": ("key_id", "public_key"),
    "KEY_RETIRED": ("key_id",),
    "KEY_COMPROMISED": ("compromised_since", "key_id"),
}
# The same, where the payload has them: a key of a tenant names its owner, a key with a window its bounds.
OPTIONAL_MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "KEY_ADDED": ("tenant", "tenant_id", "valid_from", "valid_until"),
    "KEY_RETIRED": ("tenant", "tenant_id"),
    "KEY_COMPROMISED": ("tenant", "tenant_id"),
    AUDIT_HEAD: ("seen",),
}


class BadOpening(Invalid):
    """The bytes do not open an entry."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the opening of the log entry {reason}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedEvent:
    """An event of the audit log that becomes an entry."""

    kind: str
    tenant_id: str
    aggregate_type: str
    aggregate_id: str
    aggregate_version: int
    at: datetime
    event_hash: Digest
    payload: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """A statement and its salt; without a salt, the entry is readable."""

    statement: bytes
    salt: bytes | None

    def __post_init__(self) -> None:
        if self.salt is not None and len(self.salt) != SALT_BYTES:
            raise BadOpening(f"has a salt of {len(self.salt)} bytes, not {SALT_BYTES}")
        if len(self.statement) > MAX_STATEMENT_BYTES:
            raise BadOpening(f"has a statement of more than {MAX_STATEMENT_BYTES:,} bytes")

    @property
    def data(self) -> bytes:
        """The bytes in the log."""
        if self.salt is None:
            return READABLE + self.statement
        return SEALED + sha256(_COMMITMENT_PREFIX + self.salt + self.statement)

    @property
    def leaf(self) -> Digest:
        return hash_leaf(self.data)

    def read_statement(self) -> Mapping[str, canonical_json.Json]:
        document = canonical_json.decode(self.statement)
        if not isinstance(document, Mapping):
            raise BadOpening("has a statement that is not an object")
        return document


def make_event_entry(event: LoggedEvent, salt: bytes) -> LogEntry:
    """The entry of an event of the audit log."""
    details = {name: event.payload[name] for name in PAYLOAD_MEMBERS.get(event.kind, ())}
    optional = OPTIONAL_MEMBERS.get(event.kind, ())
    details |= {name: event.payload[name] for name in optional if event.payload.get(name) is not None}
    if event.kind == AUDIT_HEAD:  # not an event, but where all chains of a tenant stand
        return make_entry(event.kind, event.at, {"tenant_id": event.tenant_id, **details}, salt=salt)
    if event.kind in READABLE_KINDS:  # a key names its tenant, and nothing else says anything of one
        return make_entry(event.kind, event.at, details, salt=None)
    members = {
        "aggregate_id": event.aggregate_id,
        "aggregate_type": event.aggregate_type,
        "aggregate_version": event.aggregate_version,
        "event_hash": to_hex(event.event_hash),
        "tenant_id": event.tenant_id,
    }
    return make_entry(event.kind, event.at, {**members, **details}, salt=salt)


def make_entry(kind: str, at: datetime, members: Mapping[str, object], *, salt: bytes | None) -> LogEntry:
    """An entry that says `kind`, the time and these members."""
    if (salt is None) != (kind in READABLE_KINDS):
        raise ValueError(f"{kind} is {'readable' if kind in READABLE_KINDS else 'sealed'}")
    return LogEntry(statement=canonical_json.encode({"at": format_time(at), "kind": kind, **members}), salt=salt)


def encode_opening(entry: LogEntry) -> bytes:
    """What opens a sealed entry, as canonical JSON."""
    if entry.salt is None:
        raise ValueError("a readable entry needs no opening")
    return canonical_json.encode(
        {"opening_version": ENTRY_VERSION, "salt": entry.salt.hex(), "statement": dict(entry.read_statement())}
    )


def parse_opening(data: bytes) -> LogEntry:
    """The entry that these bytes open, whose hash is still to be found in a log."""
    try:
        document = canonical_json.decode(data)
    except Invalid as wrong:
        raise BadOpening(f"is not canonical: {wrong.says}") from None
    if not isinstance(document, Mapping) or sorted(document) != ["opening_version", "salt", "statement"]:
        raise BadOpening("is not an object of opening_version, salt and statement")
    salt, statement = document["salt"], document["statement"]
    if document["opening_version"] != ENTRY_VERSION:
        raise BadOpening(f"must have `{ENTRY_VERSION}` as its `opening_version`")
    if not isinstance(salt, str) or not isinstance(statement, Mapping) or not isinstance(statement.get("kind"), str):
        raise BadOpening("has no salt, or no statement with a `kind`")
    return LogEntry(statement=canonical_json.encode(dict(statement)), salt=_parse_salt(salt))


def _parse_salt(text: str) -> bytes:
    try:
        salt = bytes.fromhex(text)
    except ValueError:
        raise BadOpening("has a salt that is not hexadecimal") from None
    if salt.hex() != text:
        raise BadOpening("has a salt that is not in lower case")
    return salt


def read_readable_entry(data: bytes) -> Mapping[str, canonical_json.Json] | None:
    """What a readable entry says; None for a sealed one. `Invalid` for what is neither."""
    if data.startswith(SEALED) and len(data) == SEALED_ENTRY_BYTES:
        return None
    if not data.startswith(READABLE):
        raise Invalid("the entry is neither sealed nor readable")
    return LogEntry(statement=data[1:], salt=None).read_statement()
