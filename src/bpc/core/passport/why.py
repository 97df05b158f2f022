"""Why a field has its value, or why it has none, in plain words: from the passport down to the facts.

Pure. Tells what the reference evaluator did, so it is what the rules say, and every sentence has its place in the rule
text. The lines of a bill of materials are named by their facts.

    Explained, rule text, facts ── why ──► Reason(says, place, because)
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bpc.core import canon
from bpc.core.canon import Json
from bpc.core.facts import FactRecord, SnapshotFact
from bpc.core.rules.reference.derive import Explained, Node, written
from bpc.core.rules.source import Source, Span
from bpc.core.rules.typed import Field

SHOWN_ELEMENTS: Final = 20
SHOWN_TEXT: Final = 120
# Steps upon steps that are told. Rules may chain thousands, and nobody reads that far.
MAX_DEPTH: Final = 100


@dataclass(frozen=True, slots=True)
class Reason:
    """One step in words, where the rule says so (`rules.bpc:3:7`), and what it rests on."""

    says: str
    place: str | None
    because: "tuple[Reason, ...]" = ()

    def lines(self, depth: int = 0) -> Iterator[tuple[int, str, str | None]]:
        yield depth, self.says, self.place
        for reason in self.because:
            yield from reason.lines(depth + 1)

    def as_json(self) -> Mapping[str, object]:
        return {"says": self.says, "place": self.place, "because": [reason.as_json() for reason in self.because]}


def why(
    field: Field,
    explained: Explained,
    source: Source,
    facts: Sequence[SnapshotFact],
    *,
    numbered: str = "line {} of the facts",
) -> Reason:
    """Why `field` is what it is, or why it is not.

    `facts` are in the order in which the reader has them, and `numbered` says what the number of one means there.
    """
    teller = _Teller(explained.nodes, source, facts, numbered)
    if explained.failure is not None:
        return _why_not(field, explained, teller)
    says = f"{field.path} is {_shown(written(field.type, explained.value))} ({field.type})"
    result = () if explained.result is None else tuple(map(teller.told, teller.of_derivation(explained.result)))
    return Reason(says, teller.place(field.span), (*teller.emitted_beside(field.path), *result))


def _why_not(field: Field, explained: Explained, teller: "_Teller") -> Reason:
    failure = explained.failure
    if failure is None:
        raise ValueError("nothing failed")
    says = f"{field.path} has no value: {failure.says}"
    if failure.field != field.path:
        says = f"{field.path} has no value because {failure.field} has none: {failure.says}"
    around = tuple(
        Reason(f"at element {element.position + 1}{_element(element.value, teller)}", teller.place(element.loop))
        for element in explained.elements
    )
    because = () if explained.failed is None else (teller.told(explained.failed),)
    return Reason(says, teller.place(failure.span), (*around, *because))


def _element(value: Any, teller: "_Teller") -> str:
    return f", the fact {value.key}{teller.number_of(value.key)}" if isinstance(value, FactRecord) else ""


class _Teller:
    """Puts nodes into words. A node that was told before is only mentioned again."""

    def __init__(self, nodes: Sequence[Node], source: Source, facts: Sequence[SnapshotFact], numbered: str) -> None:
        self._nodes = nodes
        self._source = source
        self._facts = facts
        self._numbered = numbered
        self._numbers_of_keys = {fact.fact_key: number for number, fact in enumerate(facts, 1)}
        self._by_name = {(fact.fact_type, fact.fact_key): number for number, fact in enumerate(facts, 1)}
        self._values = _values(nodes)
        self._texts: dict[int, str] = {}
        self._told: set[int] = set()

    def place(self, span: Span | None) -> str | None:
        if span is None:
            return None
        at = self._source.place(span.start)
        return f"{self._source.name}:{at.line}:{at.column}"

    def number_of(self, key: str) -> str:
        return self._number(self._numbers_of_keys.get(key))

    def emitted_beside(self, path: str) -> Iterator[Reason]:
        """Compliance entries of a field that its value, told already, does not rest on."""
        for at, node in enumerate(self._nodes):
            if node.type == "COMPLIANCE_EMIT" and node.field == path and at not in self._told:
                yield self.told(at)

    def of_derivation(self, at: int) -> list[int]:
        """The result of a field; what was computed beside it and not used explains nothing."""
        return self._nodes[at].children[:1]

    def told(self, at: int, depth: int = 0) -> Reason:
        node = self._nodes[at]
        says = self._sentence(at)
        if at in self._told and node.children:
            return Reason(f"{says} (told above)", self.place(node.span))
        self._told.add(at)
        because = self._because(node)
        if because and depth == MAX_DEPTH:
            return Reason(f"{says} (and so on)", self.place(node.span))
        further = (self.told(child, depth + 1) for child in because)
        return Reason(says, self.place(node.span), (*self._elements(node), *further))

    def _because(self, node: Node) -> list[int]:
        """The children worth telling: literals stand in the sentence already."""
        if node.type == "FIELD_REF":
            return self.of_derivation(node.children[0])
        return [child for child in node.children if self._nodes[child].type != "CONST"]

    def _sentence(self, at: int) -> str:
        node = self._nodes[at]
        match node.type:
            case "CONST":
                return f"{_shown(node.data['value'])}, written in the rule"
            case "FACT_GET":
                return self._fact_sentence(node)
            case "FIELD_REF":
                return f"field {node.data['path']} is {self._shown(at)}"
            case "ASSERT":
                return self._assert_sentence(at)
            case "COMPLIANCE_EMIT":
                return f"compliance {node.data['code']}: {node.data['status']}, {_shown(node.data['message'])}"
            case _:
                return self._op_sentence(at)

    def _fact_sentence(self, node: Node) -> str:
        kind, name = node.data["fact_type"], self._shown(node.children[0])
        if "count" in node.data:
            return f"{node.data['count']} {kind} facts, their keys starting with {name}"
        if node.data["payload_hash"] is None:
            return f"there is no {kind} fact {name}"
        return f"the {kind} fact {name}{self._line(str(kind), self._values[node.children[0]])}"

    def _line(self, kind: str, key: Json) -> str:
        return self._number(self._by_name.get((kind, str(key))))

    def _number(self, number: int | None) -> str:
        return "" if number is None else f", {self._numbered.format(number)}"

    def _assert_sentence(self, at: int) -> str:
        node, value = self._nodes[at], self._shown(at)
        if node.data["op"] == "requireSome":
            if self._nodes[node.children[0]].type == "FACT_GET":
                return f"it is there, as it must be ({node.data['code']})"
            return f"{value}, which must be there ({node.data['code']})"
        return f"{value}, given that {_shown(node.data['message'])} does not apply ({node.data['code']})"

    def _op_sentence(self, at: int) -> str:  # noqa: PLR0911 (one sentence a case)
        node, value = self._nodes[at], self._shown(at)
        op, parts = str(node.data["op"]), [self._shown(child) for child in node.children[:2]]
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

    def _elements(self, node: Node) -> Iterator[Reason]:
        """What a map, filter or fold made of each element, named by its fact where it is one."""
        if node.data.get("op") not in _LOOPS:
            return
        labels = self._labels(node.children[0])
        if node.data["op"] == "filter":
            kept = node.data["kept"]
            shown = [f"{labels[place]} stays" for place in kept if place < len(labels)]  # type: ignore[union-attr,operator,index]
        else:
            values = node.data.get("values", ())
            word = "gives" if node.data["op"] == "map" else "brings it to"
            shown = [f"{label} {word} {_shown(value)}" for label, value in zip(labels, values, strict=False)]  # type: ignore[arg-type]
        for says in shown[:SHOWN_ELEMENTS]:
            yield Reason(says, None)
        if len(shown) > SHOWN_ELEMENTS:
            yield Reason(f"and {len(shown) - SHOWN_ELEMENTS} more", None)

    def _labels(self, at: int) -> list[str]:
        """What the elements of a list are called: their facts, or their values, or their place in it."""
        node = self._nodes[at]
        if node.type == "FACT_GET":
            kind, prefix = str(node.data["fact_type"]), str(self._values[node.children[0]])
            keys = sorted(fact.fact_key for fact in self._facts if fact.fact_type == kind)
            return [f"{key}{self._line(kind, key)}," for key in keys if key.startswith(prefix)]
        if node.data.get("op") == "filter":
            labels = self._labels(node.children[0])
            return [labels[place] for place in node.data["kept"]]  # type: ignore[union-attr,index]
        if node.data.get("op") == "map":
            return [f"{label.rstrip(',')}," for label in self._labels(node.children[0])]
        plain = self._values[at]
        return [_shown(value) for value in plain] if isinstance(plain, list) else []

    def _shown(self, at: int) -> str:
        """The node's value in words, made once: many nodes may speak of one long list."""
        text = self._texts.get(at)
        if text is None:
            text = self._texts[at] = _shown(self._values[at])
        return text


