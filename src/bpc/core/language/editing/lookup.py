"""A name at a place: where it is declaration, where it is used in all files of a package, and what is said of it.

Pure.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from bpc.core.language import syntax
from bpc.core.language.editing import descriptions
from bpc.core.language.editing.inspection import Inspection, inspect_item
from bpc.core.language.editing.occurrences import Occurrence, OccurrenceFinder, Symbol
from bpc.core.language.editing.places import CheckedPlace, find_item, list_texts, locate_span
from bpc.core.language.package import PackageReading, ParsedFile
from bpc.core.language.source import Span

# Names of one item; the same name elsewhere is another one.
_LOCAL_KINDS: Final = frozenset({"variable", "column"})


class Declaration(NamedTuple):
    """The item that declares a name, and the name there."""

    text: ParsedFile
    item: syntax.Item
    occurrence: Occurrence


class Reference(NamedTuple):
    """A name where it stands, in the rules or in the tests."""

    text: ParsedFile
    occurrence: Occurrence


def find_symbol(reading: PackageReading, place: CheckedPlace) -> Occurrence | None:
    """The name at a place."""
    item = find_item(place.text.parsed.tree, place.offset)
    if item is None:
        return None
    names = OccurrenceFinder(reading.checked_rules.shared).list_in_item(item)
    here = [name for name in names if name.span.start <= place.offset <= name.span.end]
    return min(here, key=lambda name: name.span.end - name.span.start, default=None)


def find_declaration(reading: PackageReading, symbol: Symbol) -> Declaration | None:
    """The last declaration of a name: an override stands behind what it replaces."""
    finder = OccurrenceFinder(reading.checked_rules.shared)
    last = None
    for text, _ in list_texts(reading):
        for item in text.parsed.tree.items:
            if _may_declare(item, symbol):
                for occurrence in finder.list_in_item(item):
                    if occurrence.symbol == symbol and occurrence.is_declaration:
                        last = Declaration(text, item, occurrence)
    return last


_DECLARED_BY: Final[dict[str, tuple[type, ...]]] = {
    "field": (syntax.Rule,),
    "definition": (syntax.Definition,),
    "function": (syntax.FunctionDefinition,),
    "table": (syntax.TableDeclaration,),
    "enum": (syntax.EnumDeclaration,),
    "member": (syntax.EnumDeclaration,),
    "fixture": (syntax.SharedFixture,),
    "test": (syntax.Example, syntax.CaseTable, syntax.Property),
    "finding": (syntax.Requirement, syntax.Definition, syntax.Rule),
}


def _may_declare(item: syntax.Item, symbol: Symbol) -> bool:
    return isinstance(item, _DECLARED_BY.get(symbol.kind, ()))


def list_references(reading: PackageReading, place: CheckedPlace) -> list[Reference]:
    """Every place of the name at a place, declarations too, rules before tests."""
    target = find_symbol(reading, place)
    if target is None:
        return []
    if target.symbol.kind in _LOCAL_KINDS:
        item = find_item(place.text.parsed.tree, place.offset)
        items = [] if item is None else [(place.text, item)]
    else:
        items = [(text, item) for text, _ in list_texts(reading) for item in text.parsed.tree.items]
    return [*_select(reading, items, target.symbol)]


def _select(
    reading: PackageReading, items: list[tuple[ParsedFile, syntax.Item]], symbol: Symbol
) -> Iterator[Reference]:
    finder = OccurrenceFinder(reading.checked_rules.shared)
    last_word = symbol.name.rpartition(".")[2]
    for text, item in items:
        # Most items do not have the name at all, and looking at their text is faster than at their tree.
        if last_word in text.source.text[item.span.start : item.span.end]:
            for occurrence in finder.list_in_item(item):
                if occurrence.symbol == symbol:
                    yield Reference(text, occurrence)


class HoverText(NamedTuple):
    """What is shown, as Markdown, and the part of the checked text that it is about."""

    markdown: str
    span: Span


def describe_place(reading: PackageReading, place: CheckedPlace) -> HoverText | None:
    """What can be said of a place; None if there is nothing."""
    item = find_item(place.text.parsed.tree, place.offset)
    if item is None:
        return None
    context = reading.checked_rules.shared
    inspection = inspect_item(context, place.source, item, place.offset)
    occurrence = find_symbol(reading, place)
    if occurrence is not None:
        text = _describe_occurrence(reading, inspection, occurrence)
        if text is not None:
            return HoverText(text, occurrence.span)
    member = _describe_member(inspection, place.offset)
    if member is not None:
        return member
    typed_part = inspection.find_type_at(place.offset)
    return None if typed_part is None else HoverText(descriptions.describe_type(typed_part[1]), typed_part[0])


def _describe_occurrence(  # noqa: PLR0911 (one row a kind of name)
    reading: PackageReading, inspection: Inspection, occurrence: Occurrence
) -> str | None:
    name = occurrence.symbol.name
    match occurrence.symbol.kind:
        case "builtin":
            return descriptions.describe_builtin(name)
        case "unit":
            return descriptions.describe_unit(name)
        case "point":
            return descriptions.describe_point(name)
        case "fact":
            return descriptions.describe_fact(name)
        case "variable":
            kind = inspection.variables.get(name)
            return None if kind is None else descriptions.describe_type(kind)
        case "member":
            enums = reading.checked_rules.shared.enums_by_member.get(name, [])
            return descriptions.write_code("\n".join(f"{enum.name}.{name}" for enum in enums)) if enums else None
        case "column":
            return None
        case _:
            return _describe_declaration(reading, occurrence)


def _describe_declaration(reading: PackageReading, occurrence: Occurrence) -> str | None:
    declaration = find_declaration(reading, occurrence.symbol)
    if declaration is None:
        return None
    source, item = declaration.text.source, declaration.item
    context = reading.checked_rules.shared
    text = descriptions.describe_item(item, source, context, inspect_item(context, source, item))
    file = locate_span(source, item.span).file
    own_files = locate_span(reading.rules.source, Span(len(reading.rules.source.text), len(reading.rules.source.text)))
    is_foreign = bool(file.package) and file.package != own_files.file.package
    return descriptions.join_parts([text, f"From `{file.package}`, {file.path}." if is_foreign else None])


def _describe_member(inspection: Inspection, offset: int) -> HoverText | None:
    for node, _ in inspection.nodes:
        if isinstance(node, syntax.Member):
            name, span = node.member.text, node.member.span
            record = inspection.find_expr(node.record)
        elif isinstance(node, syntax.Call) and node.function.text == "recordGet" and len(node.arguments) == 2:
            literal = node.arguments[1]
            if not isinstance(literal, syntax.TextLiteral):
                continue
            name, span, record = literal.value, literal.span, inspection.find_expr(node.arguments[0])
        else:
            continue
        if span.start <= offset <= span.end and record is not None:
            text = descriptions.describe_member(record.type, name)
            return None if text is None else HoverText(text, span)
    return None
