"""Where `bpc log` reads a log from: a folder, a bucket, or the address where it is served."""

from collections.abc import Callable
from typing import Final

import httpx2

from bpc.core.errors import Invalid, NotFound
from bpc.core.tlog.checkpoints import parse_size
from bpc.core.tlog.tiles import BadTile, Tile
from bpc.storage.tlog.log_bucket import open_named_log
from bpc.storage.tlog.log_files import StampedCheckpoint, find_log_file

FETCH_SECONDS: Final = 30.0


class LogSource:
    """A log to read: `read_tile` gives a tile, `read_checkpoint` the newest checkpoint."""

    def __init__(self, place: str) -> None:
        self.place = place.rstrip("/")
        self._store = None if place.startswith(("http://", "https://")) else open_named_log(place)
        self._client = httpx2.Client(timeout=FETCH_SECONDS, follow_redirects=True) if self._store is None else None

    def read_checkpoint(self) -> bytes:
        note = self._fetch("checkpoint") if self._store is None else self._store.read_checkpoint()
        if note is None:
            raise NotFound(f"there is no log at `{self.place}`", fix="give the folder, bucket or address of a log")
        return note

    def read_time_stamp(self) -> StampedCheckpoint | None:
        """The last time stamp of the log; None if it has none."""
        latest = self._read_file("timestamp/latest")
        if latest is None:
            return None
        size = parse_size(latest.decode("ascii", "replace").strip())
        note, answer = self._read_file(f"timestamp/{size}.note"), self._read_file(f"timestamp/{size}.tsr")
        if note is None or answer is None:
            raise NotFound(f"the time stamp of {size:,} entries is gone", fix="tell the operator of the log")
        return StampedCheckpoint(size, note, answer)

    def _read_file(self, path: str) -> bytes | None:
        if self._store is None:
            return self._fetch(path)
        file = find_log_file(self._store, path)
        return None if file is None else file.data

    @property
    def read_tile(self) -> Callable[[Tile], bytes]:
        return self._fetch_tile if self._store is None else self._store.read_tile

    def _fetch_tile(self, tile: Tile) -> bytes:
        data = self._fetch(tile.path)
        if data is None and not tile.is_full:  # a log may remove a partial tile once the full one is there
            return self._fetch_tile_part(tile)
        if data is None:
            raise BadTile(f"`{tile.path}` is missing")
        return data

    def _fetch_tile_part(self, tile: Tile) -> bytes:
        data = self._fetch(Tile(level=tile.level, index=tile.index).path)
        if data is None:
            raise BadTile(f"`{tile.path}` is missing")
        if tile.level is not None:
            return data[: 32 * tile.width]
        end = 0
        for _ in range(tile.width):
            end += 2 + int.from_bytes(data[end : end + 2])
        return data[:end]

    def _fetch(self, path: str) -> bytes | None:
        if self._client is None:
            raise ValueError("a folder or bucket is read, not fetched")
        try:
            answer = self._client.get(f"{self.place}/{path}")
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise Invalid(f"`{self.place}` cannot be read: {error}", fix="check the address") from None
        if answer.status_code == 404:
            return None
        if answer.status_code != 200:
            raise Invalid(f"`{self.place}/{path}` answered {answer.status_code}", fix="check the address")
        return bytes(answer.content)
