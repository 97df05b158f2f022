"""Blinding, BPC-BLIND-1: the secret of a snapshot, and the salts that hide fields in a view.

Pure. A view shows hidden fields as hashes; without a salt, whoever guesses a value could check the guess. The secret
is a fact of the snapshot like any other, so sealing pins it and replay finds it again; rules cannot name it. Without
one the key is 32 zero bytes: compiling stays possible and deterministic, and the salts hide nothing.
"""

import hmac
from collections.abc import Iterable
from typing import Final
from uuid import UUID

from bpc.core.digest import NotADigest, from_hex
from bpc.core.errors import Invalid
from bpc.core.facts import SnapshotFact

FACT_TYPE: Final = "Blinding"
SCHEMA_VERSION: Final = 1
KEY_BYTES: Final = 32
SALT_DIGITS: Final = 32

_DOMAIN: Final = b"BPC-BLIND-1\0"


class BadBlinding(Invalid):
    """The snapshot's blinding fact holds no key."""

    def __init__(self, fact_key: str) -> None:
        super().__init__(
            f"fact `{fact_key}` is not a secret of a snapshot",
            fix='its schema version is 1 and its payload {"key": "<64 lower-case hex digits>"} and nothing else',
            details={"fact_type": FACT_TYPE, "fact_key": fact_key},
        )


def fact_key(snapshot_id: UUID) -> str:
    return f"blinding:{snapshot_id}"


def blinding_fact(snapshot_id: UUID, key: bytes) -> SnapshotFact:
    """The fact that makes `key`, 32 random bytes, the secret of a snapshot."""
    if len(key) != KEY_BYTES:
        raise ValueError(f"a secret has {KEY_BYTES} bytes, not {len(key)}")
    return SnapshotFact(
        fact_type=FACT_TYPE,
        fact_key=fact_key(snapshot_id),
        schema_version=SCHEMA_VERSION,
        payload={"key": key.hex()},
    )


def blinding_key(facts: Iterable[SnapshotFact], snapshot_id: UUID) -> bytes | None:
    """The secret of the snapshot, or None where it has none; another snapshot's secret is not looked at."""
    wanted = fact_key(snapshot_id)
    for fact in facts:
        if fact.fact_type == FACT_TYPE and fact.fact_key == wanted:
            return _key(fact)
    return None


def _key(fact: SnapshotFact) -> bytes:
    text = fact.payload.get("key")
    if fact.schema_version != SCHEMA_VERSION or len(fact.payload) != 1 or not isinstance(text, str):
        raise BadBlinding(fact.fact_key)
    try:
        return from_hex(text)
    except NotADigest:
        raise BadBlinding(fact.fact_key) from None


class Salts:
    """The salts of one passport version; other versions of the same snapshot have others."""

    __slots__ = ("_key", "_prefix")

    def __init__(self, key: bytes | None, passport_version_id: UUID) -> None:
        self._key = key if key is not None else bytes(KEY_BYTES)
        self._prefix = _DOMAIN + str(passport_version_id).encode() + b"\0"

    def payload(self) -> str:
        return self._made("payload")[:SALT_DIGITS]

    def field(self, path: str) -> tuple[str, str]:
        """The salt of a field's node and that of its derivation: independent halves of one output."""
        made = self._made(f"field:{path}")
        return made[:SALT_DIGITS], made[SALT_DIGITS:]

    def _made(self, what: str) -> str:
        return hmac.digest(self._key, self._prefix + what.encode(), "sha256").hex()
