"""A whole signer: its record, its provider and its server, as the settings name them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bpc.runtime.settings import Settings
from bpc.signer.providers import open_provider
from bpc.signer.record import RecordInUse, SigningRecord
from bpc.signer.server import SigningDesk, listen_for_orders

RETRY_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class AwaitedRecord:
    """An open record, and whether another signer had it first."""

    record: SigningRecord
    was_awaited: bool


def locate_record(settings: Settings) -> Path:
    """The file of the record."""
    return settings.signer_record_file or settings.data_dir / "signer" / "record.jsonl"


async def wait_for_record(
    settings: Settings, stop: asyncio.Event, announce: Callable[[str], None] | None
) -> AwaitedRecord | None:
    """The record. With `announce`, wait while another signer has it, and say so once; None if we are stopped then."""
    was_awaited = False
    while not stop.is_set():
        try:
            return AwaitedRecord(SigningRecord.open(locate_record(settings)), was_awaited)
        except RecordInUse:
            if announce is None:
                raise
        if not was_awaited:
            announce("another signer has the record; this one takes over when that one ends")
            was_awaited = True
        try:
            await asyncio.wait_for(stop.wait(), RETRY_SECONDS)
        except TimeoutError:
            continue
    return None


@asynccontextmanager
async def run_signer(settings: Settings, awaited: AwaitedRecord) -> AsyncIterator[SigningDesk]:
    """A signer that answers; its record is closed at the end."""
    try:
        provider = open_provider(settings)
        desk = SigningDesk(provider, awaited.record, installation_key=settings.signing_key_id)
        async with listen_for_orders(settings, desk):
            yield desk
    finally:
        awaited.record.close()
