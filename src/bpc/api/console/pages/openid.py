"""/console/sign-in/…: signing in with a provider (OpenID Connect, authorization code with PKCE).

    with/<provider>   a new state, nonce and verifier in a cookie; the browser goes to the provider
    back/<provider>   it comes back with a code: state, issuer, code, ID token, groups; then a new session begins
    again             the same without a question (prompt=none), for a session whose roles have to be read again

Each provider has an address of its own to come back to, which the cookie names too: an answer of one provider cannot be
taken for one of another. https://www.rfc-editor.org/rfc/rfc9700#section-4.4
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from bpc.api.console.devices import describe_device
from bpc.api.console.page_routes import SIGN_IN_AGAIN_PATH, SIGN_IN_PATH, PageFamily, find_next_address
from bpc.api.console.rendering import PageFrame, render_page
from bpc.api.console.role_reading import (
    end_session,
    find_provider,
    list_kept_tokens,
    renew_roles,
    seal_tokens,
)
from bpc.api.console.session_cookie import (
    find_attempt_cookie_name,
    find_own_address,
    is_secure,
    read_session_cookie,
    set_session_cookie,
)
from bpc.api.console.translations import N_, translate
from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act
from bpc.core.catalogue.number_format import Language
from bpc.core.console_access import LinkRefused, SessionSecret
from bpc.core.errors import NotFound
from bpc.core.formats.ids import ConsoleSessionId
from bpc.core.openid.attempt import ATTEMPT_ENTROPY_BYTES, ATTEMPT_VALID_FOR, SignInAttempt, SignInRefused
from bpc.core.openid.id_token import ProvenIdentity
from bpc.core.openid.providers import TenantGroups, hash_identity
from bpc.core.secret_box import NONCE_BYTES
from bpc.outbound.openid import NOT_SIGNED_IN, OpenIdClient, Tokens
from bpc.runtime import clock
from bpc.runtime.logs import get_logger
from bpc.storage.access import actor_identities, console_sessions, tenants_and_actors
from bpc.storage.access.console_sessions import SessionCaller

log = get_logger(__name__)
pages = PageFamily("openid")

LONGEST_NAME: Final = 200
TITLE: Final = N_("Choose where to work")
# What may be wrong with an answer, for translators; `SignInRefused` says it.
PROBLEMS: Final = (
    N_("this browser has not begun to sign in, or its cookie was changed"),
    N_("signing in took longer than ten minutes"),
    N_("the answer belongs to another sign-in"),
    N_("the answer is from another provider"),
    N_("the provider did not sign you in"),
    N_("this answer was used already"),
    N_("none of your groups opens this installation"),
    N_("the provider did not accept this sign-in, or does not accept it any more"),
)


@pages.open(f"{SIGN_IN_PATH}/with/{{provider}}")
async def begin_sign_in(request: Request, language: Language) -> Response:  # noqa: ARG001 (of the protocol)
    client = _find_client(request, request.path_params["provider"])
    return await _send_to_provider(request, client, tenant=request.query_params.get("tenant", ""))


@pages.open(SIGN_IN_AGAIN_PATH)
async def begin_silent_sign_in(request: Request, language: Language) -> Response:  # noqa: ARG001
    """Ask the provider of this session again, without a question to the person."""
    caller = await _find_session(request)
    client = None if caller is None else find_provider(request.app.state.service, caller.issuer)
    if caller is None or client is None:
        return RedirectResponse(f"{SIGN_IN_PATH}?next={quote(find_next_address(request))}", status_code=303)
    return await _send_to_provider(request, client, tenant=caller.tenant_slug, is_silent=True)


@pages.open(f"{SIGN_IN_PATH}/back/{{provider}}")
async def finish_sign_in(request: Request, language: Language) -> Response:
    """Exchange the provider's answer for a session. It is always a new one, unless it only reads roles again."""
    service: Service = request.app.state.service
    client = _find_client(request, request.path_params["provider"])
    cookie = request.cookies.get(find_attempt_cookie_name(request), "")
    attempt = SignInAttempt.open(cookie, service.secret_box, clock.now())
    query = request.query_params
    if attempt.provider != client.provider.name or not attempt.accepts_state(query.get("state", "")):
        raise SignInRefused("the answer belongs to another sign-in")
    await client.require_issuer(query.get("iss"))
    if "code" not in query:
        response = await _refuse(request, attempt, query.get("error", ""))
    else:
        tokens = await client.redeem_code(query["code"], attempt, _name_return_address(request, client))
        identity = await client.identify(tokens, nonce=attempt.nonce)
        response = await _let_in(request, language, client, attempt, tokens, identity)
    response.delete_cookie(
        find_attempt_cookie_name(request), secure=is_secure(request), httponly=True, samesite="lax", path="/"
    )
    return response


