"""What several documents say about one thing, merged member by member.

Pure. Documents about one battery complete each other: each member has the value of a document that names it. Where two
documents name different values, the first statement counts (callers list them in the order in which they count), unless
somebody decided otherwise; the difference is listed with all its sources. A list is one value and is taken whole from
one document. Values are compared as the fact schema writes them, so `120.5` and `120.500000` are the same mass.

A value that could not be read is named, too: if it is the one that counts, the member is unreadable. It is
neither absent nor what somebody else says.

States, such as a capacity fade, are true at a time: of two, the one that was recorded later counts, whenever it was
uploaded, and the two do not differ.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from bpc.core.facts.provenance import DocumentOrigin, MemberOrigin
from bpc.core.facts.readings import RECORDED_ON
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.ids import DocumentId, DocumentVersionId, FactId


@dataclass(frozen=True, slots=True)
class UnreadableValue:
    """Where a value is that could not be read, and why not."""

    place: str
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FactStatement:
    """What one place in one document says about one thing."""

    fact_id: FactId
    document: DocumentOrigin
    source_path: str
    payload: Mapping[str, Json]
    member_places: Mapping[str, str] = field(default_factory=dict)
    unreadable: Mapping[str, UnreadableValue] = field(default_factory=dict)

    @property
    def document_id(self) -> DocumentId:
        return self.document.document_id

    @property
    def document_version_id(self) -> DocumentVersionId:
        return self.document.document_version_id

    @property
    def stated_at(self) -> datetime:
        return self.document.stated_at

    def names(self, member: str) -> bool:
        """Whether it says anything about a member, readable or not."""
        return member in self.payload or member in self.unreadable

    def locate_member(self, member: str) -> MemberOrigin:
        unreadable = self.unreadable.get(member)
        place = unreadable.place if unreadable else self.member_places.get(member, f"{self.source_path}.{member}")
        return MemberOrigin(self.document, place)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberConflict:
    """The documents that name a member, if not all with the same value; the first is the one that counts."""

    member: str
    statements: tuple[FactStatement, ...]
    is_decided: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedFact:
    """The merged members, the statement that each member is from, the unreadable ones, and where documents differ."""

    payload: Mapping[str, Json]
    sources: Mapping[str, FactStatement]
    unreadable: Mapping[str, FactStatement]
    conflicts: tuple[MemberConflict, ...]


def merge_statements(
    statements: Sequence[FactStatement],
    decisions: Mapping[str, DocumentId],
    *,
    state_members: frozenset[str] = frozenset(),
) -> MergedFact:
    """Merge what documents say about one thing. `statements` are in the order in which they count.

    `decisions` has, for a member, the document to believe; it holds for as long as that document names the member.
    """
    sources: dict[str, FactStatement] = {}
    conflicts: list[MemberConflict] = []
    for member in sorted({member for each in statements for member in (*each.payload, *each.unreadable)}):
        rivals = [statement for statement in statements if statement.names(member)]
        if member in state_members or member == RECORDED_ON:
            rivals = _select_last_recorded(rivals)
        decision = next((each for each in rivals if each.document_id == decisions.get(member)), None)
        winner = sources[member] = decision or rivals[0]
        others = [each for each in rivals if each is not winner]
        if any(_get_value(each, member) != _get_value(winner, member) for each in others):
            conflicts.append(
                MemberConflict(member=member, statements=(winner, *others), is_decided=decision is not None)
            )
    readable = {member: statement for member, statement in sources.items() if member in statement.payload}
    return MergedFact(
        payload={member: statement.payload[member] for member, statement in readable.items()},
        sources=readable,
        unreadable={member: statement for member, statement in sources.items() if member not in statement.payload},
        conflicts=tuple(conflicts),
    )


def _select_last_recorded(statements: Sequence[FactStatement]) -> list[FactStatement]:
    """Those that were recorded on the last day of all; a state without a day was recorded before every other."""
    days = [_get_recorded_day(statement) for statement in statements]
    last = max(days)
    return [statement for statement, day in zip(statements, days, strict=True) if day == last]


def _get_recorded_day(statement: FactStatement) -> str:
    day = statement.payload.get(RECORDED_ON)
    return day if isinstance(day, str) else ""


def _get_value(statement: FactStatement, member: str) -> tuple[Json, bool]:
    """The value, and whether it could be read."""
    return statement.payload.get(member), member in statement.payload
