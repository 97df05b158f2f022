"""Refusals: one table of codes, one base class.

The table decides what the API answers, whether the worker tries again and how the command line exits.
Classes only group errors for the reader; what is nobody's refusal is a bug and is left to crash.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """How the world is told about one kind of refusal."""

    http: int
    retryable: bool = False


CODES: Final[Mapping[str, Code]] = {
    "CONFIG_MISSING": Code(http=500),
    "BAD_REQUEST": Code(http=400),
    "UNAUTHORIZED": Code(http=401),
    "API_KEY_REVOKED": Code(http=401),
    "FORBIDDEN": Code(http=403),
    "NOT_FOUND": Code(http=404),
    "METHOD_NOT_ALLOWED": Code(http=405),
    "HEADERS_TIMEOUT": Code(http=408, retryable=True),
    "CONFLICT": Code(http=409),
    "IDEMPOTENCY_CONFLICT": Code(http=409),
    "EVENT_VERSION_CONFLICT": Code(http=409, retryable=True),
    "SNAPSHOT_SEALED": Code(http=409),
    "SNAPSHOT_NOT_READY": Code(http=409),
    "RULE_PKG_NOT_PUBLISHED": Code(http=409),
    "RULE_TESTS_FAILED": Code(http=409),
    "REPLAY_MISMATCH": Code(http=409),
    "JOB_CANCELLED": Code(http=409),
    "REQUEST_TOO_LARGE": Code(http=413),
    "UNSUPPORTED_MEDIA_TYPE": Code(http=415),
    "VALIDATION_ERROR": Code(http=422),
    "RULE_PARSE_ERROR": Code(http=422),
    "RULE_TYPE_ERROR": Code(http=422),
    "RULE_CYCLE_DETECTED": Code(http=422),
    "RULE_ASSERTION_FAILED": Code(http=422),
    "RULE_LIMIT_EXCEEDED": Code(http=422),
    "DIVISION_BY_ZERO": Code(http=422),
    "UNIT_MISMATCH": Code(http=422),
    "PROOF_TOO_LARGE": Code(http=422),
    "PAYLOAD_TOO_LARGE": Code(http=422),
    "RECEIPT_TOO_LARGE": Code(http=422),
    "SIGNATURE_INVALID": Code(http=422),
    "OUTBOUND_BLOCKED": Code(http=422),
    "HANDLER_NOT_FOUND": Code(http=422),
    "RATE_LIMITED": Code(http=429, retryable=True),
    "HEADERS_TOO_LARGE": Code(http=431),
    "SIGNING_KEY_MISSING": Code(http=500),
    "SCHEMA_MISMATCH": Code(http=500),
    "INTERNAL_ERROR": Code(http=500, retryable=True),
    "JOB_LEASE_LOST": Code(http=500, retryable=True),
    "OUTBOUND_FAILED": Code(http=502, retryable=True),
    "QUEUE_UNAVAILABLE": Code(http=503, retryable=True),
    "QUEUE_FULL": Code(http=503, retryable=True),
    "DB_UNAVAILABLE": Code(http=503, retryable=True),
    "REQUEST_TIMEOUT": Code(http=503, retryable=True),
    "JOB_TIMEOUT": Code(http=504, retryable=True),
}


class Refusal(Exception):
    """We understood and will not do it: a stable code, a sentence, what to do next, and typed details.

    `details` holds what a program may want to read; it is JSON by construction and never a secret.
    """

    code: ClassVar[str] = "INTERNAL_ERROR"
    http: ClassVar[int | None] = None  # where it is not the code's

    def __init__(self, says: str, *, fix: str | None = None, details: Mapping[str, object] | None = None) -> None:
        super().__init__(says)
        self.says = says
        self.fix = fix
        self.details: Mapping[str, object] = details or {}

    @property
    def retryable(self) -> bool:
        return CODES[self.code].retryable


class Invalid(Refusal):
    """What came in is not what it should be."""

    code = "VALIDATION_ERROR"


class NotFound(Refusal):
    """There is no such thing, as far as this tenant can see."""

    code = "NOT_FOUND"


class Conflict(Refusal):
    """It cannot be done in the state things are in."""

    code = "CONFLICT"


class DatabaseUnavailable(Refusal):
    """PostgreSQL did not answer, or went away in the middle."""

    code = "DB_UNAVAILABLE"


class SchemaMismatch(Refusal):
    """The database's tables are not the ones this build works with."""

    code = "SCHEMA_MISMATCH"
