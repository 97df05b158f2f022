"""Which messages a browser may send to the language server: about two documents in memory, and nothing else.

A message is refused with a sentence (`Invalid`), before the server sees it.
"""

from collections.abc import Mapping
from typing import Any, Final

import orjson

from bpc.core.errors import Invalid

DOCUMENTS: Final = frozenset({"memory:///rules.bpc", "memory:///tests.bpc"})
INITIALIZE: Final = "initialize"
EXECUTE: Final = "workspace/executeCommand"
METHODS: Final = frozenset(
    {
        INITIALIZE,
        EXECUTE,
        "initialized",
        "shutdown",
        "exit",
        "$/cancelRequest",
        *(
            f"textDocument/{name}"
            for name in (
                "didOpen",
                "didChange",
                "didClose",
                "didSave",
                "completion",
                "hover",
                "definition",
                "references",
                "prepareRename",
                "rename",
                "formatting",
                "documentSymbol",
                "codeAction",
                "codeLens",
            )
        ),
    }
)
ROOTS: Final = ("rootUri", "rootPath", "workspaceFolders")


def require_editor_message(text: str) -> None:
    """Raise `Invalid` unless an editor of the console may send this."""
    try:
        message = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise Invalid("the message is not JSON") from None
    if not isinstance(message, dict):
        raise Invalid("the message is not an object")
    method = message.get("method")
    if method is None and "id" in message:  # an answer to a question of the server
        return
    if method not in METHODS:
        raise Invalid(f"`{str(method)[:80]}` is not a method that this editor uses")
    parameters = message.get("params") or {}
    if isinstance(parameters, dict):
        _require_memory(str(method), parameters)


def _require_memory(method: str, parameters: Mapping[str, Any]) -> None:
    """Nothing but the two documents is named."""
    if method == INITIALIZE:
        if any(parameters.get(name) for name in ROOTS):
            raise Invalid("this editor has no folder")
        return
    if method == EXECUTE:
        addresses = parameters.get("arguments") or []
    elif method.startswith("textDocument/"):
        document = parameters.get("textDocument")
        addresses = [document.get("uri") if isinstance(document, dict) else None]
    else:
        return
    if not isinstance(addresses, list) or not all(
        isinstance(address, str) and address in DOCUMENTS for address in addresses
    ):
        raise Invalid("this editor knows only its own two documents")
