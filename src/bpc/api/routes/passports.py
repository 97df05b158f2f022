"""/v1/passports, /v1/passport-versions: the passports of products, and compiled versions."""

from dataclasses import replace
from typing import Annotated, Final, Literal

from fastapi import Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from bpc.api.access.auth import load_resource, require_not_denied
from bpc.api.http.child_compute import ChildComputePool
from bpc.api.http.error_responses import answer_refusal
from bpc.api.http.models import (
    CreatedAfter,
    CreatedBefore,
    Hash,
    Id,
    IdOf,
    LongText,
    Moment,
    Page,
    Paging,
    RequestBody,
    ResponseBody,
)
from bpc.api.http.request_context import Context
from bpc.api.http.routing import RouteFamily
from bpc.api.routes.products import ProductFilters
from bpc.core.formats.ids import BatteryProductId, PassportId, PassportVersionId, RulePackageVersionId, SnapshotId
from bpc.core.policies import Resource
from bpc.pipeline.activate import activate, revoke
from bpc.pipeline.compile import request_compile
from bpc.pipeline.replay import replay
from bpc.pipeline.sign import abandon, request_sign, require_key_that_signs
from bpc.storage.passports import passport_versions, passports
from bpc.storage.passports.passport_versions import PassportVersionStatus
from bpc.storage.passports.product_search import ProductFilter

version_routes = RouteFamily("Passport versions", resource="PassportVersion")


class PassportVersion(ResponseBody):
    passport_version_id: Id
    passport_id: Id
    sku: str = Field(description="The SKU of its product.", examples=["SKU-123"])
    product_name: str = Field(
        description="The present name of its product; the payload has the name of the time of issue.",
        examples=["Traction battery 75 kWh"],
    )
    status: PassportVersionStatus = Field(description="COMPILING until it is signed; SIGNED until it is activated.")
    created_at: Moment = Field(description="When it was requested; the payload has this time as `issued_at`.")
    activated_at: Moment | None
    superseded_at: Moment | None
    revoked_at: Moment | None
    abandoned_at: Moment | None = Field(description="When it was given up before it was signed; its status stays.")
    abandon_reason: str | None = Field(description="Why it was given up.")
    snapshot_id: Id
    rule_package_version_id: Id
    compiler_build_id: str = Field(examples=["bpc-1.0.0"])
    payload_hash: Hash
    proof_root_hash: Hash
    receipt_hash: Hash = Field(description="SHA-256 of the receipt without its signature; this is what is signed.")
    signing_key_id: str | None = Field(description="The key that signed it; null while COMPILING.")
    has_qr: bool = Field(description="True once its QR code exists.")
    fail_count: int = Field(description="Number of compliance entries FAIL, also of waived ones.", examples=[0])
    warn_count: int = Field(description="Number of compliance entries WARN, also of waived ones.", examples=[0])
    waived_count: int = Field(
        description="Number of compliance entries that are waived: they do not block the activation.", examples=[0]
    )


class Activated(ResponseBody):
    passport_version_id: Id
    status: PassportVersionStatus = Field(examples=["ACTIVE"])
    superseded_passport_version_id: Id | None = Field(description="The version that was ACTIVE until now.")


class SigningRequested(ResponseBody):
    passport_version_id: Id
    job_id: Id = Field(description="The job that signs it.")


class Abandonment(RequestBody):
    reason: LongText = Field(description="The reason; it is recorded.", examples=["its signing key is lost"])


class Revocation(RequestBody):
    reason: LongText = Field(description="The reason; it is recorded.", examples=["the PCF report was withdrawn"])


class Revoked(ResponseBody):
    passport_version_id: Id
    status: PassportVersionStatus = Field(examples=["REVOKED"])


class ReplayStep(ResponseBody):
    name: str = Field(examples=["replay"])
    ok: bool
    detail: str = Field(examples=["compiling again gives the same payload, proof and receipt, byte for byte"])


class Replayed(ResponseBody):
    status: Literal["OK"] = "OK"
    steps: list[ReplayStep] = Field(description="All checks, in order.")


VersionStatusFilter = Annotated[PassportVersionStatus | None, Query(description="Only versions with this status.")]


@version_routes.read("/v1/passport-versions", permission="passport:read")
async def list_all_passport_versions(
    ctx: Context, filters: ProductFilters, page: Paging, status: VersionStatusFilter = None
) -> Page[PassportVersion]:
    """List the versions of all passports, newest first. `supplier` also needs `docs:read`."""
    filters = replace(filters, status=status)
    rows = await passport_versions.list_versions(ctx.conn, ctx.tenant, None, filters, page.query)
    return page.build_page(rows, PassportVersion)


