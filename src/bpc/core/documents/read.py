"""A document in, its facts out, or everything that is wrong with it.

Pure. The same bytes give the same facts. A format is a function from bytes to elements and has one line in `FORMATS`;
types, keys and limits are the same for all of them.

    kind, mime type, bytes ── read_document ──► Read(facts, warnings)
                                          └───► Rejected(problems, warnings)
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from bpc.core import canon
from bpc.core.digest import Digest, sha256
from bpc.core.documents import csv_table, sniff, strict_json, xlsx_table
from bpc.core.documents.elements import Element, elements
from bpc.core.documents.keys import key_of
from bpc.core.documents.members import payload_of
from bpc.core.documents.notes import Found, Notes
from bpc.core.documents.public import public_elements
from bpc.core.file_types import CSV, JSON, XLSX
from bpc.core.rules.types import Fact
from bpc.core.schemas import SCHEMA_VERSION, SCHEMAS

MOST_FACTS: Final = 50_000
MOST_FACT_BYTES: Final = 262_144

Format = Callable[[str, bytes, Notes], Iterable[Element]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFact:
    """A fact of a document: its payload's canonical bytes, their hash, and where in the document it stands."""

    fact_type: str
    fact_key: str
    schema_version: int
    payload_canonical: bytes
    payload_hash: Digest
    source_path: str


@dataclass(frozen=True, slots=True)
class Read:
    """What a document says, and what in it nobody reads."""

    facts: tuple[ReadFact, ...]
    warnings: Found


@dataclass(frozen=True, slots=True)
class Rejected:
    """Why a document was not read. There is at least one problem; what else was noticed goes with it."""

    problems: Found
    warnings: Found


def read_document(kind: str, mime_type: str, content: bytes) -> Read | Rejected:
    """The facts of a document; none of them unless all of it is right."""
    notes = Notes()
    as_elements = FORMATS.get(sniff.mime_type_of(mime_type, content))
    if as_elements is None:
        notes.problem("mime_type", f"is `{mime_type}`; documents are read from {', '.join(sorted(FORMATS))}")
        return Rejected(notes.problems, notes.warnings)
    found = list(as_elements(kind, content, notes))
    if notes.is_clean and not found:
        notes.problem("$", "says nothing about any battery")
    if len(found) > MOST_FACTS:
        notes.problem("$", f"has {len(found):,} facts, and at most {MOST_FACTS:,} are read; split the document")
        return Rejected(notes.problems, notes.warnings)
    found.reverse()
    facts = tuple(_fact(found.pop(), notes) for _ in range(len(found)))  # each makes room for the next
    if not notes.is_clean:
        return Rejected(notes.problems, notes.warnings)
    _warn_of_contradictions(facts, notes)
    return Read(facts, notes.warnings)


def _json(kind: str, content: bytes, notes: Notes) -> Iterable[Element]:
    value = strict_json.read(content, notes)
    if not notes.is_clean:
        return ()
    public = public_elements(kind, value, notes)
    return elements(kind, value, notes) if public is None else public


FORMATS: Final[Mapping[str, Format]] = {
    JSON: _json,
    "text/json": _json,
    "application/ld+json": _json,
    CSV: csv_table.elements,
    XLSX: xlsx_table.elements,
}


def _fact(element: Element, notes: Notes) -> ReadFact:
    schema = SCHEMAS[Fact(element.fact_type, SCHEMA_VERSION)]
    payload = payload_of(element.fact_type, schema, element.members, element.path, notes)
    key = key_of(element.fact_type, element.members, element.path, notes)
    # A payload with a problem may have no bytes (half of a surrogate pair), and nobody will want them.
    # Copied, because what the encoder hands over keeps the four kilobytes it was written into.
    canonical = bytes(memoryview(canon.encode_typed(payload))) if notes.is_clean else b""
    if len(canonical) > MOST_FACT_BYTES:
        notes.problem(element.path, f"has {len(canonical):,} bytes, and a fact has room for {MOST_FACT_BYTES:,}")
    return ReadFact(
        fact_type=element.fact_type,
        fact_key=key,
        schema_version=SCHEMA_VERSION,
        payload_canonical=canonical,
        payload_hash=sha256(canonical),
        source_path=element.path,
    )


def _warn_of_contradictions(facts: Iterable[ReadFact], notes: Notes) -> None:
    """A snapshot takes one fact of a type and key; better to hear of two now than then."""
    first: dict[tuple[str, str], ReadFact] = {}
    for fact in facts:
        before = first.setdefault((fact.fact_type, fact.fact_key), fact)
        if before.payload_hash != fact.payload_hash:
            notes.warning(
                fact.source_path,
                f"has the key of `{before.source_path}` and says something else; a snapshot takes only one of them",
            )
