"""Sign, the fifth step: the receipt of a compiled version gets the signature of the key that it names.

Only that key: it has to be at hand, registered, not retired, and the one that was registered under its name. Otherwise
the job fails with SIGNING_KEY_MISSING, and is run again when somebody has put it right.
"""

from collections.abc import Callable
from uuid import UUID

from pydantic.dataclasses import dataclass

from bpc import fresh
from bpc.core.digest import sha256, to_hex
from bpc.core.errors import Conflict, Refusal
from bpc.core.events import Act, Stream
from bpc.core.ids import ActorId, AggregateId, PassportVersionId, TenantId
from bpc.core.receipt import Receipt, read_receipt, signed
from bpc.core.signing import Signer
from bpc.db import events, passport_versions, signing_keys
from bpc.db.connection import Connection
from bpc.jobs import Context, Handler, Handlers
from bpc.pipeline.qr import QrOrder


@dataclass(frozen=True, kw_only=True)
class SignOrder:
    """Which version is to be signed."""

    passport_version_id: UUID
    actor_id: UUID | None


class SigningKeyMissing(Refusal):
    """The key that a receipt names cannot sign it."""

    code = "SIGNING_KEY_MISSING"

    def __init__(self, key_id: str, reason: str) -> None:
        super().__init__(
            f"the signing key `{key_id}` {reason}",
            fix="put it right and retry the job, or compile again with another key",
            details={"signing_key_id": key_id},
        )


class NotWhatWasCompiled(Conflict):
    """What is stored is not what was compiled: nobody signs that."""

    def __init__(self, version: PassportVersionId) -> None:
        super().__init__(
            f"what is stored of passport version `{version}` does not have the hashes it was compiled with"
        )


def sign_job(
    handlers: Handlers, *, signer: Callable[[str], Signer | None], then: Handler[QrOrder, None]
) -> Handler[SignOrder, None]:
    """Sign; a version that is signed already is left as it is."""

    @handlers.job("SIGN_PASSPORT")
    async def run(ctx: Context, order: SignOrder) -> None:
        conn, tenant = await ctx.transaction(), TenantId(ctx.tenant)
        version = PassportVersionId(order.passport_version_id)
        if (await passport_versions.locked(conn, tenant, version)).status != "COMPILING":
            return
        act = Act(None if order.actor_id is None else ActorId(order.actor_id), fresh.now())
        await _sign(conn, tenant, version, signer, act)
        ctx.submit(then, QrOrder(passport_version_id=version, actor_id=order.actor_id), key=f"qr:{version}")

    return run


async def _sign(
    conn: Connection, tenant: TenantId, version: PassportVersionId, signer: Callable[[str], Signer | None], act: Act
) -> None:
    receipt, unsigned = await _compiled(conn, tenant, version)
    key = await _key(conn, receipt.signing_key_id, signer)
    written = signed(unsigned, key)
    signature = key.sign(receipt.hash())  # Ed25519 gives the same one again
    await passport_versions.sign(
        conn, tenant, version, receipt=written, signature=signature, key_id=receipt.signing_key_id
    )
    payload = {"signing_key_id": receipt.signing_key_id, "receipt_hash": to_hex(receipt.hash())}
    stream = Stream(tenant, "PassportVersion", AggregateId(version))
    await events.append(conn, stream, act.says("PASSPORT_SIGNED", payload))


async def _compiled(conn: Connection, tenant: TenantId, version: PassportVersionId) -> tuple[Receipt, bytes]:
    """The receipt that was compiled, and its bytes."""
    row = await passport_versions.get(conn, tenant, version)
    stored = await passport_versions.stored(conn, tenant, version)
    receipt = read_receipt(stored.receipt)
    named = receipt.passport_version_id, receipt.hash(), receipt.payload_hash, receipt.proof_root_hash
    if named != (version, row.receipt_hash, sha256(stored.payload), row.proof_root_hash):
        raise NotWhatWasCompiled(version)
    return receipt, stored.receipt


async def _key(conn: Connection, key_id: str, signer: Callable[[str], Signer | None]) -> Signer:
    registered = await signing_keys.to_sign_with(conn, key_id)
    if registered is None:
        raise SigningKeyMissing(key_id, "is not registered, or retired")
    key = signer(key_id)
    if key is None:
        raise SigningKeyMissing(key_id, "is not at hand here")
    if key.public_key != registered:
        raise SigningKeyMissing(key_id, "at hand is not the one that is registered")
    return key