@version_routes.read("/v1/passport-versions/{passport_version_id}", permission="passport:read")
async def get_passport_version(ctx: Context, passport_version_id: IdOf[PassportVersionId]) -> PassportVersion:
    """Get a version. It is not found until its compile job has succeeded."""
    row = await passport_versions.get_version(ctx.conn, ctx.tenant, passport_version_id)
    return PassportVersion.model_validate(row)


@version_routes.write(
    "/v1/passport-versions/{passport_version_id}/activate",
    permission="passport:compile",
    four_eyes="activate",
    errors=("COMPLIANCE_BLOCKED",),
)
async def activate_passport_version(ctx: Context, passport_version_id: IdOf[PassportVersionId]) -> Activated:
    """Make a signed version the current one. The previous one becomes SUPERSEDED in the same transaction.

    Compliance entries that block it and are not waived are in `details.entries` of the refusal.
    """
    result = await activate(ctx.conn, ctx.tenant, passport_version_id, act=ctx.act)
    return Activated.model_validate(result)


@version_routes.write(
    "/v1/passport-versions/{passport_version_id}:sign",
    permission="passport:sign",
    status=202,
    errors=("CONFLICT", "SIGNING_KEY_MISSING"),
)
async def sign_passport_version(ctx: Context, passport_version_id: IdOf[PassportVersionId]) -> SigningRequested:
    """Sign a version that stayed COMPILING because its job failed. A job that still waits or runs stays as it is."""
    job_id = await request_sign(
        ctx.conn, ctx.queue, ctx.service.pipeline_jobs.sign, ctx.tenant, passport_version_id, act=ctx.act
    )
    return SigningRequested(passport_version_id=passport_version_id, job_id=job_id)


@version_routes.write(
    "/v1/passport-versions/{passport_version_id}:abandon", permission="passport:compile", errors=("CONFLICT",)
)
async def abandon_passport_version(
    ctx: Context, passport_version_id: IdOf[PassportVersionId], body: Abandonment
) -> PassportVersion:
    """Give up a version that is still COMPILING: it is never signed. Its status stays, and the reason is recorded."""
    return PassportVersion.model_validate(
        await abandon(ctx.conn, ctx.tenant, passport_version_id, reason=body.reason, act=ctx.act)
    )


@version_routes.write(
    "/v1/passport-versions/{passport_version_id}/revoke", permission="passport:revoke", four_eyes="revoke"
)
async def revoke_passport_version(
    ctx: Context, passport_version_id: IdOf[PassportVersionId], body: Revocation
) -> Revoked:
    """Revoke a signed version for good. If it was the current version, the passport has none afterwards."""
    return Revoked.model_validate(
        await revoke(ctx.conn, ctx.tenant, passport_version_id, reason=body.reason, act=ctx.act)
    )


@version_routes.write(
    "/v1/passport-versions/{passport_version_id}/replay",
    permission="passport:replay",
    heavy=True,
    errors=("REPLAY_MISMATCH", "SIGNATURE_INVALID"),
    response_model=Replayed,
)
async def replay_passport_version(ctx: Context, passport_version_id: IdOf[PassportVersionId]) -> Replayed | Response:
    """Compile a version again from its stored inputs and compare every byte. The result is recorded in any case.

    If only the signature does not verify, the answer is SIGNATURE_INVALID; any other difference is REPLAY_MISMATCH.
    """
    pool = ChildComputePool(ctx.service.processes)
    result = await replay(ctx.conn, ctx.tenant, passport_version_id, act=ctx.act, pool=pool)
    if refusal := result.refusal:
        # Returned, not raised: raising would roll back the event with the result.
        return answer_refusal(refusal)
    return Replayed(steps=[ReplayStep.model_validate(step) for step in result.steps])


passport_routes = RouteFamily("Passports", resource="Passport")

COMPILE_PERMISSION: Final = "passport:compile"
PassportStatusFilter = Annotated[
    Literal["ACTIVE", "NONE"] | None,
    Query(description="ACTIVE: only passports that have a current version. NONE: only those that have none."),
]


class NewPassport(RequestBody):
    battery_product_id: IdOf[BatteryProductId] = Field(description="The product it is for; a product has one passport.")


class PassportMade(ResponseBody):
    passport_id: Id


