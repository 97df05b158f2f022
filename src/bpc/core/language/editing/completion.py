"""What could stand at the cursor: members, names, functions, units, data points, and the words of the language.

Pure. What is typed can rarely be parsed, so what is asked for follows from the words before the cursor. Names and types
come from the package as it was last checked, and from the item around the cursor as far as it can be read.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

from bpc.core.exports.data_points import POINTS
from bpc.core.facts.schemas import KEY_PREFIXES, SCHEMA_MEMBERS
from bpc.core.facts.units import UNITS
from bpc.core.language import syntax
from bpc.core.language.checking.calls import FUNCTIONS
from bpc.core.language.checking.context import PackageContext
from bpc.core.language.editing.inspection import (
    CursorWord,
    find_cursor_word,
    find_item_span,
    inspect_half_typed,
)
from bpc.core.language.editing.language_words import FUNCTION_WORDS, KEYWORDS, KeywordGroup
from bpc.core.language.editing.places import CheckedPlace
from bpc.core.language.layers import LAYERS
from bpc.core.language.package import PackageReading
from bpc.core.language.source import Span
from bpc.core.language.types import EnumType, FactRecordType, Opt, Record, Type

ProposalKind: TypeAlias = Literal[
    "keyword", "function", "field", "definition", "constant", "variable", "enum", "member", "table", "fact", "unit",
    "point", "type", "fixture", "finding", "property",
]  # fmt: skip


class Proposal(NamedTuple):
    """A word that could stand at the cursor, what it is, and a few words about it."""

    label: str
    kind: ProposalKind
    detail: str = ""
    words: str = ""


# What stands before the cursor, the word that is being typed not included.
_QUOTED: Final = re.compile(r'([A-Za-z_]+)[ \t]*(?:[A-Za-z_][A-Za-z0-9_]*[ \t]*)?\(([^()"]*(?:"[^"]*"[^()"]*)*)"\Z')
_POINT: Final = re.compile(r"\babout[ \t\r\n]+\Z")
_PATH: Final = re.compile(r"(?:\bexpect[ \t]*\([ \t\r\n]*)([A-Za-z0-9_.]*)\Z")
_QUOTED_PATH: Final = re.compile(r'\bfield[ \t]*\([ \t]*"([A-Za-z0-9_.]*)\Z')
_UNIT: Final = re.compile(r"(?:\bQty[ \t]*\(|\bqty[ \t]*\([^(),]*,)[ \t]*\Z")
_WITH: Final = re.compile(r"\bwith[ \t]+(?:[A-Za-z0-9_]+[ \t]*,[ \t]*)*\Z")
_SEVERITY: Final = re.compile(r"\bseverity[ \t\r\n]+\Z")
_LAYER: Final = re.compile(r"\blayer[ \t\r\n]+\Z")
_HEAD: Final = re.compile(r"(?:field|def|const|fn)[ \t][^=\"]*:[^=\"]*\Z")
_TEXTS: Final = re.compile(r'"[^"\\\n]*(?:\\[^\n][^"\\\n]*)*"|--')
_UNIT_FUNCTIONS: Final = frozenset({"convert", "toQty", "sumQty"})
_FACT_WORDS: Final = frozenset({"getFact", "getFactsByPrefix", "fact", "without"})
_FINDING_WORDS: Final = frozenset({"expectFinding", "expectNoFinding"})
_FIRST_ITEMS: Final = ("field", "example", "property")
_LATER_ITEMS: Final = ("def", "const", "enum", "table", "require", "fn", "fixture", "cases", "override")
_IN_EXPRESSIONS: Final[tuple[KeywordGroup, ...]] = ("expression", "constant", "literal", "clause")


def list_proposals(reading: PackageReading, place: CheckedPlace) -> list[Proposal]:
    """What could stand at a place, most fitting first."""
    text, offset = place.source.text, place.offset
    context = reading.checked_rules.shared
    line = text[text.rfind("\n", 0, offset) + 1 : offset]
    cursor = find_cursor_word(text, offset)
    before = text[max(0, cursor.start - 2000) : cursor.start]
    match _find_context(line):
        case "comment":
            return []
        case "text":
            return [*_propose_in_text(context, reading, place, cursor, before)]
        case _:
            return [*_propose_in_code(context, reading, place, cursor, before)]


def _find_context(line: str) -> Literal["code", "text", "comment"]:
    """Whether the end of a line is in a comment, in a text, or in neither. A brace in a text starts an expression."""
    rest = line
    while match := _TEXTS.search(rest):
        if match.group() == "--":
            return "comment" if '"' not in rest[: match.start()] else "text"
        rest = rest[match.end() :]
    _, quote, inside = rest.partition('"')
    if not quote:
        return "code"
    return "code" if inside.rfind("{") > inside.rfind("}") and not inside.endswith("\\{") else "text"


def _propose_in_text(
    context: PackageContext, reading: PackageReading, place: CheckedPlace, cursor: CursorWord, before: str
) -> Iterator[Proposal]:
    path = _QUOTED_PATH.search(before)
    if path is not None:
        yield from _propose_paths(context, path[1])
        return
    call = _QUOTED.search(before)
    name = "" if call is None else call[1]
    if name in _FACT_WORDS and call is not None and not call[2].strip(" "):
        yield from _propose_facts()
    elif name in _UNIT_FUNCTIONS:
        yield from _propose_units()
    elif name in _FINDING_WORDS:
        yield from [Proposal(code, "finding") for code in sorted(reading.checked_rules.tests.findings.codes)]
    elif name == "recordGet" and call is not None:
        hole = Span(cursor.start - (len(before) - call.start()), place.offset)
        item_reading = inspect_half_typed(context, place.source, place.offset, hole)
        variable = call[2].strip(" ,\t")
        kind = None if item_reading is None else item_reading[0].variables.get(variable)
        yield from () if kind is None else _propose_members(kind)


def _propose_in_code(
    context: PackageContext, reading: PackageReading, place: CheckedPlace, cursor: CursorWord, before: str
) -> Iterator[Proposal]:
    path = _PATH.search(before)
    if path is not None:
        yield from _propose_paths(context, path[1])
    elif before.endswith("@"):
        yield from _propose_keywords(context, "audience")
    elif cursor.is_member:
        kind = _find_type_before(context, place, cursor)
        yield from () if kind is None else _propose_members(kind)
    elif _UNIT.search(before):
        yield from _propose_units()
    elif _POINT.search(before):
        yield from [Proposal(f"DP{point.number:02}", "point", point.name, point.source) for point in POINTS]
    elif _WITH.search(before):
        yield from [Proposal(name, "fixture") for name in _list_fixtures(reading)]
    elif _SEVERITY.search(before):
        yield from [Proposal(word, "keyword") for word in ("fail", "warn")]
    elif _LAYER.search(before):
        yield from [Proposal(word, "keyword") for word in LAYERS]
    elif not before or before.endswith("\n"):
        words = _FIRST_ITEMS if context.language == 1 else (*_FIRST_ITEMS, *_LATER_ITEMS)
        yield from [Proposal(word, "keyword") for word in words]
        yield from _propose_names(context, place, cursor)
    elif _is_in_head(place, cursor):
        yield from _propose_keywords(context, "type")
        yield from [Proposal(name, "enum") for name in context.enums]
    else:
        yield from _propose_names(context, place, cursor)


def _is_in_head(place: CheckedPlace, cursor: CursorWord) -> bool:
    """Whether a type is being typed: behind the colon of an item, before its `=`."""
    span = find_item_span(place.source.text, cursor.start)
    return span is not None and _HEAD.match(place.source.text[span.start : cursor.start]) is not None


def _find_type_before(context: PackageContext, place: CheckedPlace, cursor: CursorWord) -> Type | None:
    """The type of what stands before the point."""
    text, point = place.source.text, cursor.start - 1
    name = re.search(r"[A-Za-z_][A-Za-z0-9_]*\Z", text[max(0, point - 100) : point])
    if name is not None and name.group() in context.enums:
        return context.enums[name.group()]
    item_reading = inspect_half_typed(context, place.source, place.offset, Span(point, place.offset))
    if item_reading is not None:
        inspection, end = item_reading
        kind = inspection.find_type_before(end)
        if kind is not None:
            return kind
        if name is not None and name.group() in inspection.variables:
            return inspection.variables[name.group()]
    declaration = None if name is None else context.definitions.get(name.group())
    return None if declaration is None else declaration.type


# What there is


def _propose_members(kind: Type) -> Iterator[Proposal]:
    kind = kind.item if isinstance(kind, Opt) else kind
    if isinstance(kind, FactRecordType):
        for name, member in SCHEMA_MEMBERS[kind].items():
            yield Proposal(name, "property", f"Opt({member.type})", member.description)
    elif isinstance(kind, Record):
        yield from [Proposal(name, "property", str(item)) for name, item in kind.members]
    elif isinstance(kind, EnumType):
        yield from [Proposal(name, "member", kind.name) for name in kind.members]


def _propose_paths(context: PackageContext, typed_path: str) -> Iterator[Proposal]:
    """The rest of each path that begins with what is typed, up to the word that is being typed."""
    group = typed_path.rpartition(".")[0]
    start = f"{group}." if group else ""
    for path, field in context.fields.items():
        if path.startswith(start):
            yield Proposal(path[len(start) :], "field", "" if field.type is None else str(field.type))


def _propose_units() -> Iterator[Proposal]:
    return (Proposal(name, "unit", unit.dimension) for name, unit in UNITS.items())


def _propose_facts() -> Iterator[Proposal]:
    return (Proposal(name, "fact", f"key {prefix}…") for name, (prefix, _) in KEY_PREFIXES.items())


def _propose_keywords(context: PackageContext, *groups: KeywordGroup) -> Iterator[Proposal]:
    for keyword in KEYWORDS.values():
        if keyword.group in groups and keyword.language <= context.language:
            yield Proposal(keyword.word, "type" if keyword.group == "type" else "keyword")


def _list_fixtures(reading: PackageReading) -> Iterable[str]:
    trees = (reading.rules.parsed.tree, reading.tests.parsed.tree)
    return [item.name.text for tree in trees for item in tree.items if isinstance(item, syntax.SharedFixture)]


def _propose_names(context: PackageContext, place: CheckedPlace, cursor: CursorWord) -> Iterator[Proposal]:
    """Everything that an expression can name."""
    item_reading = inspect_half_typed(context, place.source, place.offset, Span(cursor.start, place.offset))
    variables = {} if item_reading is None else item_reading[0].variables
    yield from [Proposal(name, "variable", "" if kind is None else str(kind)) for name, kind in variables.items()]
    for name, declaration in context.definitions.items():
        kind_name: ProposalKind = "constant" if declaration.is_constant else "definition"
        yield Proposal(name, kind_name, "" if declaration.type is None else str(declaration.type))
    for name in context.calls:
        kind_of_call: ProposalKind = (
            "enum" if name in context.enums else "table" if name in context.tables else "function"
        )
        yield Proposal(name, kind_of_call)
    for name, enums in context.enums_by_member.items():
        yield Proposal(name, "member", " | ".join(enum.name for enum in enums))
    for name, function in FUNCTIONS.items():
        if function.language <= context.language:
            yield Proposal(name, "function", function.usage, FUNCTION_WORDS.get(name, ""))
    yield from _propose_facts() if context.language > 1 else ()
    yield from _propose_keywords(context, *_IN_EXPRESSIONS, *(("test",) if place.in_tests else ()))
