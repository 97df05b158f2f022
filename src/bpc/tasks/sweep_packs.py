"""The job PACK_SWEEP: every night, remove packs that nobody names.

A pack is on disk before its transaction commits. If that is rolled back, or its worker is killed, the file stays, and
the chunk is issued again. A file that is a day old belongs to no transaction that is still running. Only a pack whose
chunk is on record here is removed: the folder may also be that of another database.

    files ─► those that are old ─► the chunk that each names ─► removed if that has another pack, or none
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from service_jobs import LOW, Context, Defaults, Handler, Handlers
from service_jobs.schedules import Schedule

from bpc.core.formats.ids import TenantId
from bpc.runtime import clock
from bpc.runtime.logs import get_logger
from bpc.storage.connection import Connection
from bpc.storage.items.chunks import lock_packs
from bpc.storage.items.pack_bucket import PackLocation, open_packs
from bpc.storage.items.pack_format import OldPack
from bpc.storage.items.packs import PackStore
from bpc.storage.jobs import SweepOrder, make_sweep_schedule

SWEEP: Final = "PACK_SWEEP"
SCHEDULE_NAME: Final = "pack-sweep"
NIGHTLY: Final = "7 4 * * *"  # UTC, after retention
OLD: Final = timedelta(days=1)  # much longer than any job may take
PACKS_AT_ONCE: Final = 1_000
OpenTransaction = Callable[[TenantId], AbstractAsyncContextManager[Connection]]
log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackSweepOutcome:
    """How many packs were looked at, and what was removed."""

    looked_at: int
    removed: int
    removed_bytes: int


def make_nightly_schedule(defaults: Defaults = Defaults()) -> Schedule:  # noqa: B008 (frozen)
    """When the sweep runs, in the tenant `system`."""
    return make_sweep_schedule(SCHEDULE_NAME, NIGHTLY, SWEEP, defaults, priority=LOW)


def declare_pack_sweep_job(
    handlers: Handlers, *, pack_location: PackLocation, open_transaction: OpenTransaction
) -> Handler[SweepOrder, PackSweepOutcome]:
    """The job PACK_SWEEP."""

    @handlers.job(SWEEP, description="Removes packs of batteries that no chunk names.")
    async def sweep(ctx: Context, _: SweepOrder) -> PackSweepOutcome:  # noqa: ARG001 (each tenant has a transaction)
        return await remove_unnamed_packs(open_packs(pack_location), open_transaction)

    return sweep


async def remove_unnamed_packs(packs: PackStore, open_transaction: OpenTransaction) -> PackSweepOutcome:
    """Remove packs that are old and not the one of the chunk that they name. Files that are no packs stay."""
    old_packs = await asyncio.to_thread(packs.list_old, clock.now() - OLD)
    unnamed_packs = list[OldPack]()
    for tenant, tenant_packs in _group_by_tenant(old_packs).items():
        for start in range(0, len(tenant_packs), PACKS_AT_ONCE):
            part = tenant_packs[start : start + PACKS_AT_ONCE]
            async with open_transaction(tenant) as conn:
                unnamed_packs += await _remove_part(conn, tenant, packs, part)
    return PackSweepOutcome(
        looked_at=len(old_packs), removed=len(unnamed_packs), removed_bytes=sum(pack.size for pack in unnamed_packs)
    )


async def _remove_part(
    conn: Connection, tenant: TenantId, packs: PackStore, old_packs: Sequence[OldPack]
) -> list[OldPack]:
    """Remove what is not named. The chunks are locked meanwhile: a job that issues one could write the same bytes."""
    named_packs = await lock_packs(conn, tenant, [pack.chunk for pack in old_packs])
    unnamed_packs = [pack for pack in old_packs if pack.chunk in named_packs and named_packs[pack.chunk] != pack.digest]
    for pack in unnamed_packs:
        await asyncio.to_thread(packs.remove, pack.digest)
        log.info("removed a pack that no chunk names", pack=pack.digest.hex(), chunk=str(pack.chunk), bytes=pack.size)
    return unnamed_packs


def _group_by_tenant(packs: Sequence[OldPack]) -> Mapping[TenantId, list[OldPack]]:
    groups = defaultdict[TenantId, list[OldPack]](list)
    for pack in packs:
        groups[pack.tenant].append(pack)
    return groups
