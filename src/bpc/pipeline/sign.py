"""Sign, the fifth step: the receipt of a compiled version gets the signature of the key that it names.

Only that key signs. It must be registered and not retired, this worker must have its private half, and that must belong
to the registered public key. Otherwise the job fails with SIGNING_KEY_MISSING; retry it when the key is corrected.

Key files are read before the transaction opens, never in it.
"""

import asyncio
from dataclasses import dataclass, replace

from service_jobs import NORMAL, Context, Handler, Handlers

from bpc.core.audit.events import Act
from bpc.core.audit.signing import Signer
from bpc.core.errors import Conflict, Refusal
from bpc.core.formats.hashes import to_hex
from bpc.core.formats.ids import ActorId, PassportVersionId, TenantId
from bpc.core.passport.receipt import Receipt, encode_receipt, read_receipt
from bpc.pipeline.qr import QrOrder
from bpc.runtime import clock
from bpc.runtime.key_ring import KeyRing, SigningKeys
from bpc.storage.audit import signing_keys
from bpc.storage.connection import Connection
from bpc.storage.passports import passport_versions
from bpc.storage.passports.passport_versions import LockedPassportVersion
from bpc.storage.webhooks.webhook_fanout import append_and_announce


@dataclass(frozen=True, slots=True, kw_only=True)
class SignOrder:
    """The version to sign, and whether to activate it when it has its QR code."""

    passport_version_id: PassportVersionId
    actor_id: ActorId | None
    activate: bool = False


class SigningKeyMissing(Refusal):
    """The key that a receipt names cannot sign it."""

    code = "SIGNING_KEY_MISSING"

    def __init__(self, key_id: str, reason: str) -> None:
        super().__init__(
            f"the signing key `{key_id}` {reason}",
            fix="correct that and retry the job, or compile again with another key",
            details={"signing_key_id": key_id},
        )


def declare_sign_job(
    handlers: Handlers, *, key_ring: KeyRing, then: Handler[QrOrder, None]
) -> Handler[SignOrder, None]:
    """The job SIGN_PASSPORT. A version that is signed already stays as it is."""

    @handlers.job("SIGN_PASSPORT")
    async def run(ctx: Context, order: SignOrder) -> None:
        keys = await asyncio.to_thread(key_ring.load)
        conn, tenant, version = await ctx.transaction(), TenantId(ctx.tenant), order.passport_version_id
        row = await passport_versions.lock_version_and_chain(conn, tenant, version)
        if row.status != "COMPILING":
            return
        await _sign(conn, tenant, version, row, keys, Act(order.actor_id, clock.now()))
        qr_order = QrOrder(passport_version_id=version, actor_id=order.actor_id, activate=order.activate)
        ctx.submit(then, qr_order, key=f"qr:{version}", priority=NORMAL)

    return run


async def _sign(
    conn: Connection,
    tenant: TenantId,
    version: PassportVersionId,
    row: LockedPassportVersion,
    keys: SigningKeys,
    act: Act,
) -> None:
    receipt = _require_compiled_receipt(version, row)
    key = await _require_registered_key(conn, receipt.signing_key_id, keys)
    signature = key.sign(receipt.hash())
    await passport_versions.set_signature(
        conn,
        tenant,
        version,
        receipt=encode_receipt(replace(receipt, signature=signature)),
        signature=signature,
        key_id=receipt.signing_key_id,
    )
    payload = {"signing_key_id": receipt.signing_key_id, "receipt_hash": to_hex(row.receipt_hash)}
    await append_and_announce(conn, act, tenant, "PassportVersion", version, "PASSPORT_SIGNED", payload, head=row.head)


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


async def _require_registered_key(conn: Connection, key_id: str, keys: SigningKeys) -> Signer:
    registered = await signing_keys.find_public_key(conn, key_id, active_only=True)
    if registered is None:
        raise SigningKeyMissing(key_id, "is not registered, or is retired")
    key = keys.find(key_id)
    if key is None:
        raise SigningKeyMissing(key_id, "is not available on this worker")
    if key.public_key != registered:
        raise SigningKeyMissing(key_id, "on this worker differs from the registered key")
    return key
