"""The pages of payload, receipt, bundle and exports show what the code makes."""

import json
import re
from pathlib import Path

from bpc.core.archive import write_archive
from bpc.core.bundle import ENTRIES, MANIFEST_MEMBERS, read_bundle
from bpc.core.compile import Limits
from bpc.core.exports.data_points import _BESIDE, data_points
from bpc.core.exports.disclosed import disclosed, opened_for_export
from bpc.core.exports.json_ld import json_ld
from bpc.core.exports.xml_document import NAMESPACE
from bpc.core.exports.xml_schema import XSD
from bpc.core.receipt import MEMBERS, receipt_hash, signed
from bpc.core.signing import public_key_of, to_base64
from tools import golden

PAGES = Path(__file__).parents[2] / "docs" / "formats"
FIRST = golden.GOLDEN / "example-first"


def page(name: str) -> str:
    return (PAGES / name).read_bytes().decode()


def example(name: str) -> str:
    (block,) = re.findall(r"```text\n(.*?)\n```", page(name), re.DOTALL)
    return str(block)


def test_the_payload_shown_is_that_of_the_example() -> None:
    assert example("passport.md").encode() == (FIRST / "payload.json").read_bytes()


def test_the_receipt_shown_is_that_of_the_example() -> None:
    shown = dict(line.split(": ", 1) for line in example("receipt.md").split("\n"))
    receipt = (FIRST / "receipt.json").read_bytes()

    assert shown == {
        "public_key": to_base64(public_key_of(golden.SEED)),
        "unsigned": receipt.decode(),
        "sha256": receipt_hash(receipt).hex(),
        "receipt": signed(receipt, golden.SEED).decode(),
    }


def test_the_members_of_a_json_ld_export_are_in_its_table() -> None:
    document = json.loads(json_ld(disclosed(read_bundle(FIRST.joinpath("bundle.zip").read_bytes()), "tenant")))
    shown = set(re.findall(r"^\| `([^`]+)` \| ", page("json-ld.md"), re.MULTILINE))

    assert example("json-ld.md") == json.dumps(document["field:battery.capacity_kwh"], separators=(",", ":"))
    assert {name for name in document if not name.startswith("field:")} == {*shown, "@context"} - {"field:<path>"}


def test_the_members_of_a_list_of_data_points_are_in_its_table() -> None:
    opened = opened_for_export(read_bundle(FIRST.joinpath("bundle.zip").read_bytes()))
    document = json.loads(data_points(opened, "tenant"))
    rows = re.findall(r"^\| (`.*?) \| ", page("data-points.md"), re.MULTILINE)

    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == document.keys()
    for name in document["points"][0]:
        assert f"`{name}`" in page("data-points.md")
    for name in sorted(_BESIDE):
        assert f"`{name}`" in page("data-points.md")


def test_every_element_of_a_value_is_on_the_page_of_xml() -> None:
    value = XSD.split('<xs:group name="Value">')[1].split("</xs:group>")[0]

    for name in re.findall(r'element name="(\w+)"', value):
        assert f"`{name}`" in page("xml.md")
    assert NAMESPACE in page("xml.md")


def test_the_archive_shown_is_the_one_that_is_written() -> None:
    assert example("bundle.md") == write_archive({"a": b"hi"}).hex()


def test_every_member_of_a_receipt_is_in_its_table() -> None:
    table = page("receipt.md").split("## The signature")[0]

    assert {
        name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    } == {
        *MEMBERS,
        "signature",
    }


def test_every_entry_of_a_bundle_is_in_its_table_with_its_size() -> None:
    rows = re.findall(r"^\| (`.*?) \|.*\| ([\d,]+)(?: each)? \|$", page("bundle.md"), re.MULTILINE)

    shown = {name: int(size.replace(",", "")) for names, size in rows for name in re.findall(r"`([\w.]+)`", names)}
    assert shown == dict(ENTRIES)
    for name in MANIFEST_MEMBERS:
        assert f"`{name}`" in page("bundle.md")


def test_the_limits_shown_are_the_defaults() -> None:
    for size in (Limits().payload, Limits().proof, Limits().receipt):
        assert f"{size:,}" in page("passport.md")