class Passport(ResponseBody):
    passport_id: Id
    battery_product_id: Id
    sku: str = Field(description="The SKU of its product.", examples=["SKU-123"])
    product_name: str = Field(description="The name of its product.", examples=["Traction battery 75 kWh"])
    current_passport_version_id: Id | None = Field(description="The ACTIVE version; null if there is none.")
    created_at: Moment


class NewCompile(RequestBody):
    snapshot_id: IdOf[SnapshotId] = Field(description="A SEALED snapshot.")
    rule_package_version_id: IdOf[RulePackageVersionId] = Field(description="A PUBLISHED version of rules.")


class CompileRequested(ResponseBody):
    job_id: Id = Field(description="The job that compiles. It also signs, or submits a job that does.")
    passport_version_id: Id = Field(description="The version; it exists when the job has succeeded.")
    issued_at: Moment = Field(description="The time of issue that the passport will show.")


@passport_routes.write("/v1/passports", permission=COMPILE_PERMISSION, status=201, errors=("NOT_FOUND",))
async def create_passport(ctx: Context, request: Request, body: NewPassport) -> PassportMade:
    """Create the passport of a product. If there is one, the answer is CONFLICT and names it."""
    product = body.battery_product_id
    battery = await load_resource(ctx, "BatteryProduct", product)
    require_not_denied(ctx, request, [Resource(type="Passport", sku=battery.sku)], COMPILE_PERMISSION)
    require_not_denied(ctx, request, [battery], COMPILE_PERMISSION, "passport:read")
    return PassportMade.model_validate(await passports.create_passport(ctx.conn, ctx.tenant, product, act=ctx.act))


@passport_routes.read("/v1/passports", permission="passport:read")
async def list_passports(
    ctx: Context, filters: ProductFilters, page: Paging, status: PassportStatusFilter = None
) -> Page[Passport]:
    """List passports, newest first. `supplier` also needs `docs:read`."""
    rows = await passports.list_passports(ctx.conn, ctx.tenant, replace(filters, status=status), page.query)
    return page.build_page(rows, Passport)


@passport_routes.read("/v1/passports/{passport_id}", permission="passport:read")
async def get_passport(ctx: Context, passport_id: IdOf[PassportId]) -> Passport:
    """Get a passport."""
    return Passport.model_validate(await passports.get_passport(ctx.conn, ctx.tenant, passport_id))


@passport_routes.read("/v1/passports/{passport_id}/versions", permission="passport:read")
async def list_passport_versions(
    ctx: Context,
    passport_id: IdOf[PassportId],
    page: Paging,
    status: VersionStatusFilter = None,
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
) -> Page[PassportVersion]:
    """List the versions of a passport, newest first."""
    passport = (await passports.get_passport(ctx.conn, ctx.tenant, passport_id)).passport_id
    filters = ProductFilter(status=status, created_after=created_after, created_before=created_before)
    rows = await passport_versions.list_versions(ctx.conn, ctx.tenant, passport, filters, page.query)
    return page.build_page(rows, PassportVersion)


@passport_routes.write(
    "/v1/passports/{passport_id}/compile",
    permission=COMPILE_PERMISSION,
    status=202,
    errors=("SNAPSHOT_NOT_READY", "RULE_PKG_NOT_PUBLISHED", "SIGNING_KEY_MISSING"),
)
async def compile_passport(
    ctx: Context, request: Request, passport_id: IdOf[PassportId], body: NewCompile
) -> CompileRequested:
    """Compile a new version from a sealed snapshot with published rules. A job does it; its inputs are fixed now."""
    snapshot = Resource(type="DataSnapshot", id=body.snapshot_id)
    rules = Resource(type="RulePackageVersion", id=body.rule_package_version_id)
    require_not_denied(ctx, request, [snapshot], COMPILE_PERMISSION, "snapshot:build")
    require_not_denied(ctx, request, [rules], COMPILE_PERMISSION, "rules:read")
    await require_key_that_signs(ctx.conn, ctx.tenant, installation_key=ctx.service.settings.signing_key_id)
    compile_request = await request_compile(
        ctx.conn,
        ctx.queue,
        ctx.service.pipeline_jobs.compile,
        ctx.tenant,
        passport_id,
        snapshot=body.snapshot_id,
        rule_version=body.rule_package_version_id,
        compiler_build_id=ctx.service.settings.compiler_build_id,
        signing_key_id=ctx.service.settings.signing_key_id,
        act=ctx.act,
    )
    return CompileRequested.model_validate(compile_request)
