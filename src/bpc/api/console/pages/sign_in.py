"""/console/sign-in: a sign-in link becomes a session; and the files of pages, which need none."""

from datetime import timedelta
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from bpc.api.console.assets import find_console_asset
from bpc.api.console.devices import describe_device
from bpc.api.console.page_routes import SIGN_IN_PATH, PageFamily, find_next_address, read_plain_form
from bpc.api.console.rendering import PageFrame, render_page
from bpc.api.console.role_reading import find_provider, open_tokens
from bpc.api.console.session_cookie import (
    clear_session_cookie,
    find_cookie_name,
    find_own_address,
    read_session_cookie,
    require_same_origin,
    set_session_cookie,
)
from bpc.api.console.translations import N_, translate
from bpc.api.console.visit import Visit
from bpc.api.http.etag import serve_bytes
from bpc.api.http.request_context import Service
from bpc.api.pages.public_site import FOR_EVER
from bpc.core.audit.events import Act
from bpc.core.catalogue.number_format import Language
from bpc.core.console_access import LinkRefused, SessionSecret, SignInLink
from bpc.core.errors import NotFound, Refusal
from bpc.runtime import clock
from bpc.storage.access import console_sessions

pages = PageFamily("sign_in")

MAX_FORM_BYTES: Final = 4_096
TITLE: Final = N_("Sign in")
# What may be wrong with a link, for translators; `LinkRefused` says it.
LINK_PROBLEMS: Final = (
    N_("this is not a sign-in link of the console"),
    N_("this sign-in link was not made by this installation"),
    N_("this sign-in link has expired"),
    N_("this sign-in link was used already"),
)


@pages.open(SIGN_IN_PATH)
async def show_sign_in(request: Request, language: Language) -> Response:
    find_cookie_name(request)  # where no session may be, the page says so
    return _render(request, language)


@pages.open(SIGN_IN_PATH, method="POST")
async def sign_in(request: Request, language: Language) -> Response:
    """Exchange a link for a session. It is always a new one, so nobody can have chosen its cookie."""
    find_cookie_name(request)
    require_same_origin(request)
    service: Service = request.app.state.service
    if service.settings.env == "prod":
        raise LinkRefused("sign-in links are not accepted here")
    text = (await read_plain_form(request, MAX_FORM_BYTES)).get("link", "")
    now = clock.now()
    try:
        link = SignInLink.read(text, service.peppers.accepted, now)
        async with service.database.tenant(link.tenant_id) as conn:
            secret = await console_sessions.start_session(
                conn,
                link.tenant_id,
                link.actor_id,
                sign_in="LINK",
                link_hash=link.hash(),
                device=describe_device(request.headers.get("user-agent", "")),
                valid_for=timedelta(hours=service.settings.console_session_hours),
                act=Act(link.actor_id, now),
            )
    except Refusal as refusal:
        if not isinstance(refusal, LinkRefused):
            raise
        return _render(request, language, problem=translate(language, refusal.says), status=401)
    await _end_former_session(request)
    return _enter(request, secret)


@pages.submit("/console/sign-out")
async def sign_out(visit: Visit) -> Response:
    """End this session; then sign out of its provider too, if it offers that."""
    tenant, session = visit.caller.tenant_id, visit.secret.session_id
    async with visit.service.database.tenant(tenant) as conn:
        sealed_tokens = await console_sessions.load_tokens(conn, tenant, session)
        act = Act(visit.caller.actor_id, clock.now())
        await console_sessions.end_sessions(conn, tenant, session=session, act=act)
    address = await _find_sign_out_address(visit, sealed_tokens)
    response: Response = RedirectResponse(SIGN_IN_PATH, status_code=303)
    if address is not None:
        # Not a redirect: the policy of our pages lets no form lead to another site.
        response = visit.render("openid/signed_out.html.jinja", address=address)
        response.headers["Refresh"] = f"0; url={address}"
    clear_session_cookie(visit.request, response)
    return response


async def _find_sign_out_address(visit: Visit, sealed_tokens: str | None) -> str | None:
    """Where the provider of this session signs out; None without one, and if it does not answer."""
    client = find_provider(visit.service, visit.caller.issuer)
    if client is None:
        return None
    tokens = open_tokens(visit.service.secret_box, visit.secret.session_id, sealed_tokens)
    try:
        return await client.make_sign_out_address(
            tokens.get("id_token"), f"{find_own_address(visit.request)}{SIGN_IN_PATH}"
        )
    except Refusal:
        return None


@pages.open("/console/assets/{name}")
async def get_console_asset(request: Request, language: Language) -> Response:  # noqa: ARG001 (of the protocol)
    asset = find_console_asset(request.path_params["name"])
    if asset is None:
        raise NotFound("there is no such file", fix="load the page again")
    return serve_bytes(asset.content, asset.media_type, request.headers.get("if-none-match"), cache=FOR_EVER)


def _enter(request: Request, secret: SessionSecret) -> Response:
    response = RedirectResponse(find_next_address(request), status_code=303)
    set_session_cookie(request, response, secret)
    return response


async def _end_former_session(request: Request) -> None:
    """Whoever signs in again in the same browser has no use for the session before."""
    former = read_session_cookie(request)
    service: Service = request.app.state.service
    if former is None:
        return
    async with service.database.plain() as conn:
        caller = await console_sessions.find_session_caller(conn, former)
    if caller is not None and former.matches(caller.key_hash) and caller.revoked_at is None:
        async with service.database.tenant(caller.tenant_id) as conn:
            act = Act(caller.actor_id, clock.now())
            await console_sessions.end_sessions(conn, caller.tenant_id, session=former.session_id, act=act)


def _render(request: Request, language: Language, *, problem: str = "", status: int = 200) -> Response:
    service: Service = request.app.state.service
    frame = PageFrame(title=translate(language, TITLE), section="", menu=(), address=request.url.path)
    context = {
        "frame": frame,
        "problem": problem,
        "providers": [
            {
                "name": client.provider.label,
                "href": f"{SIGN_IN_PATH}/with/{name}?next={quote(find_next_address(request), safe='')}",
            }
            for name, client in service.providers.items()
        ],
        "takes_links": service.settings.env != "prod",
        "next": find_next_address(request),
        "calls": [],
        "command": "",
    }
    return HTMLResponse(render_page("sign_in/sign_in.html.jinja", language, context), status_code=status)
