"""An ID token is believed only if every check of it passes; each test changes one thing of a right one."""

import hmac
import json
from base64 import urlsafe_b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from joserfc import jws
from joserfc.jwk import ECKey, RSAKey

from bpc.core.formats.hashes import sha256
from bpc.core.openid.attempt import SignInRefused
from bpc.core.openid.id_token import KeyUnknown, ProvenIdentity, verify_id_token
from bpc.core.openid.providers import OidcProvider

pytestmark = pytest.mark.every_case

NOW: Final = datetime(2027, 2, 18, 12, 0, tzinfo=UTC)
KEY: Final = RSAKey.generate_key(2048, {"kid": "one"})
OTHER_KEY: Final = RSAKey.generate_key(2048, {"kid": "one"})
CURVE_KEY: Final = ECKey.generate_key("P-256", {"kid": "two"})
PUBLISHED: Final = [KEY.as_dict(private=False), CURVE_KEY.as_dict(private=False)]
PROVIDER: Final = OidcProvider(name="company", label="Company", issuer="https://login.example", client_id="bpc")
CLAIMS: Final[dict[str, Any]] = {
    "iss": "https://login.example",
    "sub": "person",
    "aud": "bpc",
    "iat": int(NOW.timestamp()),
    "exp": int(NOW.timestamp()) + 300,
    "nonce": "nonce",
}


def sign(key: Any = KEY, algorithm: str = "RS256", header: dict[str, Any] | None = None, **changes: Any) -> str:
    claims = {name: value for name, value in (CLAIMS | changes).items() if value is not None}
    head = {"alg": algorithm, "kid": key.kid} | (header or {})
    return jws.serialize_compact(head, json.dumps(claims), key, algorithms=[algorithm])


def verify(token: str, provider: OidcProvider = PROVIDER, *, keys: Any = PUBLISHED, **options: Any) -> ProvenIdentity:
    return verify_id_token(token, provider, keys, options.pop("now", NOW), **{"nonce": "nonce", **options})


def encode(value: bytes) -> str:
    return urlsafe_b64encode(value).rstrip(b"=").decode()


def test_a_right_token_says_who_somebody_is() -> None:
    identity = verify(sign())

    assert (identity.issuer, identity.subject) == ("https://login.example", "person")
    assert verify(sign(CURVE_KEY, "ES256")).subject == "person"
    assert verify(sign(aud=["bpc", "other"], azp="bpc")).subject == "person"