async def _send_to_provider(
    request: Request, client: OpenIdClient, *, tenant: str, is_silent: bool = False
) -> Response:
    service: Service = request.app.state.service
    cookie_name = find_attempt_cookie_name(request)  # where no session may be, the page says so
    attempt = SignInAttempt.begin(
        clock.random_bytes(ATTEMPT_ENTROPY_BYTES),
        clock.now(),
        provider=client.provider.name,
        address=find_next_address(request),
        tenant=tenant,
        is_silent=is_silent,
    )
    address = await client.make_sign_in_address(attempt, _name_return_address(request, client))
    response = RedirectResponse(address, status_code=303)
    response.set_cookie(
        cookie_name,
        attempt.seal(service.secret_box, clock.random_bytes(NONCE_BYTES)),
        max_age=int(ATTEMPT_VALID_FOR.total_seconds()),
        secure=is_secure(request),
        httponly=True,
        samesite="lax",
        path="/",
    )
    return response


async def _refuse(request: Request, attempt: SignInAttempt, error: str) -> Response:
    """The provider signed nobody in. A session that wanted its roles read is over then."""
    log.warning("a provider signed nobody in", provider=attempt.provider, error=error[:100])
    if not (attempt.is_silent and error in NOT_SIGNED_IN):
        raise SignInRefused("the provider did not sign you in")
    caller = await _find_session(request)
    if caller is not None:
        await end_session(request.app.state.service, caller)
    return RedirectResponse(f"{SIGN_IN_PATH}?next={quote(attempt.address)}", status_code=303)


async def _let_in(
    request: Request,
    language: Language,
    client: OpenIdClient,
    attempt: SignInAttempt,
    tokens: Tokens,
    identity: ProvenIdentity,
) -> Response:
    """Begin a session in the tenant that the groups open; ask which one if there are several."""
    service: Service = request.app.state.service
    former = await _find_session(request)
    if attempt.is_silent and former is not None and former.issuer == identity.issuer:
        return await _go_on(service, former, client, attempt, tokens, identity)
    groups = client.provider.read_groups(identity.claims) or frozenset()
    bindings = [each for each in client.provider.find_tenants(groups) if attempt.tenant in {"", each.slug}]
    if len(bindings) > 1:
        return _offer_tenants(request, language, client, attempt, bindings)
    secret = None
    if bindings:
        secret = await _start_session(request, client, attempt, tokens, identity, bindings[0])
    if secret is None:
        raise SignInRefused(
            "none of your groups opens this installation", fix="ask whoever administers your groups for one that does"
        )
    if former is not None:
        await end_session(service, former)
    response = RedirectResponse(attempt.address, status_code=303)
    set_session_cookie(request, response, secret)
    return response


