"""Two signers and one record: the second waits, and takes over when the first ends."""

import asyncio
from pathlib import Path

import pytest

from bpc.runtime.settings import Settings
from bpc.runtime.signer_client import open_signer_client
from bpc.signer.record import RecordInUse, SigningRecord
from bpc.signer.serve import locate_record, run_signer, wait_for_record


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(env="test", data_dir=tmp_path)


async def test_a_second_signer_takes_over_when_the_first_ends(settings: Settings) -> None:
    first, said = SigningRecord.open(locate_record(settings)), list[str]()
    waiting = asyncio.create_task(wait_for_record(settings, asyncio.Event(), said.append))
    while not said:
        await asyncio.sleep(0.01)

    first.close()
    async with asyncio.timeout(10):
        awaited = await waiting

    assert awaited is not None
    assert awaited.was_awaited
    assert said == ["another signer has the record; this one takes over when that one ends"]
    async with run_signer(settings, awaited), open_signer_client(settings) as client:
        assert (await client.read_health())["ok"]
    SigningRecord.open(locate_record(settings)).close()  # and lets go of it


async def test_a_second_signer_that_does_not_wait_is_refused(settings: Settings) -> None:
    first = SigningRecord.open(locate_record(settings))

    with pytest.raises(RecordInUse):
        await wait_for_record(settings, asyncio.Event(), None)

    first.close()
    awaited = await wait_for_record(settings, asyncio.Event(), None)
    assert awaited is not None
    assert not awaited.was_awaited
    awaited.record.close()


async def test_a_signer_that_waits_can_be_stopped(settings: Settings) -> None:
    first, stop = SigningRecord.open(locate_record(settings)), asyncio.Event()
    waiting = asyncio.create_task(wait_for_record(settings, stop, lambda _: stop.set()))

    async with asyncio.timeout(10):
        assert await waiting is None

    first.close()
