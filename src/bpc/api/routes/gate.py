"""…/compliance, …:waive, …/waivers, /v1/tenant/…, /v1/overview: what blocks, what is waived, where a tenant stands."""

from collections.abc import Mapping
from typing import Final, LiteralString

from pydantic import Field

from bpc.api.access.auth import decide_for
from bpc.api.http.models import Id, IdOf, LongText, Moment, Page, Paging, RequestBody, ResponseBody
from bpc.api.http.request_context import Context
from bpc.api.http.routing import RouteFamily
from bpc.core.formats.ids import PassportVersionId
from bpc.core.passport.gate import ActivationBlocker, EntryName
from bpc.core.policies import Resource
from bpc.core.view_grants import BundleReaders
from bpc.pipeline.gate import EntrySource, load_compliance, waive
from bpc.storage import overview
from bpc.storage.access import storage_quota, tenant_settings
from bpc.storage.passports import passport_versions, waivers

waiver_routes = RouteFamily("Waivers", resource="PassportVersion")

MAX_ENTRIES: Final = 1_000
CODE_EXAMPLE: Final = "ART_8_1"
FIELD_EXAMPLE: Final = "materials.recycled_cobalt"


class EntryToWaive(RequestBody):
    """All FAIL and WARN entries with this code that the rule of this field reported."""

    code: LongText = Field(description="`code` of the entry in the payload.", examples=[CODE_EXAMPLE])
    field: LongText = Field(description="`field` of the entry in the payload.", examples=[FIELD_EXAMPLE])


class NewWaiver(RequestBody):
    entries: list[EntryToWaive] = Field(min_length=1, max_length=MAX_ENTRIES, description="What is waived.")
    reason: LongText = Field(
        description="Why the passport may be activated nevertheless; it is recorded.",
        examples=["the recycled share is due from 2031 on"],
    )


class Waiver(ResponseBody):
    waiver_id: Id
    passport_version_id: Id
    code: str = Field(examples=[CODE_EXAMPLE])
    field: str = Field(examples=[FIELD_EXAMPLE])
    entries: int = Field(description="Number of FAIL and WARN entries that it covers.", examples=[1])
    reason: str
    waived_at: Moment
    waived_by: Id | None


class Waived(ResponseBody):
    passport_version_id: Id
    fail_count: int = Field(description="Number of FAIL entries, also of waived ones.")
    warn_count: int = Field(description="Number of WARN entries, also of waived ones.")
    waived_count: int = Field(description="Number of FAIL and WARN entries that are waived, earlier ones included.")
    waivers: list[Waiver] = Field(description="The new ones.")


@waiver_routes.write(
    "/v1/passport-versions/{passport_version_id}:waive",
    permission="passport:waive",
    four_eyes="waive",
    status=201,
    errors=("CONFLICT",),
)
async def waive_passport_version(ctx: Context, passport_version_id: IdOf[PassportVersionId], body: NewWaiver) -> Waived:
    """Waive compliance entries of a version that is not activated yet. The next version has no waivers."""
    names = [EntryName(entry.code, entry.field) for entry in body.entries]
    rows = await waive(ctx.conn, ctx.tenant, passport_version_id, names, reason=body.reason, act=ctx.act)
    version = await passport_versions.get_version(ctx.conn, ctx.tenant, passport_version_id)
    return Waived(
        passport_version_id=version.passport_version_id,
        fail_count=version.fail_count,
        warn_count=version.warn_count,
        waived_count=version.waived_count,
        waivers=[Waiver.model_validate(row) for row in rows],
    )


@waiver_routes.read("/v1/passport-versions/{passport_version_id}/waivers", permission="passport:read")
async def list_waivers(ctx: Context, passport_version_id: IdOf[PassportVersionId], page: Paging) -> Page[Waiver]:
    """List the waivers of a version, newest first."""
    await passport_versions.get_version(ctx.conn, ctx.tenant, passport_version_id)
    return page.build_page(await waivers.list_waivers(ctx.conn, ctx.tenant, passport_version_id, page.query), Waiver)