class _Words(str):
    """What stands for a value that proofs do not repeat, such as a fact: shown without quotes."""

    __slots__ = ()


def _values(nodes: Sequence[Node]) -> list[Json]:
    """The value of every node, which is its own or its child's (docs/formats/proof.md); children come first."""
    values: list[Json] = []
    for node in nodes:
        values.append(node.data["value"] if "value" in node.data else _of_children(node, values))
    return values


def _of_children(node: Node, values: Sequence[Json]) -> Json:  # noqa: PLR0911 (one rule a case)
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
            return _the_facts(data)
        case "map":
            return data.get("values", _Words("a list of facts"))
        case "filter":
            return _Words(f"{len(data['kept'])} of them")  # type: ignore[arg-type]
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


def _the_facts(data: Mapping[str, Json]) -> Json:
    if "count" in data:
        return _Words(f"{data['count']} facts")
    return None if data["payload_hash"] is None else _Words("the fact")


def _shown(value: Json) -> str:
    """A value as people write it: a quantity with its unit, an absent one as `none`."""
    match value:
        case None:
            return "none"
        case _Words():
            return value
        case {"unit": unit, "value": number, **others} if not others:
            return f"{number} {unit}"
        case str() if value == "" or not value.isascii() or " " in value:
            text = canon.encode(value).decode()
        case str():
            text = value
        case list():
            text = f"[{', '.join(map(_shown, value[:SHOWN_TEXT]))}]"  # more would be cut off below
        case _:
            text = canon.encode(value).decode()
    return text if len(text) <= SHOWN_TEXT else f"{text[:SHOWN_TEXT]}…"
