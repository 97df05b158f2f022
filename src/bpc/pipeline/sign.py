"""Sign, the fifth step: the receipt of a compiled version gets the signature of the key that it names.

Only that key signs. It must be registered, valid now, and either the tenant's own or the installation's. Whoever holds
private keys must have its private half, and that must belong to the registered public key. Otherwise the job fails with
SIGNING_KEY_MISSING, which is recorded on the version; retry it when the key is corrected.
"""

from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from service_jobs import HIGH, NORMAL, Context, Handler, Handlers, SubmitQueue

from bpc.core.audit.events import Act
from bpc.core.audit.signing import SignatureInvalid, verify_signature
from bpc.core.errors import Conflict, Refusal
from bpc.core.formats.hashes import Digest, sha256, to_hex
from bpc.core.formats.ids import ActorId, JobId, PassportVersionId, TenantId
from bpc.core.passport.receipt import Receipt, encode_receipt, read_receipt
from bpc.core.signing_forms import RECEIPT
from bpc.pipeline.activate import WrongVersionStatus, announce_failures
from bpc.pipeline.qr import QrOrder
from bpc.runtime import clock
from bpc.runtime.key_ring import KeyNotHeld, SigningService
from bpc.storage.audit import events, signing_keys, tenant_keys
from bpc.storage.connection import Connection
from bpc.storage.jobs import make_subject, retry_if_unsuccessful
from bpc.storage.passports import passport_versions
from bpc.storage.passports.passport_versions import LockedPassportVersion, PassportVersionRow
from bpc.storage.passports.passports import PassportSubject, find_sku, load_subject_of_version
from bpc.storage.webhooks.webhook_fanout import append_and_announce

SIGN_JOB_TYPE: Final = "SIGN_PASSPORT"
NOT_REGISTERED: Final = "is not registered, is not valid now, or is another tenant's"


def sign_job_key(version: PassportVersionId) -> str:
    """The idempotency key of the job that signs a version."""
    return f"sign:{version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SignOrder:
    """The version to sign, and whether to activate it when it has its QR code."""

    passport_version_id: PassportVersionId
    actor_id: ActorId | None
    activate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SignOutcome:
    """The signed version, the key that signed it, and the job that makes its QR code; None if it was signed before."""

    passport_version_id: PassportVersionId
    signing_key_id: str
    qr_job_id: UUID | None


class VersionAbandoned(Conflict):
    """A version that was given up is never signed."""

    def __init__(self, version: PassportVersionId) -> None:
        super().__init__(f"passport version `{version}` was given up", fix="compile the passport again")


class SigningKeyMissing(Refusal):
    """The key that a receipt names cannot sign it."""

    code = "SIGNING_KEY_MISSING"

    def __init__(self, key_id: str, reason: str, *, fix: str = "correct that and retry the job") -> None:
        super().__init__(
            f"the signing key `{key_id}` {reason}",
            fix=f"{fix}, or compile again with another key",
            details={"signing_key_id": key_id},
        )


class NoKeySigns(Refusal):
    """Nothing can be signed now, so nothing is compiled."""

    code = "SIGNING_KEY_MISSING"

    def __init__(self, key_id: str) -> None:
        super().__init__(
            f"nothing can be signed, so nothing was compiled: the key `{key_id}` {NOT_REGISTERED}",
            fix="create a signing key of the tenant, or let the operator register a key and name it in the settings, "
            "then send the request again",
            details={"signing_key_id": key_id},
        )


def declare_sign_job(
    handlers: Handlers, *, key_ring: SigningService, then: Handler[QrOrder, Any]
) -> Handler[SignOrder, SignOutcome]:
    """The job SIGN_PASSPORT. A version that is signed already stays as it is."""

    @handlers.job(
        SIGN_JOB_TYPE,
        subject=lambda order: make_subject("passport_version", order.passport_version_id),
        description="Signs the receipt of a compiled version.",
    )
    async def run(ctx: Context, order: SignOrder) -> SignOutcome:
        conn, tenant, version = await ctx.transaction(), TenantId(ctx.tenant), order.passport_version_id
        row = await passport_versions.lock_version_and_chain(conn, tenant, version)
        if row.abandoned_at is not None:
            raise VersionAbandoned(version)
        if row.status != "COMPILING":
            key_id = read_receipt(row.receipt).signing_key_id
            return SignOutcome(passport_version_id=version, signing_key_id=key_id, qr_job_id=None)
        key_id = await _sign(conn, tenant, version, row, key_ring, Act(order.actor_id, clock.now()))
        qr_order = QrOrder(passport_version_id=version, actor_id=order.actor_id, activate=order.activate)
        qr_job_id = ctx.submit(then, qr_order, key=f"qr:{version}", priority=NORMAL)
        return SignOutcome(passport_version_id=version, signing_key_id=key_id, qr_job_id=qr_job_id)

    announce_failures(run, "PASSPORT_SIGN_FAILED")
    return run


