"""A provider of OpenID Connect over the network: what it says of itself, its keys, its tokens. All through the guard.

    client = OpenIdClient(provider, guard)
    address = await client.make_sign_in_address(attempt, redirect_uri)    # the browser goes there
    tokens = await client.redeem_code(code, attempt, redirect_uri)        # and comes back with a code
    identity = await client.identify(tokens, nonce=attempt.nonce)

What the provider says of itself is kept for ten minutes. A token with a key that is not known yet makes the keys be
read again, at most twice a minute: providers replace their keys, and nobody may make us ask them all day.
"""

import asyncio
import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import quote, urlencode

from bpc.core.errors import Refusal
from bpc.core.openid.attempt import SignInAttempt, SignInRefused
from bpc.core.openid.id_token import KeyUnknown, ProvenIdentity, verify_id_token
from bpc.core.openid.providers import OidcProvider
from bpc.outbound.guard import Guard, OutboundAnswer, OutboundFailed
from bpc.runtime import clock
from bpc.runtime.logs import get_logger
from bpc.runtime.openid_file import load_providers
from bpc.runtime.settings import Settings

log = get_logger(__name__)

KEPT_FOR: Final = timedelta(minutes=10)
KEYS_AT_MOST_EVERY: Final = timedelta(seconds=30)
PROVIDER_SECONDS: Final = 10.0
MAX_ANSWER_BYTES: Final = 1_048_576
WELL_KNOWN: Final = "/.well-known/openid-configuration"
FORM: Final = "application/x-www-form-urlencoded"
NEEDED: Final = ("authorization_endpoint", "token_endpoint", "jwks_uri")
# Errors of a provider after which nobody is signed in any more; others may pass. RFC 6749 5.2, Core 3.1.2.6
NOT_SIGNED_IN: Final = frozenset(
    {"invalid_grant", "login_required", "interaction_required", "consent_required", "account_selection_required"}
)


def open_providers(settings: Settings) -> Mapping[str, "OpenIdClient"]:
    """The providers of this installation by their names. They are asked for the first time when somebody signs in."""
    guard = Guard(
        allow=settings.outbound_allow,
        https_only=settings.env == "prod",
        http_to_allowed=settings.env != "prod",
        max_seconds=PROVIDER_SECONDS,
    )
    return {provider.name: OpenIdClient(provider, guard) for provider in load_providers(settings)}


class ProviderUnusable(OutboundFailed):
    """The provider answers, and not with what a provider has to answer."""

    def __init__(self, provider: OidcProvider, says: str) -> None:
        super().__init__(f"the provider `{provider.name}` {says}", fix="ask who runs it; `bpc doctor` checks it")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """What a provider gave for a code or a refresh token."""

    access_token: str = field(repr=False)
    id_token: str | None = field(default=None, repr=False)
    refresh_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Metadata:
    content: Mapping[str, Any]
    keys: Sequence[Mapping[str, Any]]
    read_at: datetime


