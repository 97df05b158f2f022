"""Why a field has its value, or why it has none, in plain words: from the passport down to the facts.

Pure. Tells what the reference evaluator did, so it is what the rules say, and every sentence has its place in the rule
text. The lines of a bill of materials are named by their facts.

    Explanation, rule text, facts ── explain_field ──► Reason(says, place, because)
    facts of a snapshot ── explain_findings("RECYCLED_SUM") ──► a Reason for each finding with that code
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from bpc.core.facts.attachments import ATTACHMENT_FACT_TYPE
from bpc.core.facts.fact_table import FactRecord, SnapshotFact
from bpc.core.facts.findings import FINDING_FACT_TYPE, Finding, read_finding
from bpc.core.facts.provenance import ProvenanceIndex, describe_place
from bpc.core.formats.canonical_json import Json
from bpc.core.language.reference.derive import DerivationNode, Explanation, value_to_json
from bpc.core.language.source import Source, Span
from bpc.core.language.typed import ProgramField, RequirementCheck, TypedTable
from bpc.core.passport.value_words import LOOPS, compute_values, describe_operation, format_member, format_value

MAX_ELEMENTS: Final = 20
# What gives one element of a list.
_CHOICES: Final = frozenset({"first", "last", "latestBy"})
# Steps upon steps that are told. Rules may chain thousands, and nobody reads that far.
MAX_DEPTH: Final = 100


@dataclass(frozen=True, slots=True)
class Reason:
    """One step in words, where the rule says so (`rules.bpc:3:7`), and what it rests on.

    `subject` is what the first step is about: the title of a field, or the code of a requirement.
    """

    says: str
    place: str | None
    because: "tuple[Reason, ...]" = ()
    subject: str | None = None

    def iterate_lines(self, depth: int = 0) -> Iterator[tuple[int, str, str | None]]:
        yield depth, self.says, self.place
        for reason in self.because:
            yield from reason.iterate_lines(depth + 1)

    def as_json(self) -> Mapping[str, object]:
        return {"says": self.says, "place": self.place, "because": [reason.as_json() for reason in self.because]}


def explain_field(
    field: ProgramField,
    explained: Explanation,
    source: Source,
    facts: Sequence[SnapshotFact],
    *,
    tables: Sequence[TypedTable] = (),
    fields: Sequence[ProgramField] = (),
    number_format: str = "line {} of the facts",
    requirement: RequirementCheck | None = None,
) -> Reason:
    """Why `field` is what it is, or why it is not; with `requirement`, why that one of all its requirements is.

    `facts` are in the order in which the reader has them, and `number_format` says what the number of one means there.
    `fields` are those of the rules, which are called by their titles.
    """
    writer = _ReasonWriter(explained.nodes, source, facts, number_format)
    writer.tables = {table.name: table for table in tables}
    writer.titles = {each.path: each.display_name for each in (*fields, field)}
    if explained.failure is not None:
        return _explain_failure(field, explained, writer)
    if requirement is not None and explained.result_node is not None:
        reason = writer.explain_node(writer.find_requirement(explained.result_node, requirement.code))
        citation = (Reason(f"asked for by {requirement.cite}", None),) if requirement.cite else ()
        return replace(reason, because=(*citation, *reason.because), subject=requirement.code)
    says = f"{field.display_name} is {format_value(value_to_json(field.type, explained.value))} ({field.type})"
    result = (
        ()
        if explained.result_node is None
        else tuple(map(writer.explain_node, writer.select_result(explained.result_node)))
    )
    because = (*_explain_source(field), *writer.explain_other_compliance(field.path), *result)
    return Reason(says, writer.format_place(field.span), because, field.display_name)


def _explain_source(field: ProgramField) -> Iterator[Reason]:
    """Where the regulation asks for a field, if its rule says so."""
    about = field.about
    point = None if about is None or about.point is None else f"data point {about.point}"
    citation = None if about is None else about.citation
    if point or citation:
        says = f"{citation} ({point})" if citation and point else citation or point
        yield Reason(f"asked for by {says}", None)


def _explain_failure(field: ProgramField, explained: Explanation, writer: "_ReasonWriter") -> Reason:
    failure = explained.failure
    if failure is None:
        raise ValueError("nothing failed")
    says = f"{field.display_name} has no value: {failure.says}"
    if failure.field != field.path:
        cause = writer.get_title(str(failure.field))
        says = f"{field.display_name} has no value because {cause} has none: {failure.says}"
    element_reasons = tuple(
        Reason(
            f"at element {element.position + 1}{_format_element(element.value, writer)}",
            writer.format_place(element.loop),
        )
        for element in explained.elements
    )
    because = () if explained.failed_node is None else (writer.explain_node(explained.failed_node),)
    return Reason(says, writer.format_place(failure.span), (*element_reasons, *because), field.display_name)


def _format_element(value: Any, writer: "_ReasonWriter") -> str:
    return f", the fact {value.key}{writer.format_key_number(value.key)}" if isinstance(value, FactRecord) else ""


class _ReasonWriter:
    """Puts nodes into words. A node that was told before is only mentioned again."""

    tables: Mapping[str, TypedTable] = MappingProxyType({})
    titles: Mapping[str, str] = MappingProxyType({})

    def __init__(
        self, nodes: Sequence[DerivationNode], source: Source, facts: Sequence[SnapshotFact], number_format: str
    ) -> None:
        self._nodes = nodes
        self._source = source
        self._facts = facts
        self._number_format = number_format
        self._numbers_by_key = {fact.fact_key: number for number, fact in enumerate(facts, 1)}
        self._numbers_by_type_and_key = {
            (fact.fact_type, fact.fact_key): number for number, fact in enumerate(facts, 1)
        }
        self._provenance = ProvenanceIndex(facts)
        self._values = compute_values(nodes)
        self._texts: dict[int, str] = {}
        self._explained: set[int] = set()

    def format_place(self, span: Span | None) -> str | None:
        return None if span is None else str(self._source.find_place(span.start))

    def get_title(self, path: str) -> str:
        return self.titles.get(path, path)

    def format_key_number(self, key: str) -> str:
        return self._format_number(self._numbers_by_key.get(key))

    def explain_other_compliance(self, path: str) -> Iterator[Reason]:
        """Compliance entries of a field that its value, told already, does not rest on."""
        for at, node in enumerate(self._nodes):
            if node.type == "COMPLIANCE_EMIT" and node.field == path and at not in self._explained:
                yield self.explain_node(at)

    def find_requirement(self, at: int, code: str) -> int:
        """The node of a requirement, given the derivation of the field of all of them."""
        (requirements,) = self._nodes[at].children[:1]
        for child in self._nodes[requirements].children:
            entry = self._nodes[child]
            while entry.type != "COMPLIANCE_EMIT":
                entry = self._nodes[entry.children[1]]
            if entry.data["code"] == code:
                return child
        raise ValueError(f"there is no requirement `{code}`")

    def select_result(self, at: int) -> list[int]:
        """The result of a field; what was computed beside it and not used explains nothing."""
        return self._nodes[at].children[:1]

    def explain_node(self, at: int, depth: int = 0) -> Reason:
        node = self._nodes[at]
        says = self._write_sentence(at)
        if at in self._explained and node.children:
            return Reason(f"{says} (told above)", self.format_place(node.span))
        self._explained.add(at)
        because = self._select_children(node)
        if because and depth == MAX_DEPTH:
            return Reason(f"{says} (and so on)", self.format_place(node.span))
        further = (self.explain_node(child, depth + 1) for child in because)
        reasons = (*self._explain_elements(node), *self._explain_row(node), *further, *self._explain_origin(node, at))
        return Reason(says, self.format_place(node.span), reasons)

    def _explain_row(self, node: DerivationNode) -> Iterator[Reason]:
        """The row of a table that applies, as it stands in the rules, and what it cites."""
        table = self.tables.get(str(node.data["table"])) if node.data.get("op") == "table" else None
        number = node.data.get("row")
        if table is None or not isinstance(number, int):
            return
        row = table.rows[number]
        words = " ".join(self._source.text[row.span.start : row.span.end].split())
        cite = f" ({table.cite})" if table.cite and row.cite is None else ""
        yield Reason(f"row {number + 1}: {words}{cite}", self.format_place(row.span))

    def _explain_origin(self, node: DerivationNode, at: int) -> Iterator[Reason]:
        """The document and the place that a member of a fact is from, if the snapshot tells."""
        fact = self._find_fact(node.children[0]) if node.data.get("op") in {"recordGet", "member"} else None
        if fact is None or self._values[at] is None:
            return
        member = str(node.data["member"])
        origin = self._provenance.find_origin(*fact, member)
        if origin is not None:
            yield Reason(f"{format_member(member, self._values[at])}: {origin.describe()}", None)

    def _find_fact(self, at: int) -> tuple[str, str] | None:
        """The type and key of the fact that a node gives; None if it gives something else."""
        node = self._nodes[at]
        while (node.type == "ASSERT" or node.data.get("op") == "definition") and node.children:
            node = self._nodes[node.children[0]]
        if node.data.get("op") in _CHOICES:
            facts = self._list_facts(node.children[0])
            place: Any = {"first": 0, "last": -1}.get(str(node.data["op"]), node.data.get("position"))
            return facts[place] if facts and place is not None else None
        if node.type != "FACT_GET" or "count" in node.data:
            return None
        return str(node.data["fact_type"]), str(self._values[node.children[0]])

    def _list_facts(self, at: int) -> list[tuple[str, str]]:
        """The types and keys of the facts in a list; none if it holds something else."""
        node = self._nodes[at]
        if node.type == "FACT_GET" and "count" in node.data:
            kind, prefix = str(node.data["fact_type"]), str(self._values[node.children[0]])
            keys = sorted(fact.fact_key for fact in self._facts if fact.fact_type == kind)
            return [(kind, key) for key in keys if key.startswith(prefix)]
        if node.data.get("op") == "definition":
            return self._list_facts(node.children[0])
        places: Any = node.data.get("kept", node.data.get("order"))
        if places is None:
            return []
        facts = self._list_facts(node.children[0])
        return [facts[place] for place in places] if facts else []

    def _select_children(self, node: DerivationNode) -> list[int]:
        """The children worth telling: literals stand in the sentence already."""
        if node.type == "FIELD_REF":
            return self.select_result(node.children[0])
        if node.data.get("op") == "definition":
            return node.children[:1]
        return [child for child in node.children if self._nodes[child].type != "CONST"]

    def _write_sentence(self, at: int) -> str:
        node = self._nodes[at]
        match node.type:
            case "CONST":
                return f"{format_value(node.data['value'])}, written in the rule"
            case "FACT_GET":
                return self._write_fact_sentence(node)
            case "FIELD_REF":
                return f"field {self.get_title(str(node.data['path']))} is {self._format_node(at)}"
            case "ASSERT":
                return self._write_assert_sentence(at)
            case "COMPLIANCE_EMIT":
                return f"compliance {node.data['code']}: {node.data['status']}, {format_value(node.data['message'])}"
            case _:
                return self._write_operation_sentence(at)

    def _write_fact_sentence(self, node: DerivationNode) -> str:
        kind, name = node.data["fact_type"], self._format_node(node.children[0])
        if "count" in node.data:
            return f"{node.data['count']} {kind} facts, their keys starting with {name}"
        if node.data["payload_hash"] is None:
            return f"there is no {kind} fact {name}"
        return f"the {kind} fact {name}{self._format_fact_number(str(kind), self._values[node.children[0]])}"

    def _format_fact_number(self, kind: str, key: Json) -> str:
        return self._format_number(self._numbers_by_type_and_key.get((kind, str(key))))

    def _format_number(self, number: int | None) -> str:
        return "" if number is None else f", {self._number_format.format(number)}"

    def _write_assert_sentence(self, at: int) -> str:
        node, value = self._nodes[at], self._format_node(at)
        if node.data["op"] == "requireSome":
            if self._nodes[node.children[0]].type == "FACT_GET":
                return f"it is there, as it must be ({node.data['code']})"
            return f"{value}, which must be there ({node.data['code']})"
        return f"{value}, given that {format_value(node.data['message'])} does not apply ({node.data['code']})"

    def _write_operation_sentence(self, at: int) -> str:
        node = self._nodes[at]
        return describe_operation(
            node.data, self._format_node(at), [self._format_node(each) for each in node.children[:2]]
        )

    def _explain_elements(self, node: DerivationNode) -> Iterator[Reason]:
        """What a map, filter or fold made of each element, named by its fact where it is one."""
        if node.data.get("op") not in LOOPS:
            return
        sentences = list(_write_element_sentences(node.data, self._label_elements(node.children[0])))
        for says in sentences[:MAX_ELEMENTS]:
            yield Reason(says, None)
        if len(sentences) > MAX_ELEMENTS:
            yield Reason(f"and {len(sentences) - MAX_ELEMENTS} more", None)

    def _label_elements(self, at: int) -> list[str]:
        """What the elements of a list are called: their facts, or their values, or their place in it."""
        facts = self._list_facts(at)
        if facts:
            return [self._label_fact(kind, key) for kind, key in facts]
        node = self._nodes[at]
        places: Any = node.data.get("kept", node.data.get("order"))
        if places is not None:
            labels = self._label_elements(node.children[0])
            return [labels[place] for place in places] if labels else []
        if node.data.get("op") == "map":
            return [f"{label.rstrip(',')}," for label in self._label_elements(node.children[0])]
        plain = self._values[at]
        return [format_value(value) for value in plain] if isinstance(plain, list) else []

    def _label_fact(self, kind: str, key: str) -> str:
        if kind == ATTACHMENT_FACT_TYPE and (file := self._provenance.find_origin(kind, key, "sha256")) is not None:
            return f"{key}{self._format_fact_number(kind, key)} ({file.describe()}),"
        origin = self._provenance.find_fact_origin(kind, key)
        place = "" if origin is None else f" ({origin.file_name or 'a document'}, {describe_place(origin.place)})"
        return f"{key}{self._format_fact_number(kind, key)}{place},"

    def _format_node(self, at: int) -> str:
        """The node's value in words, made once: many nodes may speak of one long list."""
        text = self._texts.get(at)
        if text is None:
            text = self._texts[at] = format_value(self._values[at])
        return text


