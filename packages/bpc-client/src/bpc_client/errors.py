"""Exceptions: errors that the API answers, and failures on the way to it."""

from collections.abc import Mapping
from typing import Any, Final

# Codes after which the same request may succeed later. A test keeps them equal to the API's table.
RETRYABLE: Final = frozenset(
    {
        "CLOCK_DIFFERS",
        "DB_UNAVAILABLE",
        "EVENT_VERSION_CONFLICT",
        "HEADERS_TIMEOUT",
        "INTERNAL_ERROR",
        "JOB_LEASE_LOST",
        "JOB_TIMEOUT",
        "OUTBOUND_FAILED",
        "QUEUE_FULL",
        "QUEUE_UNAVAILABLE",
        "RATE_LIMITED",
        "REQUEST_TIMEOUT",
        "UNREACHABLE",
    }
)


class ApiError(Exception):
    """The API answered with an error. Programs use `code`; `correlation_id` identifies the request in its logs."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int,
        correlation_id: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status
        self.correlation_id = correlation_id
        self.details: Mapping[str, Any] = details or {}

    @property
    def is_retryable(self) -> bool:
        return self.code in RETRYABLE


class ApprovalPending(ApiError):
    """The request is stored and waits for a second person: `approval_id` names it. Nothing was done yet."""

    def __init__(self, approval_id: str, details: Mapping[str, Any], *, correlation_id: str | None = None) -> None:
        super().__init__(
            "APPROVAL_PENDING",
            f"this waits for a second person; another holder of the permission confirms `{approval_id}`",
            status=202,
            correlation_id=correlation_id,
            details=details,
        )
        self.approval_id = approval_id


class UnexpectedAnswer(ApiError):
    """The answer is not one of the API's: another server listens there, or this client is too old for the API."""

    def __init__(self, status: int, message: str, *, correlation_id: str | None = None) -> None:
        super().__init__("UNEXPECTED_ANSWER", message, status=status, correlation_id=correlation_id)

    @property
    def is_retryable(self) -> bool:
        return self.status in {429, 502, 503, 504}  # a proxy whose API is restarting or busy


class Unreachable(Exception):
    """No answer: the server is not running, or every connection was lost."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"{url} does not answer: {reason}")
        self.url = url
        self.reason = reason


class JobFailed(Exception):
    """A job ended without success. `error` is the error it ended with."""

    def __init__(self, job_id: str, status: str, error: Mapping[str, Any] | None) -> None:
        reason = "" if not error else f": {error.get('code')}: {error.get('message')}"
        super().__init__(f"job {job_id} is {status}{reason}")
        self.job_id = job_id
        self.status = status
        self.error = error


class WaitTimeout(Exception):
    """A wait took too long. What it waited for may still happen."""

    def __init__(self, label: str, seconds: float) -> None:
        super().__init__(f"{label}: not done after {seconds:g} s")
