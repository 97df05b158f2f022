"""Whoever has the code of a view grant: known by it, limited, and never more than its grant says.

1. a code in `Authorization: Bearer …`, or in the form of a page, well formed   else UNAUTHORIZED
2. its address has not failed too often                                          else RATE_LIMITED
3. a code we know: known prefix, equal hash (any pepper, in constant time)       else UNAUTHORIZED
4. neither it nor its parent was revoked or has expired, its tenant is active    else UNAUTHORIZED
5. a token in its bucket: reading everything one after the other takes long      else RATE_LIMITED

A code opens nothing that an API key opens, and the other way round. What was read goes on record before it is sent
(`bpc.storage.access.view_grants.record_read`), which asks once more whether the grant counts.
"""

from dataclasses import dataclass
from math import ceil
from typing import Annotated, Final

from fastapi import Header
from starlette.requests import Request

from bpc.api.access.admission import AddressLimits, find_address
from bpc.api.access.auth import NO_KEY_HASH
from bpc.api.access.tenant_limits import RateLimited
from bpc.api.http.request_context import Service
from bpc.core.api_keys import Unauthorized
from bpc.core.errors import Refusal
from bpc.core.formats.ids import TenantId
from bpc.core.view_grants import GrantCode, GrantSubject
from bpc.storage.access import view_grants
from bpc.storage.access.api_requests import take_token
from bpc.storage.access.view_grants import GrantEnded, ViewGrantRow
from bpc.storage.database import begin_tenant_transaction

READ_BURST: Final = 60  # reads with one code at once
READS_PER_SECOND: Final = 1  # and then
NO_STORE: Final = {"Cache-Control": "private, no-store", "Vary": "Authorization, Accept, Accept-Language"}
# What the grantee accepts if the tenant wrote no terms. Pages show it in their language; the record has this text.
STANDARD_TERMS: Final = (
    "I use what I see only for the purpose that I named, and show it to nobody who has no right of their own to it. "
    "I know that each read is recorded and shown to the issuer."
)
Authorization = Annotated[str | None, Header(include_in_schema=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grantee:
    """Whoever has a code, and its grant."""

    tenant_id: TenantId
    grant: ViewGrantRow

    @property
    def terms(self) -> str:
        return self.grant.terms or STANDARD_TERMS


class OutOfScope(Refusal):
    """The grant is about something else."""

    code = "FORBIDDEN"

    def __init__(self) -> None:
        super().__init__(
            "this code is for another passport",
            fix="open the passport that it was made for, or ask for one for this passport",
            details={"reason": "elsewhere"},
        )


class TermsNotAccepted(Refusal):
    """Nothing is shown before the terms are accepted."""

    code = "FORBIDDEN"

    def __init__(self, terms: str) -> None:
        super().__init__(
            "the terms of this grant are not accepted yet",
            fix="read them, and accept them with POST /v1/granted:accept-terms or on the page",
            details={"reason": "terms", "terms": terms, "is_standard": terms == STANDARD_TERMS},
        )


class CodeUnknown(Unauthorized):
    """Nobody has this code."""

    def __init__(self) -> None:
        super().__init__(
            "this code is unknown", fix="compare it with what you were sent", details={"reason": "unknown"}
        )


def read_code(authorization: str | None) -> GrantCode:
    """The code in the header Authorization."""
    scheme, _, text = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not text:
        raise Unauthorized(
            "the request has no code of a grant", fix="send it in the header `Authorization: Bearer bpg_…`"
        )
    return GrantCode.parse(text)


async def admit_grantee(request: Request, code: GrantCode) -> Grantee:
    """Whose code it is, and its grant; raises the first thing that is wrong with it."""
    service: Service = request.app.state.service
    addresses: AddressLimits = service.admission.addresses
    address, now = find_address(request.scope), request.state.now
    addresses.require_attempt_left(address)
    async with service.database.plain() as conn:
        owner = await view_grants.find_code_owner(conn, code.prefix)
        # An unknown code is compared too, so that the answer takes as long as for a known one.
        pepper = service.peppers.find_matching(code, NO_KEY_HASH if owner is None else owner.code_hash)
        if owner is None or pepper is None:
            addresses.note_failure(address)
            service.metrics.unauthorized.inc()
            raise CodeUnknown
        tenant = owner.tenant_id
        request.state.meter.bill(tenant)
        if owner.is_revoked:
            raise GrantEnded("was revoked")
        if not owner.is_active or owner.ends_at <= now:
            raise GrantEnded("has expired")
        token = await take_token(conn, tenant, owner.code_hash, burst=READ_BURST, rate=READS_PER_SECOND)
        if token.wait > 0:
            service.metrics.limited.inc()
            raise RateLimited("reads with this code", max(1, ceil(token.wait)))
        async with begin_tenant_transaction(conn, tenant):
            if pepper not in {service.peppers.in_use, service.peppers.next}:
                await view_grants.rehash_code(conn, owner, code, service.peppers.in_use, now=now)
            grant = await view_grants.get_grant(conn, tenant, owner.view_grant_id)
    return Grantee(tenant_id=tenant, grant=grant)


def require_covered(grantee: Grantee, subject: GrantSubject) -> None:
    """Raise unless the grant is about the subject and its terms were accepted."""
    if not grantee.grant.bounds.covers(subject):
        raise OutOfScope
    if grantee.grant.terms_accepted_at is None:
        raise TermsNotAccepted(grantee.terms)


async def accept_terms(request: Request, grantee: Grantee) -> ViewGrantRow:
    """Record that the grantee accepted the terms."""
    service: Service = request.app.state.service
    async with service.database.tenant(grantee.tenant_id) as conn:
        return await view_grants.accept_terms(
            conn, grantee.tenant_id, grantee.grant.view_grant_id, grantee.terms, now=request.state.now
        )
