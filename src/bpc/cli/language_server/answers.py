"""Answers to what an editor asks about a place in a document."""

from collections.abc import Iterator

from lsprotocol import types

from bpc.cli.language_server.session import (
    EditorSession,
    from_position,
    get_symbol_kind,
    make_completion,
    to_path,
    to_range,
)
from bpc.core.language.editing.completion import list_proposals
from bpc.core.language.editing.edits import TextEdit, find_renamed
from bpc.core.language.editing.inspection import find_cursor_word
from bpc.core.language.editing.lookup import describe_place, find_declaration, find_symbol, list_references
from bpc.core.language.editing.outline import OutlineEntry, list_lenses, list_outline
from bpc.core.language.editing.places import CheckedPlace, EditorText
from bpc.core.language.formatting import format_tree
from bpc.core.language.parsing.parse import parse
from bpc.core.language.source import Source, Span, has_errors

RUN_TESTS = "bpc.runTests"
_MAX_FIXED = 5


def hover(session: EditorSession, params: types.HoverParams) -> types.Hover | None:
    target = session.find_place(params.text_document.uri, params.position)
    if target is None:
        return None
    package, reading, place = target
    text = describe_place(reading, place)
    if text is None:
        return None
    location = session.make_location(package, place.source, text.span)
    content = types.MarkupContent(types.MarkupKind.Markdown, text.markdown)
    return types.Hover(content, None if location is None else location.range)


def complete(session: EditorSession, params: types.CompletionParams) -> types.CompletionList:
    target = session.find_place(params.text_document.uri, params.position)
    if target is None:
        return types.CompletionList(is_incomplete=False, items=[])
    _, reading, place = target
    cursor = find_cursor_word(place.source.text, place.offset)
    text = session.documents[to_path(params.text_document.uri)].text
    span = Span(cursor.start - place.file.start, place.offset - place.file.start)
    word_range = to_range(text, span)
    items = [make_completion(each, word_range, number) for number, each in enumerate(list_proposals(reading, place))]
    return types.CompletionList(is_incomplete=False, items=items)


def find_definition(session: EditorSession, params: types.DefinitionParams) -> types.Location | None:
    target = session.find_place(params.text_document.uri, params.position)
    if target is None:
        return None
    package, reading, place = target
    occurrence = find_symbol(reading, place)
    if occurrence is None:
        return None
    if occurrence.symbol.bound_at is not None:  # a variable: the place where it is bound
        at = occurrence.symbol.bound_at
        return session.make_location(package, place.source, Span(at, at + len(occurrence.symbol.name)))
    declaration = find_declaration(reading, occurrence.symbol)
    if declaration is None:
        return None
    return session.make_location(package, declaration.text.source, declaration.occurrence.span)


def find_references(session: EditorSession, params: types.ReferenceParams) -> list[types.Location]:
    target = session.find_place(params.text_document.uri, params.position)
    if target is None:
        return []
    package, reading, place = target
    locations = [
        session.make_location(package, text.source, occurrence.span)
        for text, occurrence in list_references(reading, place)
        if params.context.include_declaration or not occurrence.is_declaration
    ]
    return [location for location in locations if location is not None]


def prepare_rename(session: EditorSession, params: types.PrepareRenameParams) -> types.PrepareRenamePlaceholder | None:
    """The name that would be changed; `Invalid` if it cannot be."""
    target = session.find_place(params.text_document.uri, params.position)
    if target is None:
        return None
    package, reading, place = target
    occurrence = find_renamed(reading, place)
    location = session.make_location(package, place.source, occurrence.span)
    return None if location is None else types.PrepareRenamePlaceholder(location.range, occurrence.symbol.name)


def rename(session: EditorSession, params: types.RenameParams) -> types.WorkspaceEdit | None:
    """The edits of every file; `Invalid` if the name cannot be this one."""
    target = session.find_place(params.text_document.uri, params.position)
    if target is None:
        return None
    package, reading, place = target
    changes: dict[str, list[types.TextEdit]] = {}
    for edit in package.list_rename_edits(reading, place, params.new_name):
        path = package.paths[edit.file]
        changes.setdefault(session.get_uri(path), []).append(_convert_edit(session.find_text(path), edit))
    return types.WorkspaceEdit(changes)


