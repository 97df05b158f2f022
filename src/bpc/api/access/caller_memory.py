"""Callers that a process knows: what a key may do, in memory, so that most requests need no query for it.

    find ─► the caller of this key, or None ─► decide ─► a transaction that requires `caller.access_version`
                                                        └─► AccessChanged ─► forget, look up again

What is known is only a proposal: the transaction that reads or writes begins only if the tenant's access still has the
version that the caller was found with. A key that was revoked a moment ago is noticed by the next request, in every
process. And nobody is refused by what is in memory: a caller who may not is looked up again, for it may have changed.

A caller is known by the hash of the whole key, and only after the key was checked. Who has not been looked up for a
minute is looked up again, because then the time of the last use is to be written.
"""

import hashlib
from collections import OrderedDict
from datetime import datetime
from typing import Final, TypeAlias

from bpc.core.api_keys import ApiKeySecret
from bpc.core.console_access import SessionSecret
from bpc.storage.access.api_requests import Caller

Credential: TypeAlias = ApiKeySecret | SessionSecret  # what a caller is known by
MAX_REMEMBERED: Final = 10_000


class CallerMemory:
    """The callers of one process; those that were not seen for the longest time make room."""

    def __init__(self, most: int = MAX_REMEMBERED) -> None:
        self._most = most
        self._callers: OrderedDict[bytes, tuple[Credential, Caller]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._callers)

    def find(self, key: Credential, now: datetime) -> Caller | None:
        """The caller of this key, unless it is not known, has expired, or the time of its use is to be written."""
        entry = self.find_text(key.text, now)
        return None if entry is None else entry[1]

    def find_text(self, text: str, now: datetime) -> tuple[Credential, Caller] | None:
        """The same by the text of a key, which need not be parsed: only a right one has this hash."""
        digest = _hash_text(text)
        entry = self._callers.get(digest)
        if entry is None:
            return None
        _, caller = entry
        if caller.has_expired(now) or not caller.was_used_lately(now):
            del self._callers[digest]
            return None
        self._callers.move_to_end(digest)
        return entry

    def remember(self, key: Credential, caller: Caller, now: datetime) -> None:
        """Remember a caller whose key was checked, unless the next request has to write something about the key."""
        if caller.access_version is None or not caller.is_rehashed or not caller.was_used_lately(now):
            return
        digest = hash_credential(key)
        self._callers[digest] = key, caller
        self._callers.move_to_end(digest)
        if len(self._callers) > self._most:
            self._callers.popitem(last=False)

    def clear(self) -> None:
        """Forget everybody."""
        self._callers.clear()

    def forget(self, key: Credential) -> None:
        self._callers.pop(hash_credential(key), None)


def hash_credential(key: Credential) -> bytes:
    return _hash_text(key.text)


def _hash_text(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
