"""Payload, BPC-PASSPORT-1 and -2: the passport itself, and BPC-BLIND-1: the salts that hide its fields in a view.

Pure. Fields nest by their paths. The checker refuses rules in which one path is the beginning of another, so a path
leads either to a value or further down, never both.

A snapshot may hold a secret, as a fact of type `Blinding`. Each field's hash includes a salt made from that secret, so
nobody who sees only the hash can guess the value and check the guess. Without a secret the salts are public.
"""

import hmac
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Any, Final
from uuid import UUID

from bpc.core.errors import Invalid
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.hashes import from_hex
from bpc.core.formats.ids import PassportId, PassportVersionId
from bpc.core.formats.timestamps import format_time
from bpc.core.language.evaluation import ComplianceEntry

# By the level of the rule language: entries of rules of level 2 say more.
PAYLOAD_VERSIONS: Final[Mapping[int, str]] = {1: "BPC-PASSPORT-1", 2: "BPC-PASSPORT-2"}
MAX_PAYLOAD_BYTES: Final = 5_000_000
BLINDING_FACT_TYPE: Final = "Blinding"
BLINDING_SCHEMA_VERSION: Final = 1
BLINDING_KEY_BYTES: Final = 32
SALT_DIGITS: Final = 32

_BLINDING_DOMAIN: Final = b"BPC-BLIND-1\0"
_SLOT: Final = re.compile('"@[0-9]+@"')


class PayloadFrame:
    """Writes the payloads of some rules. What all of them say is written once."""

    def __init__(self, access: Mapping[str, Sequence[str]], language: int = 1) -> None:
        """`access` goes by path. `language` is the level of the rules."""
        self._language = language
        readers: dict[str, Json] = {path: sorted(audiences) for path, audiences in access.items()}
        self._start = f'{{"access":{_encode(readers)},"battery_product":'
        self._field_pieces = split_at_values(sorted(access))

    def encode(
        self,
        values: Sequence[str],
        *,
        battery_product: Mapping[str, Json],
        compliance: Iterable[ComplianceEntry],
        issued_at: datetime,
        passport_id: PassportId,
        passport_version_id: PassportVersionId,
        salt: str,
    ) -> bytes:
        """The canonical payload. `values` are those of the fields by path, as canonical JSON."""
        entries = _encode([entry.to_payload_json(self._language) for entry in compliance])
        fields = "".join(chain.from_iterable(zip(self._field_pieces, values, strict=False)))
        return (
            f'{self._start}{_encode(battery_product)},"compliance":{entries},"fields":{fields}{self._field_pieces[-1]},'
            f'"issued_at":"{format_time(issued_at)}","passport_id":"{passport_id}",'
            f'"passport_version_id":"{passport_version_id}","payload_version":"{PAYLOAD_VERSIONS[self._language]}",'
            f'"salt":"{salt}"}}'
        ).encode()


def split_at_values(paths: Sequence[str]) -> list[str]:
    """What a payload writes around the values of sorted paths: one text more than there are paths.

    The order of paths is the order of the nested names, because a point comes before all that a name is made of.
    """
    slots: dict[str, Json] = {path: f"@{at}@" for at, path in enumerate(paths)}
    return _SLOT.split(_encode(nest_fields(slots)))


def _encode(value: Json) -> str:
    return canonical_json.encode_typed(value).decode()


def nest_fields(fields: Mapping[str, Json]) -> dict[str, Json]:
    """`{"a.b": 1}` as `{"a": {"b": 1}}`."""
    top: dict[str, Any] = {}
    for path, value in fields.items():
        *folders, name = path.split(".")
        target = top
        for folder in folders:
            target = target.setdefault(folder, {})
        target[name] = value
    return top


def get_at_path(fields: Json, path: str) -> tuple[Json, ...]:
    """The value that nested `fields` have at `path`, in a tuple; nothing where there is none."""
    value = fields
    for name in path.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return ()
        value = value[name]
    return (value,)


class BadBlinding(Invalid):
    """The `Blinding` fact of a snapshot does not hold a secret."""

    def __init__(self, fact_key: str) -> None:
        super().__init__(
            f"fact `{fact_key}` is not a valid snapshot secret",
            fix='its schema version is 1 and its payload {"key": "<64 lower-case hex digits>"} and nothing else',
            details={"fact_type": BLINDING_FACT_TYPE, "fact_key": fact_key},
        )


def blinding_fact_key(snapshot_id: UUID) -> str:
    return f"blinding:{snapshot_id}"


def make_blinding_fact(snapshot_id: UUID, key: bytes) -> SnapshotFact:
    """The fact that makes `key`, 32 random bytes, the secret of a snapshot."""
    if len(key) != BLINDING_KEY_BYTES:
        raise ValueError(f"a secret has {BLINDING_KEY_BYTES} bytes, not {len(key)}")
    return SnapshotFact(
        fact_type=BLINDING_FACT_TYPE,
        fact_key=blinding_fact_key(snapshot_id),
        schema_version=BLINDING_SCHEMA_VERSION,
        payload={"key": key.hex()},
    )


def find_blinding_key(facts: Iterable[SnapshotFact], snapshot_id: UUID) -> bytes | None:
    """The secret of the snapshot, or None where it has none; another snapshot's secret is not looked at."""
    expected_key = blinding_fact_key(snapshot_id)
    for fact in facts:
        if fact.fact_type == BLINDING_FACT_TYPE and fact.fact_key == expected_key:
            return _read_blinding_key(fact)
    return None


def _read_blinding_key(fact: SnapshotFact) -> bytes:
    text = fact.payload.get("key")
    if fact.schema_version != BLINDING_SCHEMA_VERSION or len(fact.payload) != 1 or not isinstance(text, str):
        raise BadBlinding(fact.fact_key)
    try:
        return from_hex(text)
    except Invalid:
        raise BadBlinding(fact.fact_key) from None


class Salts:
    """The salts of one passport version; other versions of the same snapshot have others."""

    __slots__ = ("_key", "_prefix")

    def __init__(self, key: bytes | None, passport_version_id: UUID) -> None:
        self._key = key if key is not None else bytes(BLINDING_KEY_BYTES)
        self._prefix = _BLINDING_DOMAIN + str(passport_version_id).encode() + b"\0"

    def derive_payload_salt(self) -> str:
        return self._derive_hex("payload")[:SALT_DIGITS]

    def derive_field_salts(self, path: str) -> tuple[str, str]:
        """The salt of a field's node and that of its derivation: independent halves of one output."""
        hex_digits = self._derive_hex(f"field:{path}")
        return hex_digits[:SALT_DIGITS], hex_digits[SALT_DIGITS:]

    def _derive_hex(self, purpose: str) -> str:
        return hmac.digest(self._key, self._prefix + purpose.encode(), "sha256").hex()
