"""The cookie of a session, and whether a request comes from a page of ours.

    over https   __Host-bpc-session: Secure, HttpOnly, SameSite=Lax, Path=/
    plain http   bpc-dev-session-<port>: the same without Secure; only outside prod and only on this machine

A browser keeps a cookie called `__Host-…` only if it came over https. The development server speaks plain http, so
there the cookie has another name, is accepted from a loopback address alone, and never in prod. Cookies do not tell
ports apart, so that name has the port: two installations on one machine do not sign each other out.
"""

import ipaddress
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection
from starlette.responses import Response

from bpc.api.http.request_context import Service
from bpc.core.console_access import SessionOver, SessionSecret
from bpc.core.errors import Refusal

COOKIE_NAME: Final = "__Host-bpc-session"
ATTEMPT_COOKIE_NAME: Final = "__Host-bpc-sign-in"
DEV_COOKIE_PREFIX: Final = "bpc-dev-session-"
DEV_ATTEMPT_PREFIX: Final = "bpc-dev-sign-in-"
LOOPBACK_NAME: Final = "localhost"
SECURE_SCHEMES: Final = ("https", "wss")


class ForeignRequest(Refusal):
    """A form that no page of this session sent."""

    code = "FORBIDDEN"

    def __init__(self) -> None:
        super().__init__(
            "this form was not sent by a page of this console", fix="load the page again and send the form from it"
        )


class InsecureConsole(Refusal):
    """Plain http from another machine: a cookie would travel in clear."""

    code = "FORBIDDEN"

    def __init__(self) -> None:
        super().__init__(
            "the console is only served over https", fix="open it with https, or on the machine where it runs"
        )


def find_cookie_name(
    request: HTTPConnection, secure_name: str = COOKIE_NAME, dev_prefix: str = DEV_COOKIE_PREFIX
) -> str:
    """The name of the cookie for this request. Raises `InsecureConsole` where no session may be."""
    if is_secure(request):
        return secure_name
    service: Service = request.app.state.service
    if service.settings.env == "prod" or not _is_loopback(request.url.hostname or ""):
        raise InsecureConsole
    return f"{dev_prefix}{request.url.port or 80}"


def find_attempt_cookie_name(request: HTTPConnection) -> str:
    """The name of the cookie of a sign-in that is under way."""
    return find_cookie_name(request, ATTEMPT_COOKIE_NAME, DEV_ATTEMPT_PREFIX)


def find_own_address(request: HTTPConnection) -> str:
    """Scheme and host of the console, as this browser has them."""
    return f"{'https' if is_secure(request) else 'http'}://{request.headers.get('host', '')}"


def is_secure(request: HTTPConnection) -> bool:
    """Whether the browser speaks https, with us or with the proxy in front of us."""
    service: Service = request.app.state.service
    public_url = urlsplit(service.settings.public_url or "")
    behind_proxy = public_url.scheme == "https" and request.url.hostname == public_url.hostname
    return request.url.scheme in SECURE_SCHEMES or behind_proxy


def read_session_cookie(request: HTTPConnection) -> SessionSecret | None:
    """The session that the request names, if it names one. Whether it exists is checked later."""
    text = request.cookies.get(find_cookie_name(request))
    if not text:
        return None
    try:
        return SessionSecret.parse(text)
    except SessionOver:
        return None


def set_session_cookie(request: HTTPConnection, response: Response, secret: SessionSecret) -> None:
    """Hand out the cookie. It has no end of its own: the session has, and the browser forgets it when it closes."""
    response.set_cookie(
        find_cookie_name(request), secret.text, secure=is_secure(request), httponly=True, samesite="lax", path="/"
    )


def clear_session_cookie(request: HTTPConnection, response: Response) -> None:
    response.delete_cookie(
        find_cookie_name(request), secure=is_secure(request), httponly=True, samesite="lax", path="/"
    )


def require_same_origin(request: HTTPConnection) -> None:
    """Raise `ForeignRequest` unless a page of this very host sent the request. Browsers say so in `Origin`."""
    if request.headers.get("origin", "") != find_own_address(request):
        raise ForeignRequest


def _is_loopback(host: str) -> bool:
    if host == LOOPBACK_NAME:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
