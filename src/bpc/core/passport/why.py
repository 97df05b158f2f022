"""Why a field has its value, or why it has none, in plain words: from the passport down to the facts.

Pure. Tells what the reference evaluator did, so it is what the rules say, and every sentence has its place in the rule
text. The lines of a bill of materials are named by their facts.

    Explanation, rule text, facts ── explain_field ──► Reason(says, place, because)
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bpc.core.facts.fact_table import FactRecord, SnapshotFact
from bpc.core.facts.provenance import ProvenanceIndex, describe_place
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.language.reference.derive import DerivationNode, Explanation, value_to_json
from bpc.core.language.source import Source, Span
from bpc.core.language.typed import ProgramField

MAX_ELEMENTS: Final = 20
MAX_TEXT_LENGTH: Final = 120
# Steps upon steps that are told. Rules may chain thousands, and nobody reads that far.
MAX_DEPTH: Final = 100


@dataclass(frozen=True, slots=True)
class Reason:
    """One step in words, where the rule says so (`rules.bpc:3:7`), and what it rests on."""

    says: str
    place: str | None
    because: "tuple[Reason, ...]" = ()

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
    number_format: str = "line {} of the facts",
) -> Reason:
    """Why `field` is what it is, or why it is not.

    `facts` are in the order in which the reader has them, and `number_format` says what the number of one means there.
    """
    writer = _ReasonWriter(explained.nodes, source, facts, number_format)
    if explained.failure is not None:
        return _explain_failure(field, explained, writer)
    says = f"{field.path} is {_format_value(value_to_json(field.type, explained.value))} ({field.type})"
    result = (
        ()
        if explained.result_node is None
        else tuple(map(writer.explain_node, writer.select_result(explained.result_node)))
    )
    return Reason(says, writer.format_place(field.span), (*writer.explain_other_compliance(field.path), *result))


def _explain_failure(field: ProgramField, explained: Explanation, writer: "_ReasonWriter") -> Reason:
    failure = explained.failure
    if failure is None:
        raise ValueError("nothing failed")
    says = f"{field.path} has no value: {failure.says}"
    if failure.field != field.path:
        says = f"{field.path} has no value because {failure.field} has none: {failure.says}"
    element_reasons = tuple(
        Reason(
            f"at element {element.position + 1}{_format_element(element.value, writer)}",
            writer.format_place(element.loop),
        )
        for element in explained.elements
    )
    because = () if explained.failed_node is None else (writer.explain_node(explained.failed_node),)
    return Reason(says, writer.format_place(failure.span), (*element_reasons, *because))


def _format_element(value: Any, writer: "_ReasonWriter") -> str:
    return f", the fact {value.key}{writer.format_key_number(value.key)}" if isinstance(value, FactRecord) else ""


class _ReasonWriter:
    """Puts nodes into words. A node that was told before is only mentioned again."""

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
        self._values = _compute_values(nodes)
        self._texts: dict[int, str] = {}
        self._explained: set[int] = set()

    def format_place(self, span: Span | None) -> str | None:
        if span is None:
            return None
        at = self._source.locate(span.start)
        return f"{self._source.name}:{at.line}:{at.column}"

    def format_key_number(self, key: str) -> str:
        return self._format_number(self._numbers_by_key.get(key))

    def explain_other_compliance(self, path: str) -> Iterator[Reason]:
        """Compliance entries of a field that its value, told already, does not rest on."""
        for at, node in enumerate(self._nodes):
            if node.type == "COMPLIANCE_EMIT" and node.field == path and at not in self._explained:
                yield self.explain_node(at)

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
        reasons = (*self._explain_elements(node), *further, *self._explain_origin(node, at))
        return Reason(says, self.format_place(node.span), reasons)

    def _explain_origin(self, node: DerivationNode, at: int) -> Iterator[Reason]:
        """The document and the place that a member of a fact is from, if the snapshot tells."""
        fact = self._find_fact(node.children[0]) if node.data.get("op") == "recordGet" else None
        if fact is None or self._values[at] is None:
            return
        member = str(node.data["member"])
        origin = self._provenance.find_origin(*fact, member)
        if origin is not None:
            yield Reason(f"{format_member(member, self._values[at])}: {origin.describe()}", None)

    def _find_fact(self, at: int) -> tuple[str, str] | None:
        """The type and key of the fact that a node gives; None if it gives something else."""
        node = self._nodes[at]
        while node.type == "ASSERT" and node.children:
            node = self._nodes[node.children[0]]
        if node.type != "FACT_GET" or "count" in node.data:
            return None
        return str(node.data["fact_type"]), str(self._values[node.children[0]])

    def _select_children(self, node: DerivationNode) -> list[int]:
        """The children worth telling: literals stand in the sentence already."""
        if node.type == "FIELD_REF":
            return self.select_result(node.children[0])
        return [child for child in node.children if self._nodes[child].type != "CONST"]

    def _write_sentence(self, at: int) -> str:
        node = self._nodes[at]
        match node.type:
            case "CONST":
                return f"{_format_value(node.data['value'])}, written in the rule"
            case "FACT_GET":
                return self._write_fact_sentence(node)
            case "FIELD_REF":
                return f"field {node.data['path']} is {self._format_node(at)}"
            case "ASSERT":
                return self._write_assert_sentence(at)
            case "COMPLIANCE_EMIT":
                return f"compliance {node.data['code']}: {node.data['status']}, {_format_value(node.data['message'])}"
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
        return f"{value}, given that {_format_value(node.data['message'])} does not apply ({node.data['code']})"

    def _write_operation_sentence(self, at: int) -> str:  # noqa: PLR0911 (one sentence a case)
        node, value = self._nodes[at], self._format_node(at)
        op, parts = str(node.data["op"]), [self._format_node(child) for child in node.children[:2]]
        if op in _INFIX and len(parts) == 2:
            return f"{parts[0]} {op} {parts[1]} is {value}"
        match op:
            case "&&" | "||":
                return f"{parts[0]} {op} … is {value} already"
            case "neg":
                return f"-({parts[0]}) is {value}"
            case "!":
                return f"!({parts[0]}) is {value}"
            case "if":
                return f"{value}, because the condition is {'true' if node.data['branch'] == 'then' else 'false'}"
            case "recordGet":
                return f"its {node.data['member']} is {value}"
            case "toDec" | "sumDec":
                return f"{_WORDS[op]} {node.data['scale']} decimals: {value}"
            case "toQty" | "sumQty":
                return f"{_WORDS[op]} {node.data['unit']}: {value}"
            case "convert":
                return f"{parts[0]} in {node.data['to']} is {value}"
            case _:
                return f"{_WORDS.get(op, op)}: {value}"

    def _explain_elements(self, node: DerivationNode) -> Iterator[Reason]:
        """What a map, filter or fold made of each element, named by its fact where it is one."""
        if node.data.get("op") not in _LOOPS:
            return
        labels = self._label_elements(node.children[0])
        if node.data["op"] == "filter":
            kept_positions = node.data["kept"]
            sentences = [f"{labels[place]} stays" for place in kept_positions if place < len(labels)]  # type: ignore[union-attr,operator,index]
        else:
            values = node.data.get("values", ())
            word = "gives" if node.data["op"] == "map" else "brings it to"
            sentences = [f"{label} {word} {_format_value(value)}" for label, value in zip(labels, values, strict=False)]  # type: ignore[arg-type]
        for says in sentences[:MAX_ELEMENTS]:
            yield Reason(says, None)
        if len(sentences) > MAX_ELEMENTS:
            yield Reason(f"and {len(sentences) - MAX_ELEMENTS} more", None)

    def _label_elements(self, at: int) -> list[str]:
        """What the elements of a list are called: their facts, or their values, or their place in it."""
        node = self._nodes[at]
        if node.type == "FACT_GET":
            kind, prefix = str(node.data["fact_type"]), str(self._values[node.children[0]])
            keys = sorted(fact.fact_key for fact in self._facts if fact.fact_type == kind)
            return [self._label_fact(kind, key) for key in keys if key.startswith(prefix)]
        if node.data.get("op") == "filter":
            labels = self._label_elements(node.children[0])
            return [labels[place] for place in node.data["kept"]]  # type: ignore[union-attr,index]
        if node.data.get("op") == "map":
            return [f"{label.rstrip(',')}," for label in self._label_elements(node.children[0])]
        plain = self._values[at]
        return [_format_value(value) for value in plain] if isinstance(plain, list) else []

    def _label_fact(self, kind: str, key: str) -> str:
        origin = self._provenance.find_fact_origin(kind, key)
        place = "" if origin is None else f" ({origin.file_name or 'a document'}, {describe_place(origin.place)})"
        return f"{key}{self._format_fact_number(kind, key)}{place},"

    def _format_node(self, at: int) -> str:
        """The node's value in words, made once: many nodes may speak of one long list."""
        text = self._texts.get(at)
        if text is None:
            text = self._texts[at] = _format_value(self._values[at])
        return text


