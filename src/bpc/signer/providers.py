"""Where private keys are: in files, in a hardware module over PKCS#11, or in a key service of somebody else.

A provider makes keys and signs with them. It decides nothing: the signer has checked everything before it asks. A
package can bring one of its own as an entry point of the group `bpc.key_providers`: a function of the settings that
returns a `KeyProvider`. That is how a cloud key service is connected.
"""

from importlib.metadata import entry_points
from typing import Final, Protocol

from bpc.core.audit.signing import PublicKey, Signer, parse_seed
from bpc.core.signing_forms import LOG_KEY_ID
from bpc.runtime.key_ring import KeyNotHeld, KeyRing
from bpc.runtime.settings import ConfigMissing, Settings
from bpc.runtime.settings.data_dir import create_named_seed, load_log_seed, load_named_seed

PROVIDERS_GROUP: Final = "bpc.key_providers"


class KeyProvider(Protocol):
    """Private keys by name. If a call may take long, say so: the signer then makes it in a thread."""

    may_block: bool

    def find_public_key(self, key_id: str) -> PublicKey | None:
        """The public half of a key; None if it is not here."""

    def create_key(self, key_id: str) -> PublicKey:
        """Make a key that cannot be told from random; return its public half. If it is there, that one."""

    def sign(self, key_id: str, message: bytes) -> bytes:
        """The Ed25519 signature (RFC 8032) over these bytes. Raises `KeyNotHeld`."""


class FileProvider:
    """Keys in files that only their owner reads, and the installation's own from the environment."""

    may_block = False

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._key_ring = KeyRing.from_settings(settings)
        log_seed = load_log_seed(settings)
        self._log_key = None if log_seed is None else Signer(parse_seed(log_seed))

    def find_public_key(self, key_id: str) -> PublicKey | None:
        key = self._find(key_id)
        return None if key is None else key.public_key

    def create_key(self, key_id: str) -> PublicKey:
        if load_named_seed(self._settings, key_id) is None:
            create_named_seed(self._settings, key_id)
        public_key = self.find_public_key(key_id)
        if public_key is None:
            raise KeyNotHeld(key_id)
        return public_key

    def sign(self, key_id: str, message: bytes) -> bytes:
        key = self._find(key_id)
        if key is None:
            raise KeyNotHeld(key_id)
        return key.sign(message)

    def _find(self, key_id: str) -> Signer | None:
        return self._log_key if key_id == LOG_KEY_ID else self._key_ring.load().find(key_id)


def open_provider(settings: Settings) -> KeyProvider:
    """The provider that the settings name."""
    name = settings.signer_provider
    if name == "file":
        return FileProvider(settings)
    if name == "pkcs11":
        from bpc.signer.pkcs11_keys import Pkcs11Provider  # noqa: PLC0415 (its library is an extra)

        return Pkcs11Provider(settings)
    for entry_point in entry_points(group=PROVIDERS_GROUP, name=name):
        provider: KeyProvider = entry_point.load()(settings)
        return provider
    raise ConfigMissing.for_setting(
        "BPC_SIGNER_PROVIDER",
        f"`{name}` is not a provider of keys",
        fix=f"use file or pkcs11, or install a package with the entry point `{name}` in `{PROVIDERS_GROUP}`",
    )
