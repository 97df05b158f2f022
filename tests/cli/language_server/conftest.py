"""A language server as an editor starts it: the real program, over standard input and output."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_lsp
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities


@pytest_lsp.fixture(config=ClientServerConfig(server_command=[sys.executable, "-m", "bpc", "rules", "lsp"]))  # type: ignore[untyped-decorator]
async def client(lsp_client: LanguageClient, tmp_path: Path) -> AsyncIterator[None]:
    """An editor like Visual Studio Code, with the folder `tmp_path` open."""
    params = types.InitializeParams(
        capabilities=client_capabilities("visual-studio-code"),
        workspace_folders=[types.WorkspaceFolder(uri=tmp_path.as_uri(), name="rules")],
    )
    await lsp_client.initialize_session(params)
    yield
    await lsp_client.shutdown_session()
