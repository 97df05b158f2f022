"""Secrets that we must be able to read again, such as those of webhooks, encrypted where they are stored.

Pure: the nonce is an argument. AES-256-GCM; the context, such as the ids of the row, is authenticated with it: a text
that is copied into another row does not open. The text names its key, so that keys can be replaced one after the other.

    bpc1:<id of the key>:<base64 of nonce, ciphertext and tag>

A text without that beginning was stored by an earlier release, as it is.
"""

import hmac
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from bpc.core.errors import Refusal

SEALED_PREFIX: Final = "bpc1:"
NONCE_BYTES: Final = 12
_KEY_DOMAIN: Final = b"BPC-STORED-SECRETS-1"
_ID_DOMAIN: Final = b"BPC-STORED-SECRETS-KEY-ID-1"


class SecretUnreadable(Refusal):
    """A stored secret was encrypted with a key that this process does not have, or was changed."""

    code = "CONFIG_MISSING"

    def __init__(self) -> None:
        super().__init__("a stored secret cannot be decrypted", hint="bring back the key of stored secrets")


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretBox:
    """The key that encrypts, and those that only decrypt. `materials` are secrets that keys are derived from."""

    materials: tuple[bytes, ...] = field(repr=False)

    def seal(self, secret: str, *, context: str, nonce: bytes) -> str:
        """The secret as it is stored."""
        key = _derive_key(self.materials[0])
        sealed = nonce + AESGCM(key).encrypt(nonce, secret.encode(), context.encode())
        return f"{SEALED_PREFIX}{_name_key(key)}:{b64encode(sealed).decode()}"

    def open(self, stored: str, *, context: str) -> str:
        """The secret. Raises `SecretUnreadable`."""
        if not stored.startswith(SEALED_PREFIX):
            return stored
        key_id, _, text = stored.removeprefix(SEALED_PREFIX).partition(":")
        key = next((key for key in map(_derive_key, self.materials) if _name_key(key) == key_id), None)
        if key is None:
            raise SecretUnreadable
        sealed = b64decode(text)
        try:
            return AESGCM(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], context.encode()).decode()
        except InvalidTag:
            raise SecretUnreadable from None

    def is_current(self, stored: str) -> bool:
        """Whether it is encrypted with the key that encrypts now."""
        return stored.startswith(f"{SEALED_PREFIX}{_name_key(_derive_key(self.materials[0]))}:")


def _derive_key(material: bytes) -> bytes:
    return hmac.digest(material, _KEY_DOMAIN, "sha256")


def _name_key(key: bytes) -> str:
    return hmac.digest(key, _ID_DOMAIN, "sha256")[:6].hex()