class ComplianceEntryState(ResponseBody):
    """A compliance entry, and whether it is waived."""

    code: str = Field(examples=[CODE_EXAMPLE])
    field: str = Field(description="The field whose rule reported it; of a finding, its key.", examples=[FIELD_EXAMPLE])
    message: str
    status: str = Field(description="PASS, FAIL, WARN or NOT_APPLICABLE.", examples=["FAIL"])
    verdict: str = Field(
        description="Whether the requirement was assessed: assessed, not_yet_in_force, undetermined, expired or "
        "out_of_scope.",
        examples=["assessed"],
    )
    args: dict[str, str] = Field(
        description="The texts in the message of a requirement, as the rules name them.", examples=[{"cobalt": "15.99"}]
    )
    source: EntrySource = Field(description="Whether a rule reported it, or it is a finding in the evidence.")
    waived: bool


class VersionCompliance(ResponseBody):
    passport_version_id: Id
    activation_blocked_by: ActivationBlocker = Field(
        description="Which compliance entries block the activation of a version now."
    )
    fail_count: int = Field(description="Number of FAIL entries of the rules, also of waived ones.")
    warn_count: int = Field(description="Number of WARN entries of the rules, also of waived ones.")
    finding_fail_count: int = Field(description="Number of findings that are errors, also of waived ones.")
    finding_warn_count: int = Field(description="Number of findings that are warnings, also of waived ones.")
    waived_count: int = Field(description="Number of FAIL and WARN entries that are waived.")
    entries: list[ComplianceEntryState] = Field(description="All entries: first findings, then those of the rules.")


@waiver_routes.read("/v1/passport-versions/{passport_version_id}/compliance", permission="passport:read")
async def get_compliance(ctx: Context, passport_version_id: IdOf[PassportVersionId]) -> VersionCompliance:
    """Get everything that decides whether a version may be activated: entries of the rules, findings and waivers."""
    report = await load_compliance(ctx.conn, ctx.tenant, passport_version_id)
    return VersionCompliance(
        passport_version_id=passport_version_id,
        activation_blocked_by=report.activation_blocked_by,
        fail_count=report.fail_count,
        warn_count=report.warn_count,
        finding_fail_count=report.findings.fail,
        finding_warn_count=report.findings.warn,
        waived_count=report.waived_count,
        entries=[ComplianceEntryState.model_validate(entry) for entry in report.entries],
    )


setting_routes = RouteFamily("Tenant")


class TenantIdentity(ResponseBody):
    tenant_id: Id = Field(description="Signed documents of the tenant show it; it is no secret.")


class TenantSettings(ResponseBody):
    activation_blocked_by: ActivationBlocker = Field(
        description="Which compliance entries block the activation of a version."
    )
    minimum_branch_coverage_pct: int = Field(
        description="The percentage of branches that the tests of rules must reach before the rules are published.",
        examples=[80],
    )
    bundles_for: BundleReaders = Field(
        description="Who may have bundles of public versions, which hold all that a passport was made of: NOBODY, "
        "AUTHORITIES and GRANTEES under a grant, or EVERYBODY."
    )
    request_words_days: int = Field(
        description="How many days after its decision the words of a request to see more are kept.", examples=[365]
    )


class TenantSettingChanges(RequestBody):
    activation_blocked_by: ActivationBlocker = Field("FAIL", description="Left out, it stays as it is.")
    minimum_branch_coverage_pct: int = Field(
        80, strict=True, ge=0, le=100, description="Left out, it stays as it is.", examples=[80]
    )
    bundles_for: BundleReaders = Field("NOBODY", description="Left out, it stays as it is.")
    request_words_days: int = Field(
        365, strict=True, ge=1, le=3650, description="Left out, it stays as it is.", examples=[365]
    )


class TenantStorage(ResponseBody):
    used_bytes: int = Field(description="All of the below.", examples=[1048576])
    quota_bytes: int | None = Field(description="What it may store; null if there is no limit.", examples=[None])
    documents_bytes: int
    exports_bytes: int
    passport_versions_bytes: int
    rules_bytes: int
    battery_passports_bytes: int = Field(description="Passports of batteries, in their packs, and of batches.")


@setting_routes.read("/v1/tenant", permission="passport:read")
async def get_tenant(ctx: Context) -> TenantIdentity:
    """Get the id of the tenant: whoever offers it a battery needs it."""
    return TenantIdentity(tenant_id=ctx.tenant)


