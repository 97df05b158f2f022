"""A sign-in that is under way: what the browser carries to the provider and back, sealed in a cookie.

    SignInAttempt.begin(entropy, …) ─► seal ─► cookie ─► open ─► accepts_state

Only the browser that began it can end it: whoever makes somebody else's browser open the address of an answer signs
nobody in, because that browser has no cookie, or one with another state.
"""

import hmac
import json
from base64 import urlsafe_b64encode
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Final, Self

from bpc.core.errors import Refusal
from bpc.core.formats.hashes import Digest, sha256
from bpc.core.formats.timestamps import format_time, parse_time
from bpc.core.secret_box import SecretBox, SecretUnreadable

ATTEMPT_ENTROPY_BYTES: Final = 96
ATTEMPT_VALID_FOR: Final = timedelta(minutes=10)
_CONTEXT: Final = "console sign-in"


class SignInRefused(Refusal):
    """A provider's answer that signs nobody in."""

    code = "UNAUTHORIZED"

    def __init__(self, says: str, *, fix: str = "sign in again") -> None:
        super().__init__(says, fix=fix)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInAttempt:
    """What was sent to the provider, and where its answer leads. `verifier` proves that the code is for us (PKCE)."""

    provider: str
    state: str = field(repr=False)
    nonce: str = field(repr=False)
    verifier: str = field(repr=False)
    address: str
    tenant: str
    is_silent: bool
    began_at: str

    @classmethod
    def begin(
        cls, entropy: bytes, now: datetime, *, provider: str, address: str, tenant: str = "", is_silent: bool = False
    ) -> Self:
        if len(entropy) != ATTEMPT_ENTROPY_BYTES:
            raise ValueError(f"a sign-in takes {ATTEMPT_ENTROPY_BYTES} random bytes")
        state, nonce, verifier = (_encode(entropy[start : start + 32]) for start in (0, 32, 64))
        return cls(
            provider=provider,
            state=state,
            nonce=nonce,
            verifier=verifier,
            address=address,
            tenant=tenant,
            is_silent=is_silent,
            began_at=format_time(now),
        )

    @property
    def challenge(self) -> str:
        """What is sent ahead of the verifier. RFC 7636 4.2: S256."""
        return _encode(sha256(self.verifier.encode()))

    def seal(self, box: SecretBox, nonce: bytes) -> str:
        return box.seal(json.dumps(asdict(self)), context=_CONTEXT, nonce=nonce)

    @classmethod
    def open(cls, text: str, box: SecretBox, now: datetime) -> Self:
        """Read the cookie. Raises `SignInRefused`."""
        not_ours = SignInRefused("this browser has not begun to sign in, or its cookie was changed")
        if not box.is_current(text):
            raise not_ours
        try:
            attempt = cls(**json.loads(box.open(text, context=_CONTEXT)))
        except (SecretUnreadable, ValueError, TypeError):
            raise not_ours from None
        if parse_time(attempt.began_at) + ATTEMPT_VALID_FOR <= now:
            raise SignInRefused("signing in took longer than ten minutes")
        return attempt

    def accepts_state(self, state: str) -> bool:
        return hmac.compare_digest(self.state.encode(), state.encode())

    def hash(self) -> Digest:
        """What the session keeps of it, so that one answer begins no second session."""
        return sha256(self.state.encode())


def _encode(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
