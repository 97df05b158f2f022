"""What is still missing for a passport: from facts, or from a list that another command wrote.

Pure. `build_template` makes a template of it that asks for nothing else.

    facts of a product, category ── list_missing_members ──► members
    JSON of `bpc passports check`, or data points of a passport ── read_missing_list ──► MissingProducts
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from bpc.core.documents.elements import FACT_TYPES
from bpc.core.documents.forms.template_plan import AskedMember
from bpc.core.documents.reader import DocumentFacts, ExtractedFact, read_document
from bpc.core.exports.data_points import POINTS, VERSION, Category, find_category, get_category
from bpc.core.exports.point_parts import PARTS, PointPart, find_open_parts
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json

_ASKED_KINDS: Final = frozenset({"missing", "unreadable"})
_FACT_TYPES: Final = frozenset(name for types in FACT_TYPES.values() for name in types)


class MissingProduct(NamedTuple):
    """A product, its category if it is known, and the members that are missing."""

    sku: str
    category: Category | None
    members: tuple[AskedMember, ...]


class MissingPart(NamedTuple):
    """A part of a mandatory data point that nothing fills, and the members that would."""

    number: int
    name: str
    part: PointPart
    members: tuple[AskedMember, ...]


def list_missing_parts(category: Category, facts: Sequence[SnapshotFact]) -> list[MissingPart]:
    """The open parts of the mandatory points, for the facts of one product."""
    open_parts = find_open_parts(facts)
    return [
        MissingPart(point.number, point.name, part, _get_usual_way(part))
        for point in POINTS
        if point.get_status(category) == "M"
        for part in open_parts[point.number]
    ]


def list_missing_members(category: Category, facts: Sequence[SnapshotFact]) -> tuple[AskedMember, ...]:
    """The members that would fill the open parts of the mandatory points."""
    return tuple(dict.fromkeys(member for missing in list_missing_parts(category, facts) for member in missing.members))


def group_by_sku(facts: Sequence[SnapshotFact]) -> dict[str, list[SnapshotFact]]:
    """The facts of each product."""
    groups: dict[str, list[SnapshotFact]] = {}
    for fact in facts:
        sku = fact.payload.get("sku")
        if isinstance(sku, str):
            groups.setdefault(sku, []).append(fact)
    return groups


def _get_usual_way(part: PointPart) -> tuple[AskedMember, ...]:
    """The first way to fill a part is the one that people are asked for."""
    way = part.ways[0]
    return tuple(AskedMember(way.fact_type, member) for member in way.members)


def read_missing_products(content: bytes, category: Category | None = None) -> list[MissingProduct] | None:
    """What is missing according to a file: a readiness report, the data points of a passport, or a document.

    None if it is none of these. Of a document, `category` is that of its batteries, if it is given.
    """
    try:
        missing = read_missing_list(json.loads(content)) if content.lstrip()[:1] == b"{" else None
    except (ValueError, RecursionError):
        missing = None
    if missing is not None:
        return missing
    outcomes = [read_document(kind, "application/octet-stream", content) for kind in FACT_TYPES]
    facts = [convert_fact(fact) for outcome in outcomes if isinstance(outcome, DocumentFacts) for fact in outcome.facts]
    if not any(fact.fact_type == "Battery" for fact in facts):
        return None
    return [
        MissingProduct(sku, own_category, () if own_category is None else list_missing_members(own_category, group))
        for sku, group in group_by_sku(facts).items()
        for own_category in (category or find_category(sku, group),)
    ]


def convert_fact(fact: ExtractedFact) -> SnapshotFact:
    """A fact of a document as a snapshot holds it."""
    payload = canonical_json.decode(fact.payload_canonical)
    return SnapshotFact(
        fact_type=fact.fact_type,
        fact_key=fact.fact_key,
        schema_version=fact.schema_version,
        payload=payload if isinstance(payload, dict) else {},
    )


def read_missing_list(value: Json) -> list[MissingProduct] | None:
    """The products of a list; None if the JSON is neither a readiness report nor the data points of a passport."""
    if not isinstance(value, dict):
        return None
    if value.get("data_points_version") == VERSION:
        return [_read_data_points(value)]
    products = value.get("products")
    if not isinstance(products, list) or not all(_is_readiness(product) for product in products):
        return None
    return [
        MissingProduct(
            str(product["sku"]), get_category(product.get("category")), tuple(dict.fromkeys(_read_issues(product)))
        )
        for product in products
        if isinstance(product, dict)
    ]


def _is_readiness(product: Json) -> bool:
    return isinstance(product, dict) and isinstance(product.get("sku"), str) and isinstance(product.get("issues"), list)


def _read_issues(product: Mapping[str, Json]) -> Iterator[AskedMember]:
    """What is missing or could not be read. What is only asked for under conditions is a note, and is not asked."""
    issues = product.get("issues")
    for issue in issues if isinstance(issues, list) else []:
        if not isinstance(issue, dict) or issue.get("kind") not in _ASKED_KINDS or issue.get("severity") == "note":
            continue
        fact_type, members, points = (issue.get(name) for name in ("fact_type", "members", "points"))
        if isinstance(fact_type, str) and fact_type in _FACT_TYPES and isinstance(members, list) and members:
            yield from (AskedMember(fact_type, member) for member in members if isinstance(member, str))
        elif isinstance(points, list):
            yield from _list_members_of_points(points)


def _read_data_points(value: Mapping[str, Json]) -> MissingProduct:
    product, numbers = value.get("battery_product"), value.get("missing")
    sku = product.get("sku") if isinstance(product, dict) else None
    members = dict.fromkeys(_list_members_of_points(numbers if isinstance(numbers, list) else []))
    return MissingProduct(str(sku), get_category(value.get("category")), tuple(members))


def _list_members_of_points(numbers: Sequence[Json]) -> Iterator[AskedMember]:
    for number in numbers:
        if isinstance(number, int) and number in PARTS:
            for part in PARTS[number]:
                yield from _get_usual_way(part)
