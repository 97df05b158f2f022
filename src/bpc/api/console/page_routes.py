"""Routes of the console: what happens before and after the few lines of every page.

    pages = PageFamily("products", notices={"renamed": N_("The product has its new name.")})

    @pages.show("/console/products", title=N_("Products"), permission="passport:read", command="bpc products list")
    async def show_products(visit: Visit) -> Response: ...

    @pages.submit("/console/products/{battery_product_id}/rename", permission="tenant:admin")
    async def rename_product(visit: Visit) -> Response: ...

    show     GET: a page, or a part of one that htmx puts in its place
    submit   POST of a form: from a page of this session alone, and under the Idempotency-Key that the form carries
    open     GET or POST without a session: signing in, and files of pages

Refusals of the API become pages, or notices in place of a part. Whoever is not signed in is sent to sign in first.
`permission` only says what menus offer: the API decides what a page sees.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import parse_qsl, quote, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Match, Route
from starlette.types import Scope

from bpc.api.access.admission import find_address
from bpc.api.access.auth import authenticate_session, record_use
from bpc.api.console.calls import ApiCalls
from bpc.api.console.error_pages import answer_error
from bpc.api.console.navigation import find_section, list_menu
from bpc.api.console.rendering import PAGE_HEADERS, PageFrame
from bpc.api.console.role_reading import AskProviderAgain, read_roles_again
from bpc.api.console.session_cookie import (
    ForeignRequest,
    clear_session_cookie,
    is_secure,
    read_session_cookie,
    require_same_origin,
)
from bpc.api.console.translations import LANGUAGE_COOKIE, LANGUAGES, choose_language, translate
from bpc.api.console.visit import SentForm, Visit
from bpc.api.http.multipart import MULTIPART, parse_header, split_form
from bpc.api.http.request_body import RequestTooLarge
from bpc.api.http.request_context import Service
from bpc.api.pages.negotiation import read_accepted_languages
from bpc.core.api_keys import Unauthorized
from bpc.core.catalogue.number_format import Language
from bpc.core.console_access import SessionOver, SessionSecret
from bpc.core.errors import Invalid
from bpc.runtime import clock
from bpc.storage.access.console_sessions import SessionCaller

PageKind = Literal["show", "submit", "open"]
PageFunction: TypeAlias = Callable[[Visit], Awaitable[Response]]
OpenFunction: TypeAlias = Callable[[Request, Language], Awaitable[Response]]

HOME_PATH: Final = "/console"
SIGN_IN_PATH: Final = "/console/sign-in"
SIGN_IN_AGAIN_PATH: Final = f"{SIGN_IN_PATH}/again"
MAX_FORM_BYTES: Final = 1_000_000
FORM_OVERHEAD_BYTES: Final = 200_000
TOKEN_FIELD: Final = "form_token"  # noqa: S105 (the name of a field)
KEY_FIELD: Final = "idempotency_key"
# An address of the console, to which somebody may be sent after signing in.
OWN_ADDRESS: Final = re.compile(r"/console(/(?!\.)[A-Za-z0-9_.~:-]+)*(\?[A-Za-z0-9_.~:%&=+-]*)?")


class PageRoute(Route):
    """A route of the console, with what it was declared with."""

    def __init__(
        self,
        family: "PageFamily",
        path: str,
        kind: PageKind,
        answer: Callable[[Request], Awaitable[Response]],
        *,
        method: str,
        title: str,
        permission: str,
        command: str,
        function_name: str,
        most_bytes: int = MAX_FORM_BYTES,
    ) -> None:
        super().__init__(path, answer, methods=[method], name=f"console.{function_name}", include_in_schema=False)
        self.family, self.kind, self.title, self.permission, self.command = family, kind, title, permission, command
        self.most_bytes = most_bytes

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, child_scope = super().matches(scope)
        return match, {**child_scope, "route": self}


class PageFamily:
    """The pages of one subject: its templates are in a folder of its name, its texts in a file of its name.

    `notices` are what a page says after a form: `visit.go_to(path, done="renamed")` shows one of them.
    """

    def __init__(self, name: str, *, notices: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.notices: Mapping[str, str] = notices or {}
        self.routes: list[PageRoute] = []

    def show(
        self, path: str, *, title: str, permission: str = "", command: str = ""
    ) -> Callable[[PageFunction], PageFunction]:
        """Declare a page. `command` is what does the same at the command line."""
        return self._declare(path, "show", "GET", title=title, permission=permission, command=command)

    def submit(
        self, path: str, *, permission: str = "", most_bytes: int = MAX_FORM_BYTES
    ) -> Callable[[PageFunction], PageFunction]:
        """Declare what a form of at most so many bytes is sent to."""
        return self._declare(path, "submit", "POST", permission=permission, most_bytes=most_bytes)

    def open(self, path: str, *, method: str = "GET") -> Callable[[OpenFunction], OpenFunction]:
        """Declare what answers without a session."""

        def declare(function: OpenFunction) -> OpenFunction:
            async def answer(request: Request) -> Response:
                return await _answer_open(function, request)

            route = PageRoute(
                self,
                path,
                "open",
                answer,
                method=method,
                title="",
                permission="",
                command="",
                function_name=getattr(function, "__name__", ""),
            )
            self.routes.append(route)
            return function

        return declare

    def _declare(
        self,
        path: str,
        kind: PageKind,
        method: str,
        *,
        title: str = "",
        permission: str = "",
        command: str = "",
        most_bytes: int = MAX_FORM_BYTES,
    ) -> Callable[[PageFunction], PageFunction]:
        def declare(function: PageFunction) -> PageFunction:
            async def answer(request: Request) -> Response:
                return await _answer_page(function, request)

            route = PageRoute(
                self,
                path,
                kind,
                answer,
                method=method,
                title=title,
                permission=permission,
                command=command,
                function_name=getattr(function, "__name__", ""),
                most_bytes=most_bytes,
            )
            self.routes.append(route)
            return function

        return declare


def find_next_address(request: Request) -> str:
    """Where to go after signing in: the address of ours that the query names, else the first page."""
    address = request.query_params.get("next", "")
    return address if OWN_ADDRESS.fullmatch(address) else HOME_PATH


def find_language(request: Request) -> Language:
    accepted_languages = read_accepted_languages(request.headers.get("accept-language"))
    return choose_language(request.query_params.get("lang"), request.cookies.get(LANGUAGE_COOKIE), accepted_languages)


async def read_plain_form(request: Request, most: int) -> dict[str, str]:
    """The fields of a form without files, of at most so many bytes. Nothing is checked of who sent it."""
    return _parse_fields(await _read_bounded(request, most))


async def _answer_open(function: OpenFunction, request: Request) -> Response:
    language = find_language(request)
    service: Service = request.app.state.service
    await service.admission.wait_as_stranger(find_address(request.scope), request.state.meter)
    try:
        response = await function(request, language)
    except Exception as error:  # noqa: BLE001 (whatever it is, it is logged and answered with a page)
        response = answer_error(request, language, error)
    return _finish(request, response)


async def _answer_page(function: PageFunction, request: Request) -> Response:
    language = find_language(request)
    try:
        secret = read_session_cookie(request)
        if secret is None:
            return _finish(request, _send_to_sign_in(request))
        caller = await _authenticate(request, secret)
        visit = await _open_visit(request, language, secret, caller)
        try:
            response = await function(visit)
        except SessionOver:
            raise
        except Exception as error:  # noqa: BLE001
            response = answer_error(request, language, error, visit=visit)
    except AskProviderAgain:
        response = _send_to_provider(request)
    except Unauthorized:
        response = _send_to_sign_in(request)
        clear_session_cookie(request, response)
    except Exception as error:  # noqa: BLE001
        response = answer_error(request, language, error)
    return _finish(request, response)


async def _authenticate(request: Request, secret: SessionSecret) -> SessionCaller:
    service: Service = request.app.state.service
    now = clock.now()
    turn = service.admission.admit(secret, find_address(request.scope), request.state.meter)
    async with turn, service.database.plain() as conn:
        caller = await authenticate_session(service, conn, request, secret, now, with_old_roles=True)
        await record_use(conn, caller, now)
    if caller.issuer is None:
        return caller
    await read_roles_again(service, request, caller, now)
    async with service.database.plain() as conn:
        return await authenticate_session(service, conn, request, secret, clock.now())


async def _open_visit(request: Request, language: Language, secret: SessionSecret, caller: SessionCaller) -> Visit:
    route: PageRoute = request.scope["route"]
    form = SentForm(fields={}, idempotency_key="")
    if route.kind == "submit":
        form = await _read_form(request, secret)
    notice = route.family.notices.get(request.query_params.get("done", ""), "")
    frame = PageFrame(
        title=translate(language, route.title),
        section=find_section(request.url.path),
        menu=(),
        address=request.url.path,
        actor=caller.actor_name,
        tenant=caller.tenant_name,
        token=secret.make_form_token(),
        command=route.command,
        notice=translate(language, notice) if notice else "",
    )
    visit = Visit(
        request=request,
        caller=caller,
        secret=secret,
        language=language,
        api=ApiCalls(request, secret),
        frame=frame,
        form=form,
    )
    return visit.with_menu(list_menu(request.app.state.console_paths, visit.may))


async def _read_form(request: Request, secret: SessionSecret) -> SentForm:
    """Read a form that a page of this very session sent. Raises `ForeignRequest` for any other."""
    require_same_origin(request)
    service: Service = request.app.state.service
    route: PageRoute = request.scope["route"]
    content_type = request.headers.get("content-type", "")
    media_type, _ = parse_header(content_type)
    most = service.settings.upload_max_bytes + FORM_OVERHEAD_BYTES if media_type == MULTIPART else route.most_bytes
    content = await _read_bounded(request, most)
    file, fields = None, {}
    if media_type == MULTIPART:
        upload = split_form(content_type, content)
        file, fields = upload.file, dict(upload.fields)
    else:
        fields = _parse_fields(content)
    if not secret.accepts_form_token(fields.pop(TOKEN_FIELD, "")):
        raise ForeignRequest
    return SentForm(idempotency_key=fields.pop(KEY_FIELD, ""), fields=fields, file=file)


async def _read_bounded(request: Request, most: int) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise RequestTooLarge(most)
        parts.append(part)
    return b"".join(parts)


def _parse_fields(content: bytes) -> dict[str, str]:
    try:
        return dict(parse_qsl(content.decode(), keep_blank_values=True, max_num_fields=1000))
    except ValueError:
        raise Invalid("the form could not be read", fix="load the page again and send it from there") from None


def _send_to_sign_in(request: Request) -> Response:
    address = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    goes_on = request.method == "GET" and "hx-request" not in request.headers and address != HOME_PATH
    target = f"{SIGN_IN_PATH}?next={quote(address)}" if goes_on else SIGN_IN_PATH
    if "hx-request" in request.headers:
        return Response(status_code=401, headers={"HX-Redirect": target})
    return RedirectResponse(target, status_code=303)


def _send_to_provider(request: Request) -> Response:
    """Let the browser ask the provider which groups its person is in, and come back: to the page that sent a form."""
    address = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    if request.method != "GET" or "hx-request" in request.headers:
        page = urlsplit(request.headers.get("referer", ""))
        address = page.path + (f"?{page.query}" if page.query else "")
    target = f"{SIGN_IN_AGAIN_PATH}?next={quote(address)}"
    if "hx-request" in request.headers:
        return Response(status_code=401, headers={"HX-Redirect": target})
    return RedirectResponse(target, status_code=303)


def _finish(request: Request, response: Response) -> Response:
    """Add what every answer of the console has."""
    for name, value in PAGE_HEADERS.items():
        response.headers.setdefault(name, value)
    language = request.query_params.get("lang", "")
    if language in LANGUAGES:
        response.set_cookie(
            LANGUAGE_COOKIE, language, max_age=31_536_000, secure=is_secure(request), samesite="lax", path=HOME_PATH
        )
    return response


def list_paths(families: Any) -> frozenset[str]:
    """The paths that pages answer."""
    return frozenset(route.path for family in families for route in family.routes if route.kind == "show")
