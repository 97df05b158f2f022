"""Provenance: the document and the place that each value of a snapshot is from, sealed with the snapshot.

Pure. One fact of type `Provenance` for each document version that contributed. It has no schema: rules do not know it,
lists of facts leave it out, and no view shows it; everyone who has the bundle can check it.

    {"document_id", "document_version_id", "document_kind", "sha256", "file_name", "supplier", "stated_at",
     "facts": {"PCF pcf:SKU-1": {"total_gco2e": "PCF!C2", …}, "Battery battery:SKU-1": "$.battery"}}

What an attached file itself tells (its hash, its size) is at the place `file`; what the person who attached it said
(the data point, a title) is at the place `attachment <id>`.

If all members of a fact are from one document, each at the place of the fact and the name of the member, the place of
the fact is enough: `"$.battery"` stands for `$.battery.mass_kg` and so on.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.hashes import Digest, to_hex
from bpc.core.formats.ids import DocumentId, DocumentVersionId
from bpc.core.formats.timestamps import format_time

PROVENANCE_FACT_TYPE: Final = "Provenance"
PROVENANCE_SCHEMA_VERSION: Final = 1

WHOLE_FILE: Final = "file"

_DAY: Final = re.compile("([0-9]{4})-([0-9]{2})-([0-9]{2})")
_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_CELL: Final = re.compile("[A-Z]{1,3}[0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentOrigin:
    """A version of a document, and since when the document says it."""

    document_id: DocumentId
    document_version_id: DocumentVersionId
    kind: str
    sha256: Digest
    file_name: str | None
    supplier: str | None
    stated_at: datetime


@dataclass(frozen=True, slots=True)
class MemberOrigin:
    """The place of a value in a document."""

    document: DocumentOrigin
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedOrigin:
    """The place of a value, as a sealed snapshot tells it."""

    place: str
    file_name: str | None
    supplier: str | None
    stated_at: str
    document_id: str
    document_version_id: str
    sha256: str

    def describe(self) -> str:
        """`pcf.xlsx, sheet PCF, cell C2, uploaded on 16 November 2026 by Example Cells GmbH`."""
        name = self.file_name or f"document {self.document_id}"
        by = f" by {self.supplier}" if self.supplier else ""
        return f"{name}, {self._describe_place()}, uploaded on {_describe_day(self.stated_at)}{by}"

    def _describe_place(self) -> str:
        """A file as a whole has no place in it: its hash names it."""
        return f"sha256 {self.sha256}" if self.place == WHOLE_FILE else describe_place(self.place)


def _describe_day(time: str) -> str:
    parts = _DAY.match(time)
    if parts is None or not 1 <= int(parts[2]) <= len(_MONTHS):
        return time
    return f"{int(parts[3])} {_MONTHS[int(parts[2]) - 1]} {parts[1]}"


def describe_place(place: str) -> str:
    """A place in words: `PCF!C2` is sheet PCF, cell C2."""
    sheet, mark, cell = place.rpartition("!")
    if mark:
        return f"sheet {sheet}, {'cell' if _CELL.fullmatch(cell) else 'row'} {cell}"
    return "the whole file" if place == WHOLE_FILE else place


FactName = tuple[str, str]


def build_provenance_facts(origins: Mapping[FactName, Mapping[str, MemberOrigin]]) -> list[SnapshotFact]:
    """A fact for each document that a member is from. `origins` has the members of each fact, by type and key."""
    # By id: a document that was changed between two looks is still one.
    documents: dict[tuple[DocumentId, DocumentVersionId], DocumentOrigin] = {}
    places: dict[tuple[DocumentId, DocumentVersionId], dict[str, dict[str, str]]] = {}
    for (fact_type, fact_key), members in origins.items():
        for member, origin in members.items():
            name = origin.document.document_id, origin.document.document_version_id
            documents.setdefault(name, origin.document)
            places.setdefault(name, {}).setdefault(f"{fact_type} {fact_key}", {})[member] = origin.place
    sizes = {f"{fact_type} {fact_key}": len(members) for (fact_type, fact_key), members in origins.items()}
    return [
        _build_fact(
            documents[document], {name: _shorten_places(members, sizes[name]) for name, members in facts.items()}
        )
        for document, facts in places.items()
    ]


def _build_fact(document: DocumentOrigin, places: Mapping[str, Json]) -> SnapshotFact:
    return SnapshotFact(
        fact_type=PROVENANCE_FACT_TYPE,
        fact_key=f"provenance:{document.document_id}:{document.document_version_id}",
        schema_version=PROVENANCE_SCHEMA_VERSION,
        payload={
            "document_id": str(document.document_id),
            "document_version_id": str(document.document_version_id),
            "document_kind": document.kind,
            "sha256": to_hex(document.sha256),
            "file_name": document.file_name,
            "supplier": document.supplier,
            "stated_at": format_time(document.stated_at),
            "facts": places,
        },
    )


def _shorten_places(members: Mapping[str, str], total: int) -> Json:
    """The places of the members that are from one document, of `total` members that the fact has."""
    member, place = next(iter(members.items()))
    stem = place.removesuffix(f".{member}")
    is_regular = len(members) == total and all(place == f"{stem}.{member}" for member, place in members.items())
    return stem if is_regular else dict(members)


class ProvenanceIndex:
    """The origins that a snapshot's facts tell. Facts that do not have the form of this module are ignored."""

    def __init__(self, facts: Iterable[SnapshotFact]) -> None:
        self._origins: dict[str, list[tuple[Mapping[str, Json], Json]]] = {}
        for fact in facts:
            named_facts = fact.payload.get("facts") if fact.fact_type == PROVENANCE_FACT_TYPE else None
            if isinstance(named_facts, Mapping):
                for name, places in named_facts.items():
                    self._origins.setdefault(name, []).append((fact.payload, places))

    def find_fact_origin(self, fact_type: str, fact_key: str) -> SealedOrigin | None:
        """Where a fact is from: the place of its first member; None if the snapshot does not tell."""
        for _, places in self._origins.get(f"{fact_type} {fact_key}", ()):
            members = sorted(places) if isinstance(places, Mapping) else [""]
            if members:
                return self.find_origin(fact_type, fact_key, members[0])
        return None

    def find_origin(self, fact_type: str, fact_key: str, member: str) -> SealedOrigin | None:
        """Where the value of a member is from; None if the snapshot does not tell."""
        for document, places in self._origins.get(f"{fact_type} {fact_key}", ()):
            place = f"{places}.{member}".rstrip(".") if isinstance(places, str) else _get_text(places, member)
            stated_at = _get_text(document, "stated_at")
            if place is not None and stated_at is not None:
                return SealedOrigin(
                    place=place,
                    file_name=_get_text(document, "file_name"),
                    supplier=_get_text(document, "supplier"),
                    stated_at=stated_at,
                    document_id=_get_text(document, "document_id") or "",
                    document_version_id=_get_text(document, "document_version_id") or "",
                    sha256=_get_text(document, "sha256") or "",
                )
        return None


def _get_text(members: Json, name: str) -> str | None:
    value = members.get(name) if isinstance(members, Mapping) else None
    return value if isinstance(value, str) else None
