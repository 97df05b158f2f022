"""Origins: which document says a member of a fact, and where in it. Read from the sealed `Provenance` facts.

Pure. There is one such fact for each document that contributed to a snapshot. Its `facts` name, by `<type> <key>`, the
place of the whole fact, or the place of each member that is from this document.

    facts of a snapshot ── read_origins ──► Origins.find(fact_type, fact_key, member) ──► Origin, or None
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.formats.canonical_json import Json

PROVENANCE_FACT_TYPE: Final = "Provenance"
_CELL: Final = re.compile(r"(?P<sheet>.+)!(?P<cell>[A-Z]{1,3}[0-9]+)")
_MONTHS: Final = (
    "January February March April May June July August September October November December".split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """A place in a document. `stated_at` is when the document said so, as it is written in formats."""

    document_id: str
    document_version_id: str | None = None
    file_name: str | None = None
    supplier: str | None = None
    stated_at: str | None = None
    place: str | None = None

    def describe(self) -> str:
        """`pcf.xlsx, sheet PCF, cell C2, uploaded on 16 November 2026 by Example Cells GmbH`"""
        parts = [self.file_name or f"document {self.document_id}"]
        if self.place:
            parts.append(format_place(self.place))
        day = None if self.stated_at is None else f"uploaded on {format_day(self.stated_at)}"
        sender = None if self.supplier is None else f"by {self.supplier}"
        parts += [text for text in (" ".join(filter(None, (day, sender))),) if text]
        return ", ".join(parts)


class Origins:
    """The origins of the members of a snapshot's facts."""

    def __init__(self, documents: Iterable[Mapping[str, Json]]) -> None:
        self._places: dict[str, list[tuple[Mapping[str, Json], Json]]] = {}
        for document in documents:
            places = document.get("facts")
            for label, place in places.items() if isinstance(places, Mapping) else ():
                self._places.setdefault(label, []).append((document, place))

    def find(self, fact_type: str, fact_key: str, member: str) -> Origin | None:
        """Where the value of a member is from; None if the snapshot does not say it."""
        entries = self._places.get(f"{fact_type} {fact_key}", ())
        for document, place in entries:
            if isinstance(place, Mapping) and member in place:
                return _make_origin(document, place[member])
        for document, place in entries:
            if isinstance(place, str):
                return _make_origin(document, f"{place}.{member}")
        return None


def read_origins(facts: Iterable[SnapshotFact]) -> Origins:
    """The origins that the `Provenance` facts of a snapshot name; none for a snapshot without them."""
    return Origins(fact.payload for fact in facts if fact.fact_type == PROVENANCE_FACT_TYPE)


def _make_origin(document: Mapping[str, Json], place: Json) -> Origin:
    def get_text(name: str) -> str | None:
        value = document.get(name)
        return value if isinstance(value, str) else None

    return Origin(
        document_id=get_text("document_id") or "",
        document_version_id=get_text("document_version_id"),
        file_name=get_text("file_name"),
        supplier=get_text("supplier"),
        stated_at=get_text("stated_at"),
        place=place if isinstance(place, str) else None,
    )


def format_place(place: str) -> str:
    """`PCF!C2` as people say it, `sheet PCF, cell C2`; other places as they are."""
    match = _CELL.fullmatch(place)
    return f"sheet {match['sheet']}, cell {match['cell']}" if match else place


def format_day(moment: str) -> str:
    """`2026-11-16T…` as `16 November 2026`."""
    year, month, day = moment[:10].split("-")
    return f"{int(day)} {_MONTHS[int(month) - 1]} {year}"
