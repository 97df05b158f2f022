"""Status lists in a worker: whatever became of a version is signed within seconds, and every list again before it ends.

    status_entries (by triggers) ─► statements ─► lists ─► signed documents that the API serves

Every worker tries. Rows that one has in hand are skipped by the others, and a list is signed by one at a time. Versions
from before status lists get their index when a worker starts. A signer is given the whole unsigned document.
"""

import asyncio
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from bpc.core.audit.signing import verify_signature
from bpc.core.errors import Refusal
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import TenantId
from bpc.core.signing_forms import STATUS_LIST, STATUS_STATEMENT
from bpc.core.status.signed_documents import add_signature
from bpc.core.status.statements import (
    MAX_REASON_LENGTH,
    STATEMENT_STATUSES,
    StatusPlace,
    StatusStatement,
    encode_unsigned_statement,
    format_list_url,
)
from bpc.core.status.status_list import (
    GZIP,
    LONGEST_VALIDITY,
    ListHead,
    PassportState,
    encode_unsigned_list,
    pack_states,
)
from bpc.runtime import clock
from bpc.runtime.key_ring import SigningService
from bpc.runtime.logs import get_logger
from bpc.runtime.settings import Settings
from bpc.runtime.settings.data_dir import locate_public_url
from bpc.storage.access import tenants_and_actors
from bpc.storage.audit import signing_keys, tenant_keys
from bpc.storage.connection import Connection
from bpc.storage.database import Database
from bpc.storage.passports import status_rows
from bpc.storage.passports.status_rows import DueStatement, SignedStatement

PAUSE_SECONDS: Final = 2.0
LONGEST_PAUSE: Final = 60.0  # after faults
RENEW_BEFORE: Final = LONGEST_VALIDITY / 2
BATCH: Final = 200  # statements of one transaction, which revoking one of these versions may have to wait for
FAILED: Final = "status lists could not be signed; it is tried again"
log = get_logger(__name__)


class StatusSigner(NamedTuple):
    """A key that signs for a tenant: its name, and the function from kind and unsigned document to its signature."""

    key_id: str
    sign: Callable[[str, bytes], Awaitable[bytes]]


OpenSigner: TypeAlias = Callable[[Connection, TenantId], Awaitable[StatusSigner]]


def make_signer_source(settings: Settings, service: SigningService) -> OpenSigner:
    """Opens the signer of a tenant: the key that signs its receipts now. Raises `Refusal` if it cannot sign."""

    async def open_signer(conn: Connection, tenant: TenantId) -> StatusSigner:
        key_id = await tenant_keys.choose_key(conn, tenant, installation_key=settings.signing_key_id)
        public_key = await signing_keys.find_key_that_signs(conn, key_id, tenant)
        if public_key is None:
            raise Refusal(f"the signing key `{key_id}` cannot sign the status lists of tenant `{tenant}`")

        async def sign(kind: str, unsigned_bytes: bytes) -> bytes:
            signature = await service.sign(kind, unsigned_bytes)
            verify_signature(public_key, sha256(unsigned_bytes), signature)
            return signature

        return StatusSigner(key_id, sign)

    return open_signer


class _Rest(NamedTuple):
    """How long a tenant whose key could not sign is left alone, and until when."""

    seconds: float
    until: float


