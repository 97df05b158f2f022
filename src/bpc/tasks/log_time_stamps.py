"""Time stamps of the transparency log: now and then an authority is asked to say when it saw the checkpoint.

They show, without witnesses, by when the log had its entries. Nothing waits for an authority: while it does not
answer, the log goes on, and the next checkpoint is tried.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import Final
from urllib.parse import urlsplit

from bpc.core.errors import Refusal
from bpc.core.formats.timestamps import format_time
from bpc.core.tlog.checkpoints import read_checkpoint_text
from bpc.core.tlog.notes import parse_note
from bpc.outbound.guard import Guard
from bpc.runtime.logs import get_logger
from bpc.runtime.settings import ConfigMissing, Settings
from bpc.runtime.time_stamps import REQUEST_TYPE, BadTimeStamp, make_stamp_request, read_time_stamp
from bpc.storage.tlog.log_files import LogStore, StampedCheckpoint

AUTHORITY_SECONDS: Final = 20.0
MAX_ANSWER_BYTES: Final = 1 << 18
RETRY_SECONDS: Final = 60.0  # after an authority did not answer
log = get_logger(__name__)


@asynccontextmanager
async def keep_time_stamps(settings: Settings, store: LogStore) -> AsyncIterator[None]:
    """Ask for time stamps while the block runs; nothing where the settings name no authority."""
    if settings.tlog_timestamp_url is None:
        yield
        return
    task = asyncio.create_task(_ask_now_and_then(settings, settings.tlog_timestamp_url, store))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _ask_now_and_then(settings: Settings, url: str, store: LogStore) -> None:
    while True:
        pause: float = settings.tlog_checkpoint_seconds
        try:
            if await stamp_checkpoint(settings, url, store) is not None:
                pause = settings.tlog_timestamp_seconds
        except (Refusal, ConfigMissing, OSError) as error:
            log.warning("the log got no time stamp; it is tried again", authority=url, reason=str(error)[:500])
            pause = min(RETRY_SECONDS, settings.tlog_timestamp_seconds)
        await asyncio.sleep(pause)


async def stamp_checkpoint(settings: Settings, url: str, store: LogStore) -> datetime | None:
    """Have the published checkpoint stamped with the time; None if there is none, or it has a stamp already."""
    note = await asyncio.to_thread(store.read_checkpoint)
    if note is None:
        return None
    size = read_checkpoint_text(parse_note(note).text).size
    if size == await asyncio.to_thread(store.read_stamped_size):
        return None
    request = make_stamp_request(note)
    # The operator named this host; tenants have no part in it.
    guard = Guard(allow=(urlsplit(url).hostname or "",), https_only=False, max_seconds=AUTHORITY_SECONDS)
    answer = await guard.send(
        "POST", url, headers={"content-type": REQUEST_TYPE}, content=request.content, max_bytes=MAX_ANSWER_BYTES
    )
    if answer.status != 200 or answer.is_truncated:
        raise BadTimeStamp(f"was not given: the authority answered {answer.status}")
    roots = None if settings.tlog_timestamp_ca_file is None else settings.tlog_timestamp_ca_file.read_bytes()
    moment = read_time_stamp(note, answer.body, roots=roots, nonce=request.nonce)
    await asyncio.to_thread(store.write_time_stamp, StampedCheckpoint(size, note, answer.body))
    log.info("the log got a time stamp", size=size, at=format_time(moment))
    return moment
