"""/v1/passports:what-if: which active passports other rules or new documents would change. Nothing is stored."""

from collections.abc import Sequence
from typing import Any, Final, Self

from pydantic import Field, model_validator
from starlette.requests import Request

from bpc.api.access.auth import list_fact_resources, require_not_denied
from bpc.api.http.child_compute import ChildComputePool, RulesInvalid, compute_in_child
from bpc.api.http.models import Id, IdOf, RequestBody, ResponseBody, Text
from bpc.api.http.request_context import Context, RequestContext
from bpc.api.http.routing import RouteFamily
from bpc.api.routes.passports import COMPILE_PERMISSION
from bpc.api.routes.readiness import MAX_PRODUCTS, ChosenProducts, split_by_policy
from bpc.api.routes.rules import RULE_ERROR_CODES, DslSource
from bpc.api.routes.uploads import decode_content
from bpc.core.errors import Invalid
from bpc.core.formats.ids import DocumentId, RulePackageVersionId
from bpc.core.language.check_result import check_rule_sources
from bpc.core.policies import Resource
from bpc.pipeline.what_if import PassportChange, ProposedDocument, try_documents, try_other_rules
from bpc.storage.evidence.documents import DocumentKind
from bpc.storage.passports.products import list_skus_with_passport_after
from bpc.storage.rules import packages

routes = RouteFamily("Readiness", resource="Passport")

MAX_DOCUMENTS: Final = 20


class DocumentToTry(RequestBody):
    """A document that is not accepted yet."""

    kind: DocumentKind = Field(examples=["PCF"])
    mime_type: Text = Field(examples=["application/json"])
    content_base64: str = Field(description="The bytes, base64 with padding.", examples=["eyJiYXR0ZXJ5Ijp7fX0="])
    document_id: IdOf[DocumentId] | None = Field(
        None, description="The document that it would be a new version of; null for a new document."
    )


class WhatIfRequest(ChosenProducts):
    dsl_source: DslSource | None = Field(None)
    rule_package_version_id: IdOf[RulePackageVersionId] | None = Field(
        None, description="A stored version of rules, such as a draft, instead of `dsl_source`."
    )
    documents: list[DocumentToTry] | None = Field(
        None, min_length=1, max_length=MAX_DOCUMENTS, description="Documents to try, instead of rules."
    )

    @model_validator(mode="after")
    def _require_choices(self) -> Self:
        options = (self.dsl_source, self.rule_package_version_id, self.documents)
        if sum(each is not None for each in options) != 1:
            raise ValueError("send one of `dsl_source`, `rule_package_version_id` and `documents`")
        if self.documents is not None and self.skus is not None:
            raise ValueError("`skus` goes with rules: documents say themselves which products they are about")
        if self.documents is None and (self.skus is not None) == self.all:
            raise ValueError("send either `skus` or `all`")
        return self


class ChangedField(ResponseBody):
    path: str = Field(examples=["general.mass"])
    before: Any = Field(description="The value in the active passport; null if it has none.")
    after: Any = Field(description="The value that it would have; null if it would have none.")


class ChangedCompliance(ResponseBody):
    code: str
    field: str
    before: dict[str, str] | None
    after: dict[str, str] | None


class TrialFailure(ResponseBody):
    field: str = Field(description="The field that would have no value.")
    code: str
    message: str = Field(validation_alias="says")
    place: str = Field(description="Where the rules say so.", examples=["rules.bpc:110:15"])
    dependents: list[str] = Field(description="Fields that would have no value because of it.")


class PassportWhatIf(ResponseBody):
    """An active passport that would change."""

    sku: str
    passport_id: Id
    passport_version_id: Id = Field(description="The active version.")
    fields: list[ChangedField]
    compliance: list[ChangedCompliance]
    failures: list[TrialFailure]
    problems: list[str] = Field(description="Facts that the rules could not read.")
    pending: int = Field(description="Number of fields that would change anyway, because of documents accepted since.")


class WhatIfReport(ResponseBody):
    checked: int = Field(description="Number of active passports that were tried.")
    passports: list[PassportWhatIf] = Field(description="Those that would change.")
    next_after: str | None = Field(description="Send it as `after` to go on; null if these were the last passports.")


