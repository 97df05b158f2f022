"""Auditing a log: whatever byte of whatever file is changed, the audit names it; a kept checkpoint shows the rest."""

import pytest

from bpc.core.formats.hashes import sha256
from bpc.core.tlog.audit import LogFault, audit_files, check_earlier
from bpc.core.tlog.tiles import BadTile, ReadTile, Tile, list_tiles
from tests.core.tlog.sample_log import SampleLog


def make_sealed_log(size: int) -> SampleLog:
    log = SampleLog()
    log.append([b"\x01" + sha256(b"%d" % number) for number in range(size)])
    return log


def read_from(log: SampleLog) -> ReadTile:
    def read(tile: Tile) -> bytes:
        if tile.path not in log.files:
            raise BadTile(f"`{tile.path}` is missing")
        return log.files[tile.path]

    return read


LOG = make_sealed_log(66_000)


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 600])
def test_a_log_as_it_should_be_gives_its_entries(size: int) -> None:
    log = make_sealed_log(size)

    assert list(audit_files(log.make_checkpoint(), read_from(log))) == log.entries


PATHS = [tile.path for tile in list_tiles(66_000) if not tile.is_full or tile.index in {0, 100} or tile.level == 1]


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("damage", ["changed", "cut", "gone"])
def test_the_first_damaged_file_is_named(path: str, damage: str) -> None:
    files = dict(LOG.files)
    if damage == "gone":
        del files[path]
    else:
        data = bytearray(files[path])
        data[-1] ^= 1
        files[path] = bytes(data[:-1] if damage == "cut" else data)
    damaged = SampleLog(files=files, entries=LOG.entries)

    with pytest.raises(LogFault) as fault:
        list(audit_files(LOG.make_checkpoint(), read_from(damaged)))

    # A changed entry shows in the tile of its hashes, which is named.
    assert fault.value.where in {path, path.replace("entries", "0"), "checkpoint"}


def test_an_entry_that_is_neither_sealed_nor_readable_is_named() -> None:
    log = SampleLog()
    log.append([b"\x01" + bytes(32), b"\x03what"])

    with pytest.raises(LogFault, match="entry 1: the entry is neither sealed nor readable"):
        list(audit_files(log.make_checkpoint(), read_from(log)))


def test_a_changed_history_shows_with_a_kept_checkpoint() -> None:
    kept = make_sealed_log(300).make_checkpoint()
    log = make_sealed_log(400)
    check_earlier(log.make_checkpoint(), kept, read_from(log))

    other = SampleLog()
    other.append([*log.entries[:7], b"\x01" + bytes(32), *log.entries[8:]])
    assert len(list(audit_files(other.make_checkpoint(), read_from(other)))) == 400
    with pytest.raises(LogFault, match="its history was changed"):
        check_earlier(other.make_checkpoint(), kept, read_from(other))
    short = make_sealed_log(200)
    with pytest.raises(LogFault, match="it was rolled back"):
        check_earlier(short.make_checkpoint(), kept, read_from(short))
