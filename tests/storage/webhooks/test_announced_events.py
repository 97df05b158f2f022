"""Which events are announced: an event type of webhooks is appended by `append_and_announce` and by nothing else."""

import ast
from functools import cache
from pathlib import Path

from bpc.core.webhooks import WEBHOOK_TYPES

PASSES_ON = "announce_failures"  # it hands the type that it is given to `append_and_announce`
SOURCES = Path(__file__).resolve().parents[3] / "src" / "bpc"


@cache
def list_all_calls() -> list[ast.Call]:
    """Every call in the product. Collected once: it takes seconds."""
    files = sorted(SOURCES.rglob("*.py"))
    return [node for file in files for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]


def list_calls(name: str) -> list[ast.Call]:
    """Every call of a function or method called `name`."""
    return [call for call in list_all_calls() if name in {getattr(call.func, "id", ""), getattr(call.func, "attr", "")}]


def list_texts(call: ast.Call) -> list[str]:
    """The texts among the arguments of a call, and among the arguments of calls within it."""
    return [
        node.value
        for argument in call.args
        for node in ast.walk(argument)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


def test_every_event_type_of_webhooks_is_announced_where_it_is_appended() -> None:
    calls = [*list_calls("append_and_announce"), *list_calls(PASSES_ON)]
    announced = [[text for text in list_texts(call) if text in WEBHOOK_TYPES] for call in calls]

    assert sorted(announced) == [[], *sorted([event_type] for event_type in WEBHOOK_TYPES)], "one passes a type on"
    assert sorted(WEBHOOK_TYPES) == [
        "ACTIVATION_FAILED",
        "API_KEY_CHANGED",
        "API_KEY_CREATED",
        "API_KEY_REVOKED",
        "COMPILE_FAILED",
        "COMPILE_RUN_FINISHED",
        "DOCUMENT_INGEST_FAILED",
        "DOCUMENT_PARSE_FAILED",
        "DOCUMENT_REJECTED",
        "EXPORT_CREATED",
        "EXPORT_FAILED",
        "FACTS_PARSED",
        "ITEMS_ISSUED",
        "PASSPORT_ACTIVATED",
        "PASSPORT_REVOKED",
        "PASSPORT_SIGNED",
        "PASSPORT_SIGN_FAILED",
        "PASSPORT_WAIVED",
        "QR_FAILED",
        "QR_GENERATED",
        "REPLAY_MISMATCH",
        "RULES_PUBLISHED",
        "RULE_TESTS_ABORTED",
        "RULE_TESTS_FAILED",
        "SIGNING_KEY_CHANGED",
        "SIGNING_KEY_COMPROMISED",
        "SIGNING_KEY_CREATED",
        "SNAPSHOT_BUILD_FAILED",
        "TENANT_KEY_COMPROMISED",
        "TENANT_KEY_CREATED",
        "TENANT_KEY_RETIRED",
        "VIEW_REQUESTED",
        "WEBHOOK_ENDPOINT_DISABLED",
        "WEBHOOK_ENDPOINT_ENABLED",
    ]


def test_no_event_type_of_webhooks_is_appended_without_being_announced() -> None:
    names = ("new_event", "append", "append_act")

    appended = [text for name in names for call in list_calls(name) for text in list_texts(call)]

    assert set(appended) & WEBHOOK_TYPES.keys() == set()
