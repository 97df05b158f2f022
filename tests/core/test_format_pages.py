"""The pages of payload, receipt, bundle and exports show what the code makes."""

import json
import re
from pathlib import Path

from bpc.core.audit.signing import derive_public_key, to_base64
from bpc.core.exports.disclosure import disclose_opened, open_for_export
from bpc.core.exports.json_ld import export_json_ld
from bpc.core.exports.point_filling import _ACCOMPANYING_MEMBERS, export_data_points
from bpc.core.exports.xml_document import NAMESPACE
from bpc.core.passport.bundle import ENTRIES, MANIFEST_MEMBERS, read_bundle, write_archive
from bpc.core.passport.compile import ArtifactLimits
from bpc.core.passport.receipt import RECEIPT_MEMBERS, read_receipt, sign_receipt
from tools import golden

PAGES = Path(__file__).parents[2] / "docs" / "formats"
XSD = (PAGES / "passport.xsd").read_bytes().decode()
FIRST = golden.GOLDEN / "example-first"


def read_page(name: str) -> str:
    return (PAGES / name).read_bytes().decode()


def read_example(name: str) -> str:
    (block,) = re.findall(r"```text\n(.*?)\n```", read_page(name), re.DOTALL)
    return str(block)


def test_the_payload_shown_is_that_of_the_example() -> None:
    assert read_example("passport.md").encode() == (FIRST / "payload.json").read_bytes()


def test_the_receipt_shown_is_that_of_the_example() -> None:
    documented = dict(line.split(": ", 1) for line in read_example("receipt.md").split("\n"))
    receipt = (FIRST / "receipt.json").read_bytes()

    assert documented == {
        "public_key": to_base64(derive_public_key(golden.SEED)),
        "unsigned": receipt.decode(),
        "sha256": read_receipt(receipt).hash().hex(),
        "receipt": sign_receipt(receipt, golden.SEED).decode(),
    }


def test_the_members_of_a_json_ld_export_are_in_its_table() -> None:
    bundle = read_bundle(FIRST.joinpath("bundle.zip").read_bytes())
    document = json.loads(export_json_ld(disclose_opened(open_for_export(bundle), "tenant", waived_count=0)))
    documented = set(re.findall(r"^\| `([^`]+)` \| ", read_page("json-ld.md"), re.MULTILINE))

    assert read_example("json-ld.md") == json.dumps(document["field:battery.capacity_kwh"], separators=(",", ":"))
    assert {name for name in document if not name.startswith("field:")} == {*documented, "@context"} - {"field:<path>"}


def test_the_members_of_a_list_of_data_points_are_in_its_table() -> None:
    opened = open_for_export(read_bundle(FIRST.joinpath("bundle.zip").read_bytes()))
    document = json.loads(export_data_points(opened, "tenant"))
    rows = re.findall(r"^\| (`.*?) \| ", read_page("data-points.md"), re.MULTILINE)

    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == document.keys()
    for name in document["points"][0]:
        assert f"`{name}`" in read_page("data-points.md")
    for name in sorted(_ACCOMPANYING_MEMBERS):
        assert f"`{name}`" in read_page("data-points.md")


def test_every_element_of_a_value_is_on_the_page_of_xml() -> None:
    value = XSD.split('<xs:group name="Value">')[1].split("</xs:group>")[0]

    for name in re.findall(r'element name="(\w+)"', value):
        assert f"`{name}`" in read_page("xml.md")
    assert NAMESPACE in read_page("xml.md")


def test_the_archive_shown_is_the_one_that_is_written() -> None:
    assert read_example("bundle.md") == write_archive({"a": b"hi"}).hex()


def test_every_member_of_a_receipt_is_in_its_table() -> None:
    table = read_page("receipt.md").split("## The signature")[0]

    assert {
        name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    } == {
        *RECEIPT_MEMBERS,
        "signature",
    }


def test_every_entry_of_a_bundle_is_in_its_table_with_its_size() -> None:
    rows = re.findall(r"^\| (`.*?) \|.*\| ([\d,]+)(?: each)? \|$", read_page("bundle.md"), re.MULTILINE)

    documented = {
        name: int(size.replace(",", "")) for names, size in rows for name in re.findall(r"`([\w.-]+)`", names)
    }
    assert documented == dict(ENTRIES)
    for name in MANIFEST_MEMBERS:
        assert f"`{name}`" in read_page("bundle.md")


def test_the_limits_shown_are_the_defaults() -> None:
    for size in (ArtifactLimits().payload, ArtifactLimits().proof, ArtifactLimits().receipt):
        assert f"{size:,}" in read_page("passport.md")
