"""What is known of a product at one moment: its facts, where each member is from, and what is wrong about it.

ProductFact (merged from documents) ─┐
ReadingFact, SeriesFact ─────────────┼─► ProductEvidence
AttachmentFact, Finding ─────────────┘
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bpc.core.facts.attachments import AttachedFile, locate_attachment_members
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.facts.findings import Finding, build_finding_facts
from bpc.core.facts.merge import FactStatement, MemberConflict, MergedFact
from bpc.core.facts.provenance import FactName, MemberOrigin
from bpc.core.formats.ids import DocumentVersionId, FactId


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductFact:
    """A fact that is known of a product: what the documents say about one thing, and what they make together."""

    fact: SnapshotFact
    statements: Sequence[FactStatement]
    merge_result: MergedFact
    origins: Mapping[str, MemberOrigin]

    @property
    def name(self) -> FactName:
        return self.fact.fact_type, self.fact.fact_key

    def find_stored_id(self) -> FactId | None:
        """The fact of a document that says exactly this; None if no document alone does."""
        return next((each.fact_id for each in self.statements if each.payload == self.fact.payload), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingFact:
    """A reading that a snapshot holds. Documents that say something else about the same moment are its conflict."""

    fact: SnapshotFact
    statement: FactStatement
    is_current: bool
    conflict: MemberConflict | None

    @property
    def name(self) -> FactName:
        return self.fact.fact_type, self.fact.fact_key

    @property
    def fact_id(self) -> FactId:
        return self.statement.fact_id


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachmentFact:
    """The fact that names an attached file."""

    fact: SnapshotFact
    file: AttachedFile

    @property
    def document_version_id(self) -> DocumentVersionId:
        return self.file.document.document_version_id


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesFact:
    """The fact that sums up a series of readings, and the places of its first and its last reading."""

    fact: SnapshotFact
    origins: Mapping[str, MemberOrigin]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductEvidence:
    """Everything that is known of a product at one moment, and everything that is wrong about it."""

    sku: str
    product_facts: Sequence[ProductFact]
    readings: Sequence[ReadingFact]
    series: Sequence[SeriesFact]
    findings: Sequence[Finding]
    attachments: Sequence[AttachmentFact]

    @property
    def facts(self) -> tuple[SnapshotFact, ...]:
        """What rules can read."""
        return (
            *(each.fact for each in self.product_facts),
            *(each.fact for each in self.readings),
            *(each.fact for each in self.attachments),
            *self.list_computed_facts(),
        )

    def locate_members(self) -> Mapping[FactName, Mapping[str, MemberOrigin]]:
        """Where each member of each fact is from. Findings, and what counts a whole series, are computed here."""
        return {
            (fact.fact_type, fact.fact_key): origins
            for fact, origins in (
                *((each.fact, each.origins) for each in self.product_facts),
                *((each.fact, _locate_reading_members(each)) for each in self.readings),
                *((each.fact, locate_attachment_members(each.file, each.fact)) for each in self.attachments),
                *((each.fact, each.origins) for each in self.series),
            )
        }

    def find_first_version(self) -> DocumentVersionId | None:
        """A document version that the facts are from; None if there is no fact."""
        statement = next(self.iterate_statements(), None)
        if statement is not None:
            return statement.document_version_id
        return next((each.document_version_id for each in self.attachments), None)

    def iterate_conflicts(self) -> Iterator[tuple[FactName, MemberConflict]]:
        """Where documents differ."""
        for fact in self.product_facts:
            for conflict in fact.merge_result.conflicts:
                yield fact.name, conflict
        for reading in self.readings:
            if reading.conflict is not None:
                yield reading.name, reading.conflict

    def iterate_statements(self) -> Iterator[FactStatement]:
        for fact in self.product_facts:
            yield from fact.statements
        for reading in self.readings:
            yield reading.statement

    def count_open_conflicts(self) -> int:
        return sum(not conflict.is_decided for _, conflict in self.iterate_conflicts())

    def list_computed_facts(self) -> list[SnapshotFact]:
        """Facts that no document states: a summary of each series, and the findings."""
        return [
            *(each.fact for each in self.series),
            *build_finding_facts(self.sku, self.findings),
        ]


def _locate_reading_members(reading: ReadingFact) -> Mapping[str, MemberOrigin]:
    return {member: reading.statement.locate_member(member) for member in reading.fact.payload}
