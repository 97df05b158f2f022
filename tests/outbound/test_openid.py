"""Providers of OpenID Connect: what is sent to them, and what becomes of answers that are not as the standard says."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from bpc.core.openid.attempt import SignInAttempt, SignInRefused
from bpc.core.openid.providers import OidcProvider
from bpc.outbound import Guard, OutboundAnswer
from bpc.outbound.openid import OpenIdClient, ProviderUnusable, Tokens
from bpc.runtime import clock

ISSUER = "https://login.example"
DESCRIPTION = {
    "issuer": ISSUER,
    "authorization_endpoint": f"{ISSUER}/authorize?org=1",
    "token_endpoint": f"{ISSUER}/token",
    "jwks_uri": f"{ISSUER}/keys",
    "userinfo_endpoint": f"{ISSUER}/person",
    "end_session_endpoint": f"{ISSUER}/leave",
}
TOKENS = Tokens(access_token="access")


class AnsweringGuard(Guard):
    """Answers each path of the provider with what the test says, in place of the network; keeps what was sent."""

    def __init__(self, answers: Mapping[str, tuple[int, Any]]) -> None:
        super().__init__()
        self.sent: dict[str, dict[str, Any]] = {}
        self.answers = {
            "/.well-known/openid-configuration": (200, DESCRIPTION),
            "/keys": (200, {"keys": []}),
            **answers,
        }

    async def send(self, method: str, url: str, **options: Any) -> OutboundAnswer:
        path = urlsplit(url).path
        self.sent[path] = {"method": method, **options}
        status, content = self.answers[path]
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        return OutboundAnswer(status=status, headers={}, body=body)


def open_client(answers: Mapping[str, tuple[int, Any]], **changes: Any) -> tuple[OpenIdClient, AnsweringGuard]:
    guard = AnsweringGuard(answers)
    return OpenIdClient(OidcProvider(name="a", label="A", issuer=ISSUER, client_id="bpc", **changes), guard), guard


def begin_attempt(*, is_silent: bool = False) -> SignInAttempt:
    return SignInAttempt.begin(bytes(96), clock.now(), provider="a", address="/console", is_silent=is_silent)


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("path", "answer", "says"),
    [
        ("/.well-known/openid-configuration", (500, {}), "does not describe itself"),
        ("/.well-known/openid-configuration", (200, b"<html>"), "does not describe itself"),
        ("/.well-known/openid-configuration", (200, DESCRIPTION | {"issuer": "https://b"}), "by another issuer"),
        ("/.well-known/openid-configuration", (200, {"issuer": ISSUER}), "does not name all of its addresses"),
        ("/keys", (404, {}), "does not publish its keys"),
        ("/keys", (200, {"keys": "none"}), "does not publish its keys"),
    ],
)
async def test_a_provider_whose_description_is_wrong_is_named(path: str, answer: tuple[int, Any], says: str) -> None:
    client, _ = open_client({path: answer})

    with pytest.raises(ProviderUnusable, match=says):
        await client.load_metadata()


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        ((400, {"error": "invalid_grant"}), SignInRefused, "did not accept this sign-in"),
        ((401, {"error": "invalid_client"}), ProviderUnusable, "refused us with `invalid_client`"),
        ((400, b"no"), ProviderUnusable, "refused us with `400`"),
        ((200, {"token_type": "mac", "access_token": "x"}), ProviderUnusable, "no tokens that we can use"),
        ((200, {"token_type": "Bearer"}), ProviderUnusable, "no tokens that we can use"),
        ((503, {}), ProviderUnusable, "gave no tokens"),
    ],
)
async def test_tokens_that_are_refused_or_unusable_sign_nobody_in(
    answer: tuple[int, Any], error: type[Exception], says: str
) -> None:
    client, _ = open_client({"/token": answer})

    with pytest.raises(error, match=says):
        await client.refresh("refresh")


async def test_the_secret_is_sent_as_the_provider_takes_it() -> None:
    tokens = {"token_type": "bearer", "access_token": "x", "refresh_token": "y"}
    basic, basic_guard = open_client({"/token": (200, tokens)}, client_secret="a b")
    only_forms = DESCRIPTION | {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    form, form_guard = open_client(
        {"/token": (200, tokens), "/.well-known/openid-configuration": (200, only_forms)}, client_secret="a b"
    )

    tokens_of_code = await basic.redeem_code("code", begin_attempt(), "https://bpc.example/back")
    await form.refresh("refresh")

    assert (tokens_of_code.access_token, tokens_of_code.refresh_token, tokens_of_code.id_token) == ("x", "y", None)
    assert basic_guard.sent["/token"]["headers"]["Authorization"] == "Basic YnBjOmElMjBi"  # bpc:a%20b
    fields = parse_qs(form_guard.sent["/token"]["content"].decode())
    assert (fields["client_id"], fields["client_secret"]) == (["bpc"], ["a b"])
    assert "Authorization" not in form_guard.sent["/token"]["headers"]


async def test_the_page_about_a_person_says_which_groups_count_now() -> None:
    client, guard = open_client({"/person": (200, {"sub": "1", "groups": ["officers"]})})

    claims = await client.identify_again(TOKENS)

    assert claims["groups"] == ["officers"]
    assert guard.sent["/person"]["headers"]["Authorization"] == "Bearer access"


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        ((401, {}), SignInRefused, "does not know you any more"),
        ((200, {"sub": "1"}), SignInRefused, "no longer says which groups you are in"),
        ((500, {}), ProviderUnusable, "did not say who somebody is"),
    ],
)
async def test_without_groups_from_the_provider_nobody_stays(
    answer: tuple[int, Any], error: type[Exception], says: str
) -> None:
    client, _ = open_client({"/person": answer})

    with pytest.raises(error, match=says):
        await client.identify_again(TOKENS)


async def test_nobody_is_identified_without_an_id_token() -> None:
    client, _ = open_client({})

    with pytest.raises(SignInRefused, match="no ID token"):
        await client.identify(TOKENS, nonce="n")


async def test_the_addresses_at_the_provider_keep_what_they_had_and_say_what_is_asked() -> None:
    client, _ = open_client({}, required_acr=["high"])
    alone, _ = open_client({"/.well-known/openid-configuration": (200, DESCRIPTION | {"end_session_endpoint": None})})

    query = parse_qs(urlsplit(await client.make_sign_in_address(begin_attempt(is_silent=True), "https://b/back")).query)
    leave = parse_qs(urlsplit(await client.make_sign_out_address("token", "https://b") or "").query)

    assert (query["org"], query["prompt"], query["acr_values"]) == (["1"], ["none"], ["high"])
    assert (leave["id_token_hint"], leave["post_logout_redirect_uri"]) == (["token"], ["https://b"])
    assert await alone.make_sign_out_address(None, "https://b") is None
