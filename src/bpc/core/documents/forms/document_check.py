"""A check of documents before they are sent: everything that is wrong in them, and in which cell.

Pure. Reading is one step for each file, which a shell runs apart because files are untrusted; what files say together
is the second.

    kinds, bytes, options ── examine_document ──► Examination(facts, notes)  ──┐
                                            for each file                      ├─ check_facts ──► notes by file
    category ──────────────────────────────────────────────────────────────────┘
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple, TypeAlias

from bpc.core.documents import DocumentNote, Notes
from bpc.core.documents.cells import drop_comments
from bpc.core.documents.csv_table import open_csv
from bpc.core.documents.elements import FACT_TYPES, UnreadableMember, parse_strict_json
from bpc.core.documents.forms.missing import MissingPart, convert_fact, group_by_sku, list_missing_parts
from bpc.core.documents.forms.template_plan import find_template_column
from bpc.core.documents.read_options import ReadOptions
from bpc.core.documents.reader import (
    DocumentFacts,
    DocumentProblems,
    ExtractedFact,
    detect_mime_type,
    read_document,
    recognise_format,
)
from bpc.core.documents.sheet_names import find_sheet_types
from bpc.core.documents.table_columns import read_columns
from bpc.core.documents.table_layout import HeaderMatcher, find_layout
from bpc.core.documents.tables import TableSource
from bpc.core.documents.xlsx.package import WorkbookUnreadable
from bpc.core.documents.xlsx.workbook import choose_sheets, open_workbook
from bpc.core.exports.data_points import CATEGORIES, POINTS, Category, find_category
from bpc.core.exports.point_parts import PARTS
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.facts.findings import Finding, Severity
from bpc.core.facts.plausibility import find_implausible
from bpc.core.facts.schemas import SCHEMA_MEMBERS, SCHEMA_VERSION
from bpc.core.formats.file_types import CSV, XLSX
from bpc.core.language.types import FactRecordType

# problem: rejects the document. unreadable: a value was left out. warning: something else was left out. implausible:
# cannot or hardly can be true. missing: a mandatory data point that nothing fills.
CheckKind: TypeAlias = Literal["problem", "unreadable", "warning", "implausible", "missing"]

KINDS: Final = tuple(FACT_TYPES)
MAX_LOCATED: Final = 20_000
_LEFT_OUT: Final = "; the value was left out"
_OTHER_KIND: Final = "is a sheet that was not read; upload the document as "


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckNote:
    """One thing that is wrong: how serious it is, where it is, and a sentence that says what to do.

    `other_places` are the further cells that it is about.
    """

    severity: Severity
    kind: CheckKind
    place: str
    says: str
    sku: str | None = None
    fact_type: str | None = None
    members: tuple[str, ...] = ()
    points: tuple[int, ...] = ()
    code: str | None = None
    other_places: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Examination:
    """What reading a document gave: the kinds it was read as, its facts, and what is wrong with it."""

    kinds: tuple[str, ...]
    facts: tuple[ExtractedFact, ...]
    notes: tuple[CheckNote, ...]


class OpenCell(NamedTuple):
    """A value of a product that is not there."""

    fact_type: str
    sku: str
    member: str


def examine_document(
    kind: str | None, mime_type: str, content: bytes, options: ReadOptions, category: Category | None = None
) -> Examination:
    """Read a document as one kind, or as every kind that it has."""
    named_kinds = (kind,) if kind is not None else _find_named_kinds(mime_type, content)
    outcomes = {each: read_document(each, mime_type, content, options) for each in named_kinds or KINDS}
    relevant_outcomes = outcomes if named_kinds else _choose_kind(outcomes)
    facts = [
        fact for outcome in relevant_outcomes.values() if isinstance(outcome, DocumentFacts) for fact in outcome.facts
    ]
    notes = [
        note
        for outcome in relevant_outcomes.values()
        for note in _list_notes(outcome, tuple(relevant_outcomes), category)
    ]
    return Examination(tuple(relevant_outcomes), tuple(facts), tuple(dict.fromkeys(notes)))


# Which kind of document it is -----------------------------------------------------------------------------------


def _find_named_kinds(mime_type: str, content: bytes) -> tuple[str, ...]:
    """The kinds that the sheets of a workbook, or the public format of a document, name."""
    actual_type = detect_mime_type(mime_type, content)
    if actual_type == CSV:
        return ()
    if actual_type == XLSX:
        labels = _list_sheet_labels(content)
        return tuple(kind for kind in KINDS if any(find_sheet_types(kind, label) for label in labels))
    value = parse_strict_json(content, Notes())
    kinds: set[str] = set()
    for item in value if isinstance(value, list) else [value]:
        public_format = recognise_format(item)
        if public_format is not None and isinstance(item, dict):
            kinds.update(public_format.list_kinds(item))
    return tuple(kind for kind in KINDS if kind in kinds)


def _list_sheet_labels(content: bytes) -> list[str]:
    try:
        book = open_workbook(content, Notes())
    except WorkbookUnreadable:
        return []
    return [] if book is None else [sheet.label for sheet in book.sheets if not sheet.is_hidden]


def _choose_kind(
    outcomes: Mapping[str, DocumentFacts | DocumentProblems],
) -> Mapping[str, DocumentFacts | DocumentProblems]:
    """The kind that reads the most of the document; the first among equals."""
    best = max(outcomes, key=lambda kind: _count_members(outcomes[kind]))
    return {best: outcomes[best]}


def _count_members(outcome: DocumentFacts | DocumentProblems) -> int:
    """How much was read; a document that is rejected counts by its problems."""
    if isinstance(outcome, DocumentProblems):
        return -outcome.problems.total - outcome.warnings.total
    return sum(len(fact.member_places) or fact.payload_canonical.count(b'":') for fact in outcome.facts)


# What reading says ----------------------------------------------------------------------------------------------


def _list_notes(
    outcome: DocumentFacts | DocumentProblems, kinds: tuple[str, ...], category: Category | None
) -> Iterator[CheckNote]:
    if isinstance(outcome, DocumentProblems):
        for problem in outcome.problems.first:
            yield CheckNote(severity="error", kind="problem", place=problem.at, says=problem.says)
    unreadable: dict[DocumentNote, tuple[ExtractedFact, UnreadableMember]] = {}
    if isinstance(outcome, DocumentFacts):
        for fact in outcome.facts:
            for member in fact.unreadable:
                unreadable[DocumentNote(member.place, f"{member.says}{_LEFT_OUT}")] = (fact, member)
    for warning in outcome.warnings.first:
        if warning in unreadable:
            yield _describe_unreadable(*unreadable[warning], category)
        elif warning.says.endswith(_LEFT_OUT):
            yield CheckNote(severity="error", kind="unreadable", place=warning.at, says=warning.says)
        elif not (warning.says.startswith(_OTHER_KIND) and _is_read_as_other(warning.at, kinds)):
            yield CheckNote(severity="warning", kind="warning", place=warning.at, says=warning.says)


def _is_read_as_other(sheet: str, kinds: tuple[str, ...]) -> bool:
    label = sheet.strip("'").replace("''", "'")
    return any(find_sheet_types(kind, label) for kind in kinds)


def _describe_unreadable(fact: ExtractedFact, member: UnreadableMember, category: Category | None) -> CheckNote:
    """A value that cannot be read is an error where the passport needs it."""
    points = _list_points(fact.fact_type, member.member)
    own = category or find_category(_get_sku(fact), [convert_fact(fact)])
    mandatory = [point for point in POINTS for each in ([own] if own else CATEGORIES) if point.get_status(each) == "M"]
    is_mandatory = any(point.number in points for point in mandatory)
    return CheckNote(
        severity="error" if is_mandatory else "warning",
        kind="unreadable",
        place=member.place,
        says=f"{member.says}{_LEFT_OUT}",
        sku=_get_sku(fact),
        fact_type=fact.fact_type,
        members=(member.member,),
        points=points,
    )


def _list_points(fact_type: str, member: str) -> tuple[int, ...]:
    schema = SCHEMA_MEMBERS.get(FactRecordType(fact_type, SCHEMA_VERSION), {})
    return schema[member].points if member in schema else ()


def _get_sku(fact: ExtractedFact) -> str:
    return fact.fact_key.split(":")[1]


# What the documents say together --------------------------------------------------------------------------------


def check_facts(
    examinations: Sequence[Examination], category: Category | None = None
) -> tuple[list[list[CheckNote]], list[CheckNote]]:
    """What is implausible, by document; and what is missing, which is nowhere.

    Of a product without a battery in the documents nothing is missing: they are about something else.
    """
    facts = [[convert_fact(fact) for fact in each.facts] for each in examinations]
    everything = [fact for group in facts for fact in group]
    notes: list[list[CheckNote]] = [[] for _ in examinations]
    for finding in dict.fromkeys(find_implausible(everything)):
        number, places = _locate_finding(finding, examinations)
        notes[number].append(_describe_finding(finding, places))
    unreadable = {
        OpenCell(fact.fact_type, _get_sku(fact), member.member)
        for each in examinations
        for fact in each.facts
        for member in fact.unreadable
    }
    missing = [
        _describe_missing(sku, part, own_category)
        for sku, group in sorted(group_by_sku(everything).items())
        if any(fact.fact_type == "Battery" for fact in group)
        and (own_category := category or find_category(sku, group)) is not None
        for part in list_missing_parts(own_category, group)
        if unreadable.isdisjoint(OpenCell(each.fact_type, sku, each.member) for each in part.members)
    ]
    return notes, [*_note_unknown_categories(everything, category), *missing]


def _note_unknown_categories(facts: Sequence[SnapshotFact], category: Category | None) -> Iterator[CheckNote]:
    for sku, group in sorted(group_by_sku(facts).items()):
        has_battery = any(fact.fact_type == "Battery" for fact in group)
        if has_battery and category is None and find_category(sku, group) is None:
            yield CheckNote(
                severity="warning",
                kind="missing",
                place="",
                says="has no category, which decides what is mandatory; fill in `category`: ev, lmt or industrial",
                sku=sku,
                fact_type="Battery",
                members=("category",),
                points=(6,),
            )


def _locate_finding(finding: Finding, examinations: Sequence[Examination]) -> tuple[int, tuple[str, ...]]:
    """The document that a finding is about, and the places of its members there."""
    fallback: tuple[int, tuple[str, ...]] | None = None
    for number, examination in enumerate(examinations):
        for fact in examination.facts:
            if (fact.fact_type, fact.fact_key) == (finding.fact_type, finding.fact_key):
                places = [fact.member_places[each] for each in finding.members if each in fact.member_places]
                if places:
                    return number, tuple(dict.fromkeys(places))
                member = f".{finding.members[0]}" if finding.members and not fact.member_places else ""
                fallback = fallback or (number, (f"{fact.source_path}{member}",))
    return fallback or (0, ("$",))


def _describe_finding(finding: Finding, places: tuple[str, ...]) -> CheckNote:
    return CheckNote(
        severity=finding.severity,
        kind="implausible",
        place=places[0],
        other_places=places[1:],
        says=finding.says,
        sku=finding.fact_key.split(":")[1] if ":" in finding.fact_key else None,
        fact_type=finding.fact_type,
        members=finding.members,
        points=finding.points,
        code=finding.code,
    )


def _describe_missing(sku: str, missing: MissingPart, category: Category) -> CheckNote:
    columns = [find_template_column(*member) or member.member for member in missing.members]
    names = " and ".join(f"`{column}`" for column in columns)
    label = missing.name if len(PARTS[missing.number]) == 1 else f"{missing.name}: {missing.part.name}"
    return CheckNote(
        severity="warning",
        kind="missing",
        place="",
        says=f"data point {missing.number} ({label}) is mandatory for the category {category} and missing; fill in"
        f" {names}",
        sku=sku,
        fact_type=missing.members[0].fact_type,
        members=tuple(member.member for member in missing.members),
        points=(missing.number,),
    )


# Where a missing value belongs ----------------------------------------------------------------------------------


def locate_open_cells(
    kinds: Sequence[str], mime_type: str, content: bytes, cells: Sequence[OpenCell]
) -> dict[OpenCell, str]:
    """The places of cells that are empty, where the tables of a document have a row and a column for them."""
    cells_by_fact: dict[tuple[str, str], list[OpenCell]] = {}
    for cell in cells[:MAX_LOCATED]:
        cells_by_fact.setdefault((cell.fact_type, cell.sku), []).append(cell)
    places: dict[OpenCell, str] = {}
    for source in _list_tables(kinds, mime_type, content):
        matcher, notes = HeaderMatcher(source.fact_types), Notes()
        rows = drop_comments(source.sheet.read_rows(notes), notes)
        layout = find_layout(source.sheet, rows, matcher)
        if layout is None:
            continue
        columns = {
            (fact_type, target.name): column
            for column in read_columns(layout, matcher, notes)
            for fact_type, target in column.targets.items()
        }
        for row in layout.rows:
            for fact_type in source.fact_types:
                sku = columns.get((fact_type, "sku"))
                text = None if sku is None else row.cells.get(sku.index)
                for cell in cells_by_fact.get((fact_type, str(getattr(text, "text", text))), ()):
                    column = columns.get((fact_type, find_template_column(fact_type, cell.member) or ""))
                    if column is not None and column.index not in row.cells:
                        places.setdefault(cell, layout.sheet.locate_cell(row.place, column.index, column.label))
    return places


def _list_tables(kinds: Sequence[str], mime_type: str, content: bytes) -> Iterator[TableSource]:
    match detect_mime_type(mime_type, content):
        case "text/csv":
            table = open_csv(content, Notes())
            if table is not None:
                yield from (TableSource(table, FACT_TYPES[kind]) for kind in kinds)
        case actual_type if actual_type == XLSX:
            book = open_workbook(content, Notes())
            for kind in kinds if book is not None else ():
                yield from choose_sheets(kind, book.sheets if book is not None else (), Notes())
        case _:
            return


def place_missing(note: CheckNote, places: Mapping[OpenCell, str]) -> CheckNote:
    """A note about a missing value with the place of the empty cell, if there is one."""
    cells = (OpenCell(note.fact_type or "", note.sku or "", member) for member in note.members)
    place = next((places[cell] for cell in cells if cell in places), "")
    return replace(note, place=place)
