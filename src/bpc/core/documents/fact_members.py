"""The payload and the key of a fact, from the members of an element; the columns and the JSON Schemas of members.

The fact's schema gives each member its type. A Dec(n), a decimal number, is written with exactly n decimals; an Int as
a whole number. Both come from a number or from a plain decimal text of the same value; nothing is rounded. A null is
the same as a missing member. A member that the schema does not know is left out with a warning. A member whose value
cannot be read is left out and named, unless it is part of the fact's key: then the document has a problem. A list is
taken whole: one value of it that cannot be read makes the whole member unreadable. A word for one of a few values, in
any of six languages, becomes that value.

A document in our own form is read completely, without problems and unreadable values, exactly if its JSON Schema
(2020-12) accepts it, apart from what a schema cannot check: whether a date exists, how deep and how large a document
is, and two facts with one key.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from bpc.core.documents import DocumentNote, Notes, join_path, quote_text
from bpc.core.documents.elements import (
    FACT_TYPES,
    FactElement,
    NumberText,
    RawValue,
    UnreadableMember,
    describe_kind,
    format_decimal,
    is_plain_decimal,
    parse_exact,
)
from bpc.core.facts.enumerations import ENUMERATIONS, normalize_value
from bpc.core.facts.item_schemas import SchemaMember
from bpc.core.facts.member_readers import is_day
from bpc.core.facts.schemas import SCHEMA_MEMBERS, SCHEMA_VERSION
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.ids import find_sku_fault
from bpc.core.language.types import BOOL, DATE, INT, TEXT, Dec, FactRecordType, List, Opt, Record, Type

MAX_NAME_LENGTH: Final = 200
UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")
INVALID_CHARACTER: Final = "contains an invalid character: U+0000 or half of a surrogate pair"
BLANKS: Final = " \t\r\n\u00a0"

MemberPath: TypeAlias = tuple[str | int, ...]

_KEY_PREFIXES: Final[Mapping[str, str]] = {
    "Battery": "battery",
    "Component": "component",
    "PCF": "pcf",
    "DueDiligence": "dd",
    "Reading": "reading",
}
# What follows the SKU in the key of a fact.
_KEY_MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {"Component": ("part",), "Reading": ("kind", "recorded_at")}
_LOWERCASE: Final = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ -\u00a0\n", "abcdefghijklmnopqrstuvwxyz____")
_COLUMN_NAME: Final = re.compile(r"[a-z0-9_]+(?:\[[0-9]{1,4}\])?(?:\.[a-z0-9_]+(?:\[[0-9]{1,4}\])?)?")
_PATH_STEP: Final = re.compile(r"[a-z0-9_]+")


KEY_MEMBERS: Final = frozenset({"sku", "part"})


def build_fact_payload(
    element: FactElement, schema: Mapping[str, Type], notes: Notes
) -> tuple[dict[str, Json], tuple[UnreadableMember, ...]]:
    """The payload of a fact, and the members that are not in it because their values cannot be read."""
    payload: dict[str, Json] = {}
    unreadable = list(element.unreadable)
    for name, raw in element.members.items():
        kind = schema.get(name)
        if kind is None:
            _warn_unknown_member(element.fact_type, schema, name, element.path, notes)
        elif raw is not None and name in KEY_MEMBERS:
            payload[name] = _convert_value(kind, raw, f"{element.path}.{name}", notes)
        elif raw is not None:
            notes.begin_capture()
            value = _convert_value(kind, raw, f"{element.path}.{name}", notes)
            if problems := notes.end_capture():
                unreadable.append(report_unreadable(name, problems, notes))
            else:
                payload[name] = _normalize_words(element.fact_type, name, value)
    return payload, tuple(unreadable)


def _normalize_words(fact_type: str, member: str, value: Json) -> Json:
    """The value that a word means, such as `ev` for `Elektrofahrzeug`; any other value as it is."""
    if (fact_type, member) not in ENUMERATIONS:
        return value
    if isinstance(value, list):
        return [_normalize_words(fact_type, member, item) for item in value]
    return (normalize_value(fact_type, member, value) or value) if isinstance(value, str) else value


def report_unreadable(member: str, problems: Sequence[DocumentNote], notes: Notes) -> UnreadableMember:
    """Warn of every problem of a member's value; the member is named with the first."""
    for problem in problems:
        notes.add_unreadable(problem.at, problem.says)
    return UnreadableMember(member, problems[0].at, problems[0].says)