class _Phrase(str):
    """What stands for a value that proofs do not repeat, such as a fact: shown without quotes."""

    __slots__ = ()


def _compute_values(nodes: Sequence[DerivationNode]) -> list[Json]:
    """The value of every node, which is its own or its child's (docs/formats/proof.md); children come first."""
    values: list[Json] = []
    for node in nodes:
        values.append(node.data["value"] if "value" in node.data else _take_from_children(node, values))
    return values


def _take_from_children(node: DerivationNode, values: Sequence[Json]) -> Json:  # noqa: PLR0911 (one rule a case)
    data, children = node.data, node.children
    match data.get("op", node.type):
        case "if" | "assert":
            return values[children[1]]
        case "list":
            return [values[child] for child in children]
        case "record":
            return dict(zip(data["members"], [values[child] for child in children], strict=True))  # type: ignore[arg-type]
        case "COMPLIANCE_EMIT":
            return data["status"] != "FAIL"
        case "FACT_GET":
            return _describe_facts(data)
        case "map":
            return data.get("values", _Phrase("a list of facts"))
        case "filter":
            return _Phrase(f"{len(data['kept'])} of them")  # type: ignore[arg-type]
        case "fold":
            folded = data.get("values") or ()
            return folded[-1] if folded else values[children[1]]  # type: ignore[index]
        case _:
            return values[children[0]] if children else None


