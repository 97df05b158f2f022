"""The operator's file of providers: what it says, and what is refused with the place of the mistake."""

from typing import Any, Final

import pytest

from bpc.core.openid.attempt import ATTEMPT_ENTROPY_BYTES, SignInAttempt, SignInRefused
from bpc.core.openid.providers import ProviderFileWrong, hash_identity, parse_providers
from bpc.core.secret_box import SecretBox
from tests.core.openid.test_id_token import NOW

TENANT: Final = {"slug": "acme", "groups": {"officers": ["ComplianceOfficer"], "admins": ["Admin", "Auditor"]}}
ENTRY: Final[dict[str, Any]] = {
    "name": "company",
    "issuer": "https://login.example/realms/a",
    "client_id": "bpc",
    "tenant": [TENANT],
}
BOX: Final = SecretBox(materials=(b"k" * 32,))


def test_groups_give_roles_in_the_tenants_of_the_provider() -> None:
    (provider,) = parse_providers({"provider": [ENTRY | {"client_secret_file": "s"}]}, {"s": "secret\n"})

    assert provider.client_secret == "secret"
    assert provider.scopes == ("openid", "profile")
    assert [tenant.list_roles({"admins", "officers", "others"}) for tenant in provider.find_tenants({"admins"})] == [
        ["Admin", "Auditor", "ComplianceOfficer"]
    ]
    assert provider.find_tenants({"others"}) == []
    assert not provider.tenants[0].administration


def test_groups_may_stand_deeper_in_the_claims() -> None:
    (provider,) = parse_providers({"provider": [ENTRY | {"groups_claim": ["realm_access", "roles"]}]}, {})

    assert provider.read_groups({"realm_access": {"roles": ["a", 7, "b"]}}) == frozenset({"a", "b"})
    assert provider.read_groups({"realm_access": "a"}) is None
    assert provider.read_groups({}) is None


MISTAKES: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "no provider": ({}, "names no provider"),
    "a word that is unknown": ({"provider": [ENTRY | {"client": "x"}]}, "`client` is unknown"),
    "no issuer": ({"provider": [{**ENTRY, "issuer": " "}]}, "provider 1: `issuer` is missing"),
    "an issuer that is no URL": ({"provider": [ENTRY | {"issuer": "login.example"}]}, "`issuer`"),
    "an issuer with a query": ({"provider": [ENTRY | {"issuer": "https://a.example/?x=1"}]}, "has a query"),
    "a name for no address": ({"provider": [ENTRY | {"name": "Our login"}]}, "`name` has other characters"),
    "an algorithm without a signature": ({"provider": [ENTRY | {"algorithms": ["none"]}]}, "`algorithms`"),
    "HMAC": ({"provider": [ENTRY | {"algorithms": ["HS256"]}]}, "`algorithms`"),
    "no tenant": ({"provider": [ENTRY | {"tenant": []}]}, "bound to no tenant"),
    "a tenant twice": ({"provider": [ENTRY | {"tenant": [TENANT, TENANT]}]}, "a tenant twice"),
    "no groups": ({"provider": [ENTRY | {"tenant": [{"slug": "a"}]}]}, "tenant `a`: `groups` is missing"),
    "roles that are a text": ({"provider": [ENTRY | {"tenant": [{"slug": "a", "groups": {"g": "Admin"}}]}]}, "`g`"),
    "an issuer twice": ({"provider": [ENTRY, ENTRY | {"name": "other"}]}, "the same `issuer`"),
}


@pytest.mark.parametrize(("content", "says"), MISTAKES.values(), ids=MISTAKES)
@pytest.mark.every_case
def test_a_mistake_is_named_with_its_place(content: dict[str, Any], says: str) -> None:
    with pytest.raises(ProviderFileWrong, match=says):
        parse_providers(content, {})


def test_a_person_is_issuer_and_subject_together() -> None:
    hashes = {hash_identity("https://a.example", "bc"), hash_identity("https://a.exampleb", "c")}

    assert len(hashes | {hash_identity("https://a.example", "bc")}) == 2


def test_a_sign_in_under_way_ends_only_with_its_own_cookie() -> None:
    entropy = bytes(range(ATTEMPT_ENTROPY_BYTES))
    attempt = SignInAttempt.begin(entropy, NOW, provider="company", address="/console")
    sealed = attempt.seal(BOX, bytes(12))

    assert SignInAttempt.open(sealed, BOX, NOW) == attempt
    assert attempt.accepts_state(attempt.state)
    assert not attempt.accepts_state("")
    for text in (
        "",
        "{}",
        sealed[:-4] + "AAA=",
        SecretBox(materials=(b"o" * 32,)).seal("{}", context="x", nonce=bytes(12)),
    ):
        with pytest.raises(SignInRefused):
            SignInAttempt.open(text, BOX, NOW)
