"""The service that a command talks to: its address and an API key for it.

address: --url, else BPC_URL, else the running `bpc up` of this data folder, else port 8080 of this machine
key:     BPC_API_KEY, else, for an address on this machine, the key that `bpc up` keeps

What is set explicitly wins. In prod nothing is found: both must be set. A key is never an argument, because other users
can see arguments, and the key of this machine is never sent to another one.
"""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from bpc.cli.support.arguments import LOCAL_API_URL
from bpc.core.errors import Invalid

if TYPE_CHECKING:
    from bpc.runtime.running_service import RunningService
    from bpc.runtime.settings import Settings

LOCAL_HOSTS: Final = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAddress:
    """An address, and the key that was found for it."""

    url: str
    api_key: str | None


def locate_service(url: str | None) -> ServiceAddress:
    """Where to send requests. Reads the settings only if the address or the key is not set."""
    address, key = url or os.environ.get("BPC_URL"), _read_key_variable()
    if address is not None and key is not None:
        return ServiceAddress(url=address, api_key=key)
    running = None
    if address is None or _is_local(address):
        running = _find_running_service(is_required=key is None)
    if address is None:
        address = LOCAL_API_URL if running is None else running.url
    if key is None and _is_local(address):
        key = running.api_key if running is not None and running.url == address else None
        key = key or _read_first_key()
    return ServiceAddress(url=address, api_key=key)


def _read_key_variable() -> str | None:
    key = os.environ.get("BPC_API_KEY", "").strip()
    if key and (not key.isascii() or not key.isprintable()):
        raise Invalid("BPC_API_KEY is not an API key", fix="copy the whole key again, starting with `bpc_`")
    return key or None


def _is_local(address: str) -> bool:
    try:
        return urlsplit(address).hostname in LOCAL_HOSTS
    except ValueError:
        return False


def _find_running_service(*, is_required: bool) -> "RunningService | None":
    # Slow to import, and not needed where address and key are set.
    from bpc.runtime.running_service import find_service  # noqa: PLC0415
    from bpc.runtime.settings import ConfigMissing  # noqa: PLC0415

    try:
        settings = _load_settings()
    except ConfigMissing:
        if is_required:
            raise
        return None
    return None if settings.env == "prod" else find_service(settings.data_dir)


def _read_first_key() -> str | None:
    from bpc.cli.support.session import read_first_key  # noqa: PLC0415 (slow to import)

    key = read_first_key(_load_settings().data_dir)
    return None if key is None else key.text


def _load_settings() -> "Settings":
    from bpc.cli.support.session import load_settings_and_logs  # noqa: PLC0415 (slow to import)

    return load_settings_and_logs("online")
