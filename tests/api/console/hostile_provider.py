"""A provider in this process whose every answer a test may falsify: what real providers refuse to send."""

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import httpx2
from joserfc import jws
from joserfc.jwk import RSAKey

from bpc.api.http.app import create_app
from bpc.api.http.request_context import Service
from bpc.core.formats.hashes import sha256
from bpc.core.openid.providers import OidcProvider, TenantGroups
from bpc.outbound import Guard, OutboundAnswer, OutboundFailed
from bpc.outbound.openid import OpenIdClient
from bpc.runtime import clock
from tests.api.console.conftest import Browser

ISSUER: Final = "https://login.example"
CLIENT: Final = "bpc"
BACK: Final = "/console/sign-in/back/company"


def encode(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def make_key(kid: str) -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": kid, "use": "sig", "alg": "RS256"})


@dataclass(kw_only=True)
class HostileProvider:
    """`claims` replace those of the ID token (None leaves one out); `forge` replaces the signed token itself."""

    issuer: str = ISSUER
    key: RSAKey = field(default_factory=lambda: make_key("one"))
    published: list[RSAKey] = field(default_factory=list)
    groups: list[str] = field(default_factory=lambda: ["officers"])
    subject: str = "person-1"
    claims: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    forge: Callable[[str], str] = lambda token: token
    gives_refresh_token: bool = True
    is_down: bool = False
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    def authorize(self, address: str) -> dict[str, str]:
        """What the browser brings back from this address of ours: a code, and the state."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        code = f"code-{len(self.codes)}"
        self.codes[code] = query
        return {"code": code, "state": query["state"]}

    def sign_token(self, **claims: Any) -> str:
        now = int(clock.now().timestamp())
        content = {
            "iss": self.issuer,
            "sub": self.subject,
            "aud": CLIENT,
            "iat": now,
            "exp": now + 300,
            "groups": self.groups,
            "name": "Ada <b>Officer</b>",
            "email": "ada@example.com",
            **claims,
            **self.claims,
        }
        present = {name: value for name, value in content.items() if value is not None}
        header = {"alg": "RS256", "kid": self.key.kid}
        return self.forge(jws.serialize_compact(header, json.dumps(present), self.key))

    async def answer(self, method: str, url: str, body: Mapping[str, str]) -> tuple[int, Mapping[str, Any]]:
        path = urlsplit(url).path
        self.requests.append(path)
        match path:
            case "/.well-known/openid-configuration":
                places = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
                addresses = {name: f"{self.issuer}/{place}" for name, place in places.items()}
                return 200, {"issuer": self.issuer, **addresses, **self.metadata}
            case "/keys":
                keys = self.published or [self.key]
                return 200, {"keys": [key.as_dict(private=False) for key in keys]}
            case "/token":
                return self._give_tokens(body)
            case _:
                return 404, {}

    def _give_tokens(self, body: Mapping[str, str]) -> tuple[int, Mapping[str, Any]]:
        if body["grant_type"] == "refresh_token":
            token = self.sign_token()
        else:
            query = self.codes.pop(body["code"], None)
            if query is None or encode(sha256(body["code_verifier"].encode())) != query["code_challenge"]:
                return 400, {"error": "invalid_grant"}
            assert body["redirect_uri"] == query["redirect_uri"]
            token = self.sign_token(nonce=query["nonce"])
        refresh = {"refresh_token": "refresh"} if self.gives_refresh_token else {}
        return 200, {"token_type": "Bearer", "access_token": "access", "id_token": token, **refresh}


class DirectGuard(Guard):
    """Takes requests to the providers of a test; the guard itself has tests of its own."""

    def __init__(self, *providers: HostileProvider) -> None:
        super().__init__()
        object.__setattr__(self, "providers", {provider.issuer: provider for provider in providers})

    async def send(self, method: str, url: str, **options: Any) -> OutboundAnswer:
        parts = urlsplit(url)
        provider: HostileProvider = self.providers[f"{parts.scheme}://{parts.netloc}"]  # type: ignore[attr-defined]
        if provider.is_down:
            raise OutboundFailed("down")
        body = {name: values[0] for name, values in parse_qs(options.get("content", b"").decode()).items()}
        status, content = await provider.answer(method, url, body)
        return OutboundAnswer(status=status, headers={}, body=json.dumps(content).encode())


def make_client(provider: HostileProvider, slug: str, *, name: str = "company", **changes: Any) -> OpenIdClient:
    groups = {"officers": ["ComplianceOfficer"], "auditors": ["Auditor"], "admins": ["Admin"]}
    configured = OidcProvider(
        name=name,
        label="Company",
        issuer=provider.issuer,
        client_id=CLIENT,
        **{"tenants": (TenantGroups(slug=slug, groups=groups),), **changes},
    )
    return OpenIdClient(configured, DirectGuard(provider))


class SignIn:
    """An installation with one provider, and browsers that sign in with it."""

    def __init__(self, service: Service, provider: HostileProvider, **changes: Any) -> None:
        self.provider = provider
        self.app = create_app(replace(service, providers={"company": make_client(provider, "acme", **changes)}))

    def open_browser(self) -> Browser:
        return Browser(self.app)

    async def go(self, browser: Browser, address: str = "/console/sign-in/with/company") -> str:
        """Begin to sign in; return the address at the provider."""
        answer = await browser.get(address)
        assert answer.status_code == 303, answer.text
        return answer.headers["location"]

    async def sign_in(self, browser: Browser, next_address: str = "") -> httpx2.Response:
        address = await self.go(browser, f"/console/sign-in/with/company?next={next_address}")
        return await self.come_back(browser, **self.provider.authorize(address))

    async def come_back(self, browser: Browser, path: str = BACK, **query: str) -> httpx2.Response:
        answer = await browser.get(path, params=query)
        if answer.status_code == 303:
            await browser.get("/console")
        return answer
