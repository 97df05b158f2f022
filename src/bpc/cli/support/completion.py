"""Completion of SKUs, ids and names in the shell, from the running service.

Pressing Tab gives an answer within a second, or nothing: without a service, a key or a permission, the shell
completes nothing and says nothing.
"""

import json
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import typer

if TYPE_CHECKING:
    from bpc.cli.support.service import ServiceAddress

ANSWER_SECONDS: Final = 1.0
PAGE: Final = 200

Complete = Callable[[typer.Context, str], list[tuple[str, str]]]


def complete_from(path: str, value: str, *descriptions: str) -> Complete:
    """A completion of the member `value` of each item that `path` lists, described by the first member that is set."""

    def complete(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
        return [
            (str(item[value]), next((str(item[name]) for name in descriptions if item.get(name)), ""))
            for item in _list_in_time(path, ctx.params.get("url"))
            if str(item.get(value) or "").startswith(incomplete)
        ]

    return complete


def _list_in_time(path: str, url: str | None) -> list[Mapping[str, Any]]:
    """What the service lists, or nothing if it does not answer in time."""
    items: list[Mapping[str, Any]] = []

    def ask(service: "ServiceAddress") -> None:
        with suppress(Exception):  # the shell must not print a trace between the words that somebody types
            items.extend(_list_items(path, service))

    with suppress(Exception):
        from bpc.cli.support.service import locate_service  # noqa: PLC0415 (only a completion needs it)

        asking = threading.Thread(target=ask, args=(locate_service(url),), daemon=True)
        asking.start()
        asking.join(ANSWER_SECONDS)
        return [] if asking.is_alive() else items
    return []


def _list_items(path: str, service: "ServiceAddress") -> list[Mapping[str, Any]]:
    from http.client import HTTPConnection, HTTPSConnection  # noqa: PLC0415 (only a completion needs them)

    parts = urlsplit(service.url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=ANSWER_SECONDS)
    try:
        connection.request("GET", f"{path}?limit={PAGE}", headers={"Authorization": f"Bearer {service.api_key}"})
        items: list[Mapping[str, Any]] = json.loads(connection.getresponse().read())["items"]
        return items
    finally:
        connection.close()


complete_skus = complete_from("/v1/battery-products", "sku", "name")
complete_documents = complete_from("/v1/documents", "document_id", "external_ref", "kind")
complete_facts = complete_from("/v1/facts", "fact_id", "fact_key")
complete_snapshots = complete_from("/v1/snapshots", "snapshot_id", "label", "status")
complete_runs = complete_from("/v1/compile-runs", "run_id", "created_at")
complete_packages = complete_from("/v1/rule-packages", "name")
complete_suppliers = complete_from("/v1/suppliers", "name")
complete_current_versions = complete_from("/v1/passports", "current_passport_version_id")


def complete_passports(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """SKUs, and the ids of current versions once an id is begun."""
    return [*complete_skus(ctx, incomplete), *(complete_current_versions(ctx, incomplete) if incomplete else [])]
