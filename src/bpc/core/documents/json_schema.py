"""JSON Schemas (2020-12) of the documents we read, made from the table of fact schemas.

A document that a schema accepts is read without problems, and one that it refuses is rejected, but for what no schema
can say: whether a day is on the calendar, how deep or how large a document is, and two facts of one key.
"""

from collections.abc import Mapping
from typing import Final

from bpc.core.canon import Json
from bpc.core.documents.keys import LONGEST_NAME
from bpc.core.rules.types import BOOL, DATE, INT, TEXT, Dec, Fact, List, Opt, Record, Type
from bpc.core.schemas import MEMBERS, SCHEMA_VERSION

KINDS: Final = ("BOM", "PCF", "DUE_DILIGENCE")
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_TITLES: Final[Mapping[str, str]] = {
    "BOM": "Bill of materials: batteries and what they are made of",
    "PCF": "Carbon footprint of one battery, or of several",
    "DUE_DILIGENCE": "Due diligence for one battery, or for several",
}
_SCALARS: Final[Mapping[Type, dict[str, Json]]] = {
    BOOL: {"type": "boolean"},
    INT: {"type": ["integer", "string"], "pattern": r"^-?[0-9]{1,36}(\.0+)?$"},
    TEXT: {"type": "string", "pattern": r"^[^\u0000]*$"},
    DATE: {"type": "string", "format": "date", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"},
}
_SKU: Final[dict[str, Json]] = {
    "type": "string",
    "pattern": r"^[^\u0000:]*$",
    "minLength": 1,
    "maxLength": LONGEST_NAME,
}
_PART: Final[dict[str, Json]] = {
    "type": "string",
    "pattern": r"^[^\u0000]*$",
    "minLength": 1,
    "maxLength": LONGEST_NAME,
}


def schema_of(kind: str) -> dict[str, Json]:
    """The schema of a document of this kind."""
    schema: dict[str, Json] = {
        "$schema": DIALECT,
        "$id": f"urn:bpc:schema:{kind}:{SCHEMA_VERSION}",
        "title": _TITLES[kind],
        "description": "Unknown members are left out of the facts, with a warning. null is the same as missing.",
    }
    match kind:
        case "BOM":
            return schema | _bill_of_materials()
        case "PCF":
            return schema | _one_or_more("PCF")
        case _:
            return schema | _one_or_more("DueDiligence")


def _bill_of_materials() -> dict[str, Json]:
    battery: Json = {"$ref": "#/$defs/Battery"}
    component: Json = {
        "if": {"type": "object", "properties": {"part": {"type": "null"}}},
        "then": battery,
        "else": {"$ref": "#/$defs/Component"},
    }
    return {
        "type": "object",
        "properties": {
            "battery": {"anyOf": [battery, {"type": "null"}], "description": "The battery."},
            "batteries": _absent_or({"type": "array", "items": battery, "description": "Or several."}),
            "components": _absent_or(
                {
                    "type": "array",
                    "items": component,
                    "description": "Its parts. One that does not say of which battery it is belongs to the only one;"
                    " an item without `part` is a battery.",
                }
            ),
        },
        "anyOf": [_given("battery", "object"), _not_empty("batteries"), _not_empty("components")],
        "$defs": {"Battery": _fact("Battery", ["sku"]), "Component": _fact("Component", ["part"])},
    }


def _given(name: str, kind: str) -> Json:
    return {"required": [name], "properties": {name: {"type": kind}}}


def _not_empty(name: str) -> Json:
    return {"required": [name], "properties": {name: {"type": "array", "minItems": 1}}}


def _one_or_more(fact_type: str) -> dict[str, Json]:
    one: Json = {"$ref": f"#/$defs/{fact_type}"}
    return {
        "anyOf": [one, {"type": "array", "items": one, "minItems": 1}],
        "$defs": {fact_type: _fact(fact_type, ["sku"])},
    }


def _fact(fact_type: str, required: list[Json]) -> dict[str, Json]:
    named = {"sku": _absent_or(_SKU), "part": _PART} if fact_type == "Component" else {"sku": _SKU}
    properties: dict[str, Json] = {
        name: {**(named.get(name) or _absent_or(_type(member.type))), "description": member.says}
        for name, member in MEMBERS[Fact(fact_type, SCHEMA_VERSION)].items()
    }
    return {"type": "object", "properties": properties, "required": required}


def _type(kind: Type) -> dict[str, Json]:
    match kind:
        case Opt(item):
            return _absent_or(_type(item))
        case Dec(scale):
            fraction = rf"(\.[0-9]{{1,{scale}}}0*)?" if scale else r"(\.0+)?"
            return {
                "type": ["number", "string"],
                "pattern": rf"^-?[0-9]{{1,36}}{fraction}$",
                "description": f"A decimal number with at most {scale} decimals, as a number or a text.",
            }
        case List(item):
            return {"type": "array", "items": _type(item)}
        case Record(members):
            return {"type": "object", "properties": {name: _type(member) for name, member in members}}
        case _:
            return dict(_SCALARS[kind])


def _absent_or(schema: dict[str, Json]) -> dict[str, Json]:
    """null is the same as missing."""
    given = schema.get("type")
    if given is None:
        return {"anyOf": [schema, {"type": "null"}]}
    return {**schema, "type": [*given, "null"] if isinstance(given, list) else [given, "null"]}
