"""/v1/signing-keys and /.well-known/bpc-keys: the keys of a tenant and of the installation, and their public halves.

A tenant makes, retires and reports its own keys. A private key is made before the transaction ends: if that fails, or a
second person does not confirm it, there is a private key that nobody registered, which signs nothing.
"""

from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field
from starlette.requests import Request
from starlette.responses import Response

from bpc.api.http.approval_requests import is_trial
from bpc.api.http.etag import JSON, IfNoneMatch, serve_bytes
from bpc.api.http.models import TIME_FORMS, LongText, Moment, Page, RequestBody, ResponseBody, SentMoment
from bpc.api.http.request_context import Context, KeptValue, RequestContext, Service
from bpc.api.http.routing import RouteFamily
from bpc.core.audit.signing import PinnedKey, Seed, derive_public_key, key_to_json, to_base64
from bpc.core.errors import NotFound, UnknownResource
from bpc.core.formats import canonical_json
from bpc.runtime import clock
from bpc.runtime.settings.data_dir import locate_public_url
from bpc.storage.access.tenants_and_actors import TenantRow, list_tenants
from bpc.storage.audit import signing_keys, tenant_keys
from bpc.storage.audit.signing_keys import SigningKeyRow
from bpc.storage.database import use_system_role

routes = RouteFamily("Signing keys", resource="SigningKey")

PERMISSION: Final = "passport:sign"
MAX_NAME_PART: Final = 48  # of the tenant's name in the name of its key
NAME_BYTES: Final = 4

Base64 = Annotated[str, BeforeValidator(lambda value: to_base64(value) if isinstance(value, bytes) else value)]


class SigningKey(ResponseBody):
    key_id: str = Field(examples=["dev-key-1"])
    public_key: Base64 = Field(
        description="The 32 bytes of an Ed25519 public key, base64.",
        examples=["11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="],
    )
    tenant: str | None = Field(description="The tenant it signs for; null for a key of the installation.")
    status: Literal["ACTIVE", "RETIRED", "COMPROMISED"] = Field(
        description="Only an active key signs. Signatures of a retired key remain valid; those of a compromised one "
        "only if the transparency log shows them before `compromised_since`."
    )
    created_at: Moment
    retired_at: Moment | None
    valid_from: Moment | None = Field(description="It signs from then on; null: from the beginning.")
    valid_until: Moment | None = Field(description="It signs until then; null: until it is retired.")
    compromised_since: Moment | None


class NewSigningKey(RequestBody):
    valid_until: SentMoment | None = Field(None, description="It signs until then.", examples=["2029-02-18T00:00:00Z"])


class KeyCompromise(RequestBody):
    since: SentMoment = Field(
        description=f"The earliest time at which others may have had the key. {TIME_FORMS}",
        examples=["2027-02-18T00:00:00Z"],
    )
    reason: LongText = Field(examples=["A backup of the key was stolen."])


@routes.read("/v1/signing-keys", permission=PERMISSION)
async def list_signing_keys(ctx: Context) -> Page[SigningKey]:
    """List the signing keys of the tenant and of the installation, newest first, all on one page."""
    rows = await signing_keys.list_keys(ctx.conn, ctx.tenant)
    return Page(items=[SigningKey.model_validate(key) for key in rows], next_cursor=None)


@routes.write(
    "/v1/signing-keys",
    permission=PERMISSION,
    status=201,
    four_eyes="key_changes",
    errors=("SIGNING_KEY_MISSING",),
)
async def create_signing_key(ctx: Context, request: Request, body: NewSigningKey) -> SigningKey:
    """Create a signing key of the tenant. From now on it signs what the tenant compiles, and no other key does.

    Its private half is made where private keys are kept, and never leaves it.
    """
    async with use_system_role(ctx.conn):
        tenant = await _load_tenant(ctx)
        key_id = f"{tenant.slug[:MAX_NAME_PART]}-{clock.random_bytes(NAME_BYTES).hex()}"
        if is_trial(request):  # a key that is made stays, so a trial stores one that nobody has
            public_key = derive_public_key(Seed(clock.random_bytes(32)))
        else:
            public_key = await ctx.service.key_ring.create_key(key_id, str(tenant.tenant_id))
        row = await tenant_keys.create_tenant_key(
            ctx.conn, tenant, key_id, public_key, act=ctx.act, valid_until=body.valid_until
        )
    return SigningKey.model_validate(row)


@asynccontextmanager
async def _use_system_role_for_key(ctx: RequestContext) -> AsyncIterator[None]:
    """Use the system role. An unknown key is not named in the answer: what was sent may be the secret key itself."""
    try:
        async with use_system_role(ctx.conn):
            yield
    except UnknownResource as error:
        raise NotFound("the tenant has no such signing key", hint=error.hint) from None


