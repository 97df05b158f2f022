"""An ID token: from whom it is, for whom, and who it says somebody is (OpenID Connect Core 3.1.3.7, RFC 8725).

 1. three parts, and a header without `crit`                            RFC 7515 4.1.11
 2. `alg` is one of those configured; never `none`, never HMAC          RFC 8725 3.1
 3. one public key of the provider fits `kid` and `alg`                 RFC 8725 3.2
 4. the signature
 5. `iss` is the issuer that we asked                                   Core 3.1.3.7 (2)
 6. `aud` names us, and with others beside us `azp` is us               (3) to (5)
 7. not expired, not from the future, and not older than an hour        (9), (10)
 8. `nonce` is the one that we sent                                     (11)
 9. `acr` and `amr` are as required                                     (12)
10. `at_hash`, if there is one, belongs to the access token             Core 3.1.3.6
11. `sub` is there

Pure: the keys and the time are arguments.
"""

import hashlib
import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey

from bpc.core.openid.attempt import SignInRefused
from bpc.core.openid.providers import OidcProvider

LEEWAY: Final = timedelta(seconds=60)
OLDEST: Final = timedelta(hours=1)
MAX_TOKEN_BYTES: Final = 65_536
MAX_SUBJECT_LENGTH: Final = 255
MIN_RSA_BITS: Final = 2048
_KEY_TYPES: Final = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
_CURVES: Final = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521", "EdDSA": "Ed25519"}
_KEY_CLASSES: Final[Mapping[str, Any]] = {"RSA": RSAKey, "EC": ECKey, "OKP": OKPKey}
_HASHES: Final = {"256": hashlib.sha256, "384": hashlib.sha384, "512": hashlib.sha512, "DSA": hashlib.sha512}


class KeyUnknown(SignInRefused):
    """None of the keys that the provider published fits; perhaps it has published another since."""

    def __init__(self) -> None:
        super().__init__("the ID token is not signed with a key that the provider publishes")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenIdentity:
    """Who a provider says somebody is."""

    issuer: str
    subject: str
    claims: Mapping[str, Any] = field(repr=False)


def verify_id_token(
    token: str,
    provider: OidcProvider,
    keys: Sequence[Mapping[str, Any]],
    now: datetime,
    *,
    nonce: str | None,
    access_token: str | None = None,
    check_level: bool = True,
) -> ProvenIdentity:
    """Make every check above. Raises `SignInRefused`, of which `KeyUnknown` may be over with newer keys.

    A refreshed token has no `nonce` of ours (None), and says nothing new about how somebody signed in
    (`check_level`): Core 12.2.
    """
    header = _read_header(token)  # 1
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in provider.algorithms:  # 2
        raise SignInRefused("the ID token is signed with an algorithm that is not allowed here")
    claims = _verify_signature(token, _choose_key(keys, header.get("kid"), algorithm), algorithm)  # 3, 4
    if claims.get("iss") != provider.issuer:  # 5
        raise SignInRefused("the ID token is from another issuer")
    _check_audience(claims, provider.client_id)  # 6
    _check_times(claims, now)  # 7
    if nonce is not None and not _equals(claims.get("nonce"), nonce):  # 8
        raise SignInRefused("the ID token answers another request to sign in")
    if check_level:
        _check_level(claims, provider)  # 9
    if "at_hash" in claims and access_token is not None:  # 10
        digest = _HASHES[algorithm[-3:]](access_token.encode()).digest()
        if not _equals(claims["at_hash"], _encode(digest[: len(digest) // 2])):
            raise SignInRefused("the ID token belongs to another access token")
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT_LENGTH:  # 11
        raise SignInRefused("the ID token does not say who somebody is")
    return ProvenIdentity(issuer=provider.issuer, subject=subject, claims=claims)


def _read_header(token: str) -> Mapping[str, Any]:
    parts = token.split(".")
    if len(parts) != 3 or len(token) > MAX_TOKEN_BYTES or not token.isascii():
        raise SignInRefused("the provider sent no signed ID token")
    try:
        header = json.loads(urlsafe_b64decode(parts[0] + "=" * (-len(parts[0]) % 4)))
    except ValueError:
        header = None
    if not isinstance(header, dict) or "crit" in header:
        raise SignInRefused("the header of the ID token cannot be read")
    return header


def _choose_key(keys: Sequence[Mapping[str, Any]], kid: object, algorithm: str) -> Any:
    """The one key that may have signed. Raises `KeyUnknown`."""
    fitting = [
        key
        for key in keys
        if key.get("kty") == _KEY_TYPES[algorithm[:2]]
        and key.get("use", "sig") == "sig"
        and key.get("alg", algorithm) == algorithm
        and key.get("crv") == _CURVES.get(algorithm)
        and (kid is None or key.get("kid") == kid)
    ]
    if len(fitting) != 1:
        raise KeyUnknown
    public = {name: value for name, value in fitting[0].items() if name in {"kty", "n", "e", "crv", "x", "y"}}
    try:
        key = _KEY_CLASSES[public["kty"]].import_key(public)
        too_short = public["kty"] == "RSA" and key.public_key.key_size < MIN_RSA_BITS
    except (JoseError, ValueError, TypeError, KeyError):
        raise KeyUnknown from None
    if too_short:
        raise SignInRefused("the provider signs with an RSA key of less than 2048 bits")
    return key


def _verify_signature(token: str, key: Any, algorithm: str) -> Mapping[str, Any]:
    try:
        signed = jws.deserialize_compact(token.encode(), key, algorithms=[algorithm])
        claims = json.loads(signed.payload)
    except (JoseError, ValueError):
        raise SignInRefused("the signature of the ID token is wrong") from None
    if not isinstance(claims, dict):
        raise SignInRefused("the ID token has no claims")
    return claims


def _check_audience(claims: Mapping[str, Any], client_id: str) -> None:
    audience = claims.get("aud")
    audiences = [audience] if isinstance(audience, str) else audience
    if not isinstance(audiences, list) or client_id not in audiences:
        raise SignInRefused("the ID token is for another application")
    if (len(audiences) > 1 or "azp" in claims) and claims.get("azp") != client_id:
        raise SignInRefused("the ID token was issued to another application")


def _check_times(claims: Mapping[str, Any], now: datetime) -> None:
    times: dict[str, Any] = {name: claims[name] for name in ("exp", "iat", "nbf") if name in claims}
    if not {"exp", "iat"} <= set(times) or not all(type(value) in {int, float} for value in times.values()):
        raise SignInRefused("the ID token does not say when it was issued and how long it is valid")
    seconds, leeway = now.timestamp(), LEEWAY.total_seconds()
    if times["exp"] + leeway <= seconds:
        raise SignInRefused("the ID token has expired")
    if times["iat"] - leeway > seconds or times.get("nbf", 0) - leeway > seconds:
        raise SignInRefused("the ID token is from the future", fix="check the clocks of both servers")
    if times["iat"] + OLDEST.total_seconds() <= seconds:
        raise SignInRefused("the ID token was issued more than an hour ago")


def _check_level(claims: Mapping[str, Any], provider: OidcProvider) -> None:
    if provider.required_acr and claims.get("acr") not in provider.required_acr:
        raise SignInRefused("the provider did not sign you in as this installation requires (`acr`)")
    methods = claims.get("amr")
    if provider.required_amr and not set(provider.required_amr) & set(methods if isinstance(methods, list) else ()):
        raise SignInRefused("this installation requires a second factor (`amr`)", fix="add one at your provider")


def _equals(one: object, other: str) -> bool:
    return isinstance(one, str) and hmac.compare_digest(one.encode(), other.encode())


def _encode(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
