"""/v1/passport-versions/{id}/why: how a field got its value, step by step, down to the cells of documents."""

from typing import Annotated, Any, Final

from fastapi import Query
from pydantic import Field
from starlette.requests import Request

from bpc.api.access.auth import require_sources_not_denied
from bpc.api.http.child_compute import compute_in_child
from bpc.api.http.models import IdOf, ResponseBody, Text
from bpc.api.http.request_context import Context
from bpc.api.http.routing import RouteFamily
from bpc.core.errors import Refusal
from bpc.core.formats.ids import PassportVersionId
from bpc.core.passport.bundle import write_bundle
from bpc.core.passport.why_bundle import explain_bundle
from bpc.storage.passports import exports

routes = RouteFamily("Passports", resource="PassportVersion")

MAX_PATH: Final = 500


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
    bundle = await exports.load_bundle(ctx.conn, ctx.tenant, passport_version_id)
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
