"""What is open in an editor: documents, the packages they belong to, and what was found in each.

Knows the values of the protocol, and nothing of how they are sent.
"""

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from lsprotocol import types
from pygls.uris import from_fs_path, to_fs_path

from bpc.cli.language_server.packages import OpenPackage, PackageInput, WorkspaceFiles
from bpc.core.errors import Invalid
from bpc.core.language.checking.context import LocatedDiagnostic
from bpc.core.language.editing.completion import Proposal
from bpc.core.language.editing.occurrences import SymbolKind
from bpc.core.language.editing.places import CheckedPlace, EditorPlace, EditorText, Encoding, FileName
from bpc.core.language.manifest import MANIFEST
from bpc.core.language.package import PackageReading
from bpc.core.language.source import Diagnostic, Source, Span

SOURCE: Final = "bpc"

_SEVERITIES: Final[Mapping[str, types.DiagnosticSeverity]] = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
}
_UNUSED: Final = frozenset({"unused-let", "unused-definition", "unused-column"})
_PROPOSALS: Final[Mapping[str, types.CompletionItemKind]] = {
    "keyword": types.CompletionItemKind.Keyword,
    "function": types.CompletionItemKind.Function,
    "field": types.CompletionItemKind.Field,
    "definition": types.CompletionItemKind.Variable,
    "constant": types.CompletionItemKind.Constant,
    "variable": types.CompletionItemKind.Variable,
    "enum": types.CompletionItemKind.Enum,
    "member": types.CompletionItemKind.EnumMember,
    "table": types.CompletionItemKind.Function,
    "fact": types.CompletionItemKind.Class,
    "unit": types.CompletionItemKind.Unit,
    "point": types.CompletionItemKind.Reference,
    "type": types.CompletionItemKind.TypeParameter,
    "fixture": types.CompletionItemKind.Module,
    "finding": types.CompletionItemKind.Event,
    "property": types.CompletionItemKind.Property,
}
_SYMBOLS: Final[Mapping[SymbolKind, types.SymbolKind]] = {
    "field": types.SymbolKind.Field,
    "definition": types.SymbolKind.Variable,
    "function": types.SymbolKind.Function,
    "table": types.SymbolKind.Array,
    "enum": types.SymbolKind.Enum,
    "member": types.SymbolKind.EnumMember,
    "fixture": types.SymbolKind.Module,
    "test": types.SymbolKind.Method,
    "finding": types.SymbolKind.Event,
}


def to_range(text: EditorText, span: Span) -> types.Range:
    start, end = text.find_range(span)
    return types.Range(types.Position(*start), types.Position(*end))


def from_position(text: EditorText, position: types.Position) -> int:
    return text.find_offset(EditorPlace(position.line, position.character))


def to_uri(path: Path) -> str:
    uri = from_fs_path(str(path))
    return uri or path.as_uri()


def get_symbol_kind(kind: SymbolKind) -> types.SymbolKind:
    return _SYMBOLS.get(kind, types.SymbolKind.Variable)


def make_diagnostic(
    diagnostic: Diagnostic, place: types.Range, notes_elsewhere: list[types.DiagnosticRelatedInformation]
) -> types.Diagnostic:
    """A diagnostic; its help stands below its message, as on the command line."""
    message = diagnostic.message if diagnostic.help is None else f"{diagnostic.message}\nhelp: {diagnostic.help}"
    return types.Diagnostic(
        range=place,
        message=message,
        severity=_SEVERITIES[diagnostic.severity],
        code=diagnostic.kind,
        source=SOURCE,
        tags=[types.DiagnosticTag.Unnecessary] if diagnostic.kind in _UNUSED else None,
        related_information=notes_elsewhere or None,
    )


def make_refusal(says: str, fix: str | None) -> types.Diagnostic:
    """A refusal to read a package, at the start of a document."""
    start = types.Position(0, 0)
    message = says if fix is None else f"{says}\nhelp: {fix}"
    return types.Diagnostic(
        range=types.Range(start, start), message=message, severity=types.DiagnosticSeverity.Error, source=SOURCE
    )


def make_completion(proposal: Proposal, place: types.Range, number: int) -> types.CompletionItem:
    return types.CompletionItem(
        label=proposal.label,
        kind=_PROPOSALS[proposal.kind],
        detail=proposal.detail or None,
        documentation=proposal.words or None,
        sort_text=f"{number:04}",
        text_edit=types.TextEdit(place, proposal.label),
    )


@dataclass(slots=True)
class OpenDocument:
    """A text that is open in the editor."""

    uri: str
    version: int | None
    text: EditorText


