"""Sign a transfer of a battery: both sides with their own keys, over the same terms; then both records are changed.

    accepted ─► SIGN_TRANSFER ─► new record, both statements signed, old record ended: one transaction
                             └─► a key cannot sign: nothing changes; correct that and retry the job

The job belongs to who takes the battery. The signer is given each whole statement, and signs for the tenant whose side
it is (bpc.core.signing_forms).
"""

from dataclasses import dataclass
from typing import Final

from service_jobs import Context, Handler, Handlers

from bpc.core.audit.events import Act
from bpc.core.audit.signing import SignatureInvalid, verify_signature
from bpc.core.batteries.transfers import TransferSide, TransferStatement, TransferTerms, encode_unsigned_statement
from bpc.core.errors import Refusal
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import TenantId, TransferId
from bpc.core.signing_forms import TRANSFER_STATEMENT
from bpc.core.status.signed_documents import add_signature
from bpc.runtime import clock
from bpc.runtime.key_ring import KeyNotHeld, SigningService
from bpc.storage.audit import signing_keys, tenant_keys
from bpc.storage.batteries import transfer_answers
from bpc.storage.connection import Connection
from bpc.storage.jobs import make_subject

JOB_TYPE: Final = "SIGN_TRANSFER"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferOrder:
    """The transfer to sign."""

    transfer_id: TransferId


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferOutcome:
    """Whether the transfer is completed now; false if it ended otherwise or was completed before."""

    transfer_id: TransferId
    is_completed: bool


class SideCannotSign(Refusal):
    """One of the two sides has no key that signs."""

    code = "SIGNING_KEY_MISSING"

    def __init__(self, side: TransferSide) -> None:
        who = "who gives the battery" if side == "GIVES" else "who takes the battery"
        super().__init__(
            f"the key of {who} cannot sign now: it is not registered, not valid, or not available",
            fix="let them create a signing key, then retry the job",
            details={"side": side},
        )


def make_transfer_job_key(transfer: TransferId) -> str:
    """The idempotency key of the job that signs a transfer."""
    return f"transfer:{transfer}"


def declare_transfer_job(
    handlers: Handlers, *, key_ring: SigningService, installation_key: str
) -> Handler[TransferOrder, TransferOutcome]:
    """The job SIGN_TRANSFER. A transfer that is over stays as it is."""

    @handlers.job(
        JOB_TYPE,
        subject=lambda order: make_subject("battery_transfer", order.transfer_id),
        description="Signs a transfer of a battery for both sides, and completes it.",
    )
    async def run(ctx: Context, order: TransferOrder) -> TransferOutcome:
        conn, tenant, act = await ctx.transaction(), TenantId(ctx.tenant), Act(None, clock.now())
        row = await transfer_answers.lock_accepted(conn, tenant, order.transfer_id)
        if row is None:
            return TransferOutcome(transfer_id=order.transfer_id, is_completed=False)
        terms = await transfer_answers.insert_taken_record(conn, tenant, row, act=act)
        signer = _TransferSigner(conn, key_ring, installation_key)
        gives_statement = await signer.sign(terms, "GIVES", act)
        takes_statement = await signer.sign(terms, "TAKES", act)
        await transfer_answers.complete_transfer(conn, terms, gives_statement, takes_statement, act=act)
        return TransferOutcome(transfer_id=order.transfer_id, is_completed=True)

    return run


@dataclass(frozen=True, slots=True)
class _TransferSigner:
    conn: Connection
    key_ring: SigningService
    installation_key: str

    async def sign(self, terms: TransferTerms, side: TransferSide, act: Act) -> bytes:
        """The signed statement of one side, by the key that signs for it now."""
        tenant = terms.get_party(side).tenant_id
        key_id = await tenant_keys.choose_key(self.conn, tenant, installation_key=self.installation_key)
        public_key = await signing_keys.find_key_that_signs(self.conn, key_id, tenant)
        if public_key is None:
            raise SideCannotSign(side)
        statement = TransferStatement(side=side, terms=terms, signed_at=act.at, signing_key_id=key_id)
        unsigned_bytes = encode_unsigned_statement(statement)
        try:
            signature = await self.key_ring.sign(TRANSFER_STATEMENT, unsigned_bytes)
            verify_signature(public_key, sha256(unsigned_bytes), signature)
        except (KeyNotHeld, SignatureInvalid):
            raise SideCannotSign(side) from None
        return add_signature(unsigned_bytes, signature)