def _build_members(
    fact_type: str, schema: Mapping[str, Type], members: Mapping[str, RawValue], path: str, notes: Notes
) -> dict[str, Json]:
    """The members of a record."""
    payload: dict[str, Json] = {}
    for name, raw in members.items():
        kind = schema.get(name)
        if kind is None:
            _warn_unknown_member(fact_type, schema, name, path, notes)
        elif raw is not None:
            payload[name] = _convert_value(kind, raw, f"{path}.{name}", notes)
    return payload


def _warn_unknown_member(owner: str, schema: Mapping[str, Type], name: str, path: str, notes: Notes) -> None:
    suggestion = notes.suggestions.suggest(name, schema)
    notes.add_warning(
        join_path(path, name),
        f"is not a member of {owner} and was left out" + (f"; {suggestion}" if suggestion else ""),
    )


def _convert_value(kind: Type, raw: RawValue, path: str, notes: Notes) -> Json:
    match kind:
        case Opt(item):
            return _convert_value(item, raw, path, notes)
        case Dec(scale):
            return format_decimal(_convert_number(raw, scale, path, "a decimal number", notes), scale)
        case List(item):
            return _convert_list(item, raw, path, notes)
        case Record(members):
            return _convert_record(dict(members), raw, path, notes)
        case _:
            return _SCALAR_CONVERTERS[kind](raw, path, notes)


def _convert_list(item: Type, raw: RawValue, path: str, notes: Notes) -> list[Json]:
    if not isinstance(raw, list):
        notes.add_problem(path, f"is {describe_kind(raw)}, not a list")
        return []
    items: list[Json] = []
    for index, part in enumerate(raw):
        at = f"{path}[{index}]"
        if part is None:
            notes.add_problem(at, "is null; leave it out of the list")
        else:
            items.append(_convert_value(item, part, at, notes))
    return items


def _convert_record(schema: Mapping[str, Type], raw: RawValue, path: str, notes: Notes) -> dict[str, Json]:
    if not isinstance(raw, dict):
        notes.add_problem(path, f"is {describe_kind(raw)}, not an object")
        return {}
    return _build_members("this object", schema, raw, path, notes)


def _convert_number(raw: RawValue, scale: int, path: str, expected: str, notes: Notes) -> int:
    """A number counted in units of 10^-scale; 0 where there is a problem."""
    if not isinstance(raw, NumberText | str):
        notes.add_problem(path, f"is {describe_kind(raw)}, not {expected}")
        return 0
    if isinstance(raw, str) and not is_plain_decimal(raw):
        notes.add_problem(path, f"is {quote_text(raw)}, not {expected} such as {'12' if scale == 0 else '75.5'}")
        return 0
    value = parse_exact(raw if isinstance(raw, str) else raw.text)
    if value is None or not value.fits_a_fact:
        notes.add_problem(path, "is not below 10^36")
        return 0
    count = value.at_scale(scale)
    if count is None:
        notes.add_problem(path, "is not a whole number" if scale == 0 else f"has more than {scale} decimals")
    return count or 0


def _convert_text(raw: RawValue, path: str, notes: Notes) -> str:
    if not isinstance(raw, str):
        notes.add_problem(
            path, f"is {describe_kind(raw)}, not a text" + ("; put it in quotes" * isinstance(raw, NumberText))
        )
        return ""
    if UNSTORABLE.search(raw):
        notes.add_problem(path, INVALID_CHARACTER)
    return raw


