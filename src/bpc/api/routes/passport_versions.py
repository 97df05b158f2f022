"""/v1/passport-versions: what is known of a version, and what is done with it. Its bytes are artifacts."""

from typing import Literal

from pydantic import Field
from starlette.responses import Response

from bpc.api.computing import Computed
from bpc.api.envelope import of_refusal
from bpc.api.models import Answer, Hash, Id, LongText, Moment, Request
from bpc.api.routing import Routes
from bpc.api.work import Work
from bpc.core.ids import PassportVersionId
from bpc.db import passport_versions
from bpc.db.passport_versions import Status
from bpc.pipeline.activate import activate, revoke
from bpc.pipeline.replay import replay

routes = Routes("Passport versions")


class PassportVersion(Answer):
    passport_version_id: Id
    passport_id: Id
    status: Status = Field(description="COMPILING until it is signed; SIGNED until it is activated.")
    created_at: Moment = Field(description="When it was asked for, which its payload says as `issued_at`.")
    activated_at: Moment | None
    superseded_at: Moment | None
    revoked_at: Moment | None
    snapshot_id: Id
    rule_package_version_id: Id
    compiler_build_id: str = Field(examples=["bpc-1.0.0"])
    payload_hash: Hash
    proof_root_hash: Hash
    receipt_hash: Hash = Field(description="Of the receipt without its signature: what is signed.")
    signing_key_id: str | None = Field(description="The key that signed it; null while COMPILING.")
    has_qr: bool = Field(description="Whether its QR code is there.")


class Activated(Answer):
    passport_version_id: Id
    status: Status = Field(examples=["ACTIVE"])
    superseded_passport_version_id: Id | None = Field(description="The version that was ACTIVE until now.")


class Revocation(Request):
    reason: LongText = Field(description="Why; it goes on record.", examples=["the PCF report was withdrawn"])


class Revoked(Answer):
    passport_version_id: Id
    status: Status = Field(examples=["REVOKED"])


class ReplayStep(Answer):
    name: str = Field(examples=["replay"])
    ok: bool
    detail: str = Field(examples=["compiling again gives the same payload, proof and receipt, byte for byte"])


class Replayed(Answer):
    status: Literal["OK"] = "OK"
    steps: list[ReplayStep] = Field(description="Every check that was made, in order.")


@routes.read("/v1/passport-versions/{passport_version_id}", permission="passport:read", resource="PassportVersion")
async def get_passport_version(work: Work, passport_version_id: Id) -> PassportVersion:
    """Get what is known of a version. It is not found until its compile job has succeeded."""
    found = await passport_versions.get(work.conn, work.tenant, PassportVersionId(passport_version_id))
    return PassportVersion.model_validate(found)


@routes.write(
    "/v1/passport-versions/{passport_version_id}/activate", permission="passport:compile", resource="PassportVersion"
)
async def activate_passport_version(work: Work, passport_version_id: Id) -> Activated:
    """Make a signed version the current one; the one that was is SUPERSEDED at the same instant."""
    done = await activate(work.conn, work.tenant, PassportVersionId(passport_version_id), act=work.act)
    return Activated.model_validate(done)


@routes.write(
    "/v1/passport-versions/{passport_version_id}/revoke", permission="passport:revoke", resource="PassportVersion"
)
async def revoke_passport_version(work: Work, passport_version_id: Id, body: Revocation) -> Revoked:
    """Revoke a signed version, for good. A passport whose current version it was has none then."""
    version = PassportVersionId(passport_version_id)
    return Revoked.model_validate(await revoke(work.conn, work.tenant, version, reason=body.reason, act=work.act))


@routes.write(
    "/v1/passport-versions/{passport_version_id}/replay",
    permission="passport:replay",
    resource="PassportVersion",
    heavy=True,
    errors=("REPLAY_MISMATCH",),
    response_model=Replayed,
)
async def replay_passport_version(work: Work, passport_version_id: Id) -> Replayed | Response:
    """Compile a version again from what was kept and compare every byte. What is found goes on record either way."""
    version, beside = PassportVersionId(passport_version_id), Computed(work.service.processes)
    found = await replay(work.conn, work.tenant, version, act=work.act, beside=beside)
    if refusal := found.refusal:
        # Returned, not raised: raising would roll back the event that says so.
        return of_refusal(refusal)
    return Replayed(steps=[ReplayStep.model_validate(step) for step in found.steps])
