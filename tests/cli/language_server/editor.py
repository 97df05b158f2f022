"""An editor in tests: documents are opened and changed, and places are found by what stands there."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from lsprotocol import types
from pytest_lsp import LanguageClient

from bpc.core.language.editing.places import EditorPlace, EditorText

CURSOR = "|"
SECONDS = 60


@dataclass(slots=True)
class Editor:
    """One open folder; texts are those that the server knows."""

    client: LanguageClient
    folder: Path
    texts: dict[str, str] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    published: dict[str, types.PublishDiagnosticsParams] = field(default_factory=dict)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def get_uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    def get_document(self, name: str) -> types.TextDocumentIdentifier:
        return types.TextDocumentIdentifier(uri=self.get_uri(name))

    async def open(self, name: str, text: str, *, on_disk: bool = False) -> list[types.Diagnostic]:
        """Open a document, and wait for what is wrong with it."""
        if on_disk:
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.texts[name], self.versions[name] = text, 1
        item = types.TextDocumentItem(uri=self.get_uri(name), language_id="bpc", version=1, text=text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(text_document=item))
        return await self.wait_for_version(name)

    async def change(self, name: str, text: str) -> list[types.Diagnostic]:
        """Replace the text of a document, and wait for what is wrong with it."""
        self.texts[name] = text
        self.versions[name] += 1
        self.client.text_document_did_change(
            types.DidChangeTextDocumentParams(
                text_document=types.VersionedTextDocumentIdentifier(self.versions[name], self.get_uri(name)),
                content_changes=[types.TextDocumentContentChangeWholeDocument(text=text)],
            )
        )
        return await self.wait_for_version(name)

    def __post_init__(self) -> None:
        features = self.client.protocol.fm.features
        inherited = features[types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS]

        def receive(params: types.PublishDiagnosticsParams) -> None:
            inherited(params)
            self.published[params.uri] = params
            self._news.set()

        features[types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS] = receive
        self.client.feature(types.WORKSPACE_CODE_LENS_REFRESH)(lambda _params: None)

    async def wait_for_version(self, name: str) -> list[types.Diagnostic]:
        """Wait for the diagnostics of the last version of a document."""
        async with asyncio.timeout(SECONDS):
            while True:
                params = self.published.get(self.get_uri(name))
                if params is not None and params.version == self.versions[name]:
                    return list(params.diagnostics)
                self._news.clear()
                await self._news.wait()

    def find(self, name: str, words: str) -> types.Position:
        """The place of the `|` in these words, which stand once in the document."""
        before, _, after = words.partition(CURSOR)
        text = self.texts[name]
        assert text.count(before + after) == 1, (words, text.count(before + after))
        place = EditorText(text).find_place(text.index(before + after) + len(before))
        return types.Position(*place)

    def cut(self, name: str, place: types.Range) -> str:
        """What stands in a range of a document, as an editor that counts UTF-16 units sees it."""
        text = EditorText(self.texts[name])
        start, end = (text.find_offset(EditorPlace(each.line, each.character)) for each in (place.start, place.end))
        return text.text[start:end]

    def apply(self, name: str, edits: list[types.TextEdit]) -> str:
        """The document after edits."""
        text = EditorText(self.texts[name])
        result = text.text
        for edit in sorted(edits, key=lambda each: (each.range.start.line, each.range.start.character), reverse=True):
            start, end = (
                text.find_offset(EditorPlace(place.line, place.character))
                for place in (edit.range.start, edit.range.end)
            )
            result = result[:start] + edit.new_text + result[end:]
        return result
