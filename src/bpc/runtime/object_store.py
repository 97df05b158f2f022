"""Buckets that speak the S3 protocol. Needs `bpc[s3]`.

    Bucket("s3://bucket/prefix", setting) ─► put what is not there, replace what is known, get parts, list, delete

Who may use a bucket, and where its service is, is said by the variables that all tools for S3 read:
`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, `AWS_ENDPOINT_URL`.
"""

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from types import ModuleType
from typing import Any, Final, NamedTuple, TypeAlias

from bpc.core.errors import DatabaseUnavailable
from bpc.runtime.settings import ConfigMissing

PACKS_SETTING: Final = "BPC_PACK_STORE"
LOG_SETTING: Final = "BPC_TLOG_STORE"
LISTED_AT_ONCE: Final = 1_000
MAX_RETRIES: Final = 3  # of one request
RETRY_TIMEOUT: Final = timedelta(seconds=20)


class BucketUnavailable(DatabaseUnavailable):
    """The bucket did not answer, or refused."""

    def __init__(self, problem: Exception) -> None:
        reason = str(problem).strip().partition("\n")[0][:300]
        super().__init__(
            f"the bucket cannot be used: {reason}", fix="check its address in the settings, and the variables AWS_*"
        )


# What a service tells of the bytes of an object, to be sent back with the next ones (`ETag`, `If-Match`).
ObjectVersion: TypeAlias = Mapping[str, str]


class StoredObject(NamedTuple):
    """An object of a bucket: its path below the prefix, its size and when it was written."""

    path: str
    size: int
    written_at: datetime


class Bucket:
    """A bucket, or the part of it below a prefix."""

    def __init__(self, url: str, *, setting: str) -> None:
        self.url = url
        self._obstore = _load("obstore", setting)
        patience = {"max_retries": MAX_RETRIES, "retry_timeout": RETRY_TIMEOUT}
        with self._explain_errors():
            # The store in memory is for tests: it has nothing to try again.
            options = {} if url.startswith("memory:") else {"retry_config": patience}
            self._store: Any = _load("obstore.store", setting).from_url(url, **options)

    def put_new(self, path: str, content: bytes) -> bool:
        """Write an object; False if there is one of this path, which stays as it is."""
        with self._explain_errors():
            try:
                self._obstore.put(self._store, path, content, mode="create")
            except self._obstore.exceptions.AlreadyExistsError:
                return False
        return True

    def put(self, path: str, content: bytes) -> None:
        """Write an object in the place of the one that is there."""
        with self._explain_errors():
            self._obstore.put(self._store, path, content)

    def replace(self, path: str, content: bytes, known: ObjectVersion | None) -> ObjectVersion | None:
        """Write an object in the place of a known one, or the first one if none is known; None if it is another."""
        errors = self._obstore.exceptions
        with self._explain_errors():
            try:
                answer = self._obstore.put(self._store, path, content, mode="create" if known is None else known)
            except (errors.AlreadyExistsError, errors.PreconditionError, FileNotFoundError):
                return None
            return _read_version(answer)

    def get_version(self, path: str) -> tuple[bytes, ObjectVersion]:
        """All bytes of an object, and its version, for `replace`. Raises `FileNotFoundError`."""
        with self._explain_errors(may_be_absent=True):
            answer = self._obstore.get(self._store, path)
            return bytes(answer.bytes()), _read_version(answer.meta)

    def get(self, path: str) -> bytes:
        """All bytes of an object. Raises `FileNotFoundError`."""
        with self._explain_errors(may_be_absent=True):
            return bytes(self._obstore.get(self._store, path).bytes())

    def get_part(self, path: str, start: int, length: int) -> bytes:
        """Some bytes of an object, fewer if it ends before. Raises `FileNotFoundError`."""
        with self._explain_errors(may_be_absent=True):
            return bytes(self._obstore.get(self._store, path, options={"range": (start, start + length)}).bytes())

    def list_objects(self, folder: str | None = None) -> list[StoredObject]:
        """Every object, or every one whose path begins with this folder."""
        with self._explain_errors():
            return [
                StoredObject(entry["path"], entry["size"], entry["last_modified"])
                for page in self._obstore.list(self._store, folder, chunk_size=LISTED_AT_ONCE)
                for entry in page
            ]

    def delete(self, *paths: str) -> None:
        """Delete objects, if they are there."""
        with suppress(FileNotFoundError), self._explain_errors(may_be_absent=True):
            self._obstore.delete(self._store, list(paths))

    @contextmanager
    def _explain_errors(self, *, may_be_absent: bool = False) -> Iterator[None]:
        try:
            yield
        except (self._obstore.exceptions.BaseError, OSError, ValueError) as error:
            if may_be_absent and isinstance(error, FileNotFoundError):
                raise
            raise BucketUnavailable(error) from error


def _read_version(answer: Mapping[str, Any]) -> ObjectVersion:
    return {name: answer[name] for name in ("e_tag", "version") if answer.get(name) is not None}


def _load(name: str, setting: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ConfigMissing.for_setting(
            setting, "is a bucket, and `obstore` is not installed", fix="install `bpc[s3]`"
        ) from None