def _write_element_sentences(data: Mapping[str, Any], labels: Sequence[str]) -> Iterator[str]:
    """What a loop says about the elements of its list; a list that is not known has no labels."""
    if not labels:
        return
    match data:
        case {"kept": places}:
            yield from (f"{labels[place]} stays" for place in places)
        case {"order": places}:
            yield from (labels[place].rstrip(",") for place in places)
        case {"groups": groups}:
            yield from (
                f"{labels[place]} is in the group {format_value(group['key'])}"
                for group in groups
                for place in group["positions"]
            )
        case {"position": None}:
            return
        case {"position": place}:
            yield f"{labels[place]} {_POSITION_WORDS[data['op']]}"
        case _:
            word = "gives" if data["op"] == "map" else "brings it to"
            values = data.get("values", ())
            yield from (f"{label} {word} {format_value(value)}" for label, value in zip(labels, values, strict=False))


_POSITION_WORDS: Final = {"any": "holds it", "all": "does not hold it", "latestBy": "is the latest"}


# Why there is a finding: the values it is about, and the cell that each of them is from.


def explain_findings(facts: Sequence[SnapshotFact], name: str) -> list[Reason]:
    """The findings with this code or key; empty if there is none."""
    by_name = {(fact.fact_type, fact.fact_key): fact for fact in facts}
    provenance = ProvenanceIndex(facts)
    findings = ((fact.fact_key, read_finding(fact)) for fact in facts if fact.fact_type == FINDING_FACT_TYPE)
    return [
        Reason(
            f"{finding.code} ({finding.severity}): {finding.says}",
            None,
            tuple(_explain_members(finding, by_name, provenance)),
        )
        for key, finding in findings
        if name in {finding.code, key}
    ]


def list_finding_codes(facts: Sequence[SnapshotFact]) -> list[str]:
    """The codes of the findings, each once."""
    return sorted({read_finding(fact).code for fact in facts if fact.fact_type == FINDING_FACT_TYPE})


def _explain_members(
    finding: Finding, facts: Mapping[tuple[str, str], SnapshotFact], provenance: ProvenanceIndex
) -> Iterator[Reason]:
    fact = facts.get((finding.fact_type, finding.fact_key))
    for member in finding.members:
        value = None if fact is None else fact.payload.get(member)
        origin = provenance.find_origin(finding.fact_type, finding.fact_key, member)
        says = f"{member} of {finding.fact_key} is {'absent' if value is None else format_member(member, value)}"
        because = () if origin is None else (Reason(origin.describe(), None),)
        yield Reason(says, None, because)
