"""Providers: who may say who somebody is, and which roles the groups of a person give in which tenant.

    parse_providers(content of the operator's file) ─┬─► tuple[OidcProvider, ...]
                                                     └─► ProviderFileWrong: where, and what

A person is known by issuer and subject. The mail address is never looked at: providers give addresses out again.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bpc.core.formats.hashes import Digest, sha256
from bpc.core.outbound_urls import BadUrl, parse_destination

NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
# No HMAC: a provider's public key would be taken for a shared secret. No `none`.
ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
DEFAULT_ALGORITHMS: Final = ("RS256", "PS256", "ES256", "ES384", "EdDSA")
DEFAULT_SCOPES: Final = ("openid", "profile")
_IDENTITY_DOMAIN: Final = b"BPC-OIDC-IDENTITY-1\x00"


class ProviderFileWrong(Exception):
    """The operator's file cannot be used: where in it, and why."""

    def __init__(self, place: str, says: str) -> None:
        super().__init__(f"{place}: {says}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantGroups:
    """The roles that groups of a provider give in one tenant.

    `administration` says whether roles with `access:admin` or `tenant:admin` are among them.
    """

    slug: str
    groups: Mapping[str, Sequence[str]]
    administration: bool = False

    def list_roles(self, groups: Collection[str]) -> list[str]:
        """The roles of somebody who is in these groups."""
        return sorted({role for group in groups for role in self.groups.get(group, ())})


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcProvider:
    """A provider as the operator configured it. `name` stands in addresses, `label` on the button."""

    name: str
    label: str
    issuer: str
    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    scopes: Sequence[str] = DEFAULT_SCOPES
    groups_claim: Sequence[str] = ("groups",)
    name_claim: str = "name"
    required_acr: Sequence[str] = ()
    required_amr: Sequence[str] = ()
    algorithms: Sequence[str] = DEFAULT_ALGORITHMS
    tenants: Sequence[TenantGroups] = ()

    def find_tenants(self, groups: Collection[str]) -> list[TenantGroups]:
        """The tenants in which somebody of these groups has a role."""
        return [tenant for tenant in self.tenants if tenant.list_roles(groups)]

    def read_groups(self, claims: Mapping[str, Any]) -> frozenset[str] | None:
        """The groups that claims name; None if they say nothing about groups."""
        value: Any = claims
        for step in self.groups_claim:
            value = value.get(step) if isinstance(value, Mapping) else None
        if isinstance(value, str):
            return frozenset([value])
        return frozenset(each for each in value if isinstance(each, str)) if isinstance(value, list) else None


def hash_identity(issuer: str, subject: str) -> Digest:
    """What is kept of a person: equal for the same issuer and subject, and nothing can be read from it."""
    parts = (issuer.encode(), subject.encode())
    return sha256(_IDENTITY_DOMAIN + b"".join(len(part).to_bytes(4, "big") + part for part in parts))


def parse_providers(content: Mapping[str, Any], secrets: Mapping[str, str]) -> tuple[OidcProvider, ...]:
    """The providers of a file. `secrets` has the content of each file that it names. Raises `ProviderFileWrong`."""
    _refuse_others("the file", content, {"provider"})
    entries = content.get("provider", [])
    if not isinstance(entries, list) or not entries:
        raise ProviderFileWrong("the file", "it names no provider: begin with `[[provider]]`")
    providers = tuple(_parse_provider(number, entry, secrets) for number, entry in enumerate(entries, start=1))
    for what in ("name", "issuer"):
        values = [getattr(provider, what) for provider in providers]
        if len(set(values)) < len(values):
            raise ProviderFileWrong("the file", f"two providers have the same `{what}`")
    return providers


def list_secret_files(content: Mapping[str, Any]) -> list[str]:
    """The files that have the secrets of clients, as far as the file can be read."""
    entries = content.get("provider", [])
    names = [entry.get("client_secret_file") for entry in entries if isinstance(entry, dict)]
    return [name for name in names if isinstance(name, str)]


def _parse_provider(number: int, entry: Any, secrets: Mapping[str, str]) -> OidcProvider:
    place = f"provider {number}"
    if not isinstance(entry, dict):
        raise ProviderFileWrong(place, "it is not a table: begin with `[[provider]]`")
    texts = {"name", "label", "issuer", "client_id", "client_secret_file", "name_claim"}
    lists = {"scopes", "required_acr", "required_amr", "algorithms"}
    _refuse_others(place, entry, texts | lists | {"groups_claim", "tenant"})
    values: dict[str, Any] = {key: _read_text(place, entry, key) for key in texts if key in entry}
    values |= {key: _read_texts(place, entry, key) for key in lists if key in entry}
    for key in ("name", "issuer", "client_id"):
        if key not in values:
            raise ProviderFileWrong(place, f"`{key}` is missing")
    if NAME.fullmatch(values["name"]) is None:
        raise ProviderFileWrong(place, "`name` has other characters than a-z, 0-9 and `-`, or more than 40")
    _check_issuer(place, values["issuer"])
    if not set(values.get("algorithms", DEFAULT_ALGORITHMS)) <= set(ALGORITHMS):
        raise ProviderFileWrong(place, f"`algorithms` may name {', '.join(ALGORITHMS)}")
    secret_file = values.pop("client_secret_file", None)
    claim = entry.get("groups_claim", "groups")
    return OidcProvider(
        **{"label": values["name"]} | values | {"scopes": _with_openid(values.get("scopes", DEFAULT_SCOPES))},
        client_secret=None if secret_file is None else secrets[secret_file].strip(),
        groups_claim=[claim] if isinstance(claim, str) else _read_texts(place, entry, "groups_claim"),
        tenants=_parse_tenants(place, entry.get("tenant", [])),
    )


def _parse_tenants(place: str, entries: Any) -> Sequence[TenantGroups]:
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise ProviderFileWrong(place, "it is bound to no tenant: add `[[provider.tenant]]`")
    tenants = []
    for entry in entries:
        _refuse_others(f"{place}, tenant", entry, {"slug", "groups", "administration"})
        slug = _read_text(f"{place}, tenant", entry, "slug")
        within = f"{place}, tenant `{slug}`"
        groups = entry.get("groups")
        if not isinstance(groups, dict) or not groups:
            raise ProviderFileWrong(within, "`groups` is missing: it says which roles a group gives")
        administration = entry.get("administration", False)
        if not isinstance(administration, bool):
            raise ProviderFileWrong(within, "`administration` is true or false")
        roles = {group: _read_texts(within, groups, group) for group in groups}
        tenants.append(TenantGroups(slug=slug, groups=roles, administration=administration))
    if len({tenant.slug for tenant in tenants}) < len(tenants):
        raise ProviderFileWrong(place, "it names a tenant twice")
    return tuple(tenants)


def _check_issuer(place: str, issuer: str) -> None:
    try:
        parse_destination(issuer, https_only=False)
    except BadUrl as error:
        raise ProviderFileWrong(place, f"`issuer`: {error.says}") from None
    if "?" in issuer:
        raise ProviderFileWrong(place, "`issuer` has a query")


def _with_openid(scopes: Sequence[str]) -> Sequence[str]:
    return tuple(dict.fromkeys(("openid", *scopes)))


def _read_text(place: str, table: Mapping[str, Any], key: str) -> str:
    value = table.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ProviderFileWrong(place, f"`{key}` is missing, or not a text")
    return value


def _read_texts(place: str, table: Mapping[str, Any], key: str) -> Sequence[str]:
    value = table.get(key)
    if not isinstance(value, list) or not value or not all(isinstance(each, str) and each for each in value):
        raise ProviderFileWrong(place, f"`{key}` is not a list of texts")
    return tuple(value)


def _refuse_others(place: str, table: Mapping[str, Any], known: Collection[str]) -> None:
    for key in table:
        if key not in known:
            raise ProviderFileWrong(place, f"`{key}` is unknown: there are {', '.join(sorted(known))}")
