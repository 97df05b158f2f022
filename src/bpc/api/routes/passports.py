"""/v1/passports: the passport of a product, and asking for a new version of it."""

from typing import Final

from pydantic import Field
from starlette.requests import Request as HttpRequest

from bpc.api.deciding import require_undenied, sku_to_decide
from bpc.api.models import Answer, Id, Moment, Page, Request
from bpc.api.paging import Paged
from bpc.api.routes.passport_versions import PassportVersion
from bpc.api.routing import Routes
from bpc.api.work import Work
from bpc.core.cursor import Place
from bpc.core.ids import BatteryProductId, PassportId, RulePackageVersionId, SnapshotId
from bpc.core.policies import Resource
from bpc.db import passport_versions, passports
from bpc.pipeline.compile import request_compile

routes = Routes("Passports")

COMPILE: Final = "passport:compile"


class NewPassport(Request):
    battery_product_id: Id = Field(description="The product it is for; a product has one passport.")


class PassportMade(Answer):
    passport_id: Id


class Passport(Answer):
    passport_id: Id
    battery_product_id: Id
    current_passport_version_id: Id | None = Field(description="The version that is ACTIVE; null where none is.")
    created_at: Moment


class NewCompile(Request):
    snapshot_id: Id = Field(description="A snapshot that is SEALED.")
    rule_package_version_id: Id = Field(description="A version of rules that is PUBLISHED.")


class CompileRequested(Answer):
    job_id: Id = Field(description="The job that compiles. Signing and the QR code are jobs that follow it.")
    passport_version_id: Id = Field(description="The version, which is there when the job has succeeded.")
    issued_at: Moment = Field(description="The moment that the passport will say it was issued at.")


@routes.write("/v1/passports", permission=COMPILE, resource="Passport", status=201, errors=("NOT_FOUND",))
async def create_passport(work: Work, request: HttpRequest, body: NewPassport) -> PassportMade:
    """Create the passport of a product. Where there is one, a CONFLICT names it."""
    product = BatteryProductId(body.battery_product_id)
    sku = await sku_to_decide(work, product)
    require_undenied(work, request, [Resource(type="Passport", sku=sku)], COMPILE)
    require_undenied(work, request, [Resource(type="BatteryProduct", id=product, sku=sku)], COMPILE, "passport:read")
    return PassportMade.model_validate(await passports.create(work.conn, work.tenant, product, act=work.act))


@routes.read("/v1/passports", permission="passport:read", resource="Passport")
async def list_passports(work: Work, paged: Paged) -> Page[Passport]:
    """List passports, newest first."""
    rows = await passports.page(work.conn, work.tenant, paged.ask)
    return paged.page(rows, lambda row: Place(row.created_at, row.passport_id), Passport.model_validate)


@routes.read("/v1/passports/{passport_id}", permission="passport:read", resource="Passport")
async def get_passport(work: Work, passport_id: Id) -> Passport:
    """Get a passport."""
    return Passport.model_validate(await passports.get(work.conn, work.tenant, PassportId(passport_id)))


@routes.read("/v1/passports/{passport_id}/versions", permission="passport:read", resource="Passport")
async def list_passport_versions(work: Work, passport_id: Id, paged: Paged) -> Page[PassportVersion]:
    """List the versions of a passport, newest first."""
    passport = (await passports.get(work.conn, work.tenant, PassportId(passport_id))).passport_id
    rows = await passport_versions.of_passport(work.conn, work.tenant, passport, paged.ask)
    return paged.page(rows, lambda row: Place(row.created_at, row.passport_version_id), PassportVersion.model_validate)


@routes.write(
    "/v1/passports/{passport_id}/compile",
    permission=COMPILE,
    resource="Passport",
    status=202,
    errors=("SNAPSHOT_NOT_READY", "RULE_PKG_NOT_PUBLISHED"),
)
async def compile_passport(work: Work, request: HttpRequest, passport_id: Id, body: NewCompile) -> CompileRequested:
    """Ask for a new version, compiled of a sealed snapshot by published rules. What it depends on is fixed here."""
    snapshot = Resource(type="DataSnapshot", id=body.snapshot_id)
    rules = Resource(type="RulePackageVersion", id=body.rule_package_version_id)
    require_undenied(work, request, [snapshot], COMPILE, "snapshot:build")
    require_undenied(work, request, [rules], COMPILE, "rules:read")
    means = work.service.steps.means
    requested = await request_compile(
        work.conn,
        work.queue,
        work.service.steps.compile,
        work.tenant,
        PassportId(passport_id),
        snapshot=SnapshotId(body.snapshot_id),
        rule_version=RulePackageVersionId(body.rule_package_version_id),
        compiler_build_id=means.compiler_build_id,
        signing_key_id=means.signing_key_id,
        act=work.act,
    )
    return CompileRequested.model_validate(requested)