CHANGES: Final[dict[str, dict[str, Any]]] = {
    "another issuer": {"iss": "https://login.evil.example"},
    "the issuer with a slash": {"iss": "https://login.example/"},
    "another audience": {"aud": "other"},
    "no audience": {"aud": None},
    "an audience among others without azp": {"aud": ["bpc", "other"]},
    "an audience whose azp is another": {"aud": ["bpc", "other"], "azp": "other"},
    "azp of another": {"azp": "other"},
    "expired": {"exp": int(NOW.timestamp()) - 61},
    "no end": {"exp": None},
    "an end that is a text": {"exp": "4102444800"},
    "an end that is true": {"exp": True},
    "issued in the future": {"iat": int(NOW.timestamp()) + 61},
    "issued yesterday": {"iat": int(NOW.timestamp()) - 86400},
    "not valid yet": {"nbf": int(NOW.timestamp()) + 61},
    "another nonce": {"nonce": "other"},
    "no nonce": {"nonce": None},
    "a nonce that is a list": {"nonce": ["nonce"]},
    "no subject": {"sub": None},
    "an empty subject": {"sub": ""},
    "a subject that is a number": {"sub": 7},
    "a long subject": {"sub": "x" * 256},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_token_with_one_wrong_claim_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(SignInRefused):
        verify(sign(**change))


def _without_signature() -> str:
    header = encode(json.dumps({"alg": "none"}).encode())
    return f"{header}.{encode(json.dumps(CLAIMS).encode())}."


def _signed_with_public_key_as_secret() -> str:
    header = json.dumps({"alg": "HS256", "kid": "one"}).encode()
    content = f"{encode(header)}.{encode(json.dumps(CLAIMS).encode())}"
    return f"{content}.{encode(hmac.digest(KEY.as_pem(private=False), content.encode(), 'sha256'))}"


def _changed() -> str:
    head, _, signature = sign().split(".")
    return f"{head}.{encode(json.dumps(CLAIMS | {'sub': 'admin'}).encode())}.{signature}"


def _with_key_of_its_own() -> str:
    return sign(OTHER_KEY, header={"jwk": OTHER_KEY.as_dict(private=False)})


FORGERIES: Final[dict[str, Callable[[], str]]] = {
    "no signature": _without_signature,
    "HMAC with the public key": _signed_with_public_key_as_secret,
    "changed claims": _changed,
    "another key of the same name": lambda: sign(OTHER_KEY),
    "a key in its own header": _with_key_of_its_own,
    "an algorithm that is not allowed": lambda: sign(KEY, "RS512"),
    "an unknown name of a key": lambda: sign(header={"kid": "three"}),
    "a key of another kind": lambda: sign(KEY, header={"kid": "two"}),
    "two parts": lambda: ".".join(sign().split(".")[:2]),
    "five parts": lambda: sign() + ".a.b",
    "a header that is no object": lambda: f"{encode(b'[]')}.{encode(b'{}')}.x",
    "claims that are no object": lambda: jws.serialize_compact({"alg": "RS256", "kid": "one"}, "[]", KEY),
    "nothing": lambda: "",
}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
def test_a_forged_token_is_refused(forge: Callable[[], str]) -> None:
    with pytest.raises(SignInRefused):
        verify(forge())


def test_a_key_that_is_not_published_yet_is_told_apart() -> None:
    with pytest.raises(KeyUnknown):
        verify(sign(header={"kid": "three"}))


@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
def test_a_short_rsa_key_and_keys_for_encryption_are_not_used() -> None:
    short_key = RSAKey.generate_key(1024, {"kid": "one"})

    with pytest.raises(SignInRefused, match="2048 bits"):
        verify(sign(short_key), keys=[short_key.as_dict(private=False)])
    with pytest.raises(KeyUnknown):
        verify(sign(), keys=[KEY.as_dict(private=False) | {"use": "enc"}])


def test_a_header_with_what_must_be_understood_is_refused() -> None:
    head = encode(json.dumps({"alg": "RS256", "kid": "one", "crit": ["exp"], "exp": 1}).encode())

    with pytest.raises(SignInRefused, match="header"):
        verify(f"{head}.{encode(json.dumps(CLAIMS).encode())}.x")


def test_a_hash_of_another_access_token_is_refused() -> None:
    right = encode(sha256(b"access")[:16])

    assert verify(sign(at_hash=right), access_token="access").subject == "person"
    with pytest.raises(SignInRefused, match="access token"):
        verify(sign(at_hash=right), access_token="other")


def test_the_level_of_the_sign_in_is_required_where_it_is_configured() -> None:
    strict = OidcProvider(
        name="strict",
        label="Strict",
        issuer="https://login.example",
        client_id="bpc",
        required_acr=["high"],
        required_amr=["otp", "hwk"],
    )

    assert verify(sign(acr="high", amr=["pwd", "otp"]), strict).subject == "person"
    for claims in ({"acr": "low", "amr": ["otp"]}, {"acr": "high", "amr": ["pwd"]}, {"acr": "high"}, {"amr": ["otp"]}):
        with pytest.raises(SignInRefused):
            verify(sign(**claims), strict)


def test_the_clock_of_the_provider_may_differ_by_a_minute() -> None:
    assert verify(sign(), now=NOW - timedelta(seconds=59)).subject == "person"
    assert verify(sign(), now=NOW + timedelta(seconds=359)).subject == "person"
    with pytest.raises(SignInRefused):
        verify(sign(), now=NOW + timedelta(seconds=361))
