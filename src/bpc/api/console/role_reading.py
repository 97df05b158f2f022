"""Asks a provider again which groups somebody is in, at least every five minutes.

    a page after four minutes ─► refresh token ─► the provider ─► groups ─► roles of the actor
                                    └─ none, or refused ─► the browser goes there itself, unasked (prompt=none)

After five minutes a session without an answer opens nothing (`authenticate_session`): also if the provider is down.
Whoever is in no group that gives a role is signed out everywhere.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from starlette.requests import Request

from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act
from bpc.core.console_access import SessionOver
from bpc.core.formats.ids import ConsoleSessionId
from bpc.core.openid.attempt import SignInRefused
from bpc.core.openid.providers import OidcProvider, TenantGroups, hash_identity
from bpc.core.secret_box import NONCE_BYTES, SecretBox
from bpc.outbound import OutboundFailed
from bpc.outbound.openid import OpenIdClient, Tokens
from bpc.runtime import clock
from bpc.storage.access import actor_identities, console_sessions
from bpc.storage.access.console_sessions import SessionCaller, has_old_roles
from bpc.storage.connection import Connection

READ_AFTER: Final = timedelta(minutes=4)
PATIENCE: Final = timedelta(seconds=15)
WAIT_STEP_SECONDS: Final = 0.1


class AskProviderAgain(Exception):
    """Only the browser can ask the provider."""


async def read_roles_again(service: Service, request: Request, caller: SessionCaller, now: datetime) -> None:
    """Ask the provider of a session, if it is time to. Raises `SessionOver`, `AskProviderAgain`, `OutboundFailed`."""
    if not has_old_roles(caller, now, age=READ_AFTER):
        return
    must_know = has_old_roles(caller, now)
    client = find_provider(service, caller.issuer)
    if client is None:
        await end_session(service, caller)
        raise SessionOver
    session = ConsoleSessionId(caller.api_key_id)
    async with service.database.tenant(caller.tenant_id) as conn:
        claim = await console_sessions.claim_reading(conn, caller, now, patience=PATIENCE)
    if claim is None:
        if must_know:
            await _wait_for_other_request(service, caller, session)
        return
    try:
        await _ask_provider(service, caller, client, session, claim["provider_tokens"])
    except (AskProviderAgain, OutboundFailed) as problem:
        async with service.database.tenant(caller.tenant_id) as conn:
            await console_sessions.release_reading(conn, caller.tenant_id, session)
        # A form or a part of a page goes on while it may; a page is shown again after the way to the provider.
        is_page = request.method == "GET" and "hx-request" not in request.headers
        if must_know or (is_page and isinstance(problem, AskProviderAgain)):
            raise


async def _ask_provider(
    service: Service, caller: SessionCaller, client: OpenIdClient, session: ConsoleSessionId, sealed_tokens: str | None
) -> None:
    """Refresh the tokens and give the roles of the groups of now. Raises `AskProviderAgain` if only the browser can."""
    tokens = open_tokens(service.secret_box, session, sealed_tokens)
    if "refresh_token" not in tokens:
        raise AskProviderAgain
    try:
        answer = await client.refresh(tokens["refresh_token"])
        claims = await client.identify_again(answer)
    except SignInRefused:
        raise AskProviderAgain from None
    new_tokens = seal_tokens(service.secret_box, session, {**tokens, **list_kept_tokens(answer)})
    async with service.database.tenant(caller.tenant_id) as conn:
        is_in = await renew_roles(conn, caller, client.provider, claims)
        if is_in:
            await console_sessions.record_reading(conn, caller.tenant_id, session, clock.now(), new_tokens)
    if not is_in:
        raise SessionOver


async def renew_roles(
    conn: Connection, caller: SessionCaller, provider: OidcProvider, claims: Mapping[str, Any]
) -> bool:
    """Give the actor the roles of its groups now. Without any, it is signed out everywhere, and this is false."""
    identity_hash = hash_identity(provider.issuer, str(claims.get("sub")))
    roles: Sequence[str] = ()
    act = Act(None, clock.now())
    if await actor_identities.find_person(conn, caller.tenant_id, identity_hash) == caller.actor_id:
        groups = provider.read_groups(claims) or frozenset()
        binding = find_binding(provider, caller.tenant_slug)
        names = [] if binding is None else binding.list_roles(groups)
        administration = binding is not None and binding.administration
        roles = await actor_identities.follow_groups(
            conn, caller.tenant_id, caller.actor_id, names, administration=administration, act=act
        )
    if not roles:
        await console_sessions.end_sessions(conn, caller.tenant_id, actor=caller.actor_id, act=act)
    return bool(roles)


async def end_session(service: Service, caller: SessionCaller) -> None:
    async with service.database.tenant(caller.tenant_id) as conn:
        act, session = Act(None, clock.now()), ConsoleSessionId(caller.api_key_id)
        await console_sessions.end_sessions(conn, caller.tenant_id, session=session, act=act)


def find_provider(service: Service, issuer: str | None) -> OpenIdClient | None:
    return next((client for client in service.providers.values() if client.provider.issuer == issuer), None)


def find_binding(provider: OidcProvider, slug: str) -> TenantGroups | None:
    """What the groups of this provider give in a tenant; None if it is not bound to it."""
    return next((tenant for tenant in provider.tenants if tenant.slug == slug), None)


def seal_tokens(box: SecretBox, session: ConsoleSessionId, tokens: Mapping[str, str]) -> str | None:
    """The tokens as they are stored; None if there are none."""
    if not tokens:
        return None
    return box.seal(json.dumps(tokens), context=_name_context(session), nonce=clock.random_bytes(NONCE_BYTES))


def open_tokens(box: SecretBox, session: ConsoleSessionId, sealed_tokens: str | None) -> dict[str, str]:
    tokens: dict[str, str] = (
        {} if sealed_tokens is None else json.loads(box.open(sealed_tokens, context=_name_context(session)))
    )
    return tokens


def list_kept_tokens(tokens: Tokens) -> dict[str, str]:
    """What a session keeps: the refresh token to ask again, the ID token to sign out with."""
    texts = {"refresh_token": tokens.refresh_token, "id_token": tokens.id_token}
    return {name: token for name, token in texts.items() if token is not None}


def _name_context(session: ConsoleSessionId) -> str:
    return f"console session {session}"


async def _wait_for_other_request(service: Service, caller: SessionCaller, session: ConsoleSessionId) -> None:
    """Wait until the request that asks the provider has written what it said."""
    for _ in range(int(PATIENCE.total_seconds() / WAIT_STEP_SECONDS)):
        await asyncio.sleep(WAIT_STEP_SECONDS)
        async with service.database.tenant(caller.tenant_id) as conn:
            if await console_sessions.is_reading_done(conn, caller.tenant_id, session, caller.roles_read_at):
                return
    raise OutboundFailed("the provider did not answer in time", fix="try again")
