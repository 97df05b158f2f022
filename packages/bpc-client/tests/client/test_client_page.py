"""docs/client.md: what it shows is Python, and calls what there is."""

import ast
import re
from pathlib import Path

import bpc_client
import pytest
from bpc_client import Client

PAGE = (Path(__file__).resolve().parents[4] / "docs" / "client.md").read_text()
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("snippet", SNIPPETS, ids=range(len(SNIPPETS)))
def test_a_snippet_is_python(snippet: str) -> None:
    compile(snippet, "client.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_every_method_it_calls_is_there() -> None:
    called = set(re.findall(r"\bbpc\.([a-z_]+)\b", PAGE)) - {"client"}

    assert len(called) > 5
    assert {name for name in called if not hasattr(Client, name)} == set()


def test_every_error_it_names_is_there() -> None:
    named = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)

    assert len(named) == 5
    assert [name for name in named if name not in bpc_client.__all__] == []