@dataclass(slots=True)
class EditorSession:
    """The documents of one editor. A place is of the package that its document belongs to."""

    encoding: Encoding = "utf-16"
    files: WorkspaceFiles = field(default_factory=WorkspaceFiles)
    documents: dict[Path, OpenDocument] = field(default_factory=dict)
    packages: dict[Path, OpenPackage] = field(default_factory=dict)
    _stale: set[Path] = field(default_factory=set)
    _refusals: dict[Path, Invalid] = field(default_factory=dict)
    _published: dict[Path, set[Path]] = field(default_factory=lambda: defaultdict(set))

    # Documents

    def open_document(self, uri: str, version: int | None, text: str) -> Path:
        """Take over a document, or a new text of one; returns its path."""
        path = to_path(uri)
        is_new = path not in self.documents
        self.documents[path] = OpenDocument(uri, version, EditorText(text, self.encoding))
        self.files.open_texts[path] = text
        if is_new:
            self.files.forget()
        self._mark_stale(path)
        return path

    def close_document(self, uri: str) -> Path:
        path = to_path(uri)
        self._mark_stale(path)
        self.documents.pop(path, None)
        self.files.open_texts.pop(path, None)
        self.files.forget()
        return path

    def forget_files(self) -> list[Path]:
        """Something changed on the disk: every package is read anew. Returns the open documents."""
        self.files.forget()
        self._stale.update(self.packages)
        return list(self.documents)

    def _mark_stale(self, path: Path) -> None:
        """The package of a document is checked again, and so are open packages that read it otherwise."""
        self._stale.add(self.find_key(path))
        self._stale.update(key for key, package in self.packages.items() if package.find_file(path) is not None)
        if path.name == MANIFEST:
            self._stale.update(self.packages)

    def find_key(self, path: Path) -> Path:
        """What names the package of a document: its folder, or the file of its rules."""
        return self.files.find_folder(path) or self.files.find_partner(path)[0]

    def find_text(self, path: Path) -> EditorText:
        document = self.documents.get(path)
        if document is not None:
            return document.text
        return EditorText(self.files.read(path).decode(errors="replace"), self.encoding)

    def get_uri(self, path: Path) -> str:
        document = self.documents.get(path)
        return to_uri(path) if document is None else document.uri

    # Packages

    def check_package(self, path: Path) -> OpenPackage:
        """The package of a document, checked as it is now."""
        key = self.find_key(path)
        package = self.packages.setdefault(key, OpenPackage())
        if key in self._stale or package.reading is None:
            self._stale.discard(key)
            self._refusals.pop(key, None)
            try:
                package.check(*self._read_input(key))
            except Invalid as refusal:
                self._refusals[key] = refusal
        return package

    def _read_input(self, key: Path) -> tuple[PackageInput, dict[FileName, Path]]:
        if self.files.find_folder(key / MANIFEST) == key:
            packages, folders = self.files.read_package(key)
            paths = {
                FileName(package.manifest.name, path): folders[package.manifest.name] / path
                for package in packages
                for path in package.files
            }
            return PackageInput(packages), paths
        rules, tests = self.files.find_partner(key)
        names = [str(rules), "tests.bpc" if tests is None else str(tests)]
        content = PackageInput(
            rules=(names[0], self.files.read(rules)), tests=(names[1], b"" if tests is None else self.files.read(tests))
        )
        return content, {FileName("", name): file for name, file in zip(names, (rules, tests), strict=True) if file}

    def find_place(self, uri: str, position: types.Position) -> tuple[OpenPackage, PackageReading, CheckedPlace] | None:
        """The place in the checked text that a position of a document is."""
        path = to_path(uri)
        if path not in self.documents:
            return None
        package = self.check_package(path)
        place = package.find_place(path, from_position(self.documents[path].text, position))
        return None if place is None else (package, *place)

    def make_location(self, package: OpenPackage, source: Source, span: Span) -> types.Location | None:
        path, own_span = package.locate(source, span)
        if path is None:
            return None
        try:
            return types.Location(self.get_uri(path), to_range(self.find_text(path), own_span))
        except Invalid:
            return None

    # Diagnostics

    def list_diagnostics(self, path: Path) -> Iterator[types.PublishDiagnosticsParams]:
        """What is to be shown for every file of a document's package; files that have none any more are emptied."""
        key, package = self.find_key(path), self.check_package(path)
        by_path: dict[Path, list[types.Diagnostic]] = {path: []}
        refusal = self._refusals.get(key)
        if refusal is not None:
            by_path[path].append(make_refusal(refusal.says, refusal.fix))
        elif package.reading is not None:
            for problem in package.reading.package.diagnostics:
                place = package.locate(*self._get_place(problem))[0] or path
                by_path.setdefault(place, []).append(self._convert(package, problem, place))
        empty_places = self._published[key] - by_path.keys()
        self._published[key] = {each for each, diagnostics in by_path.items() if diagnostics}
        for place in (*by_path, *sorted(empty_places)):
            document = self.documents.get(place)
            version = None if document is None else document.version
            yield types.PublishDiagnosticsParams(self.get_uri(place), by_path.get(place, []), version)

    @staticmethod
    def _get_place(problem: LocatedDiagnostic) -> tuple[Source, Span]:
        return problem.source, problem.diagnostic.span

    def _convert(self, package: OpenPackage, problem: LocatedDiagnostic, place: Path) -> types.Diagnostic:
        span = package.locate(*self._get_place(problem))[1]
        notes = [
            (self.make_location(package, problem.source, note.span), note.message) for note in problem.diagnostic.notes
        ]
        notes_elsewhere = [types.DiagnosticRelatedInformation(at, message) for at, message in notes if at is not None]
        return make_diagnostic(problem.diagnostic, to_range(self.find_text(place), span), notes_elsewhere)

    def list_diagnostics_at(self, package: OpenPackage, path: Path, span: Span) -> Sequence[LocatedDiagnostic]:
        """The diagnostics of a file that touch a part of it."""
        diagnostics = [] if package.reading is None else package.reading.package.diagnostics
        touching = []
        for problem in diagnostics:
            file, own_span = package.locate(*self._get_place(problem))
            if file == path and own_span.start <= span.end and span.start <= own_span.end:
                touching.append(problem)
        return touching


def to_path(uri: str) -> Path:
    """The file that an address means. A document that is no file gets a path that no file has."""
    parts = urlsplit(uri)
    file = to_fs_path(uri) if parts.scheme == "file" else None
    if file is None:
        return Path("/\0", parts.scheme, *[part for part in unquote(parts.netloc + parts.path).split("/") if part])
    return Path(os.path.normpath(file))
