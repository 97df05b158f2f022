"""The language server: messages of the protocol in and out, over standard input and output.

A document is checked as soon as nothing more of its typing waits, and the result is sent at once. Memory is cleaned up
while nobody types: the trees of a large package are many objects, and looking through them takes longer than checking.
"""

import asyncio
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

import bpc
from bpc.cli.language_server import answers
from bpc.cli.language_server.command import FinishedRun, run_in_child
from bpc.cli.language_server.session import EditorSession, to_path
from bpc.core.errors import Invalid
from bpc.core.language.editing.places import EditorPlace, EditorText, Encoding

_CHECK_AFTER: Final = 0.002  # seconds: what was typed meanwhile is checked together
_CLEAN_AFTER: Final = 1.5
_CHECKS_BEFORE_CLEANING: Final = 200
_TRIGGERS: Final = [".", '"', "@", "("]
_ENCODINGS: Final[dict[str, Encoding]] = {"utf-8": "utf-8", "utf-16": "utf-16", "utf-32": "utf-32"}


class RuleLanguageServer(LanguageServer):
    """The server of one editor."""

    def __init__(self, *, memory_only: bool) -> None:
        super().__init__("bpc", bpc.__version__, text_document_sync_kind=types.TextDocumentSyncKind.Full)
        self.session = EditorSession()
        self._memory_only = memory_only
        self._waiting: dict[Path, asyncio.TimerHandle] = {}
        self._cleaning: asyncio.TimerHandle | None = None
        self._checks = 0
        self._runs: dict[Path, asyncio.Task[None]] = {}

    def start_session(self, params: types.InitializeParams) -> None:
        encoding = _ENCODINGS.get(str(getattr(self.workspace.position_encoding, "value", "utf-16")), "utf-16")
        self.session = EditorSession(encoding=encoding)
        if self._memory_only:
            return
        folders = [folder.uri for folder in params.workspace_folders or ()]
        if not folders and params.root_uri:
            folders = [params.root_uri]
        self.session.files.roots = [Path(path).resolve() for uri in folders if (path := to_fs_path(uri))]

    # Checking

    def check_soon(self, path: Path) -> None:
        """Check the package of a document when nothing more waits."""
        if path in self._waiting:
            return
        loop = asyncio.get_running_loop()
        self._waiting[path] = loop.call_later(_CHECK_AFTER, self._check, path)

    def _check(self, path: Path) -> None:
        self._waiting.pop(path, None)
        for params in self.session.list_diagnostics(path):
            self.text_document_publish_diagnostics(params)
        self._clean_later()

    def _clean_later(self) -> None:
        self._checks += 1
        if self._cleaning is not None:
            self._cleaning.cancel()
        if self._checks >= _CHECKS_BEFORE_CLEANING:
            self._clean()
        else:
            self._cleaning = asyncio.get_running_loop().call_later(_CLEAN_AFTER, self._clean)

    def _clean(self) -> None:
        self._checks, self._cleaning = 0, None
        gc.collect()

    # Tests

    def run_tests_of(self, path: Path) -> None:
        """Run the tests of a document's package; a run that has not ended is ended first."""
        key = self.session.find_key(path)
        if key in self._runs:
            self._runs[key].cancel()
        self._runs[key] = asyncio.get_running_loop().create_task(self._run_tests(key, path))

    async def _run_tests(self, key: Path, path: Path) -> None:
        package = self.session.check_package(path)
        if package.reading is None or package.reading.package.program is None:
            return
        texts = package.content.to_texts()
        run = await run_in_child(texts)
        if run is None or package.content.to_texts()[:2] != texts[:2]:
            return
        package.outcome, package.outcome_texts = run.outcome, texts
        self._report_run(run)
        workspace = self.client_capabilities.workspace
        if workspace is not None and workspace.code_lens is not None and workspace.code_lens.refresh_support:
            await self.workspace_code_lens_refresh_async(None)
        self._runs.pop(key, None)

    def _report_run(self, run: FinishedRun) -> None:
        for line in run.failures:
            self.window_log_message(types.LogMessageParams(types.MessageType.Warning, line))
        failures = len(run.outcome.failed_tests)
        words = f"{failures} tests failed" if failures else f"all {run.outcome.cases} cases passed"
        self.window_log_message(types.LogMessageParams(types.MessageType.Info, f"bpc: {words}"))

    def stop_runs(self) -> None:
        for task in self._runs.values():
            task.cancel()


