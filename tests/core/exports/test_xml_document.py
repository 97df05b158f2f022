"""XML exports: valid by our schema, escaped whatever they hold, and the same bytes every time."""

from base64 import b64decode
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import xmlschema
from hypothesis import given
from hypothesis import strategies as st

from bpc.core.exports.disclosure import AUDIENCE_DESCRIPTIONS, Audience, disclose
from bpc.core.exports.xml_document import NAMESPACE, _format_text, export_xml
from bpc.core.passport.bundle import read_bundle
from tests.core.exports.example_bundles import CASES, compile_bundle, compile_example
from tests.core.verify.test_forged_cases import make_level_two_bundle

ROOT = Path(__file__).parents[3]
XSD = (ROOT / "src" / "bpc" / "core" / "exports" / "passport.xsd").read_bytes()
PAGE = ROOT / "docs" / "formats" / "passport.xsd"
SCHEMA = xmlschema.XMLSchema(XSD.decode())
NAMES = {"p": NAMESPACE}


@pytest.mark.parametrize("name", CASES)
def test_every_passport_is_valid_by_the_schema(name: str) -> None:
    SCHEMA.validate(ET.fromstring(export_xml(disclose(compile_example(name), "tenant"))))


def test_a_member_of_an_enumeration_is_a_text() -> None:
    document = ET.fromstring(export_xml(disclose(read_bundle(make_level_two_bundle()), "tenant")))

    SCHEMA.validate(document)
    [category] = document.findall("p:fields/p:field[@path='battery.category']", NAMES)
    assert (category.get("type"), category.findtext("p:text", namespaces=NAMES)) == ("Opt(Category)", "LMT")


REQUIRED = """language 2;
field a @public: Int = 1;
require R1 "at least 16 %": 15 >= 16 else "{share: 15} % is less than {least: 16} %";
require R2 "at least 20 %" in force from date("2099-01-01"): false;
"""


def test_an_entry_of_a_requirement_says_its_verdict_and_its_arguments() -> None:
    document = ET.fromstring(export_xml(disclose(compile_bundle(REQUIRED), "tenant")))

    SCHEMA.validate(document)
    first, second = document.findall("p:compliance/p:entry", NAMES)
    assert (first.get("verdict"), second.get("verdict")) == ("assessed", "not_yet_in_force")
    assert [[part.text for part in arg] for arg in first.findall("p:arg", NAMES)] == [["least", "16"], ["share", "15"]]
    assert second.findall("p:arg", NAMES) == []


@pytest.mark.parametrize("audience", AUDIENCE_DESCRIPTIONS)
def test_it_says_whom_it_is_for_and_how_much_it_leaves_out(audience: Audience) -> None:
    disclosed_passport = disclose(compile_example("reference-2"), audience)

    root = ET.fromstring(export_xml(disclosed_passport))

    SCHEMA.validate(root)
    fields = root.find("p:fields", NAMES)
    assert fields is not None
    assert (root.get("audience"), len(fields), fields.get("hidden")) == (
        audience,
        len(disclosed_passport.fields),
        str(disclosed_passport.hidden),
    )


@pytest.mark.parametrize("waived", [None, 0, 3])
def test_it_says_how_many_entries_were_waived_if_that_is_known(waived: int | None) -> None:
    root = ET.fromstring(export_xml(replace(disclose(compile_example("example-first"), "public"), waived=waived)))

    SCHEMA.validate(root)
    compliance = root.find("p:compliance", NAMES)
    assert compliance is not None
    assert compliance.get("waived") == (None if waived is None else str(waived))


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        (b' audience="tenant"', b' audience="everybody"'),
        (b"<decimal>", b"<number>"),
        (b"<passport_id>", b"<passport_id>0"),
        (b' path="battery.capacity_kwh"', b""),
    ],
)
def test_the_schema_refuses_what_is_not_one_of_ours(was: bytes, becomes: bytes) -> None:
    document = export_xml(disclose(compile_example("example-first"), "tenant"))
    assert was in document

    changed = document.replace(was, becomes, 1).replace(
        b"</decimal>", b"</number>" if b"number" in becomes else b"</decimal>", 1
    )

    with pytest.raises(xmlschema.XMLSchemaValidationError):
        SCHEMA.validate(ET.fromstring(changed))


@given(st.text())
def test_a_text_is_read_back_as_it_was(text: str) -> None:
    element = ET.fromstring(_format_text("text", text))

    text_read = element.text or ""
    assert (b64decode(text_read).decode() if element.get("encoding") == "base64" else text_read) == text


def test_markup_in_a_value_stays_a_value() -> None:
    assert (
        _format_text("text", '</text><x a="b">&amp;]]>')
        == "<text>&lt;/text&gt;&lt;x a=&quot;b&quot;&gt;&amp;amp;]]&gt;</text>"
    )
    assert _format_text("text", "a\x01") == '<text encoding="base64">YQE=</text>'


def test_equal_passports_give_equal_bytes() -> None:
    once, again = (export_xml(disclose(compile_example("reference-2"), "public")) for _ in range(2))

    assert once == again


def test_the_published_schema_is_the_one_in_the_documentation() -> None:
    assert PAGE.read_bytes() == XSD
