"""Sessions of the console and the links that begin them: their texts, their hashes, and when they are over.

Pure: entropy and the time are arguments.

    SessionSecret   the value of the cookie: tenant, session and 32 random bytes. Stored is its SHA-256 alone.
    SignInLink      tenant, actor, end and a number that is used once, with a MAC made of the pepper of the installation

A session is over when it is ended, after its absolute end, and when nobody used it for the idle time.
"""

import hmac
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Self
from uuid import UUID

from bpc.core.api_keys import Unauthorized
from bpc.core.errors import Refusal
from bpc.core.formats.hashes import Digest, sha256
from bpc.core.formats.ids import ActorId, ConsoleSessionId, TenantId

SESSION_ENTROPY_BYTES: Final = 32
LINK_ENTROPY_BYTES: Final = 16
LINK_PREFIX: Final = "bpclink_"
LINK_VALID_FOR: Final = timedelta(minutes=10)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LINK_DOMAIN: Final = b"BPC-CONSOLE-LINK-1"
_FORM_DOMAIN: Final = b"BPC-CONSOLE-FORM-1"
_MAC_BYTES: Final = 32
_SESSION_PATTERN: Final = re.compile(r"([0-9a-f]{32})\.([0-9a-f]{32})\.([A-Za-z0-9_-]{43})")
_LINK_PATTERN: Final = re.compile(rf"{LINK_PREFIX}([A-Za-z0-9_-]{{116}})")
_SIGN_IN_AGAIN: Final = "sign in again"


class SessionOver(Unauthorized):
    """The cookie names no session, or one that is over."""

    def __init__(self) -> None:
        super().__init__("this session of the console is over", fix=_SIGN_IN_AGAIN)


class LinkRefused(Refusal):
    """A sign-in link that cannot be used."""

    code = "UNAUTHORIZED"

    def __init__(self, says: str) -> None:
        super().__init__(says, fix="ask for a new link")


@dataclass(frozen=True, slots=True)
class SessionSecret:
    """What the cookie of a session holds. Printing it does not show the secret."""

    tenant_id: TenantId
    session_id: ConsoleSessionId
    text: str = field(repr=False)

    @classmethod
    def generate(cls, tenant: TenantId, session: ConsoleSessionId, entropy: bytes) -> Self:
        if len(entropy) != SESSION_ENTROPY_BYTES:
            raise ValueError(f"a session takes {SESSION_ENTROPY_BYTES} random bytes")
        return cls(tenant, session, f"{tenant.hex}.{session.hex}.{_encode(entropy)}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a cookie that somebody sent."""
        match = _SESSION_PATTERN.fullmatch(text)
        if match is None:
            raise SessionOver
        return cls(TenantId(UUID(match[1])), ConsoleSessionId(UUID(match[2])), text)

    def hash(self) -> Digest:
        """What is stored. The secret is random, so a plain hash reveals nothing."""
        return sha256(self.text.encode())

    def matches(self, stored_hash: bytes) -> bool:
        """Whether this is the secret with that hash; takes the same time for every secret."""
        return hmac.compare_digest(self.hash(), stored_hash)

    def make_form_token(self) -> str:
        """What every form of this session carries, so that no other site can send one."""
        return _encode(hmac.digest(self.text.encode(), _FORM_DOMAIN, "sha256"))

    def accepts_form_token(self, token: str) -> bool:
        return hmac.compare_digest(self.make_form_token().encode(), token.encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInLink:
    """Who signs in with a link, and until when it can be used."""

    tenant_id: TenantId
    actor_id: ActorId
    expires_at: datetime
    number: bytes = field(repr=False)

    def write(self, pepper: bytes) -> str:
        """The text of the link. Whoever has it can sign in once."""
        content = _join(self)
        return LINK_PREFIX + _encode(content + _authenticate(content, pepper))

    @classmethod
    def read(cls, text: str, peppers: tuple[bytes, ...], now: datetime) -> Self:
        """Read a link that somebody sent. Whether it was used is for the database to say."""
        match = _LINK_PATTERN.fullmatch(text.strip())
        if match is None:
            raise LinkRefused("this is not a sign-in link of the console")
        data = urlsafe_b64decode(match[1])
        content, mac = data[:-_MAC_BYTES], data[-_MAC_BYTES:]
        if not any(hmac.compare_digest(_authenticate(content, pepper), mac) for pepper in peppers):
            raise LinkRefused("this sign-in link was not made by this installation")
        link = cls(
            tenant_id=TenantId(UUID(bytes=content[:16])),
            actor_id=ActorId(UUID(bytes=content[16:32])),
            expires_at=EPOCH + timedelta(seconds=int.from_bytes(content[32:39], "big")),
            number=content[39:],
        )
        if link.expires_at <= now:
            raise LinkRefused("this sign-in link has expired")
        return link

    def hash(self) -> Digest:
        """What the session keeps of it, so that the link begins no second one."""
        return sha256(_join(self))


def is_session_over(
    *,
    ended_at: datetime | None,
    expires_at: datetime | None,
    last_used_at: datetime,
    idle: timedelta,
    now: datetime,
) -> bool:
    """Whether a session is over: ended, too old, or not used for too long."""
    return ended_at is not None or (expires_at is not None and expires_at <= now) or last_used_at + idle <= now


def _join(link: SignInLink) -> bytes:
    seconds = ((link.expires_at - EPOCH) // timedelta(seconds=1)).to_bytes(7, "big")
    return link.tenant_id.bytes + link.actor_id.bytes + seconds + link.number


def _authenticate(content: bytes, pepper: bytes) -> bytes:
    return hmac.digest(hmac.digest(pepper, _LINK_DOMAIN, "sha256"), content, "sha256")


def _encode(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