def _convert_date(raw: RawValue, path: str, notes: Notes) -> str:
    if not isinstance(raw, str) or not is_day(raw):
        description = quote_text(raw) if isinstance(raw, str) else describe_kind(raw)
        notes.add_problem(path, f"is {description}, not a date written like 2027-02-18")
        return ""
    return raw


def _convert_bool(raw: RawValue, path: str, notes: Notes) -> bool:
    if not isinstance(raw, bool):
        notes.add_problem(path, f"is {describe_kind(raw)}, not true or false")
    return raw is True


def _convert_int(raw: RawValue, path: str, notes: Notes) -> int:
    return _convert_number(raw, 0, path, "a whole number", notes)


_SCALAR_CONVERTERS: Final[Mapping[Type, Callable[[RawValue, str, Notes], Json]]] = {
    BOOL: _convert_bool,
    INT: _convert_int,
    TEXT: _convert_text,
    DATE: _convert_date,
}


def build_fact_key(fact_type: str, members: Mapping[str, RawValue], path: str, notes: Notes) -> str:
    """The key of a fact: the product it is about. It is not used if `notes` has a problem."""
    parts = [_KEY_PREFIXES[fact_type], _read_key_part(members, "sku", path, notes)]
    if ":" in parts[1]:
        notes.add_problem(f"{path}.sku", "has a colon, which separates the parts of a fact's key")
    parts += [_read_key_part(members, member, path, notes) for member in _KEY_MEMBERS.get(fact_type, ())]
    return ":".join(parts)


def _read_key_part(members: Mapping[str, RawValue], member: str, path: str, notes: Notes) -> str:
    value = members.get(member)
    if value is None:
        notes.add_problem(f"{path}.{member}", "is missing; it identifies the product")
    if not isinstance(value, str):  # `build_fact_payload` has noted that
        return ""
    if not 1 <= len(value) <= MAX_NAME_LENGTH:
        notes.add_problem(f"{path}.{member}", f"does not have 1 to {MAX_NAME_LENGTH} characters")
    elif fault := find_sku_fault(value):
        notes.add_problem(f"{path}.{member}", fault)
    return value


def normalize_name(name: str) -> str:
    """A name of a column or a sheet in small letters, with `_` between words."""
    return name.strip(BLANKS).translate(_LOWERCASE)


def parse_column_name(name: str) -> MemberPath | None:
    """The path from a fact to the value of a column; None if a normalized `name` does not name a column."""
    if not _COLUMN_NAME.fullmatch(name):
        return None
    names = _PATH_STEP.findall(name)
    marks = [name[name_match.start() - 1 : name_match.start()] for name_match in _PATH_STEP.finditer(name)]
    return tuple(int(step) if mark == "[" else step for step, mark in zip(names, marks, strict=True))


def find_member_type(schema: Mapping[str, Type], steps: MemberPath) -> Type | None:
    """The type of the value a column holds; None if the schema has no such member."""
    kind = schema.get(str(steps[0]))
    for step in steps[1:]:
        kind = kind.item if isinstance(kind, Opt) else kind
        match kind:
            case Record(members) if isinstance(step, str):
                kind = dict(members).get(step)
            case List(item) if isinstance(step, int) and step > 0:
                kind = item
            case _:
                return None
    return kind.item if isinstance(kind, Opt) else kind


def fits_a_cell(kind: Type) -> bool:
    """Whether one cell can hold it: a cell holds no records, and no lists except of text."""
    return not isinstance(kind, Record) and (not isinstance(kind, List) or kind.item == TEXT)


def list_columns(name: str, member: SchemaMember, *, records: int = 1) -> list[tuple[str, Type, str]]:
    """The columns a member has in a table: name, type and description. Each record of a list has its own columns."""
    if fits_a_cell(member.type):
        return [(name, member.type, member.description)]
    return [
        (f"{name}[{number}].{part}", kind.item if isinstance(kind, Opt) else kind, f"{member.description}: {part}")
        for number in range(1, records + 1)
        for part, kind in _list_record_members(member.type)
    ]


