"""Which events are announced: an event type of webhooks is appended by `append_and_announce` and by nothing else."""

import ast
from functools import cache
from pathlib import Path

from bpc.core.webhooks import WEBHOOK_TYPES

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
    announced = [
        [text for text in list_texts(call) if text in WEBHOOK_TYPES] for call in list_calls("append_and_announce")
    ]

    assert sorted(announced) == sorted([event_type] for event_type in WEBHOOK_TYPES)
    assert sorted(WEBHOOK_TYPES) == [
        "FACTS_PARSED",
        "PASSPORT_ACTIVATED",
        "PASSPORT_REVOKED",
        "PASSPORT_SIGNED",
        "PASSPORT_WAIVED",
        "REPLAY_MISMATCH",
        "RULES_PUBLISHED",
    ]


def test_no_event_type_of_webhooks_is_appended_without_being_announced() -> None:
    names = ("new_event", "append", "append_act")

    appended = [text for name in names for call in list_calls(name) for text in list_texts(call)]

    assert set(appended) & WEBHOOK_TYPES.keys() == set()
