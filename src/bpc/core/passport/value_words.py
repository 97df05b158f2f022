"""The words for what proofs say: values as people write them, and a sentence for each operation.

Pure. A node's value is its own or follows from its children's, as docs/formats/proof.md has it.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.language.reference.derive import DerivationNode

MAX_TEXT_LENGTH: Final = 120


class Phrase(str):
    """What stands for a value that proofs do not repeat, such as a fact: shown without quotes."""

    __slots__ = ()


def compute_values(nodes: Sequence[DerivationNode]) -> list[Json]:
    """The value of every node, which is its own or its child's (docs/formats/proof.md); children come first."""
    values: list[Json] = []
    for node in nodes:
        values.append(node.data["value"] if "value" in node.data else _take_from_children(node, values))
    return values


def _take_from_children(  # noqa: PLR0911, PLR0912 (one rule a case)
    node: DerivationNode, values: Sequence[Json]
) -> Json:
    data, children = node.data, node.children
    match data.get("op", node.type):
        case "if" | "ifSome" | "assert" | "match":
            return values[children[1]]
        case "??":
            return values[children[-1]]
        case "list":
            return [values[child] for child in children]
        case "record":
            return dict(zip(data["members"], [values[child] for child in children], strict=True))  # type: ignore[arg-type]
        case "COMPLIANCE_EMIT":
            return data["status"] != "FAIL"
        case "FACT_GET":
            return _describe_facts(data)
        case "map":
            return data.get("values", Phrase("a list of facts"))
        case "filter":
            return Phrase(f"{len(data['kept'])} of them")  # type: ignore[arg-type]
        case "first" | "last" | "present":
            return Phrase("facts" if data["op"] == "present" else "the fact")
        case "any" | "all":
            return (data["position"] is None) == (data["op"] == "all")
        case "sortBy" | "latestBy" | "groupBy":
            return _take_elements(data, values[children[0]])
        case "fold":
            folded = data.get("values") or ()
            return folded[-1] if folded else values[children[1]]  # type: ignore[index]
        case _:
            return values[children[0]] if children else None


def _take_elements(data: Mapping[str, Any], items: Json) -> Json:
    """The value of a loop that says positions in its list; facts are not repeated in proofs."""
    match data:
        case {"position": None}:
            return None
        case {"position": position}:
            return items[position] if isinstance(items, list) else Phrase("the fact")
        case {"order": order}:
            return [items[position] for position in order] if isinstance(items, list) else items
        case {"groups": groups} if isinstance(items, list):
            return [{"items": [items[at] for at in group["positions"]], "key": group["key"]} for group in groups]
        case _:
            return Phrase(f"{len(data['groups'])} groups")


_INFIX: Final = frozenset({"+", "-", "*", "/", "==", "!=", "<", "<=", ">", ">=", "&&", "||"})
LOOPS: Final = frozenset({"map", "filter", "fold", "any", "all", "sortBy", "latestBy", "groupBy"})
_ORDERED: Final = frozenset({"min", "max"})
_SENTENCES: Final = {
    "&&": "{0} && … is {value} already",
    "||": "{0} || … is {value} already",
    "neg": "-({0}) is {value}",
    "!": "!({0}) is {value}",
    "match": "{value}, because {0} is the case {case}",
    "toEnum": "as {enum}: {value}",
    "table": "{value}, looked up in {table}",
    "recordGet": "its {member} is {value}",
    "member": "its {member} is {value}",
    "??": "{value}, the first that is there",
    "in": "{0} in {1} is {value}",
    "definition": "{name} is {value}",
    "toDec": "rounded to {scale} decimals: {value}",
    "sumDec": "the sum, with {scale} decimals: {value}",
    "toQty": "as a quantity in {unit}: {value}",
    "sumQty": "the sum in {unit}: {value}",
    "convert": "{0} in {to} is {value}",
    "round": "rounded to {scale} decimals: {value}",
    "daysBetween": "from {0} to {1} it is {value} days",
    "addDays": "{0} and {1} days: {value}",
    "addMonths": "{0} and {1} months: {value}",
    "addYears": "{0} and {1} years: {value}",
    "min": "the lesser of {0} and {1} is {value}",
    "max": "the greater of {0} and {1} is {value}",
}
_WORDS: Final = {
    "text": "written as a text",
    "startsWith": "whether it starts with that",
    "endsWith": "whether it ends with that",
    "contains": "whether that is in it",
    "split": "its parts",
    "trim": "without blanks around it",
    "length": "how many characters it has",
    "year": "its year",
    "month": "its month",
    "day": "its day of the month",
    "min": "the smallest of them",
    "max": "the largest of them",
    "abs": "without its sign",
    "sum": "their sum",
    "first": "the first of them",
    "last": "the last of them",
    "distinct": "each once",
    "present": "those that are there",
    "isEmpty": "whether it is empty",
    "requirements": "whether no requirement fails",
    "isSome": "whether it is there",
    "unwrapOr": "it, or the default where it is absent",
    "count": "how many there are",
    "concat": "joined",
    "amount": "its number without unit",
    "mapGet": "its entry under that key",
    "map": "one value for each",
    "filter": "those that match",
    "any": "whether the condition holds for one of them",
    "all": "whether the condition holds for all of them",
    "sortBy": "sorted",
    "latestBy": "the latest of them",
    "groupBy": "in groups",
    "fold": "all of them together",
    "list": "a list",
    "some": "a value",
    "record": "a record",
    "productSku": "the product's SKU",
    "productName": "the product's name",
    "issuedOn": "the day of issue",
}


def describe_operation(data: Mapping[str, Json], value: str, parts: Sequence[str]) -> str:  # noqa: PLR0911 (a sentence a case)
    """A sentence about an operation: what it gave, and the first two of what it was given."""
    op = str(data["op"])
    if op in _INFIX and len(parts) == 2:
        return f"{parts[0]} {op} {parts[1]} is {value}"
    if op == "table" and data["row"] is None:
        return f"no row of {data['table']} applies"
    if op in _SENTENCES and (op not in _ORDERED or len(parts) == 2):
        return _SENTENCES[op].format(*parts, **{**data, "value": value})
    if op == "if":
        return f"{value}, because the condition is {'true' if data['branch'] == 'then' else 'false'}"
    if op == "ifSome":
        return f"{value}, because it is {'there' if data['branch'] == 'then' else 'not there'}"
    if op == "missing":
        return f"it is missing: {format_value(data['message'])} ({data['code']})"
    return f"{_WORDS.get(op, op)}: {value}"


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
        return format_value(value)
    sign, integer, fraction = number.groups(default="")
    decimals = fraction.rstrip("0")
    return f"{sign}{int(integer):,}{'.' if decimals else ''}{decimals} {unit}"


def _describe_facts(data: Mapping[str, Json]) -> Json:
    if "count" in data:
        return Phrase(f"{data['count']} facts")
    return None if data["payload_hash"] is None else Phrase("the fact")


def format_value(value: Json) -> str:
    """A value as people write it: a quantity with its unit, an absent one as `none`."""
    match value:
        case None:
            return "none"
        case Phrase():
            return value
        case {"unit": unit, "value": number, **others} if not others:
            return f"{number} {unit}"
        case str() if value == "" or not value.isascii() or " " in value:
            text = canonical_json.encode(value).decode()
        case str():
            text = value
        case list():
            text = f"[{', '.join(map(format_value, value[:MAX_TEXT_LENGTH]))}]"  # more would be cut off below
        case _:
            text = canonical_json.encode(value).decode()
    return text if len(text) <= MAX_TEXT_LENGTH else f"{text[:MAX_TEXT_LENGTH]}…"