def create_server(*, memory_only: bool = False) -> RuleLanguageServer:
    """A server with all its features."""
    server = RuleLanguageServer(memory_only=memory_only)
    _register_documents(server)
    features: list[tuple[str, Any, Any]] = [
        (types.TEXT_DOCUMENT_HOVER, answers.hover, None),
        (types.TEXT_DOCUMENT_COMPLETION, answers.complete, types.CompletionOptions(trigger_characters=_TRIGGERS)),
        (types.TEXT_DOCUMENT_DEFINITION, answers.find_definition, None),
        (types.TEXT_DOCUMENT_REFERENCES, answers.find_references, None),
        (types.TEXT_DOCUMENT_PREPARE_RENAME, answers.prepare_rename, None),
        (types.TEXT_DOCUMENT_RENAME, answers.rename, types.RenameOptions(prepare_provider=True)),
        (types.TEXT_DOCUMENT_FORMATTING, answers.format_document, None),
        (types.TEXT_DOCUMENT_DOCUMENT_SYMBOL, answers.list_symbols, None),
        (
            types.TEXT_DOCUMENT_CODE_ACTION,
            answers.list_code_actions,
            types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix]),
        ),
        (types.TEXT_DOCUMENT_CODE_LENS, answers.list_code_lenses, None),
    ]
    for method, answer, options in features:
        server.feature(method, options)(_make_handler(server, answer))
    return server


def _make_handler(server: RuleLanguageServer, answer: Callable[[EditorSession, Any], Any]) -> Callable[[Any], Any]:
    def handle_request(params: Any) -> Any:
        try:
            return answer(server.session, params)
        except Invalid as refusal:
            says = refusal.says if refusal.fix is None else f"{refusal.says}: {refusal.fix}"
            raise JsonRpcInvalidParams(message=says) from None

    return handle_request


def _register_documents(server: RuleLanguageServer) -> None:
    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        server.start_session(params)

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def open_document(params: types.DidOpenTextDocumentParams) -> None:
        document = params.text_document
        server.check_soon(server.session.open_document(document.uri, document.version, document.text))

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def change_document(params: types.DidChangeTextDocumentParams) -> None:
        uri, version = params.text_document.uri, params.text_document.version
        document = server.session.documents.get(to_path(uri))
        text = "" if document is None else document.text.text
        for change in params.content_changes:
            text = _apply_change(server.session, text, change)
        server.check_soon(server.session.open_document(uri, version, text))

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def close_document(params: types.DidCloseTextDocumentParams) -> None:
        path = server.session.close_document(params.text_document.uri)
        empty = types.PublishDiagnosticsParams(params.text_document.uri, [])
        server.text_document_publish_diagnostics(empty)
        for other in server.session.documents:
            if server.session.find_key(other) == server.session.find_key(path):
                server.check_soon(other)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def save_document(params: types.DidSaveTextDocumentParams) -> None:
        for path in server.session.forget_files():
            server.check_soon(path)
        server.run_tests_of(to_path(params.text_document.uri))

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def change_files(_params: types.DidChangeWatchedFilesParams) -> None:
        for path in server.session.forget_files():
            server.check_soon(path)

    @server.command(answers.RUN_TESTS)
    def start_tests(uri: str) -> None:
        server.run_tests_of(to_path(uri))

    @server.feature(types.SHUTDOWN)
    def stop_session(_params: None) -> None:
        server.stop_runs()


def _apply_change(session: EditorSession, text: str, change: types.TextDocumentContentChangeEvent) -> str:
    if isinstance(change, types.TextDocumentContentChangeWholeDocument):
        return change.text
    places = EditorText(text, session.encoding)
    start, end = (
        places.find_offset(EditorPlace(place.line, place.character)) for place in (change.range.start, change.range.end)
    )
    return text[:start] + change.text + text[end:]


def run_server(*, memory_only: bool) -> None:
    """Serve until the editor closes the connection."""
    gc.disable()
    create_server(memory_only=memory_only).start_io()
