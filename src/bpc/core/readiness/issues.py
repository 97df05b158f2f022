"""What keeps a product from a good passport: one entry for each thing that is missing, failing or in doubt.

Pure values. `kind` says what is wrong:

    missing       no document says it
    failing       a rule refuses what the documents say, or a compliance entry is FAIL or WARN
    unreadable    a document says it, and the value could not be read
    conflicting   documents say different things, and nobody has decided
    implausible   what the documents say contradicts itself or cannot be
    not_shown     the documents say it, and no field of the rules shows it
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, NamedTuple, TypeAlias

from bpc.core.documents.fact_members import list_columns
from bpc.core.exports.data_points import Category, Status
from bpc.core.facts.findings import Severity
from bpc.core.facts.schemas import SCHEMA_MEMBERS, SCHEMA_VERSION
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.ids import DocumentId, DocumentVersionId
from bpc.core.language.types import FactRecordType

IssueKind: TypeAlias = Literal["missing", "failing", "unreadable", "conflicting", "implausible", "not_shown"]
# What is said of a point in a matrix. `empty`: not mandatory, and nothing fills it. `not_asked`: not to be filled.
PointState: TypeAlias = Literal[
    "filled", "missing", "failing", "unreadable", "conflicting", "implausible", "not_shown", "empty", "not_asked"
]

TEMPLATE_SHEETS: Final[Mapping[str, str]] = {
    "Battery": "Battery",
    "Component": "Components",
    "PCF": "PCF",
    "DueDiligence": "Due diligence",
}


class IssueOrigin(NamedTuple):
    """A document that says something about an issue: the place in it and the value, where it names one."""

    document_id: DocumentId
    document_version_id: DocumentVersionId
    file_name: str | None
    supplier: str | None
    stated_at: datetime
    place: str | None = None
    value: Json = None


class TemplateCell(NamedTuple):
    """Where a supplier writes a value: a sheet of the template and the column with this name."""

    sheet: str
    column: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadinessIssue:
    """One thing that is wrong or missing, where it is noticed, and where it is put right.

    `code` is the rule's own code, that of a compliance entry, or that of a finding. `fields` have no value or are in
    doubt because of it, and `labels` are what people call them; `place` is where the rules say so. `origins` are the
    places in documents that say it; of a value that is missing, the documents about the same fact.
    """

    kind: IssueKind
    severity: Severity
    says: str
    points: tuple[int, ...] = ()
    code: str | None = None
    fields: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    place: str | None = None
    fact_type: str | None = None
    fact_key: str | None = None
    members: tuple[str, ...] = ()
    cells: tuple[TemplateCell, ...] = ()
    origins: tuple[IssueOrigin, ...] = ()


class PointReadiness(NamedTuple):
    """A data point of a product: its status for the category, None if the category is not known, and its state."""

    number: int
    status: Status | None
    state: PointState


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """How far a product is from its passport.

    `compiles`: the rules give every field. `is_ready`: besides, no issue is an error.
    """

    sku: str
    category: Category | None
    compiles: bool
    issues: tuple[ReadinessIssue, ...]
    points: tuple[PointReadiness, ...]
    compliance: Mapping[str, int]  # how many entries there are of each status

    @property
    def is_ready(self) -> bool:
        return self.compiles and not any(issue.severity == "error" for issue in self.issues)


def find_template_cell(fact_type: str, member: str) -> TemplateCell | None:
    """Where the template asks for a member; `list.member` is a member of a record in a list."""
    sheet = TEMPLATE_SHEETS.get(fact_type)
    name, _, inner = member.partition(".")
    schema_member = SCHEMA_MEMBERS.get(FactRecordType(fact_type, SCHEMA_VERSION), {}).get(name)
    if sheet is None or schema_member is None:
        return None
    if inner:
        return TemplateCell(sheet, f"{name}[1].{inner}")
    columns = list_columns(name, schema_member)
    return TemplateCell(sheet, columns[0][0]) if columns else None