@routes.ask(
    "/v1/passports:what-if",
    permission=COMPILE_PERMISSION,
    heavy=True,
    errors=("NOT_FOUND", "CONFLICT", *RULE_ERROR_CODES),
)
async def try_passports(ctx: Context, request: Request, body: WhatIfRequest) -> WhatIfReport:
    """Say which fields of which active passports would change with other rules, or with documents not yet accepted.

    Rules are tried on the facts that each passport was compiled from. Documents are read as an upload would be, and
    merged with what is known. Nothing is stored.
    """
    require_not_denied(ctx, request, list_fact_resources(ctx), "docs:read")
    if body.documents is not None:
        return await _try_documents(ctx, request, body)
    skus, next_after = await _choose_passports(ctx, body)
    allowed_skus, _ = await split_by_policy(ctx, request, skus)
    changes = await try_other_rules(
        ctx.conn,
        ctx.tenant,
        allowed_skus,
        await _load_draft(ctx, request, body),
        max_steps=ctx.service.settings.rules_max_steps,
        pool=ChildComputePool(ctx.service.processes),
    )
    return _to_report(changes, next_after)


async def _choose_passports(ctx: RequestContext, body: WhatIfRequest) -> tuple[Sequence[str], str | None]:
    if body.skus is not None:
        return body.skus, None
    skus = await list_skus_with_passport_after(ctx.conn, ctx.tenant, body.after or "", limit=MAX_PRODUCTS + 1)
    return skus[:MAX_PRODUCTS], skus[MAX_PRODUCTS - 1] if len(skus) > MAX_PRODUCTS else None


async def _load_draft(ctx: RequestContext, request: Request, body: WhatIfRequest) -> bytes:
    """The rules to try. Rules with errors are refused with all of them."""
    if body.dsl_source is None:
        version = body.rule_package_version_id
        if version is None:
            raise Invalid("there are no rules to try", fix="send `dsl_source` or `rule_package_version_id`")
        require_not_denied(ctx, request, [Resource(type="RulePackageVersion", id=version)], "rules:read")
        return (await packages.load_sources(ctx.conn, ctx.tenant, version)).dsl
    dsl = body.dsl_source.encode()
    check_result = await compute_in_child(ctx.service.processes, check_rule_sources, dsl, b"")
    if check_result.refusal is not None:
        raise RulesInvalid(check_result.refusal, check_result.diagnostics)
    return dsl


async def _try_documents(ctx: RequestContext, request: Request, body: WhatIfRequest) -> WhatIfReport:
    proposals = [
        ProposedDocument(
            kind=each.kind,
            mime_type=each.mime_type,
            content=await decode_content(each.content_base64),
            document_id=each.document_id,
        )
        for each in body.documents or ()
    ]
    changes, next_after = await try_documents(
        ctx.conn,
        ctx.tenant,
        proposals,
        after=body.after or "",
        limit=MAX_PRODUCTS,
        issued_at=ctx.act.at,
        max_steps=ctx.service.settings.rules_max_steps,
        parse_job=ctx.service.pipeline_jobs.parse,
        reader_pool=ctx.service.readers,
        pool=ChildComputePool(ctx.service.processes),
        act=ctx.act,
    )
    allowed_skus, _ = await split_by_policy(ctx, request, [change.sku for change in changes])
    return _to_report([change for change in changes if change.sku in allowed_skus], next_after)


def _to_report(changes: Sequence[PassportChange], next_after: str | None) -> WhatIfReport:
    return WhatIfReport(
        checked=len(changes),
        passports=[_to_what_if(change) for change in changes if not change.difference.is_empty],
        next_after=next_after,
    )


def _to_what_if(change: PassportChange) -> PassportWhatIf:
    difference = change.difference
    return PassportWhatIf(
        sku=change.sku,
        passport_id=change.passport_id,
        passport_version_id=change.passport_version_id,
        fields=[ChangedField.model_validate(each) for each in difference.fields],
        compliance=[ChangedCompliance.model_validate(each) for each in difference.compliance],
        failures=[TrialFailure.model_validate(each) for each in difference.failures],
        problems=[problem.says for problem in difference.problems],
        pending=difference.pending,
    )