def _list_record_members(kind: Type) -> tuple[tuple[str, Type], ...]:
    match kind:
        case List(Record(members)):
            return members
        case _:
            return ()


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
_PART: Final[dict[str, Json]] = {**_SCALARS[TEXT], "minLength": 1, "maxLength": MAX_NAME_LENGTH}
_SKU: Final[dict[str, Json]] = {**_PART, "pattern": r"^[^\u0000:]*$"}


def build_document_schema(kind: str) -> dict[str, Json]:
    """The JSON Schema of a document of this kind, built from the fact schemas."""
    schema: dict[str, Json] = {
        "$schema": DIALECT,
        "$id": f"urn:bpc:schema:{kind}:{SCHEMA_VERSION}",
        "title": _TITLES[kind],
        "description": "Unknown members are left out of the facts, with a warning. null is the same as missing.",
    }
    return schema | (_build_bom_schema() if kind == "BOM" else _build_one_or_more(FACT_TYPES[kind][0]))


def _build_bom_schema() -> dict[str, Json]:
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
            "batteries": _allow_null({"type": "array", "items": battery, "description": "Or several."}),
            "components": _allow_null(
                {
                    "type": "array",
                    "items": component,
                    "description": "Its parts. A part that names no battery belongs to the only battery;"
                    " an item without `part` is a battery.",
                }
            ),
        },
        "anyOf": [
            _require_member("battery", {"type": "object"}),
            *(_require_member(name, {"type": "array", "minItems": 1}) for name in ("batteries", "components")),
        ],
        "$defs": {
            "Battery": _build_fact_schema("Battery", ["sku"]),
            "Component": _build_fact_schema("Component", ["part"]),
        },
    }


def _require_member(name: str, schema: Json) -> Json:
    return {"required": [name], "properties": {name: schema}}


def _build_one_or_more(fact_type: str) -> dict[str, Json]:
    item: Json = {"$ref": f"#/$defs/{fact_type}"}
    return {
        "anyOf": [item, {"type": "array", "items": item, "minItems": 1}],
        "$defs": {fact_type: _build_fact_schema(fact_type, ["sku"])},
    }


def _build_fact_schema(fact_type: str, required_members: list[Json]) -> dict[str, Json]:
    key_schemas = {"sku": _allow_null(_SKU), "part": _PART} if fact_type == "Component" else {"sku": _SKU}
    properties: dict[str, Json] = {
        name: {
            **(key_schemas.get(name) or _allow_null(_build_type_schema(member.type))),
            "description": member.description,
        }
        for name, member in SCHEMA_MEMBERS[FactRecordType(fact_type, SCHEMA_VERSION)].items()
    }
    return {"type": "object", "properties": properties, "required": required_members}


def _build_type_schema(kind: Type) -> dict[str, Json]:
    match kind:
        case Opt(item):
            return _allow_null(_build_type_schema(item))
        case Dec(scale):
            fraction = rf"(\.[0-9]{{1,{scale}}}0*)?" if scale else r"(\.0+)?"
            return {
                "type": ["number", "string"],
                "pattern": rf"^-?[0-9]{{1,36}}{fraction}$",
                "description": f"A decimal number with at most {scale} decimals, as a number or a text.",
            }
        case List(item):
            return {"type": "array", "items": _build_type_schema(item)}
        case Record(members):
            return {"type": "object", "properties": {name: _build_type_schema(member) for name, member in members}}
        case _:
            return dict(_SCALARS[kind])


def _allow_null(schema: dict[str, Json]) -> dict[str, Json]:
    """null is the same as missing."""
    json_type = schema.get("type")
    if json_type is None:
        return {"anyOf": [schema, {"type": "null"}]}
    return {**schema, "type": [*json_type, "null"] if isinstance(json_type, list) else [json_type, "null"]}