_INFIX: Final = frozenset({"+", "-", "*", "/", "==", "!=", "<", "<=", ">", ">=", "&&", "||"})
_LOOPS: Final = frozenset({"map", "filter", "fold"})
_WORDS: Final = {
    "toDec": "rounded to",
    "sumDec": "the sum, with",
    "toQty": "as a quantity in",
    "sumQty": "the sum in",
    "isSome": "whether it is there",
    "unwrapOr": "it, or the default where it is absent",
    "count": "how many there are",
    "concat": "joined",
    "amount": "its number without unit",
    "mapGet": "its entry under that key",
    "map": "one value for each",
    "filter": "those that hold the condition",
    "fold": "all of them together",
    "list": "a list",
    "some": "a value",
    "record": "a record",
    "productSku": "the product's SKU",
    "productName": "the product's name",
    "issuedOn": "the day of issue",
}


# The unit that the end of a member's name says; the first that fits.
_UNITS: Final = (
    ("_gco2e_per_kwh", "g CO2e/kWh"),
    ("_gco2e", "g CO2e"),
    ("_pct_per_month", "% per month"),
    ("_pct", "%"),
    ("_kwh", "kWh"),
    ("_ah", "Ah"),
    ("_kg", "kg"),
    ("_g", "g"),
    ("_v", "V"),
    ("_w", "W"),
    ("_ohm", "ohm"),
    ("_degc", "°C"),
    ("_months", "months"),
    ("_years", "years"),
)
_NUMBER: Final = re.compile("(-?)([0-9]+)(?:[.]([0-9]+))?")


def format_member(member: str, value: Json) -> str:
    """The value of a member with its unit: `total_gco2e`, `79000.00` is `79,000 g CO2e`."""
    number = _NUMBER.fullmatch(str(value)) if isinstance(value, str | int) else None
    unit = next((unit for suffix, unit in _UNITS if f"_{member}".endswith(suffix)), None)
    if number is None or unit is None:
        return _format_value(value)
    sign, integer, fraction = number.groups(default="")
    decimals = fraction.rstrip("0")
    return f"{sign}{int(integer):,}{'.' if decimals else ''}{decimals} {unit}"


def _describe_facts(data: Mapping[str, Json]) -> Json:
    if "count" in data:
        return _Phrase(f"{data['count']} facts")
    return None if data["payload_hash"] is None else _Phrase("the fact")


def _format_value(value: Json) -> str:
    """A value as people write it: a quantity with its unit, an absent one as `none`."""
    match value:
        case None:
            return "none"
        case _Phrase():
            return value
        case {"unit": unit, "value": number, **others} if not others:
            return f"{number} {unit}"
        case str() if value == "" or not value.isascii() or " " in value:
            text = canonical_json.encode(value).decode()
        case str():
            text = value
        case list():
            text = f"[{', '.join(map(_format_value, value[:MAX_TEXT_LENGTH]))}]"  # more would be cut off below
        case _:
            text = canonical_json.encode(value).decode()
    return text if len(text) <= MAX_TEXT_LENGTH else f"{text[:MAX_TEXT_LENGTH]}…"
