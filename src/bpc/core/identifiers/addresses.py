"""Addresses: what the code on a battery says, for as long as the battery exists.

    GS1        /01/{gtin}/21/{serial}     a Digital Link, under the maker's host
    OWN        /p/{battery id}            an address of ours
    IEC61406   https://maker.example/…    an identification link of IEC 61406, as the maker composed it

Pure. `make_address` writes what a battery is found by. `read_lookup_text` reads what somebody scanned or typed: a link
of any scheme, the text below a GS1 code, or a bare serial number.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal
from uuid import UUID

from bpc.core.formats.ids import BatteryId, parse_uuid
from bpc.core.identifiers.gs1 import BadIdentifier, Gs1Item, build_digital_link, read_digital_link, read_element_text

AddressScheme = Literal["GS1", "OWN", "IEC61406"]
Granularity = Literal["MODEL", "BATCH", "ITEM"]

MAX_LINK_CHARS: Final = 255  # IEC 61406-1: the longest identification link
_HOST: Final = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}")
_OWN_PATH: Final = re.compile(r"(?:/[^/]+)*/p/([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})")
_LINK: Final = re.compile(r"(https?)://([^/?#]*)([^?#]*)(\?[^#]*)?(#.*)?")
# RFC 3986 appendix A: what a path and a query may hold.
_LINK_CHARS: Final = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/?]|%[0-9A-Fa-f]{2})*")


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupText:
    """What a scanned or typed text asks for. Of a URL `link` is set too: it may be the maker's own address."""

    item: Gs1Item | None = None
    battery_id: UUID | None = None
    link: str | None = None
    serial: str | None = None


def make_address(
    scheme: AddressScheme, battery: BatteryId, *, base_url: str | None, gtin: str | None, serial: str, link: str | None
) -> str:
    """The address of a battery: a URL if the product has a host, otherwise its path."""
    if scheme == "IEC61406" and link is not None:
        return link
    if scheme == "GS1" and gtin is not None:
        return (base_url or "") + build_digital_link(gtin, serial=serial)
    return f"{base_url or ''}/p/{battery}"


def parse_base_url(text: str) -> str:
    """The host that addresses are under, without a slash at the end."""
    parts = _LINK.fullmatch(text.rstrip("/"))
    if parts is None or parts[1] != "https" or not _HOST.fullmatch(parts[2]) or parts[4] or parts[5]:
        raise BadIdentifier("base URL", "is not a host with https", "write it like https://id.example.com")
    if not _LINK_CHARS.fullmatch(parts[3]):
        raise BadIdentifier("base URL", "has a character that a URL does not allow", "leave it out or escape it")
    return text.rstrip("/")


def is_domain(text: str) -> bool:
    """Whether it is a domain, in lower case, without scheme, port and path; an IP address is none."""
    return _HOST.fullmatch(text) is not None


def parse_host(text: str) -> str:
    """A domain, in lower case, without scheme, port and path."""
    host = text.rstrip(".")
    if not is_domain(host):
        raise BadIdentifier("domain", "is not a host in lower case", "write it like passports.example.com")
    return host


def parse_identification_link(text: str) -> str:
    """An identification link of IEC 61406: a URL that names one thing for ever."""
    parts = _LINK.fullmatch(text)
    if len(text) > MAX_LINK_CHARS:
        raise BadIdentifier("address", f"has more than {MAX_LINK_CHARS} characters", "IEC 61406 allows no more")
    if parts is None or not _HOST.fullmatch(parts[2]):
        problem = "is not a link with a host in lower case"
        raise BadIdentifier("address", problem, "write it like https://maker.example/A1")
    if parts[5]:
        raise BadIdentifier("address", "has a fragment, which is not sent to the host", "leave out what follows the #")
    if not _LINK_CHARS.fullmatch(parts[3] + (parts[4] or "")):
        raise BadIdentifier("address", "has a character that a URL does not allow", "escape it with %")
    if parts[3] in {"", "/"} and not parts[4]:
        raise BadIdentifier("address", "names only a host", "add what names the battery")
    return text


def read_lookup_text(text: str) -> LookupText:
    """What a text from a code, a label or a keyboard names."""
    element = read_element_text(text)
    if element is not None:
        return LookupText(item=element)
    parts = _LINK.fullmatch(text)
    path = text if parts is None else parts[3]
    if parts is None and not path.startswith("/"):
        return LookupText(serial=text)
    own = _OWN_PATH.fullmatch(path)
    battery = None if own is None else parse_uuid(own[1])
    return LookupText(item=read_digital_link(path), battery_id=battery, link=None if parts is None else text)