class OpenIdClient:
    """One provider, and what it said of itself."""

    def __init__(self, provider: OidcProvider, guard: Guard) -> None:
        self.provider = provider
        self._guard = guard
        self._lock = asyncio.Lock()
        self._metadata: _Metadata | None = None

    async def load_metadata(self, *, not_older_than: timedelta = KEPT_FOR) -> _Metadata:
        """What the provider says of itself, and its keys. Raises `OutboundFailed`."""
        async with self._lock:
            metadata = self._metadata
            if metadata is None or metadata.read_at + not_older_than <= clock.now():
                self._metadata = metadata = await self._read_metadata()
            return metadata

    async def make_sign_in_address(self, attempt: SignInAttempt, redirect_uri: str) -> str:
        """Where the browser signs in, and with what it says there."""
        metadata = await self.load_metadata()
        parameters = {
            "response_type": "code",
            "client_id": self.provider.client_id,
            "redirect_uri": redirect_uri,
            "scope": " ".join(self.provider.scopes),
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": attempt.challenge,
            "code_challenge_method": "S256",
        }
        if attempt.is_silent:
            parameters["prompt"] = "none"
        if self.provider.required_acr:
            parameters["acr_values"] = " ".join(self.provider.required_acr)
        return _extend(metadata.content["authorization_endpoint"], parameters)

    async def make_sign_out_address(self, id_token: str | None, return_address: str) -> str | None:
        """Where the browser signs out of the provider too; None if it offers no such place."""
        endpoint = (await self.load_metadata()).content.get("end_session_endpoint")
        if not isinstance(endpoint, str):
            return None
        parameters = {"client_id": self.provider.client_id, "post_logout_redirect_uri": return_address}
        return _extend(endpoint, parameters if id_token is None else {**parameters, "id_token_hint": id_token})

    async def require_issuer(self, issuer: str | None) -> None:
        """Refuse an answer that another provider sent here. RFC 9207 2.4."""
        metadata = await self.load_metadata()
        must_name = metadata.content.get("authorization_response_iss_parameter_supported") is True
        if issuer != self.provider.issuer and (issuer is not None or must_name):
            raise SignInRefused("the answer is from another provider")

    async def redeem_code(self, code: str, attempt: SignInAttempt, redirect_uri: str) -> Tokens:
        grant = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri}
        return await self._ask_for_tokens(grant | {"code_verifier": attempt.verifier})

    async def refresh(self, refresh_token: str) -> Tokens:
        return await self._ask_for_tokens({"grant_type": "refresh_token", "refresh_token": refresh_token})

    async def identify(self, tokens: Tokens, *, nonce: str) -> ProvenIdentity:
        """Who signed in, with all claims: those of the ID token, and of the provider's page about the person."""
        if tokens.id_token is None:
            raise SignInRefused("the provider sent no ID token")
        identity = await self._verify(tokens, nonce=nonce)
        if self.provider.read_groups(identity.claims) is not None:
            return identity
        return await self._add_user_info(tokens, identity)

    async def identify_again(self, tokens: Tokens) -> Mapping[str, Any]:
        """What the provider says now of somebody who is signed in: `sub`, groups, name.

        The page about the person is asked first: some providers repeat in a refreshed ID token what was true before.
        """
        claims = await self._read_user_info(tokens)
        if claims is not None and self.provider.read_groups(claims) is not None:
            return claims
        if tokens.id_token is None:
            raise SignInRefused("the provider no longer says which groups you are in")
        identity = await self._verify(tokens, nonce=None)
        if claims is not None and claims.get("sub") != identity.subject:
            raise SignInRefused("the provider speaks of somebody else")
        return identity.claims

    async def _verify(self, tokens: Tokens, *, nonce: str | None) -> ProvenIdentity:
        async def verify(keys: Sequence[Mapping[str, Any]]) -> ProvenIdentity:
            return verify_id_token(
                tokens.id_token or "",
                self.provider,
                keys,
                clock.now(),
                nonce=nonce,
                access_token=tokens.access_token,
                check_level=nonce is not None,
            )

        try:
            return await verify((await self.load_metadata()).keys)
        except KeyUnknown:
            return await verify((await self.load_metadata(not_older_than=KEYS_AT_MOST_EVERY)).keys)

    async def _add_user_info(self, tokens: Tokens, identity: ProvenIdentity) -> ProvenIdentity:
        claims = await self._read_user_info(tokens)
        if claims is None:
            return identity
        if claims.get("sub") != identity.subject:  # Core 5.3.2
            raise SignInRefused("the provider speaks of somebody else")
        return ProvenIdentity(issuer=identity.issuer, subject=identity.subject, claims={**claims, **identity.claims})

    async def _read_user_info(self, tokens: Tokens) -> Mapping[str, Any] | None:
        """The provider's page about the person; None if it has none."""
        endpoint = (await self.load_metadata()).content.get("userinfo_endpoint")
        if not isinstance(endpoint, str):
            return None
        headers = {"Authorization": f"Bearer {tokens.access_token}", "Accept": "application/json"}
        answer = await self._send("GET", endpoint, headers=headers)
        if answer.status in {401, 403}:
            raise SignInRefused("the provider does not know you any more")
        return self._read_json(answer, "did not say who somebody is")

    async def _ask_for_tokens(self, grant: Mapping[str, str]) -> Tokens:
        metadata = await self.load_metadata()
        headers, fields = {"Content-Type": FORM, "Accept": "application/json"}, dict(grant)
        secret = self.provider.client_secret
        methods = metadata.content.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        if secret is not None and "client_secret_basic" in methods:  # RFC 6749 2.3.1: both are encoded first
            pair = f"{quote(self.provider.client_id, safe='')}:{quote(secret, safe='')}"
            headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        else:
            fields["client_id"] = self.provider.client_id
            fields |= {} if secret is None else {"client_secret": secret}
        endpoint = metadata.content["token_endpoint"]
        answer = await self._send("POST", endpoint, headers=headers, content=urlencode(fields).encode())
        if 400 <= answer.status < 500:
            raise self._explain_error(answer)
        content = self._read_json(answer, "gave no tokens")
        if str(content.get("token_type", "")).lower() != "bearer" or not isinstance(content.get("access_token"), str):
            raise ProviderUnusable(self.provider, "gave no tokens that we can use")
        texts = {name: value for name in ("id_token", "refresh_token") if isinstance(value := content.get(name), str)}
        return Tokens(access_token=content["access_token"], **texts)

    def _explain_error(self, answer: OutboundAnswer) -> Refusal:
        try:
            error = str(json.loads(answer.body)["error"])
        except (ValueError, KeyError, TypeError):
            error = ""
        log.warning("a provider refused", provider=self.provider.name, status=answer.status, error=error[:100])
        if error in NOT_SIGNED_IN:
            return SignInRefused("the provider did not accept this sign-in, or does not accept it any more")
        return ProviderUnusable(self.provider, f"refused us with `{error[:100] or answer.status}`")

    async def _read_metadata(self) -> _Metadata:
        issuer = self.provider.issuer
        answer = await self._send("GET", issuer.removesuffix("/") + WELL_KNOWN)
        content = self._read_json(answer, "does not describe itself")
        if content.get("issuer") != issuer:  # OpenID Connect Discovery 4.3
            raise ProviderUnusable(self.provider, "calls itself by another issuer")
        if not all(isinstance(content.get(name), str) for name in NEEDED):
            raise ProviderUnusable(self.provider, "does not name all of its addresses")
        document = self._read_json(await self._send("GET", content["jwks_uri"]), "does not publish its keys")
        keys = document.get("keys")
        if not isinstance(keys, list):
            raise ProviderUnusable(self.provider, "does not publish its keys")
        return _Metadata(content=content, keys=[key for key in keys if isinstance(key, dict)], read_at=clock.now())

    async def _send(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, content: bytes = b""
    ) -> OutboundAnswer:
        return await self._guard.send(
            method, url, headers=headers, content=content, timeout=PROVIDER_SECONDS, max_bytes=MAX_ANSWER_BYTES
        )

    def _read_json(self, answer: OutboundAnswer, says: str) -> Mapping[str, Any]:
        try:
            content = json.loads(answer.body) if answer.status == 200 and not answer.is_truncated else None
        except ValueError:
            content = None
        if not isinstance(content, dict):
            raise ProviderUnusable(self.provider, says)
        return content


def _extend(address: str, parameters: Mapping[str, str]) -> str:
    return f"{address}{'&' if '?' in address else '?'}{urlencode(parameters)}"