_NO_REST: Final = _Rest(PAUSE_SECONDS, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusPublisher:
    """Signs statements and lists of all tenants; `base_url` is where others reach the API."""

    database: Database
    open_signer: OpenSigner
    base_url: str
    rests: dict[TenantId, _Rest] = field(default_factory=dict)

    async def assign_missing(self) -> int:
        """Give every issued version of every tenant an index; return how many had none."""
        async with self.database.system() as conn:
            tenants = await tenants_and_actors.list_tenants(conn)
        count = 0
        for tenant in tenants:
            assigned_count = BATCH
            while assigned_count == BATCH:
                async with self.database.system(tenant.tenant_id) as conn:
                    assigned_count = await status_rows.assign_missing_indices(conn, tenant.tenant_id, limit=BATCH)
                count += assigned_count
        return count

    async def publish_due(self) -> int:
        """Sign everything that is due now; return how many documents were signed.

        A tenant whose key cannot sign keeps no other tenant waiting: it is tried again after a while.
        """
        async with self.database.system() as conn:
            tenants = await status_rows.list_tenants_with_work(conn, renew_before=RENEW_BEFORE)
        count = 0
        for tenant in tenants:
            if self.rests.get(tenant, _NO_REST).until > time.monotonic():
                continue
            try:
                count += await self._publish_all_of(tenant)
            except Refusal as refusal:
                seconds = min(2 * self.rests.get(tenant, _NO_REST).seconds, LONGEST_PAUSE)
                self.rests[tenant] = _Rest(seconds, time.monotonic() + seconds)
                log.error(FAILED, tenant_id=str(tenant), reason=refusal.says, seconds=seconds)
            else:
                self.rests.pop(tenant, None)
        return count

    async def _publish_all_of(self, tenant: TenantId) -> int:
        count, signed_count = 0, BATCH
        while signed_count >= BATCH:
            async with self.database.system(tenant) as conn:
                signed_count = await self._publish_tenant(conn, tenant)
            count += signed_count
        return count

    async def _publish_tenant(self, conn: Connection, tenant: TenantId) -> int:
        signer, at = await self.open_signer(conn, tenant), clock.now()
        due = await status_rows.lock_due_statements(conn, tenant, limit=BATCH)
        statements = await self._sign_statements(tenant, due, signer, at)
        await status_rows.insert_statements(conn, tenant, statements, at=at)
        lists = set(await status_rows.list_lists_to_renew(conn, tenant, renew_before=RENEW_BEFORE))
        # What is said again was signed with a key that is compromised, and so may the list be.
        lists |= {each.list_id for each in due if each.state != PassportState.IN_FORCE or each.is_bound}
        for list_id in sorted(lists):  # in one order, so that two workers never wait for each other
            await self._publish_list(conn, tenant, list_id, signer, at)
        return len(statements) + len(lists)

    async def _sign_statements(
        self, tenant: TenantId, due: Sequence[DueStatement], signer: StatusSigner, at: datetime
    ) -> list[SignedStatement]:
        return [
            SignedStatement(
                passport_version_id=each.passport_version_id,
                state=state,
                document=await self._sign_statement(tenant, each, state, signer, at),
            )
            for each in due
            for state in dict.fromkeys([*([] if each.is_bound else [PassportState.IN_FORCE]), each.state])
        ]

    async def _sign_statement(
        self, tenant: TenantId, due: DueStatement, state: PassportState, signer: StatusSigner, at: datetime
    ) -> bytes:
        is_binding = state == PassportState.IN_FORCE
        statement = StatusStatement(
            passport_version_id=due.passport_version_id,
            receipt_hash=due.receipt_hash,
            tenant_id=tenant,
            place=StatusPlace(format_list_url(self.base_url, due.list_id), due.list_index),
            status=STATEMENT_STATUSES[state],
            since=due.issued_at if is_binding else due.since,
            reason=None if is_binding or due.reason is None else due.reason[:MAX_REASON_LENGTH],
            successor=None if is_binding else due.successor,
            signed_at=at,
            signing_key_id=signer.key_id,
        )
        unsigned_bytes = encode_unsigned_statement(statement)
        return add_signature(unsigned_bytes, await signer.sign(STATUS_STATEMENT, unsigned_bytes))

    async def _publish_list(
        self, conn: Connection, tenant: TenantId, list_id: UUID, signer: StatusSigner, at: datetime
    ) -> None:
        states = await status_rows.lock_states(conn, tenant, list_id)
        head = ListHead(
            url=format_list_url(self.base_url, list_id),
            issuer=self.base_url,
            tenant_id=tenant,
            signing_key_id=signer.key_id,
            valid_from=at,
            valid_until=at + LONGEST_VALIDITY,
        )
        unsigned_bytes = await asyncio.to_thread(encode_list, head, states)
        document = add_signature(unsigned_bytes, await signer.sign(STATUS_LIST, unsigned_bytes))
        await status_rows.set_list_document(
            conn, tenant, list_id, document, at=head.valid_from, valid_until=head.valid_until
        )


def encode_list(head: ListHead, states: Sequence[tuple[int, PassportState]]) -> bytes:
    """The unsigned list in which these indices have these states. Takes milliseconds: run it beside the event loop."""
    packer = zlib.compressobj(9, zlib.DEFLATED, GZIP)
    return encode_unsigned_list(head, packer.compress(pack_states(states)) + packer.flush())


@asynccontextmanager
async def keep_status_lists(settings: Settings, database: Database, key_ring: SigningService) -> AsyncIterator[None]:
    """Sign what is due while the block runs."""
    base_url = locate_public_url(settings)
    if base_url is None:
        log.warning("no status lists are signed: nobody knows where they will be", setting="BPC_PUBLIC_URL")
        yield
        return
    publisher = StatusPublisher(
        database=database, open_signer=make_signer_source(settings, key_ring), base_url=base_url
    )
    task = asyncio.create_task(_publish(publisher))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _publish(publisher: StatusPublisher) -> None:
    pause, is_complete = PAUSE_SECONDS, False
    while True:
        try:
            if not is_complete:
                await publisher.assign_missing()
                is_complete = True
            await publisher.publish_due()
            pause = PAUSE_SECONDS
        except (Refusal, OSError) as error:
            says = error.says if isinstance(error, Refusal) else str(error)
            pause = min(2 * pause, LONGEST_PAUSE)
            log.error(FAILED, reason=says, seconds=pause)
        except Exception:
            pause = min(2 * pause, LONGEST_PAUSE)
            log.exception(FAILED, seconds=pause)
        await asyncio.sleep(pause)
