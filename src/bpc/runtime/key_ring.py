"""The private signing keys that this process can use, by key id: the installation's own, and those that have a file.

keys = key_ring.load()            # reads the key files that are new or have changed
signer = keys.find("2027-key")    # reads nothing; None if the key is not available here

`SigningService` is what others see of it: whole documents in, signatures out.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, Protocol, Self, TypeAlias

from bpc.core.audit.signing import PublicKey, Signer, parse_seed
from bpc.core.errors import Refusal
from bpc.core.signing_forms import read_signing_order
from bpc.runtime import clock
from bpc.runtime.logs import get_logger
from bpc.runtime.settings import ConfigMissing, Settings
from bpc.runtime.settings.data_dir import (
    create_named_seed,
    list_key_ids,
    load_named_seed,
    load_signing_seed,
    locate_key_file,
)

# A file that changed less than this ago may change once more without another time stamp, so it is read again.
SETTLED_SECONDS: Final = 2.0
# When a file last changed (in any way, also its rights), its size and its inode.
FileStamp: TypeAlias = tuple[int, int, int]
log = get_logger(__name__)


class KeyNotHeld(Refusal):
    """The private half of a key is not here."""

    code = "SIGNING_KEY_MISSING"

    def __init__(self, key_id: str) -> None:
        super().__init__(f"the private key of `{key_id}` is not available here", fix="put it where its holder finds it")
        self.key_id = key_id


class SigningService(Protocol):
    """Who holds private keys: makes them, and signs whole documents with them (bpc.core.signing_forms)."""

    @property
    def provider_seconds(self) -> float | None:
        """How long the keys took for the last signature, without the way there; None if that is not known."""

    async def sign(self, kind: str, document: bytes) -> bytes:
        """The signature of the key that the document names; `KeyNotHeld` without its private half."""

    async def sign_many(self, kind: str, documents: Sequence[bytes]) -> list[bytes]:
        """The signature of each document, in their order. One that is refused refuses all of them."""

    async def create_key(self, key_id: str, tenant_id: str | None) -> PublicKey:
        """Make a private key; return its public half."""

    async def stop_key(self, key_id: str, status: Literal["RETIRED", "COMPROMISED"]) -> None:
        """Sign nothing more with a key."""


@dataclass(frozen=True, slots=True)
class SigningKeys:
    """Keys that were loaded. A file that cannot be used stands here as the reason why."""

    by_id: Mapping[str, Signer | ConfigMissing]

    def find(self, key_id: str) -> Signer | None:
        """The private key of this id; None, and a line in the log, if its file cannot be used."""
        key = self.by_id.get(key_id)
        if isinstance(key, ConfigMissing):
            log.warning("a signing key cannot be used", key_id=key_id, reason=key.says)
            return None
        return key


@dataclass(frozen=True, slots=True)
class KeyRing:
    """Where a process finds its private keys: `keys` in memory, and the key files that `settings` name."""

    keys: Mapping[str, Signer]
    settings: Settings | None = None
    _signers: dict[Path, tuple[FileStamp, Signer]] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """The installation's own key, which is made where there is none yet, and the key files."""
        return cls({settings.signing_key_id: Signer(parse_seed(load_signing_seed(settings)))}, settings)

    @property
    def provider_seconds(self) -> float:
        """Nothing worth counting."""
        return 0.0

    async def sign(self, kind: str, document: bytes) -> bytes:
        """The signature of the key that the document names."""
        order = read_signing_order(kind, document)
        key = (await asyncio.to_thread(self.load)).find(order.key_id)
        if key is None:
            raise KeyNotHeld(order.key_id)
        return key.sign(order.message)

    async def sign_many(self, kind: str, documents: Sequence[bytes]) -> list[bytes]:
        """The signature of each document."""
        return await asyncio.to_thread(self._sign_many, kind, documents)

    async def create_key(self, key_id: str, tenant_id: str | None) -> PublicKey:  # noqa: ARG002 (a file has no tenant)
        """Make a private key as a file."""
        if self.settings is None:
            raise KeyNotHeld(key_id)
        return Signer(parse_seed(await asyncio.to_thread(create_named_seed, self.settings, key_id))).public_key

    async def stop_key(self, key_id: str, status: Literal["RETIRED", "COMPROMISED"]) -> None:
        """Nothing: whoever asks this ring looks at the state of the key first."""

    def _sign_many(self, kind: str, documents: Sequence[bytes]) -> list[bytes]:
        keys, signatures = self.load(), []
        for document in documents:
            order = read_signing_order(kind, document)
            key = keys.find(order.key_id)
            if key is None:
                raise KeyNotHeld(order.key_id)
            signatures.append(key.sign(order.message))
        return signatures

    def load(self) -> SigningKeys:
        """The keys of now: an operator can add, correct or remove a file without a restart."""
        by_id: dict[str, Signer | ConfigMissing] = dict(self.keys)
        if self.settings is None:
            return SigningKeys(by_id)
        paths = {key_id: locate_key_file(self.settings, key_id) for key_id in _list_key_ids(self.settings)}
        for key_id, path in paths.items():
            if key_id not in by_id and path is not None and (key := self._load_file(self.settings, key_id, path)):
                by_id[key_id] = key
        for path_to_remove in [path for path in list(self._signers) if path not in paths.values()]:
            self._signers.pop(path_to_remove, None)
        return SigningKeys(by_id)

    def _load_file(self, settings: Settings, key_id: str, path: Path) -> Signer | ConfigMissing | None:
        stamp = _read_stamp(path)
        earlier_stamp, signer = self._signers.get(path, (None, None))
        if signer is not None and stamp == earlier_stamp:
            return signer
        try:
            seed = load_named_seed(settings, key_id)
        except ConfigMissing as error:
            return error
        if seed is None:
            return None
        signer = Signer(parse_seed(seed))
        if stamp is not None and clock.now().timestamp() - stamp[0] / 1e9 >= SETTLED_SECONDS:
            self._signers[path] = stamp, signer
        return signer


def _list_key_ids(settings: Settings) -> list[str]:
    try:
        return list_key_ids(settings)
    except ConfigMissing as error:
        log.warning("only the installation's own signing key can be used", reason=error.says)
        return []


def _read_stamp(path: Path) -> FileStamp | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ctime_ns, status.st_size, status.st_ino
