"""What the console shows when something is refused or fails: a page, or a notice where a part was asked for."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from fastapi.exceptions import RequestValidationError
from service_jobs.job import JobsRefusal
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from bpc.api.console.rendering import PageFrame, render_page
from bpc.api.console.translations import N_, translate
from bpc.api.http.error_responses import INTERNAL_MESSAGE, PUBLIC_MESSAGES, describe_problems
from bpc.core.catalogue.number_format import Language
from bpc.core.errors import CODES, Refusal
from bpc.runtime.logs import get_correlation_id, get_logger

if TYPE_CHECKING:
    from bpc.api.console.visit import Visit

log = get_logger(__name__)
TITLES: Final[Mapping[int, str]] = {
    401: N_("Sign in"),
    403: N_("Not allowed"),
    404: N_("Not there"),
    409: N_("Not possible now"),
    413: N_("Too large"),
    422: N_("Please correct this"),
    429: N_("Too many requests"),
    503: N_("Not available at the moment"),
}
UNKNOWN_PAGE: Final = N_("There is no such page.")
FAILURE_TITLE: Final = N_("Something went wrong")


def answer_error(request: Request, language: Language, error: Exception, *, visit: "Visit | None" = None) -> Response:
    """The page of an error. What is nobody's refusal is logged, and shown without its internals."""
    status, code, says, fix = _describe(error)
    title = translate(language, TITLES.get(status, FAILURE_TITLE))
    frame = PageFrame(title=title, section="", menu=(), address=request.url.path) if visit is None else visit.frame
    is_part = "hx-request" in request.headers
    content = render_page(
        "errors/notice.html.jinja" if is_part else "errors/error.html.jinja",
        language,
        {
            "frame": frame,
            "title": title,
            "status": status,
            "code": code,
            "says": translate(language, says),
            "fix": fix,
            "correlation_id": get_correlation_id(),
            "calls": [] if visit is None else visit.api.record,
            "command": "",
        },
    )
    return HTMLResponse(content, status_code=status)


def _describe(error: Exception) -> tuple[int, str, str, str | None]:
    """Status, code, sentence and next step."""
    if isinstance(error, Refusal | JobsRefusal):
        status = (error.http if isinstance(error, Refusal) else None) or CODES[error.code].http
        if error.code in PUBLIC_MESSAGES:
            log.error("a page of the console could not be served", code=error.code, reason=error.says)
            return status, error.code, PUBLIC_MESSAGES[error.code], None
        return status, error.code, error.says, getattr(error, "fix", None)
    if isinstance(error, RequestValidationError):
        return 422, "VALIDATION_ERROR", describe_problems(error.errors()), None
    if isinstance(error, HTTPException):
        return error.status_code, "NOT_FOUND", UNKNOWN_PAGE, None
    log.error("a page of the console failed", exc_info=error)
    return 500, "INTERNAL_ERROR", INTERNAL_MESSAGE, None
