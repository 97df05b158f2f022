"""/v1/passport-versions/{id}/diff/{other} and /why: what differs between two versions, and how a value came about."""

from typing import Annotated, Any

from fastapi import Query
from pydantic import Field
from starlette.requests import Request

from bpc.api.access.auth import load_resource, require_not_denied, require_sources_not_denied
from bpc.api.http.child_compute import compute_in_child
from bpc.api.http.models import Id, IdOf, ResponseBody, Text
from bpc.api.http.request_context import Context
from bpc.api.http.routing import RouteFamily
from bpc.core.errors import Refusal
from bpc.core.formats.ids import PassportVersionId
from bpc.core.passport.bundle import write_bundle
from bpc.core.passport.why_bundle import explain_bundle
from bpc.core.readiness.difference import RuleChange, compare_entries
from bpc.storage.passports.exports import load_bundle

routes = RouteFamily("Passport versions", resource="PassportVersion")


class ValueOrigin(ResponseBody):
    """The place in a document that a value is from."""

    place: str = Field(examples=["PCF!C2"])
    file_name: str | None
    supplier: str | None
    stated_at: str
    document_id: str
    document_version_id: str


class DifferentFact(ResponseBody):
    """A member of a fact that differs; an absent value is null."""

    fact_type: str = Field(examples=["PCF"])
    fact_key: str = Field(examples=["pcf:SKU-1"])
    member: str = Field(examples=["total_gco2e"])
    before: Any
    after: Any
    before_origin: ValueOrigin | None
    after_origin: ValueOrigin | None
    message: str = Field(validation_alias="says")


class DifferentField(ResponseBody):
    path: str = Field(examples=["carbon.total"])
    before: Any = Field(description="The value in the first version; null if it has none.")
    after: Any = Field(description="The value in the second version; null if it has none.")
    causes: list[str] = Field(description="Why it differs, in sentences.")


class DifferentRule(ResponseBody):
    path: str
    change: RuleChange


class DifferentCompliance(ResponseBody):
    code: str
    field: str
    before: dict[str, Any] | None = Field(description="The entry as the payload has it; null if there was none.")
    after: dict[str, Any] | None = Field(description="The entry as the payload has it; null if there is none.")


class VersionDifference(ResponseBody):
    """What differs between two versions. All lists are complete."""

    before_id: Id
    after_id: Id
    fields: list[DifferentField]
    compliance: list[DifferentCompliance]
    facts: list[DifferentFact] = Field(description="Member by member, with the documents that say it.")
    rules: list[DifferentRule] = Field(description="Fields whose rules differ; layout and comments do not count.")
    access: list[str] = Field(description="Fields that other audiences may see.")
    product: list[str] = Field(description="Sentences, if the SKU or the name differ.")


@routes.read(
    "/v1/passport-versions/{passport_version_id}/diff/{other_version_id}",
    permission="passport:read",
    heavy=True,
    errors=("CONFLICT",),
)
async def compare_passport_versions(
    ctx: Context,
    request: Request,
    passport_version_id: IdOf[PassportVersionId],
    other_version_id: IdOf[PassportVersionId],
) -> VersionDifference:
    """Compare two issued versions: fields, compliance, facts and rules that differ, with the cause in words."""
    other = await load_resource(ctx, "PassportVersion", other_version_id)
    require_not_denied(ctx, request, [other], "passport:read")
    before = await load_bundle(ctx.conn, ctx.tenant, passport_version_id, with_events=False)
    after = await load_bundle(ctx.conn, ctx.tenant, other_version_id, with_events=False)
    difference = await compute_in_child(ctx.service.processes, compare_entries, before.entries, after.entries)
    return VersionDifference.model_validate(difference)


# Why a value is what it is


class ExplanationStep(ResponseBody):
    """One step in words, and what it rests on."""

    says: str = Field(examples=["Capacity is 75.0 (Dec(6))"])
    place: str | None = Field(
        description="Where the rules say so; null for what is in no rule.", examples=["rules.bpc:3:7"]
    )
    because: list["ExplanationStep"] = Field(description="The steps below it, down to the facts and their cells.")


class ValueExplanation(ResponseBody):
    subject: str = Field(description="What it is about: the title of the field, or the code of the requirement.")
    step: ExplanationStep


@routes.read(
    "/v1/passport-versions/{passport_version_id}/why",
    permission="passport:read",
    heavy=True,
    errors=("NOT_FOUND", "CONFLICT"),
)
async def explain_value(
    ctx: Context,
    request: Request,
    passport_version_id: IdOf[PassportVersionId],
    field: Annotated[
        Text, Query(description="The path of a field, or the code of a requirement.", examples=["battery.capacity_kwh"])
    ],
) -> ValueExplanation:
    """Explain how a field of a signed version got its value.

    The rules are evaluated again, and each step is told. It shows facts and rules, so a policy that denies one of them
    denies the whole explanation.
    """
    await require_sources_not_denied(ctx, request, passport_version_id)
    bundle = await load_bundle(ctx.conn, ctx.tenant, passport_version_id)
    answer = await compute_in_child(ctx.service.processes, explain_for_readers, write_bundle(bundle), field)
    if isinstance(answer, tuple):
        raise NotExplained(*answer)
    return ValueExplanation.model_validate(answer)


class NotExplained(Refusal):
    """A field that does not exist, or whose value does not follow from its rules."""

    code = "NOT_FOUND"

    def __init__(self, code: str, says: str, fix: str | None) -> None:
        super().__init__(says, fix=fix)
        self.__dict__["code"] = code


def explain_for_readers(bundle: bytes, path: str) -> dict[str, Any] | tuple[str, str, str | None]:
    """The explanation as plain data; or code, sentence and way out of a refusal, which cannot be pickled."""
    try:
        _, reason = explain_bundle(bundle, path)
    except Refusal as refusal:
        return refusal.code, refusal.says, refusal.fix
    return {"subject": reason.subject or path, "step": reason.as_json()}
