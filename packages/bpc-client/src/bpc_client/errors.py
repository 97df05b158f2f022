"""What goes wrong, as exceptions: the API's own refusals, and what comes between it and us."""

from collections.abc import Mapping
from typing import Any, Final

# By these codes the same request may succeed later. A test keeps them equal to the API's table.
RETRYABLE: Final = frozenset(
    {
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
    }
)


class ApiError(Exception):
    """The API refused. A program decides by `code`; `correlation_id` names the request in the server's logs."""

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


class UnexpectedAnswer(ApiError):
    """An answer that is not one of the API's: something else listens there, or this client is too old for it."""

    def __init__(self, status: int, message: str, *, correlation_id: str | None = None) -> None:
        super().__init__("UNEXPECTED_ANSWER", message, status=status, correlation_id=correlation_id)

    @property
    def is_retryable(self) -> bool:
        return self.status in {429, 502, 503, 504}  # a proxy that waits for the API


class Unreachable(Exception):
    """No answer: the server is not there, or the connection was lost each time."""

    def __init__(self, url: str, why: str) -> None:
        super().__init__(f"{url} does not answer: {why}")
        self.url = url
        self.why = why


class JobFailed(Exception):
    """A job is over and has not succeeded. `error` is what it ended with."""

    def __init__(self, job_id: str, status: str, error: Mapping[str, Any] | None) -> None:
        why = "" if not error else f": {error.get('code')}: {error.get('message')}"
        super().__init__(f"job {job_id} is {status}{why}")
        self.job_id = job_id
        self.status = status
        self.error = error


class StillWaiting(Exception):
    """What was waited for has not happened in time. It may still happen."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"{what} is not over after {seconds:g} s")
