"""What several documents say about one thing, merged member by member.

Pure. Documents about one battery complete each other: each member has the value of a document that names it. Where two
documents name different values, the first statement counts (callers list the newest first), unless somebody decided
otherwise; the difference is listed with all its sources. A list is one value and is taken whole from one document.
Values are compared as the fact schema writes them, so `120.5` and `120.500000` are the same mass.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from bpc.core.formats.canonical_json import Json
from bpc.core.formats.ids import DocumentId, DocumentVersionId, FactId


@dataclass(frozen=True, slots=True, kw_only=True)
class FactStatement:
    """What one place in one document says about one thing, and since when."""

    fact_id: FactId
    document_id: DocumentId
    document_version_id: DocumentVersionId
    source_path: str
    stated_at: datetime
    payload: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberConflict:
    """The documents that name a member, if not all with the same value; the first is the one that counts."""

    member: str
    statements: tuple[FactStatement, ...]
    is_decided: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedFact:
    """The merged members, the statement that each member is from, and where documents differ."""

    payload: Mapping[str, Json]
    sources: Mapping[str, FactStatement]
    conflicts: tuple[MemberConflict, ...]


def merge_statements(statements: Sequence[FactStatement], decisions: Mapping[str, DocumentId]) -> MergedFact:
    """Merge what documents say about one thing. `statements` are in the order in which they count.

    `decisions` has, for a member, the document to believe; it holds for as long as that document names the member.
    """
    sources: dict[str, FactStatement] = {}
    conflicts: list[MemberConflict] = []
    for member in sorted({member for statement in statements for member in statement.payload}):
        naming = [statement for statement in statements if member in statement.payload]
        decided = next((s for s in naming if s.document_id == decisions.get(member)), None)
        chosen = decided or naming[0]
        sources[member] = chosen
        if any(s.payload[member] != chosen.payload[member] for s in naming):
            others = (s for s in naming if s is not chosen)
            conflicts.append(
                MemberConflict(member=member, statements=(chosen, *others), is_decided=decided is not None)
            )
    payload = {member: statement.payload[member] for member, statement in sources.items()}
    return MergedFact(payload=payload, sources=sources, conflicts=tuple(conflicts))