def _convert_edit(text: EditorText, edit: TextEdit) -> types.TextEdit:
    return types.TextEdit(to_range(text, edit.span), edit.words)


def format_document(session: EditorSession, params: types.DocumentFormattingParams) -> list[types.TextEdit]:
    """The edit that puts a document into its standard form; none if it has a mistake."""
    path = to_path(params.text_document.uri)
    document = session.documents.get(path)
    package = None if document is None else session.check_package(path)
    if document is None or package is None or package.find_file(path) is None or package.reading is None:
        return []
    source = Source(str(path), document.text.text)
    result = parse(source, language=package.reading.rules.parsed.tree.language)
    if has_errors(result.diagnostics):
        return []
    before, after = source.text, format_tree(result.tree, source)
    return [] if before == after else [_make_smallest_edit(document.text, before, after)]


def _make_smallest_edit(text: EditorText, before: str, after: str) -> types.TextEdit:
    """What differs, so that the cursor stays where it is."""
    start, shortest = 0, min(len(before), len(after))
    while start < shortest and before[start] == after[start]:
        start += 1
    end = 0
    while end < shortest - start and before[-1 - end] == after[-1 - end]:
        end += 1
    return types.TextEdit(to_range(text, Span(start, len(before) - end)), after[start : len(after) - end])


def list_symbols(session: EditorSession, params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
    target = session.find_place(params.text_document.uri, types.Position(0, 0))
    if target is None:
        return []
    text = session.documents[to_path(params.text_document.uri)].text
    place = target[2]
    return [_convert_entry(text, place, entry) for entry in list_outline(place)]


def _convert_entry(text: EditorText, place: CheckedPlace, entry: OutlineEntry) -> types.DocumentSymbol:
    start = place.file.start
    whole, name = (to_range(text, Span(span.start - start, span.end - start)) for span in (entry.span, entry.name_span))
    return types.DocumentSymbol(
        name=entry.name,
        kind=get_symbol_kind(entry.kind),
        range=whole,
        selection_range=name,
        detail=entry.detail or None,
        children=[_convert_entry(text, place, part) for part in entry.parts] or None,
    )


def list_code_actions(session: EditorSession, params: types.CodeActionParams) -> list[types.CodeAction]:
    """Quick fixes of the mistakes in a range; each was tried, and removes its mistake."""
    return [*_iterate_actions(session, params)]


def _iterate_actions(session: EditorSession, params: types.CodeActionParams) -> Iterator[types.CodeAction]:
    path = to_path(params.text_document.uri)
    document = session.documents.get(path)
    if document is None:
        return
    package = session.check_package(path)
    offsets = [from_position(document.text, place) for place in (params.range.start, params.range.end)]
    for problem in session.list_diagnostics_at(package, path, Span(*offsets))[:_MAX_FIXED]:
        for title, edit in package.list_fixes(problem):
            target = package.paths[edit.file]
            changes = {session.get_uri(target): [_convert_edit(session.find_text(target), edit)]}
            yield types.CodeAction(
                title=title, kind=types.CodeActionKind.QuickFix, edit=types.WorkspaceEdit(changes), is_preferred=True
            )


def list_code_lenses(session: EditorSession, params: types.CodeLensParams) -> list[types.CodeLens]:
    """The tests of each field, requirement and test, and how they ended."""
    target = session.find_place(params.text_document.uri, types.Position(0, 0))
    if target is None:
        return []
    package, reading, place = target
    text = session.documents[to_path(params.text_document.uri)].text
    return [
        types.CodeLens(
            to_range(text, Span(lens.span.start - place.file.start, lens.span.end - place.file.start)),
            types.Command(lens.words, RUN_TESTS, arguments=[params.text_document.uri]),
        )
        for lens in list_lenses(reading, place, package.outcome)
    ]
