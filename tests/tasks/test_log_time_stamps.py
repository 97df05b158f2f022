"""Time stamps of the log: an authority elsewhere says by when a checkpoint existed, and anybody can check that."""

import asyncio
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from bpc.core.errors import Invalid
from bpc.core.formats.hashes import sha256
from bpc.core.tlog.checkpoints import LogCheckpoint
from bpc.outbound.guard import Guard, OutboundFailed
from bpc.runtime import clock
from bpc.runtime.settings import Settings
from bpc.runtime.time_stamps import BadTimeStamp, make_stamp_request, parse_roots, read_time_stamp
from bpc.storage.tlog.log_files import LogFolder, find_log_file
from bpc.tasks.log_time_stamps import keep_time_stamps, stamp_checkpoint
from tests.ports import find_free_ports
from tests.storage.tlog.log_fixtures import SIGNER
from tests.tasks.stamp_authority import StampAuthority, make_certificates, run_authority


@pytest.fixture(scope="module")
def authority() -> Iterator[StampAuthority]:
    with run_authority() as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> LogFolder:
    log_folder = LogFolder(tmp_path / "log")
    log_folder.folder.mkdir()
    publish(log_folder, 5)
    return log_folder


def publish(folder: LogFolder, size: int) -> bytes:
    text = LogCheckpoint(origin=SIGNER.verifier.name, size=size, root=sha256(b"%d" % size)).text
    note = SIGNER.sign(text).encode()
    folder.publish_checkpoint(note)
    return note


def make_settings(folder: LogFolder, authority: StampAuthority, **more: object) -> Settings:
    settings = {"data_dir": folder.folder, "tlog_timestamp_url": authority.url, **more}
    return Settings(env="test", tlog_timestamp_ca_file=authority.root_file, **settings)


async def test_a_checkpoint_is_stamped_once_and_openssl_agrees(folder: LogFolder, authority: StampAuthority) -> None:
    settings = make_settings(folder, authority)

    moment = await stamp_checkpoint(settings, authority.url, folder)

    assert moment is not None
    assert abs(moment - clock.now()) < timedelta(minutes=1)
    assert await stamp_checkpoint(settings, authority.url, folder) is None, "the same checkpoint is not stamped again"
    assert folder.read_stamped_size() == 5
    command = ["openssl", "ts", "-verify", "-in", "5.tsr", "-data", "5.note", "-CAfile", str(authority.root_file)]
    told = subprocess.run(command, cwd=folder.folder / "timestamp", check=True, capture_output=True, text=True)
    assert "Verification: OK" in told.stdout + told.stderr
    publish(folder, 9)
    assert await stamp_checkpoint(settings, authority.url, folder) is not None
    served = {path: find_log_file(folder, f"timestamp/{path}") for path in ("latest", "5.note", "9.tsr", "7.tsr")}
    assert [path for path, file in served.items() if file is None] == ["7.tsr"]
    for path in ("../checkpoint", "../.sequencer.lock", "5.key", "05.note", ""):
        assert find_log_file(folder, f"timestamp/{path}") is None


async def test_what_does_not_show_the_time_of_these_bytes_is_refused(
    folder: LogFolder, authority: StampAuthority, tmp_path: Path
) -> None:
    await stamp_checkpoint(make_settings(folder, authority), authority.url, folder)
    note, answer = ((folder.folder / "timestamp" / name).read_bytes() for name in ("5.note", "5.tsr"))
    roots = authority.root_file.read_bytes()
    make_certificates(tmp_path)
    foreign_roots = (tmp_path / "root.pem").read_bytes()

    assert read_time_stamp(note, answer, roots=roots) == read_time_stamp(note, answer, roots=None)
    flipped = bytearray(answer)
    flipped[-5] ^= 1  # in the signature
    for data, stamp, trusted, says in (
        (note + b"\n", answer, roots, "is over other bytes"),
        (note + b"\n", answer, None, "is over other bytes"),
        (note, answer, foreign_roots, "is not one of an authority that you trust"),
        (note, bytes(flipped), roots, "is not one of an authority that you trust"),
        (note, answer[:-9], roots, "cannot be read"),
        (note, b"", roots, "cannot be read"),
        (note, b"<html>", None, "cannot be read"),
    ):
        with pytest.raises(BadTimeStamp, match=says):
            read_time_stamp(data, stamp, roots=trusted)
    with pytest.raises(BadTimeStamp, match="answers another request"):
        read_time_stamp(note, answer, roots=roots, nonce=make_stamp_request(note).nonce)
    with pytest.raises(Invalid, match="has no certificates"):
        parse_roots(b"text")


async def test_an_authority_that_is_away_or_another_one_leaves_no_stamp(
    folder: LogFolder, authority: StampAuthority, tmp_path: Path
) -> None:
    make_certificates(tmp_path)
    settings = make_settings(folder, authority)
    nobody = f"http://127.0.0.1:{find_free_ports(1)[0]}"

    with pytest.raises(OutboundFailed):
        await stamp_checkpoint(settings, nobody, folder)
    with pytest.raises(BadTimeStamp, match="that you trust"):
        other = settings.model_copy(update={"tlog_timestamp_ca_file": tmp_path / "root.pem"})
        await stamp_checkpoint(other, authority.url, folder)

    assert not (folder.folder / "timestamp").exists()


async def test_new_checkpoints_are_stamped_now_and_then_also_after_a_failure(
    folder: LogFolder, authority: StampAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = make_settings(folder, authority, tlog_timestamp_seconds=0.1, tlog_checkpoint_seconds=0.1)
    send, calls = Guard.send, list[str]()

    async def fail_once(guard: object, *arguments: object, **options: object) -> object:
        calls.append("call")
        if len(calls) == 1:
            raise OutboundFailed("it is away")
        return await send(guard, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Guard, "send", fail_once)
    async with asyncio.timeout(30), keep_time_stamps(settings, folder):
        for size in (5, 6):
            publish(folder, size)
            while folder.read_stamped_size() != size:
                await asyncio.sleep(0.01)

    assert sorted(path.name for path in (folder.folder / "timestamp").iterdir()) == [
        *("5.note", "5.tsr", "6.note", "6.tsr", "latest")
    ]
    assert len(calls) == 3, "once that failed, and once for each checkpoint"
