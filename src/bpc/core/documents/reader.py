"""A document in, its facts out, or every problem it has.

Pure. The same bytes and options give the same facts. A format is a function from bytes to elements and has one line in
`FORMAT_READERS`; a JSON document may be in one of `PUBLIC_FORMATS`. Types, keys and limits are the same for all.

    kind, mime type, bytes, options ── read_document ──► DocumentFacts(facts, warnings)
                                                   └───► DocumentProblems(problems, warnings)
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from bpc.core.documents import Notes, NoteSummary
from bpc.core.documents.csv_table import read_csv
from bpc.core.documents.elements import (
    FACT_TYPES,
    FactElement,
    RawValue,
    UnreadableMember,
    find_elements,
    parse_strict_json,
)
from bpc.core.documents.fact_members import build_fact_key, build_fact_payload
from bpc.core.documents.public import (
    DocumentNode,
    ReadState,
    battery_pass_aspects,
    catena_certificate,
    catena_chemical_passport,
    catena_passport,
    catena_pcf_and_bom,
    catena_single_level_bom,
    epcis_events,
    gefeg_passport,
    openepcis_passport,
    pact_footprint,
    warn_of_unread,
)
from bpc.core.documents.public.mapping import PublicFormat
from bpc.core.documents.public.unsupported_formats import explain_bytes, explain_json, explain_lookalike
from bpc.core.documents.read_options import ReadOptions
from bpc.core.documents.readings import derive_readings
from bpc.core.documents.xlsx.workbook import read_xlsx
from bpc.core.facts.schemas import SCHEMA_VERSION, SCHEMAS
from bpc.core.formats import canonical_json
from bpc.core.formats.file_types import BYTE_ORDER_MARK, CSV, JSON, OLD_EXCEL_MARK, PDF_MARK, XLSX, ZIP_MARK
from bpc.core.formats.hashes import Digest, sha256
from bpc.core.language.types import FactRecordType

DEFAULT_OPTIONS: Final = ReadOptions()
MAX_FACTS: Final = 50_000
MAX_FACT_BYTES: Final = 262_144
PUBLIC_FORMATS: Final[tuple[PublicFormat, ...]] = (
    catena_passport.FORMAT,
    catena_pcf_and_bom.PCF_9,
    catena_pcf_and_bom.COMPONENT_PCF,
    pact_footprint.FORMAT,
    catena_pcf_and_bom.PCF_7,
    catena_pcf_and_bom.BOM_AS_SPECIFIED,
    catena_single_level_bom.FORMAT,
    catena_certificate.FORMAT,
    catena_chemical_passport.FORMAT,
    epcis_events.FORMAT,
    gefeg_passport.FORMAT,
    openepcis_passport.FORMAT,
    battery_pass_aspects.FORMAT,
)

FormatReader = Callable[[str, bytes, ReadOptions, Notes], Iterable[FactElement]]

# Types that programs send with files of many formats.
_VAGUE_MIME_TYPES: Final = frozenset(
    {
        "application/octet-stream",
        "application/csv",
        "application/vnd.ms-excel",
        "application/x-zip-compressed",
        "application/zip",
        "binary/octet-stream",
        "text/comma-separated-values",
        "text/plain",
        "text/tab-separated-values",
    }
)
_SUPPORTED_MIME_TYPES: Final = frozenset({JSON, "text/json", CSV, XLSX})
# What a document in our own form has. Editors put the schema they check it with beside that.
_OWN_FORM_MEMBERS: Final = frozenset({"battery", "batteries", "sku"})


def detect_mime_type(declared_type: str, content: bytes) -> str:
    """The type a document is read as: the declared one, unless the first bytes show another."""
    if declared_type not in _VAGUE_MIME_TYPES and declared_type not in _SUPPORTED_MIME_TYPES:
        return declared_type
    if content.startswith((ZIP_MARK, OLD_EXCEL_MARK)):
        return XLSX
    if declared_type in _VAGUE_MIME_TYPES or declared_type == CSV:
        start = content[:1000].removeprefix(BYTE_ORDER_MARK).lstrip()[:1]
        return JSON if start in {b"{", b"["} else declared_type if content.startswith(PDF_MARK) else CSV
    return declared_type


def is_text(content: bytes) -> bool:
    """Whether reading it takes time and memory in proportion to its bytes. An archive may take much more."""
    return not content.startswith((ZIP_MARK, OLD_EXCEL_MARK, PDF_MARK))


def recognise_format(value: RawValue) -> PublicFormat | None:
    """The public format of a document; None if it has none."""
    if not isinstance(value, dict):
        return None
    return next((public_format for public_format in PUBLIC_FORMATS if public_format.matches(value)), None)


def read_public_elements(kind: str, value: RawValue, notes: Notes) -> list[FactElement] | None:
    """The elements of a document in a public format, or of a list of such documents; None if it has no such format."""
    if isinstance(value, list) and any(recognise_format(item) for item in value):
        return [
            element
            for index, item in enumerate(value)
            for element in _read_public_document(kind, item, f"$[{index}]", notes)
            or _refuse_foreign_item(f"$[{index}]", notes)
        ]
    return _read_public_document(kind, value, "$", notes)


def _read_public_document(kind: str, value: RawValue, path: str, notes: Notes) -> list[FactElement] | None:
    if not isinstance(value, dict):
        return None
    is_own = bool(_OWN_FORM_MEMBERS & value.keys()) or isinstance(value.get("components"), list)
    public_format = recognise_format(value)
    refusal = None if is_own else explain_lookalike(value) or (explain_json(value) if public_format is None else None)
    if refusal is not None:
        notes.add_problem(path, refusal)
        return []
    if public_format is None:
        return None
    document, kinds = DocumentNode(value, path, ReadState(notes)), public_format.list_kinds(value)
    if kind not in kinds:
        document.add_problem(
            f"is {public_format.name}; upload it as a document of kind {' or '.join(kinds)}, not {kind}"
        )
        return []
    elements = public_format.read_elements(document)
    if notes.is_clean and elements:
        warn_of_unread(document, public_format.name)
    return document.state.attach_origins(elements)


def _refuse_foreign_item(path: str, notes: Notes) -> list[FactElement]:
    if notes.is_clean:
        notes.add_problem(path, "is not in the same format as the other items of the list")
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedFact:
    """A fact of a document: the canonical bytes of its payload, their hash, and its place in the document.

    `member_places` has the place of each member that a person finds in the file, such as `PCF!C2`; a member that is not
    there is at `<source_path>.<member>`. `unreadable` are the members that the document has but that cannot be read.
    """

    fact_type: str
    fact_key: str
    schema_version: int
    payload_canonical: bytes
    payload_hash: Digest
    source_path: str
    member_places: Mapping[str, str] = field(default_factory=dict)
    unreadable: tuple[UnreadableMember, ...] = ()


@dataclass(frozen=True, slots=True)
class DocumentFacts:
    """The facts of a document, and warnings about what was left out, could not be read or was rounded."""

    facts: tuple[ExtractedFact, ...]
    warnings: NoteSummary


@dataclass(frozen=True, slots=True)
class DocumentProblems:
    """Why a document was rejected: at least one problem, and the warnings so far."""

    problems: NoteSummary
    warnings: NoteSummary


def read_document(
    kind: str, mime_type: str, content: bytes, options: ReadOptions = DEFAULT_OPTIONS
) -> DocumentFacts | DocumentProblems:
    """The facts of a document. A document with one problem gives no facts; a value that cannot be read is left out."""
    notes = Notes()
    elements = _read_elements(kind, mime_type, content, options, notes)
    if len(elements) > MAX_FACTS:
        notes.add_problem("$", f"has {len(elements):,} facts; the limit is {MAX_FACTS:,}. Split the document")
        return DocumentProblems(notes.problems, notes.warnings)
    elements.reverse()
    facts = tuple(_build_fact(elements.pop(), notes) for _ in range(len(elements)))  # frees each element
    if not notes.is_clean:
        return DocumentProblems(notes.problems, notes.warnings)
    facts = tuple(_join_sheets(facts))
    _warn_of_contradictions(facts, notes)
    return DocumentFacts(facts, notes.warnings)


def _read_elements(kind: str, mime_type: str, content: bytes, options: ReadOptions, notes: Notes) -> list[FactElement]:
    refusal = explain_bytes(content)
    if refusal is not None:
        notes.add_problem("$", refusal)
        return []
    read_format = FORMAT_READERS.get(detect_mime_type(mime_type, content))
    if read_format is None:
        supported_types = ", ".join(sorted(FORMAT_READERS))
        notes.add_problem("mime_type", f"is `{mime_type}`, which is not supported; supported types: {supported_types}")
        return []
    if kind not in FACT_TYPES:
        notes.add_problem("$", f"cannot be read: documents of kind {kind} have no facts")
        return []
    elements = list(read_format(kind, content, options, notes))
    if notes.is_clean and not elements:
        notes.add_problem("$", "contains no facts about a battery")
    return elements


def _read_json(kind: str, content: bytes, _: ReadOptions, notes: Notes) -> Iterable[FactElement]:
    value = parse_strict_json(content, notes)
    if not notes.is_clean:
        return ()
    public_elements = read_public_elements(kind, value, notes)
    return _add_readings(find_elements(kind, value, notes)) if public_elements is None else public_elements


def _read_csv(kind: str, content: bytes, options: ReadOptions, notes: Notes) -> Iterable[FactElement]:
    return _add_readings(read_csv(kind, content, options, notes))


def _read_xlsx(kind: str, content: bytes, options: ReadOptions, notes: Notes) -> Iterable[FactElement]:
    return _add_readings(read_xlsx(kind, content, options, notes))


def _add_readings(elements: Iterable[FactElement]) -> list[FactElement]:
    """The elements of our own form, and a reading for each state with a time. Public formats add their own."""
    own = list(elements)
    return [*own, *(reading for element in own for reading in derive_readings(element))]


FORMAT_READERS: Final[Mapping[str, FormatReader]] = {
    JSON: _read_json,
    "text/json": _read_json,
    "application/ld+json": _read_json,
    CSV: _read_csv,
    XLSX: _read_xlsx,
}


def _build_fact(element: FactElement, notes: Notes) -> ExtractedFact:
    schema = SCHEMAS[FactRecordType(element.fact_type, SCHEMA_VERSION)]
    payload, unreadable = build_fact_payload(element, schema, notes)
    key = build_fact_key(element.fact_type, element.members, element.path, notes)
    # A payload with a problem may not be encodable (half of a surrogate pair), and is not used.
    # Copied, because the encoder's result keeps its buffer of four kilobytes alive.
    canonical = bytes(memoryview(canonical_json.encode_typed(payload))) if notes.is_clean else b""
    if len(canonical) > MAX_FACT_BYTES:
        notes.add_problem(element.path, f"has {len(canonical):,} bytes; the limit for a fact is {MAX_FACT_BYTES:,}")
    return ExtractedFact(
        fact_type=element.fact_type,
        fact_key=key,
        schema_version=SCHEMA_VERSION,
        payload_canonical=canonical,
        payload_hash=sha256(canonical),
        source_path=element.path,
        member_places=element.places,
        unreadable=unreadable,
    )


def _join_sheets(facts: Iterable[ExtractedFact]) -> list[ExtractedFact]:
    """One fact of a battery that stands on several sheets of a workbook, unless they contradict each other."""
    joined_facts: list[ExtractedFact] = []
    places: dict[str, tuple[int, set[str]]] = {}  # of each battery: where it is in the list, and its sheets
    for fact in facts:
        sheet = fact.source_path.rpartition("!")[0] if fact.fact_type == "Battery" else ""
        index, sheets = places.get(fact.fact_key, (-1, set()))
        both = None if not sheet or index < 0 or sheet in sheets else _join_facts(joined_facts[index], fact)
        if both is not None:
            joined_facts[index] = both
            sheets.add(sheet)
            continue
        if sheet:
            places.setdefault(fact.fact_key, (len(joined_facts), {sheet}))
        joined_facts.append(fact)
    return joined_facts


def _join_facts(first: ExtractedFact, second: ExtractedFact) -> ExtractedFact | None:
    """Both facts as one; None if they differ about a member."""
    payload, other_payload = (canonical_json.decode(fact.payload_canonical) for fact in (first, second))
    if not isinstance(payload, dict) or not isinstance(other_payload, dict):
        return None
    if any(payload[member] != other_payload[member] for member in payload.keys() & other_payload.keys()):
        return None
    canonical = canonical_json.encode_typed({**payload, **other_payload})
    return replace(
        first,
        payload_canonical=canonical,
        payload_hash=sha256(canonical),
        member_places={**second.member_places, **first.member_places},
        unreadable=(*first.unreadable, *second.unreadable),
    )


def _warn_of_contradictions(facts: Iterable[ExtractedFact], notes: Notes) -> None:
    """Warn of two facts with one type and key but different values: a snapshot can hold only one of them."""
    first: dict[tuple[str, str], ExtractedFact] = {}
    for fact in facts:
        earlier = first.setdefault((fact.fact_type, fact.fact_key), fact)
        if earlier.payload_hash == fact.payload_hash:
            continue
        if fact.fact_type == "Reading":
            _, _, reading = fact.fact_key.partition(":")
            notes.add_warning(
                _locate_reading(fact),
                f"says something else about `{reading}` than `{notes.locate(_locate_reading(earlier))}`; a snapshot can"
                " hold only one: correct one of the two",
            )
        else:
            notes.add_warning(
                fact.source_path,
                f"has the same key as `{earlier.source_path}` but different values; a snapshot can hold only one",
            )


def _locate_reading(reading: ExtractedFact) -> str:
    places = reading.member_places
    return places.get("number") or places.get("text") or reading.source_path
