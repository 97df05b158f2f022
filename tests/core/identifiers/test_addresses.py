"""Addresses: one for each scheme, and whatever a code or a label says is understood."""

from uuid import UUID

import pytest

from bpc.core.formats.ids import BatteryId
from bpc.core.identifiers.addresses import (
    LookupText,
    make_address,
    parse_base_url,
    parse_identification_link,
    read_lookup_text,
)
from bpc.core.identifiers.gs1 import BadIdentifier, Gs1Item

BATTERY = BatteryId(UUID("6a0c1d3e-0000-4000-8000-000000000001"))
ITEM = Gs1Item(gtin="09521234000013", serial="A/1")


def test_an_address_follows_from_the_scheme_and_reads_back() -> None:
    base = "https://id.example.com"
    for scheme, address, text in [
        ("GS1", f"{base}/01/09521234000013/21/A%2F1", LookupText(item=ITEM)),
        ("OWN", f"{base}/p/{BATTERY}", LookupText(battery_id=BATTERY)),
        ("IEC61406", "https://maker.example/x", LookupText()),
    ]:
        shown_address = make_address(
            scheme,  # type: ignore[arg-type]
            BATTERY,
            base_url=base,
            gtin="09521234000013",
            serial="A/1",
            link="https://maker.example/x",
        )
        assert shown_address == address
        assert read_lookup_text(address) == LookupText(item=text.item, battery_id=text.battery_id, link=address)
    assert make_address("OWN", BATTERY, base_url=None, gtin=None, serial="A", link=None) == f"/p/{BATTERY}"


def test_a_path_a_label_and_a_bare_serial_number_are_understood() -> None:
    assert read_lookup_text(f"/p/{BATTERY}") == LookupText(battery_id=BATTERY)
    assert read_lookup_text("/01/09521234000013/21/A%2F1") == LookupText(item=ITEM)
    assert read_lookup_text("(01)09521234000013(21)A/1") == LookupText(item=ITEM)
    assert read_lookup_text("A0001") == LookupText(serial="A0001")
    assert read_lookup_text("https://maker.example/p/1") == LookupText(link="https://maker.example/p/1")


def test_an_identification_link_names_one_thing_with_characters_of_a_url() -> None:
    for link in ("https://maker.example/A1", "http://id.maker.example/?s=A%2F1", "https://a.b-c.example/x;y=1"):
        assert parse_identification_link(link) == link
    for link in (
        "maker.example/A1",
        "https://Maker.example/A1",
        "https://maker.example",
        "https://maker.example/",
        "https://maker.example/A#1",
        "https://maker.example/ä",
        "https://user@maker.example/A",
        "https://maker.example/" + "A" * 240,
        "ftp://maker.example/A",
    ):
        with pytest.raises(BadIdentifier):
            parse_identification_link(link)


def test_a_base_url_is_a_host_with_https() -> None:
    assert parse_base_url("https://id.example.com/dpp/") == "https://id.example.com/dpp"
    for text in (
        "http://id.example.com",
        "https://localhost",
        "https://id.example.com?x=1",
        "https://id.example.com/ä",
    ):
        with pytest.raises(BadIdentifier):
            parse_base_url(text)