async def _start_session(
    request: Request,
    client: OpenIdClient,
    attempt: SignInAttempt,
    tokens: Tokens,
    identity: ProvenIdentity,
    binding: TenantGroups,
) -> SessionSecret | None:
    """Begin a session; None if the groups give no role that the tenant has."""
    service: Service = request.app.state.service
    tenant = (await tenants_and_actors.find_tenant(service.database, binding.slug)).tenant_id
    names = binding.list_roles(client.provider.read_groups(identity.claims) or ())
    now = clock.now()
    async with service.database.tenant(tenant) as conn:
        if not await actor_identities.list_given_roles(conn, tenant, names, administration=binding.administration):
            return None
        actor = await actor_identities.find_or_create_person(
            conn,
            tenant,
            hash_identity(identity.issuer, identity.subject),
            issuer=identity.issuer,
            display_name=_find_name(client, identity.claims),
            act=Act(None, now),
        )
        await actor_identities.follow_groups(
            conn, tenant, actor, names, administration=binding.administration, act=Act(None, now)
        )
        try:
            return await console_sessions.start_session(
                conn,
                tenant,
                actor,
                sign_in="OIDC",
                link_hash=attempt.hash(),
                device=describe_device(request.headers.get("user-agent", "")),
                valid_for=timedelta(hours=service.settings.console_session_hours),
                act=Act(actor, now),
                issuer=identity.issuer,
                seal_tokens=lambda session: seal_tokens(service.secret_box, session, list_kept_tokens(tokens)),
            )
        except LinkRefused:
            raise SignInRefused("this answer was used already") from None


async def _go_on(
    service: Service,
    caller: SessionCaller,
    client: OpenIdClient,
    attempt: SignInAttempt,
    tokens: Tokens,
    identity: ProvenIdentity,
) -> Response:
    """The session goes on with the roles of now. If the provider speaks of somebody else, it is over."""
    session = ConsoleSessionId(caller.api_key_id)
    async with service.database.tenant(caller.tenant_id) as conn:
        if await renew_roles(conn, caller, client.provider, identity.claims):
            sealed_tokens = seal_tokens(service.secret_box, session, list_kept_tokens(tokens))
            await console_sessions.record_reading(conn, caller.tenant_id, session, clock.now(), sealed_tokens)
    return RedirectResponse(attempt.address, status_code=303)


def _offer_tenants(
    request: Request,
    language: Language,
    client: OpenIdClient,
    attempt: SignInAttempt,
    bindings: Sequence[TenantGroups],
) -> Response:
    address = f"{SIGN_IN_PATH}/with/{client.provider.name}?next={quote(attempt.address, safe='')}"
    frame = PageFrame(title=translate(language, TITLE), section="", menu=(), address=request.url.path)
    context = {
        "frame": frame,
        "choices": [{"slug": each.slug, "href": f"{address}&tenant={quote(each.slug)}"} for each in bindings],
        "calls": [],
        "command": "",
    }
    return HTMLResponse(render_page("openid/choose.html.jinja", language, context))


async def _find_session(request: Request) -> SessionCaller | None:
    """The session of this browser if it is not over, whatever its roles are."""
    secret = read_session_cookie(request)
    service: Service = request.app.state.service
    if secret is None:
        return None
    async with service.database.plain() as conn:
        caller = await console_sessions.find_session_caller(conn, secret)
    idle = timedelta(minutes=service.settings.console_idle_minutes)
    if caller is None or not secret.matches(caller.key_hash) or not caller.is_active:
        return None
    return None if console_sessions.is_caller_over(caller, idle=idle, now=clock.now()) else caller


def _find_client(request: Request, name: str) -> OpenIdClient:
    service: Service = request.app.state.service
    client = service.providers.get(name)
    if client is None:
        raise NotFound("there is no such provider", fix="sign in from the first page")
    return client


def _name_return_address(request: Request, client: OpenIdClient) -> str:
    return f"{find_own_address(request)}{SIGN_IN_PATH}/back/{client.provider.name}"


def _find_name(client: OpenIdClient, claims: Any) -> str:
    """The name to show, not a way to know somebody: it may be anything."""
    name = claims.get(client.provider.name_claim)
    return name.strip()[:LONGEST_NAME] if isinstance(name, str) and name.strip() else client.provider.label