async def _sign(
    conn: Connection,
    tenant: TenantId,
    version: PassportVersionId,
    row: LockedPassportVersion,
    key_ring: SigningService,
    act: Act,
) -> str:
    """Sign the receipt of a version; return the id of the key."""
    receipt = _require_compiled_receipt(version, row)
    signature = await _request_signature(conn, tenant, receipt, key_ring)
    signed_receipt = encode_receipt(replace(receipt, signature=signature))
    await passport_versions.set_signature(
        conn,
        tenant,
        version,
        receipt=signed_receipt,
        signature=signature,
        key_id=receipt.signing_key_id,
    )
    payload = describe_signature(receipt.signing_key_id, row.receipt_hash, signed_receipt, signature, row.subject)
    await append_and_announce(conn, act, tenant, "PassportVersion", version, "PASSPORT_SIGNED", payload, head=row.head)
    return receipt.signing_key_id


def describe_signature(
    key_id: str, receipt_hash: Digest, signed_receipt: bytes, signature: bytes, subject: PassportSubject
) -> dict[str, object]:
    """What the event of a signature says."""
    return {
        "signing_key_id": key_id,
        "receipt_hash": to_hex(receipt_hash),
        "receipt_sha256": to_hex(sha256(signed_receipt)),
        "signature_sha256": to_hex(sha256(signature)),
        **subject.to_event_payload(),
    }


def _require_compiled_receipt(version: PassportVersionId, row: LockedPassportVersion) -> Receipt:
    """The stored receipt, if the stored bytes still have the hashes that they were compiled with."""
    receipt = read_receipt(row.receipt)
    receipt_hashes = receipt.passport_version_id, receipt.hash(), receipt.payload_hash, receipt.proof_root_hash
    if receipt_hashes != (version, row.receipt_hash, row.payload_sha256, row.proof_root_hash):
        raise Conflict(
            f"the stored bytes of passport version `{version}` do not have the hashes it was compiled with",
            fix="compile it again, and find out who changed it: `bpc audit verify` shows what is intact",
        )
    return receipt


async def require_key_that_signs(conn: Connection, tenant: TenantId, *, installation_key: str) -> None:
    """Refuse what would wait for a signature in vain: no key signs for this tenant now."""
    key_id = await tenant_keys.choose_key(conn, tenant, installation_key=installation_key)
    if await signing_keys.find_key_that_signs(conn, key_id, tenant) is None:
        raise NoKeySigns(key_id)


async def _request_signature(conn: Connection, tenant: TenantId, receipt: Receipt, key_ring: SigningService) -> bytes:
    """The signature of the key that the receipt names, which is the registered one."""
    key_id = receipt.signing_key_id
    public_key = await signing_keys.find_key_that_signs(conn, key_id, tenant)
    if public_key is None:
        raise SigningKeyMissing(key_id, NOT_REGISTERED)
    try:
        signature = await key_ring.sign(RECEIPT, encode_receipt(receipt))
    except KeyNotHeld:
        raise SigningKeyMissing(key_id, "is not available to the process that signs") from None
    try:
        verify_signature(public_key, receipt.hash(), signature)
    except SignatureInvalid:
        raise SigningKeyMissing(key_id, "that signs differs from the registered key") from None
    return signature


# A version whose job died -------------------------------------------------------------------------------------------


async def request_sign(
    conn: Connection,
    queue: SubmitQueue,
    job: Handler[SignOrder, Any],
    tenant: TenantId,
    version_id: PassportVersionId,
    *,
    act: Act,
) -> JobId:
    """Sign a version again whose job ended without success. If the job was removed since, there is a new one.

    A job that waits or runs stays as it is. Refused at once if the key that the receipt names cannot sign.
    """
    await _lock_unsigned(conn, tenant, version_id, "only one that is not signed yet can be signed again")
    key_id = read_receipt((await passport_versions.load_bytes(conn, tenant, version_id)).receipt).signing_key_id
    if await signing_keys.find_key_that_signs(conn, key_id, tenant) is None:
        raise SigningKeyMissing(key_id, NOT_REGISTERED, fix="let the operator register it and send the request again")
    sku = await find_sku(conn, tenant, "PassportVersion", version_id)
    order = SignOrder(passport_version_id=version_id, actor_id=act.actor_id)
    subject = make_subject("passport_version", version_id, sku=sku)
    job_id = await queue.submit(job, order, key=sign_job_key(version_id), priority=HIGH, subject=subject)
    await retry_if_unsuccessful(conn, tenant, job_id, act=act)
    return JobId(job_id)


async def abandon(
    conn: Connection, tenant: TenantId, version_id: PassportVersionId, *, reason: str, act: Act
) -> PassportVersionRow:
    """Give up a version that was never signed: it never will be. Its status stays COMPILING."""
    version = await _lock_unsigned(conn, tenant, version_id, "only one that is not signed yet can be given up")
    await passport_versions.set_abandoned(conn, tenant, version_id, at=act.at, reason=reason)
    subject = await load_subject_of_version(conn, tenant, version_id)
    payload = {**subject.to_event_payload(), "reason": reason}
    await events.append_act(conn, act, tenant, "PassportVersion", version_id, "PASSPORT_VERSION_ABANDONED", payload)
    return replace(version, abandoned_at=act.at, abandon_reason=reason)


async def _lock_unsigned(
    conn: Connection, tenant: TenantId, version_id: PassportVersionId, requirement: str
) -> PassportVersionRow:
    version = await passport_versions.lock_version(conn, tenant, version_id)
    if version.abandoned_at is not None:
        raise VersionAbandoned(version_id)
    if version.status != "COMPILING":
        raise WrongVersionStatus(version, requirement)
    return version
