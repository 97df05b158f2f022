"""View grants: who outside of a tenant may see the view of an audience, of which passports, and until when.

Pure. A grant names an audience (persons with a legitimate interest, authorities), a scope and an end:

    ITEM   one battery
    MODEL  the passport of one model, and those of its batteries
    ALL    every passport of the tenant

    GrantBounds, Subject ──────── covers ──────► whether the grant is about it
    GrantBounds of both, Subject ─ find_excess ─► what a delegate would have and its parent has not

A delegate is what a grantee gives to somebody else. It has the audience of its parent, and neither sees more nor lasts
longer; it cannot delegate. Its code is of the same kind: `bpg_<prefix>_<secret><checksum>`, stored as a peppered hash.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar, Final, Literal, get_args

from bpc.core.api_keys import ApiKeySecret
from bpc.core.errors import Invalid
from bpc.core.formats import canonical_json
from bpc.core.formats.ids import BatteryId, PassportId

GrantAudience = Literal["interest", "authority"]
GrantScope = Literal["ITEM", "MODEL", "ALL"]
# Whom a tenant lets have whole bundles, which hold all that a passport was made of.
BundleReaders = Literal["NOBODY", "AUTHORITIES", "GRANTEES", "EVERYBODY"]
GRANT_AUDIENCES: Final[tuple[GrantAudience, ...]] = get_args(GrantAudience)
GRANT_SCOPES: Final[tuple[GrantScope, ...]] = get_args(GrantScope)
DEFAULT_VALIDITY: Final = timedelta(days=90)
LONGEST_VALIDITY: Final = timedelta(days=3 * 366)
MAX_REQUEST_BYTES: Final = 4096  # of all that a person writes
MAX_CONTACT_CHARS: Final = 200
_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")


class GrantCode(ApiKeySecret):
    """The code of a grant. It opens no route of the API but those for grantees."""

    MARK: ClassVar[str] = "bpg"
    LABEL: ClassVar[str] = "a code of a grant"


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantSubject:
    """What is to be read: the passport of a model, or of one of its batteries."""

    passport_id: PassportId
    battery_id: BatteryId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantBounds:
    """How far a grant goes. A scope names the id that it needs and no other."""

    scope: GrantScope
    expires_at: datetime
    passport_id: PassportId | None = None
    battery_id: BatteryId | None = None

    def __post_init__(self) -> None:
        if (self.scope == "MODEL") != (self.passport_id is not None):
            raise Invalid("`passport_id` belongs to the scope MODEL", fix="send it with that scope and no other")
        if (self.scope == "ITEM") != (self.battery_id is not None):
            raise Invalid("`battery_id` belongs to the scope ITEM", fix="send it with that scope and no other")

    def covers(self, subject: GrantSubject) -> bool:
        """Whether the grant is about a subject."""
        match self.scope:
            case "ALL":
                return True
            case "MODEL":
                return self.passport_id == subject.passport_id
            case "ITEM":
                return self.battery_id == subject.battery_id


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestWords:
    """What a person wrote who asks to see more. All of it is text; nothing is uploaded."""

    name: str
    contact: str
    purpose: str
    evidence: str = ""

    def __post_init__(self) -> None:
        for label, text in (("name", self.name), ("contact", self.contact), ("purpose", self.purpose)):
            if not text.strip():
                raise Invalid(f"the {label} is missing", fix="say who asks, how to answer, and what for")
        if max(len(self.name), len(self.contact)) > MAX_CONTACT_CHARS:
            raise Invalid(f"name and contact may have {MAX_CONTACT_CHARS} characters", fix="shorten them")
        texts = (self.name, self.contact, self.purpose, self.evidence)
        if any(_UNSTORABLE.search(text) for text in texts):
            raise Invalid("the text has signs that are no text", fix="remove them")
        if sum(len(text.encode()) for text in texts) > MAX_REQUEST_BYTES:
            raise Invalid(f"the request is longer than {MAX_REQUEST_BYTES} bytes", fix="shorten it")

    def encode(self) -> bytes:
        """The words as canonical JSON."""
        members = {"contact": self.contact, "evidence": self.evidence, "name": self.name, "purpose": self.purpose}
        return canonical_json.encode_typed(members)


def decode_words(content: bytes) -> RequestWords:
    """Words that were stored."""
    members = canonical_json.decode(content)
    if not isinstance(members, dict):
        raise Invalid("what is stored of the request is not what a person wrote")
    return RequestWords(**{name: str(text) for name, text in members.items()})


def may_have_bundle(readers: BundleReaders, audience: GrantAudience | None) -> bool:
    """Whether a grantee of this audience, or everybody (None), may have whole bundles."""
    match readers:
        case "EVERYBODY":
            return True
        case "GRANTEES":
            return audience is not None
        case "AUTHORITIES":
            return audience == "authority"
        case "NOBODY":
            return False


def find_excess(parent: GrantBounds, delegate: GrantBounds, subject: GrantSubject | None) -> str | None:
    """What a delegate would have beyond its parent, as a sentence; None if it stays within it.

    `subject` is what the delegate names: a model, or a battery with its model. A delegate for everything names nothing.
    """
    if delegate.expires_at > parent.expires_at:
        return "it would last longer than the grant that it is made from"
    if subject is None:
        is_within = parent.scope == "ALL"
    elif delegate.scope == "MODEL" and parent.scope == "ITEM":
        is_within = False
    else:
        is_within = parent.covers(subject)
    return None if is_within else "it would reach further than the grant that it is made from"