@setting_routes.read("/v1/tenant/storage", permission="passport:read", heavy=True)
async def get_tenant_storage(ctx: Context) -> TenantStorage:
    """Get how many bytes the tenant stores, and how many it may. What would be more is refused."""
    use = await storage_quota.measure_use(ctx.conn, ctx.tenant)
    default = ctx.service.settings.tenant_storage_bytes
    quota = await storage_quota.load_quota(ctx.conn, ctx.tenant, default=default)
    return TenantStorage(
        used_bytes=use.total,
        quota_bytes=quota or None,
        documents_bytes=use.documents,
        exports_bytes=use.exports,
        passport_versions_bytes=use.passport_versions,
        rules_bytes=use.rules,
        battery_passports_bytes=use.battery_passports,
    )


@setting_routes.read("/v1/tenant/settings", permission="passport:read")
async def get_tenant_settings(ctx: Context) -> TenantSettings:
    """Get the settings of the tenant that are in force."""
    return TenantSettings.model_validate(await tenant_settings.load_settings(ctx.conn, ctx.tenant))


@setting_routes.write("/v1/tenant/settings", permission="tenant:admin", method="PUT", four_eyes="settings")
async def change_tenant_settings(ctx: Context, body: TenantSettingChanges) -> TenantSettings:
    """Change settings of the tenant. They hold from the next activation on; ACTIVE versions stay ACTIVE.

    While any action waits for a second person, so does this: without a gate there is nothing to waive.
    """
    changes = body.model_dump(exclude_unset=True)
    return TenantSettings.model_validate(
        await tenant_settings.change_settings(ctx.conn, ctx.tenant, changes, act=ctx.act)
    )


# What each permission shows, and the resource that a policy may deny.
COUNTS: Final[Mapping[tuple[str, str], Mapping[str, LiteralString]]] = {
    ("docs:read", "Document"): overview.EVIDENCE_COUNTS,
    ("snapshot:build", "DataSnapshot"): overview.SNAPSHOT_COUNTS,
    ("passport:read", "Passport"): overview.PASSPORT_COUNTS,
    ("jobs:read", "Job"): overview.JOB_COUNTS,
    ("approval:decide", "Approval"): overview.APPROVAL_COUNTS,
    ("access:admin", "ApiKey"): overview.KEY_COUNTS,
}


class Overview(ResponseBody):
    """Figures of the tenant. One that the caller has no permission for is null; none counts further than `most`."""

    most: int = Field(overview.MOST_COUNTED, description="A figure that is as large as this may be larger.")
    documents: int | None = Field(None, description="Versions of documents.")
    facts: int | None = None
    snapshots: int | None = Field(None, description="Sealed snapshots.")
    products: int | None = Field(None, description="Active products.")
    compiled: int | None = Field(None, description="Passport versions, of any status.")
    compiling: int | None = Field(None, description="Versions that wait for their signature.")
    signed: int | None = Field(None, description="Versions that were signed, whatever became of them.")
    coded: int | None = Field(None, description="Those of them that have their QR code.")
    active: int | None = Field(None, description="Versions that are in force.")
    replayed: int | None = Field(None, description="Versions in force that were compiled again and compared.")
    can_be_activated: int | None = Field(None, description="Signed versions without a FAIL entry.")
    rejected_documents: int | None = Field(None, description="Versions of documents that were rejected.")
    failed_jobs: int | None = Field(None, description="Jobs that ended badly and have no attempts left.")
    waiting_approvals: int | None = Field(None, description="Requests that wait for a second person.")
    expiring_keys: int | None = Field(None, description="API keys that expire within 30 days.")


@setting_routes.read("/v1/overview", permission="passport:read")
async def get_overview(ctx: Context) -> Overview:
    """Get figures of the tenant: how much there is of each step, and what needs somebody."""
    counts: dict[str, LiteralString] = {}
    for (permission, resource), counts_of_permission in COUNTS.items():
        if decide_for(ctx.caller, permission, Resource(type=resource), ctx.act.at).allowed:
            counts |= counts_of_permission
    figures = await overview.count_rows(ctx.conn, ctx.tenant, counts, now=ctx.act.at)
    return Overview.model_validate(figures)
