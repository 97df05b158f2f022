"""Sign, the fifth step: the receipt of a compiled version gets the signature of the key that it names.

Only that key: it has to be at hand, registered, not retired, and the one that was registered under its name. Otherwise
the job fails with SIGNING_KEY_MISSING, and is run again when somebody has put it right.
"""

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

from pydantic.dataclasses import dataclass

from bpc import fresh
from bpc.core.digest import to_hex
from bpc.core.errors import Conflict, Refusal
from bpc.core.events import Act, Stream
from bpc.core.ids import AggregateId, PassportVersionId, TenantId
from bpc.core.receipt import Receipt, read_receipt, written
from bpc.core.signing import Signer
from bpc.db import events, passport_versions, signing_keys
from bpc.db.connection import Connection
from bpc.db.passport_versions import Issuing
from bpc.jobs import NORMAL, Context, Handler, Handlers
from bpc.pipeline.qr import QrOrder


@dataclass(frozen=True, kw_only=True)
class SignOrder:
    """Which version is to be signed, and whether it is to count as soon as it can."""

    passport_version_id: UUID
    actor_id: UUID | None
    activate: bool = False


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
            f"what is stored of passport version `{version}` does not have the hashes it was compiled with",
            fix="compile it again, and find out who changed it: `bpc audit verify` says what is intact",
        )


def sign_job(
    handlers: Handlers, *, signer: Callable[[str], Signer | None], then: Handler[QrOrder, None]
) -> Handler[SignOrder, None]:
    """Sign; a version that is signed already is left as it is."""

    @handlers.job("SIGN_PASSPORT")
    async def run(ctx: Context, order: SignOrder) -> None:
        conn, tenant = await ctx.transaction(), TenantId(ctx.tenant)
        version = PassportVersionId(order.passport_version_id)
        found = await passport_versions.issuing(conn, tenant, version)
        if found.status != "COMPILING":
            return
        act = Act.ordered_by(order.actor_id, fresh.now())
        await _sign(conn, tenant, version, found, signer, act)
        following = QrOrder(passport_version_id=version, actor_id=order.actor_id, activate=order.activate)
        ctx.submit(then, following, key=f"qr:{version}", priority=NORMAL)

    return run


async def _sign(
    conn: Connection,
    tenant: TenantId,
    version: PassportVersionId,
    found: Issuing,
    signer: Callable[[str], Signer | None],
    act: Act,
) -> None:
    receipt = _compiled(version, found)
    key = await _key(conn, receipt.signing_key_id, signer)
    signature = key.sign(receipt.hash())
    await passport_versions.sign(
        conn,
        tenant,
        version,
        receipt=written(replace(receipt, signature=signature)),
        signature=signature,
        key_id=receipt.signing_key_id,
    )
    payload = {"signing_key_id": receipt.signing_key_id, "receipt_hash": to_hex(found.receipt_hash)}
    stream = Stream(tenant, "PassportVersion", AggregateId(version))
    await events.append(conn, stream, act.says("PASSPORT_SIGNED", payload), head=found.head)


def _compiled(version: PassportVersionId, found: Issuing) -> Receipt:
    """The receipt, if what is stored is what was compiled."""
    receipt = read_receipt(found.receipt)
    named = receipt.passport_version_id, receipt.hash(), receipt.payload_hash, receipt.proof_root_hash
    if named != (version, found.receipt_hash, found.payload_sha256, found.proof_root_hash):
        raise NotWhatWasCompiled(version)
    return receipt


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
