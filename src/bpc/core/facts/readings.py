"""Readings: the states of a battery as a series in time. The latest is by the time of recording, not of upload.

Pure. A reading is a fact of type `Reading` with the key `reading:<sku>:<kind>:<time>`. All are kept. A snapshot holds
the newest of each kind (at most `WINDOW`), and for each kind a fact `ReadingSeries` that counts and hashes all of them:
SHA-256 over the canonical list of `[time, hash of the payload]`, oldest first.

    readings of a product ── group_series ──► Series for each kind ── to_battery_value ──► a state of the Battery fact
                                                               └───── build_series_fact
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.facts.schemas import SCHEMA_VERSION, SCHEMAS, STATE_MEMBERS
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.hashes import Digest, sha256, to_hex
from bpc.core.formats.ids import FactId
from bpc.core.language.types import INT, TEXT, Dec, FactRecordType

READING_FACT_TYPE: Final = "Reading"
SERIES_FACT_TYPE: Final = "ReadingSeries"
RECORDED_ON: Final = "state_recorded_on"  # the member of a battery with the day of its states
WINDOW: Final = 50

_BATTERY: Final = SCHEMAS[FactRecordType("Battery", SCHEMA_VERSION)]


@dataclass(frozen=True, slots=True)
class ReadingRef:
    """A reading that counts: its fact, and what a series is ordered and hashed by."""

    fact_id: FactId
    kind: str
    recorded_at: str
    payload_hash: Digest


@dataclass(frozen=True, slots=True)
class Series:
    """All readings of one kind, oldest first; at least one."""

    kind: str
    readings: Sequence[ReadingRef]

    @property
    def window(self) -> Sequence[ReadingRef]:
        return self.readings[-WINDOW:]


def group_series(readings: Iterable[ReadingRef]) -> list[Series]:
    """The series of each kind."""
    by_kind: dict[str, list[ReadingRef]] = {}
    for reading in sorted(readings, key=lambda reading: (reading.kind, reading.recorded_at)):
        by_kind.setdefault(reading.kind, []).append(reading)
    return [Series(kind, group) for kind, group in by_kind.items()]


def parse_reading_key(fact_key: str, sku: str) -> tuple[str, str]:
    """The kind and the time in the key of a reading of this product."""
    kind, _, recorded_at = fact_key.removeprefix(f"reading:{sku}:").partition(":")
    return kind, recorded_at


def build_series_fact(sku: str, series: Series) -> SnapshotFact:
    """How many readings of a kind there are, from when to when, and the hash of all of them."""
    items: list[Json] = [[reading.recorded_at, to_hex(reading.payload_hash)] for reading in series.readings]
    return SnapshotFact(
        fact_type=SERIES_FACT_TYPE,
        fact_key=f"series:{sku}:{series.kind}",
        schema_version=SCHEMA_VERSION,
        payload={
            "sku": sku,
            "kind": series.kind,
            "count": len(series.readings),
            "first_recorded_at": series.readings[0].recorded_at,
            "last_recorded_at": series.readings[-1].recorded_at,
            "sha256": to_hex(sha256(canonical_json.encode(items))),
        },
    )


def to_battery_value(kind: str, reading: Mapping[str, Json]) -> Json:
    """The value of a reading as the Battery member of that kind holds it; None if there is no such member."""
    if kind not in STATE_MEMBERS:
        return None
    number, text = reading.get("number"), reading.get("text")
    match _BATTERY[kind]:
        case Dec(scale) if isinstance(number, str):
            return _cut_zeros(number, scale)
        case kind_type if kind_type == INT and isinstance(number, str):
            whole = _cut_zeros(number, 0)
            return None if whole is None else int(whole)
        case kind_type if kind_type == TEXT and isinstance(text, str):
            return text
        case _:
            return None


def _cut_zeros(number: str, scale: int) -> str | None:
    """A decimal with exactly this number of decimals; None if digits would be lost."""
    integer, _, fraction = number.partition(".")
    if fraction[scale:].strip("0"):
        return None
    return f"{integer}.{fraction[:scale].ljust(scale, '0')}" if scale else integer
