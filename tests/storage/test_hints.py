"""The database layer names no route, setting or command; the API and the command line do, for each of its hints."""

import ast
import re
from pathlib import Path

from bpc.api.http.error_responses import CLIENT_STEPS, answer_refusal
from bpc.cli.support.output import COMMAND_STEPS, find_fix
from bpc.core.errors import UnknownResource
from bpc.storage.audit.signing_keys import SigningKeyHasOtherName
from bpc.storage.migrate import MigrationBlocked

SOURCES = Path(__file__).resolve().parents[2] / "src" / "bpc" / "storage"
OF_UPPER_LAYERS = re.compile(r"GET /v1|POST /v1|`bpc |BPC_[A-Z]+_|BPC_DATA|DATABASE_URL")


def list_texts() -> list[tuple[str, str]]:
    """Every text in the database layer that is neither a docstring nor part of one, with its file."""
    texts = []
    for file in sorted(SOURCES.rglob("*.py")):
        tree = ast.parse(file.read_text())
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        texts += [
            (file.name, node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
        ]
    return texts


def list_hints() -> set[str]:
    """The keys of all hints that the database layer can raise."""
    hints = set[str]()
    for file in SOURCES.rglob("*.py"):
        for call in (node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)):
            for keyword in call.keywords:
                # In capitals it is the kind of an actor, as it is stored.
                is_stored_kind = isinstance(keyword.value, ast.Constant) and str(keyword.value.value).isupper()
                if isinstance(keyword.value, ast.Constant) and keyword.arg in {"hint", "kind"} and not is_stored_kind:
                    start = "list " if keyword.arg == "kind" else ""
                    hints.add(start + str(keyword.value.value))
            if getattr(call.func, "id", "") == "UnknownResource" and isinstance(call.args[0], ast.Constant):
                hints.add("list " + str(call.args[0].value))
    return hints


def test_the_database_layer_names_no_route_setting_or_command() -> None:
    assert [(file, text) for file, text in list_texts() if OF_UPPER_LAYERS.search(text)] == []


def test_every_hint_of_the_database_layer_has_a_sentence() -> None:
    hints = list_hints()

    assert len(hints) > 25
    assert hints - CLIENT_STEPS.keys() - COMMAND_STEPS.keys() == set()


def test_every_kind_that_the_api_serves_says_how_to_list_it() -> None:
    only_on_the_command_line = {"list signing key", "list tenant"}

    listed = {hint for hint in list_hints() if hint.startswith("list ")}

    assert listed - CLIENT_STEPS.keys() == only_on_the_command_line


def test_the_same_refusal_names_a_route_in_the_api_and_a_command_on_the_command_line() -> None:
    refusal = UnknownResource("API key", 7)

    assert b"there is no API key `7`; list them with GET /v1/api-keys" in bytes(answer_refusal(refusal).body)
    assert find_fix(refusal) == "`bpc apikeys list` shows them"


def test_a_hint_is_completed_from_the_details_of_its_refusal() -> None:
    assert find_fix(SigningKeyHasOtherName("new", "old")) == (
        "create one with `bpc keys add new --new`, or set BPC_SIGNING_KEY_ID=old"
    )
    assert find_fix(MigrationBlocked("0009_x.sql", "process 7 waits")) == (
        "process 7 waits; end it, or wait, then run `bpc migrate` again"
    )
    assert b"GET /v1/documents/{document_id}/versions" in bytes(
        answer_refusal(UnknownResource("document version", 7)).body
    )