@routes.write(
    "/v1/signing-keys/{key_id}:retire", permission=PERMISSION, four_eyes="key_changes", errors=("NOT_FOUND", "CONFLICT")
)
async def retire_signing_key(ctx: Context, key_id: str) -> SigningKey:
    """Retire a key of the tenant for good. What it signed stays valid; versions that wait for it are never signed."""
    async with _use_system_role_for_key(ctx):
        row = await tenant_keys.retire_tenant_key(ctx.conn, await _load_tenant(ctx), key_id, act=ctx.act)
    return SigningKey.model_validate(row)


@routes.write(
    "/v1/signing-keys/{key_id}:report-compromise",
    permission=PERMISSION,
    four_eyes="key_changes",
    errors=("NOT_FOUND", "CONFLICT"),
)
async def report_key_compromise(ctx: Context, key_id: str, body: KeyCompromise) -> SigningKey:
    """Say that others have had a key of the tenant since a time. Nobody can take that back.

    Its signatures count only if the transparency log shows them before that time. A second report may give an earlier
    time.
    """
    async with _use_system_role_for_key(ctx):
        row = await tenant_keys.report_compromise(
            ctx.conn, await _load_tenant(ctx), key_id, since=body.since, reason=body.reason, act=ctx.act
        )
    return SigningKey.model_validate(row)


async def _load_tenant(ctx: RequestContext) -> TenantRow:
    [tenant] = [row for row in await list_tenants(ctx.conn) if row.tenant_id == ctx.tenant]
    return tenant


KEPT_SECONDS: Final = 1.0  # everybody may call these routes, so they do not query the database each time
MAX_KEPT_TENANTS: Final = 1000
# Short: a new key signs as soon as it is created, and verifiers must then get the new set.
CACHE_CONTROL: Final = "public, max-age=300"


class PublishedKeys:
    """Key sets as bytes, kept for a moment: of the whole installation, and of the tenants asked for last."""

    def __init__(self) -> None:
        self._all = KeptValue[bytes]()
        self._of_tenants: OrderedDict[str, KeptValue[bytes | None]] = OrderedDict()

    async def get_all(self, service: Service) -> bytes:
        return await self._all.get(partial(_read_all_keys, service), KEPT_SECONDS)

    async def find_tenant_set(self, service: Service, slug: str) -> bytes | None:
        """The keys of one tenant; None if it has none, or if there is no such tenant."""
        kept_set = self._of_tenants.setdefault(slug, KeptValue())
        self._of_tenants.move_to_end(slug)
        while len(self._of_tenants) > MAX_KEPT_TENANTS:
            self._of_tenants.popitem(last=False)
        return await kept_set.get(partial(_read_tenant_keys, service, slug), KEPT_SECONDS)


async def _read_all_keys(service: Service) -> bytes:
    async with service.database.system() as conn:
        return _encode_key_set(service, await signing_keys.list_all_keys(conn))


async def _read_tenant_keys(service: Service, slug: str) -> bytes | None:
    async with service.database.system() as conn:
        rows = await tenant_keys.list_tenant_keys(conn, slug)
    return _encode_key_set(service, rows) if rows else None


def _encode_key_set(service: Service, rows: Sequence[SigningKeyRow]) -> bytes:
    keys, status_url = [_to_published_key(row) for row in rows], locate_public_url(service.settings)
    # Whoever pins these keys may ask this host what became of a passport.
    return canonical_json.encode({"keys": keys, **({} if status_url is None else {"status_url": status_url})})


def _to_published_key(row: SigningKeyRow) -> dict[str, canonical_json.Json]:
    key = PinnedKey(
        row.public_key,
        row.key_id,
        tenant_id=None if row.tenant_id is None else str(row.tenant_id),
        tenant=row.tenant,
        valid_from=row.valid_from,
        valid_until=row.valid_until,
        compromised_since=row.compromised_since,
    )
    return key_to_json(key, status=row.status, created_at=row.created_at, retired_at=row.retired_at)


@routes.open("/.well-known/bpc-keys.json", media_type=JSON)
async def get_public_keys(request: Request, if_none_match: IfNoneMatch = None) -> Response:
    """Get all public keys of this installation and its tenants, also retired ones. `bpc verify --keys` takes them."""
    published_keys: PublishedKeys = request.app.state.public_keys
    content = await published_keys.get_all(request.app.state.service)
    return serve_bytes(content, JSON, if_none_match, cache=CACHE_CONTROL)


@routes.open("/.well-known/bpc-keys/{tenant}.json", media_type=JSON)
async def get_tenant_public_keys(request: Request, tenant: str, if_none_match: IfNoneMatch = None) -> Response:
    """Get the public keys of one tenant, also retired ones. Pin these to accept passports of this tenant alone."""
    published_keys: PublishedKeys = request.app.state.public_keys
    content = await published_keys.find_tenant_set(request.app.state.service, tenant)
    if content is None:
        raise NotFound("no tenant of this name has signing keys of its own", fix="see /.well-known/bpc-keys.json")
    return serve_bytes(content, JSON, if_none_match, cache=CACHE_CONTROL)
