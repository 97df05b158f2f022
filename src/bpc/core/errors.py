"""Refusals: one table of codes, one base class.

The table decides what the API answers, whether the worker tries again and how the command line exits.
Classes only group errors for the reader; what is nobody's refusal is a bug and is left to crash.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorCode:
    """How the world is told about one kind of refusal."""

    http: int
    retryable: bool = False


CODES: Final[Mapping[str, ErrorCode]] = {
    "CONFIG_MISSING": ErrorCode(http=500),
    "BAD_REQUEST": ErrorCode(http=400),
    "USAGE": ErrorCode(http=400),
    "UNAUTHORIZED": ErrorCode(http=401),
    "API_KEY_REVOKED": ErrorCode(http=401),
    "FORBIDDEN": ErrorCode(http=403),
    "NOT_FOUND": ErrorCode(http=404),
    "METHOD_NOT_ALLOWED": ErrorCode(http=405),
    "HEADERS_TIMEOUT": ErrorCode(http=408, retryable=True),
    "CONFLICT": ErrorCode(http=409),
    "IDEMPOTENCY_CONFLICT": ErrorCode(http=409),
    "EVENT_VERSION_CONFLICT": ErrorCode(http=409, retryable=True),
    "SNAPSHOT_SEALED": ErrorCode(http=409),
    "SNAPSHOT_NOT_READY": ErrorCode(http=409),
    "RULE_PKG_NOT_PUBLISHED": ErrorCode(http=409),
    "RULE_TESTS_FAILED": ErrorCode(http=409),
    "REPLAY_MISMATCH": ErrorCode(http=409),
    "COMPLIANCE_BLOCKED": ErrorCode(http=409),
    "JOB_CANCELLED": ErrorCode(http=409),
    "REQUEST_TOO_LARGE": ErrorCode(http=413),
    "STORAGE_QUOTA_EXCEEDED": ErrorCode(http=413),
    "UNSUPPORTED_MEDIA_TYPE": ErrorCode(http=415),
    "MISDIRECTED_REQUEST": ErrorCode(http=421),
    "VALIDATION_ERROR": ErrorCode(http=422),
    "RULE_PARSE_ERROR": ErrorCode(http=422),
    "RULE_TYPE_ERROR": ErrorCode(http=422),
    "RULE_CYCLE_DETECTED": ErrorCode(http=422),
    "RULE_ASSERTION_FAILED": ErrorCode(http=422),
    "RULE_LIMIT_EXCEEDED": ErrorCode(http=422),
    "DIVISION_BY_ZERO": ErrorCode(http=422),
    "UNIT_MISMATCH": ErrorCode(http=422),
    "PROOF_TOO_LARGE": ErrorCode(http=422),
    "PAYLOAD_TOO_LARGE": ErrorCode(http=422),
    "RECEIPT_TOO_LARGE": ErrorCode(http=422),
    "SIGNATURE_INVALID": ErrorCode(http=422),
    "OUTBOUND_BLOCKED": ErrorCode(http=422),
    "REJECTED_BY_ENDPOINT": ErrorCode(http=422),
    "HANDLER_NOT_FOUND": ErrorCode(http=422),
    "RATE_LIMITED": ErrorCode(http=429, retryable=True),
    "HEADERS_TOO_LARGE": ErrorCode(http=431),
    "SIGNING_KEY_MISSING": ErrorCode(http=500),
    "SCHEMA_MISMATCH": ErrorCode(http=500),
    "PORT_IN_USE": ErrorCode(http=500),
    "INTERNAL_ERROR": ErrorCode(http=500, retryable=True),
    "JOB_LEASE_LOST": ErrorCode(http=500, retryable=True),
    "OUTBOUND_FAILED": ErrorCode(http=502, retryable=True),
    "QUEUE_UNAVAILABLE": ErrorCode(http=503, retryable=True),
    "QUEUE_FULL": ErrorCode(http=503, retryable=True),
    "DB_UNAVAILABLE": ErrorCode(http=503, retryable=True),
    "REQUEST_TIMEOUT": ErrorCode(http=503, retryable=True),
    "UNREACHABLE": ErrorCode(http=503, retryable=True),
    "CLOCK_DIFFERS": ErrorCode(http=503, retryable=True),
    "JOB_TIMEOUT": ErrorCode(http=504, retryable=True),
}
# The configuration is wrong: trying again does not help.
CONFIGURATION_CODES: Final = frozenset({"CONFIG_MISSING", "PORT_IN_USE", "SCHEMA_MISMATCH", "SIGNING_KEY_MISSING"})


MAX_PROBLEMS: Final = 100


class Refusal(Exception):
    """We understood and will not do it: a stable code, a sentence, what to do next, and typed details.

    `details` holds what a program may want to read; it is JSON by construction and never a secret.
    `hint` is the key of a next step that names a route, a setting or a command: the API and the command line each
    have a table of those (`find_next_step`), because a lower layer does not know them.
    """

    code: ClassVar[str] = "INTERNAL_ERROR"
    http: ClassVar[int | None] = None  # where it is not the code's

    def __init__(
        self, says: str, *, fix: str | None = None, hint: str | None = None, details: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(says)
        self.says = says
        self.fix = fix
        self.hint = hint
        self.details: Mapping[str, object] = details or {}

    @property
    def retryable(self) -> bool:
        return CODES[self.code].retryable


def combine_problems(problems: Sequence[Refusal]) -> Refusal:
    """The first of `problems`, with its own code and details; the others, up to a limit, are in `details.problems`."""
    first, *others = problems
    if others:
        members = [{"code": other.code, "message": other.says, **other.details} for other in others[:MAX_PROBLEMS]]
        first.details = {**first.details, "problems": members}
    return first


class Invalid(Refusal):
    """The input is not what it should be."""

    code = "VALIDATION_ERROR"


class NotFound(Refusal):
    """There is no such thing, as far as this tenant can see."""

    code = "NOT_FOUND"


class UnknownResource(NotFound):
    """There is no `kind` with this id. Its hint is `list <kind>`: how to see those that exist."""

    def __init__(self, kind: str, resource_id: object) -> None:
        super().__init__(f"there is no {kind} `{resource_id}`", hint=f"list {kind}")
        self.kind = kind
        self.resource_id = resource_id


class Conflict(Refusal):
    """It cannot be done in the state things are in."""

    code = "CONFLICT"


class DatabaseUnavailable(Refusal):
    """PostgreSQL did not answer, or went away in the middle."""

    code = "DB_UNAVAILABLE"


class SchemaMismatch(Refusal):
    """The database's tables are not the ones this build works with."""

    code = "SCHEMA_MISMATCH"


def find_next_step(refusal: Exception, steps: Mapping[str, str]) -> str | None:
    """What to do about `refusal`: its own `fix`, or the text of its hint in `steps` with its details filled in."""
    hint: str | None = getattr(refusal, "hint", None)
    if hint is None or hint not in steps:
        fix: str | None = getattr(refusal, "fix", None)
        return fix
    details: Mapping[str, object] = getattr(refusal, "details", {})
    return steps[hint].format_map(details)
