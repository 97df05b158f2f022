"""Who sees what: a field goes to its audiences, and of a bundle that does not check nobody sees anything."""

from dataclasses import replace

import pytest

from bpc.core.bundle import Bundle, read_bundle
from bpc.core.exports.disclosed import AUDIENCES, Audience, NoExport, disclosed
from bpc.core.exports.formats import FORMATS, Format, audience_for, file_name
from bpc.core.ids import PassportVersionId
from bpc.printing import exported
from tests.core.exports.examples import example, passport
from tests.core.passports import fact, rich

RULES = """
field open.name @public: Text = productName();
field open.checked @public: Bool = emitCompliance("OPEN-1", "PASS", "open finding");
field shut.interest @interest: Text = "quokka-interest";
field shut.authority @authority: Text = "quokka-authority";
field shut.both @interest @authority: List(Text) = ["quokka-both"];
field shut.tenant: Text =
  let kind = unwrapOr(recordGet(requireSome(getFact("Battery", "battery:SKU-1"), "E1", "none"), "category"), "?");
  concat("quokka-tenant ", kind);
field shut.checked: Bool = emitCompliance("SHUT-1", "WARN", "quokka-finding");
"""
BATTERY = fact("Battery", "battery:SKU-1", sku="SKU-1", category="lmt")
SEEN: dict[Audience, set[bytes]] = {
    "public": set(),
    "interest": {b"quokka-interest", b"quokka-both"},
    "authority": {b"quokka-authority", b"quokka-both"},
    "tenant": {b"quokka-interest", b"quokka-authority", b"quokka-both", b"quokka-tenant", b"quokka-finding"},
}


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    return passport(RULES, BATTERY)


@pytest.mark.parametrize("audience", SEEN)
def test_an_audience_sees_its_fields_and_what_their_rules_found(bundle: Bundle, audience: Audience) -> None:
    shown = disclosed(bundle, audience)

    texts = repr([(field.path, field.value) for field in shown.fields] + [dict(entry) for entry in shown.compliance])
    assert {word for word in SEEN["tenant"] if word.decode() in texts} == SEEN[audience]
    assert len(shown.fields) + shown.hidden == 7
    assert "open finding" in texts


@pytest.mark.parametrize("audience", SEEN)
@pytest.mark.parametrize("name", ["JSON_LD", "XML", "DATA_POINTS"])
def test_no_export_holds_a_word_that_its_audience_may_not_see(bundle: Bundle, name: Format, audience: Audience) -> None:
    made = exported(bundle, name, audience)

    found = {word for word in SEEN["tenant"] if word in made}
    assert found <= SEEN[audience]
    if name != "DATA_POINTS":
        assert found == SEEN[audience]
        assert b"open finding" in made


def test_the_category_of_a_battery_is_told_to_those_who_may_see_a_field_that_says_it(bundle: Bundle) -> None:
    assert b'"category":null' in exported(bundle, "DATA_POINTS", "public")
    assert b'"category":"lmt"' in exported(bundle, "DATA_POINTS", "tenant")


@pytest.mark.parametrize("entry", ["payload.json", "proof.json", "receipt.json", "manifest.json", "qr.txt"])
def test_nothing_is_made_of_a_bundle_that_was_changed(entry: str) -> None:
    whole = read_bundle(rich())
    content = bytearray(whole[entry])
    at = len(content) // 2
    content[at] = ord("b") if content[at] == ord("a") else ord("a")

    with pytest.raises(NoExport, match="does not check"):
        disclosed(replace(whole, entries={**whole.entries, entry: bytes(content)}), "tenant")


def test_nothing_is_made_of_a_bundle_that_was_put_together_of_two() -> None:
    whole, other = read_bundle(rich()), example("example-first")

    with pytest.raises(NoExport):
        disclosed(replace(whole, entries={**whole.entries, "payload.json": other["payload.json"]}), "public")


def test_a_print_is_for_everybody_and_what_programs_read_for_the_tenant() -> None:
    assert {name: audience_for(name, None) for name in FORMATS} == {
        "PDF": "public",
        "JSON_LD": "tenant",
        "XML": "tenant",
        "DATA_POINTS": "tenant",
        "BUNDLE": "tenant",
    }
    assert {audience_for("PDF", audience) for audience in AUDIENCES} == set(AUDIENCES)


def test_a_bundle_is_whole_and_for_no_audience() -> None:
    with pytest.raises(Exception, match="a bundle holds everything"):
        audience_for("BUNDLE", "public")


def test_a_file_says_in_its_name_whom_it_is_for() -> None:
    version = PassportVersionId(disclosed(read_bundle(rich()), "public").receipt.passport_version_id)

    assert file_name("PDF", "public", version) == f"passport-{version}-public.pdf"
    assert file_name("BUNDLE", "tenant", version) == f"bundle-{version}.zip"
