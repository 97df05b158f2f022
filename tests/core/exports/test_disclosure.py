"""Who sees what: a field goes to its audiences, and of a bundle that does not check nobody sees anything."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpc.core.audit.events import EMPTY_CHAIN, AuditEvent, ChainHead, EventStream, NewEvent
from bpc.core.exports.disclosure import (
    AUDIENCE_DESCRIPTIONS,
    EXPORT_FORMATS,
    Audience,
    ExportFormat,
    ExportRefused,
    NotAType,
    choose_audience,
    disclose,
    format_file_name,
    parse_type,
)
from bpc.core.formats.ids import AggregateId, PassportVersionId
from bpc.core.language.types import BOOL, DATE, INT, TEXT, Dec, List, Map, Opt, Qty, Record, Type
from bpc.core.passport.bundle import Bundle, read_bundle
from bpc.printing import render_export
from tests.core.exports.example_bundles import compile_bundle, compile_example
from tests.core.sample_passports import encode_event_line, make_bundle, make_compile_input, make_fact, make_rich_bundle

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
BATTERY = make_fact("Battery", "battery:SKU-1", sku="SKU-1", category="lmt")
SEEN: dict[Audience, set[bytes]] = {
    "public": set(),
    "interest": {b"quokka-interest", b"quokka-both"},
    "authority": {b"quokka-authority", b"quokka-both"},
    "tenant": {b"quokka-interest", b"quokka-authority", b"quokka-both", b"quokka-tenant", b"quokka-finding"},
}


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    return compile_bundle(RULES, BATTERY)


@pytest.mark.parametrize("audience", SEEN)
def test_an_audience_sees_its_fields_and_what_their_rules_found(bundle: Bundle, audience: Audience) -> None:
    disclosed_passport = disclose(bundle, audience)

    texts = repr(
        [(field.path, field.value) for field in disclosed_passport.fields]
        + [dict(entry) for entry in disclosed_passport.compliance]
    )
    assert {word for word in SEEN["tenant"] if word.decode() in texts} == SEEN[audience]
    assert len(disclosed_passport.fields) + disclosed_passport.hidden == 7
    assert "open finding" in texts


@pytest.mark.parametrize("audience", SEEN)
@pytest.mark.parametrize("name", ["JSON_LD", "XML", "DATA_POINTS"])
def test_no_export_holds_a_word_that_its_audience_may_not_see(
    bundle: Bundle, name: ExportFormat, audience: Audience
) -> None:
    export = render_export(bundle, name, audience)

    words = {word for word in SEEN["tenant"] if word in export}
    assert words <= SEEN[audience]
    if name != "DATA_POINTS":
        assert words == SEEN[audience]
        assert b"open finding" in export


def test_the_category_of_a_battery_is_told_to_those_who_may_see_a_field_that_says_it(bundle: Bundle) -> None:
    assert b'"category":null' in render_export(bundle, "DATA_POINTS", "public")
    assert b'"category":"lmt"' in render_export(bundle, "DATA_POINTS", "tenant")


@pytest.mark.parametrize("entry", ["payload.json", "proof.json", "receipt.json", "manifest.json", "qr.txt"])
def test_nothing_is_made_of_a_bundle_that_was_changed(entry: str) -> None:
    honest = read_bundle(make_rich_bundle())
    content = bytearray(honest[entry])
    at = len(content) // 2
    content[at] = ord("b") if content[at] == ord("a") else ord("a")

    with pytest.raises(ExportRefused, match="failed verification"):
        disclose(replace(honest, entries={**honest.entries, entry: bytes(content)}), "tenant")


def test_nothing_is_made_of_a_bundle_that_was_put_together_of_two() -> None:
    honest, other = read_bundle(make_rich_bundle()), compile_example("example-first")

    with pytest.raises(ExportRefused):
        disclose(replace(honest, entries={**honest.entries, "payload.json": other["payload.json"]}), "public")


def test_a_print_is_for_everybody_and_what_programs_read_for_the_tenant() -> None:
    assert {name: choose_audience(name, None) for name in EXPORT_FORMATS} == {
        "PDF": "public",
        "JSON_LD": "tenant",
        "XML": "tenant",
        "DATA_POINTS": "tenant",
        "BUNDLE": "tenant",
    }
    assert {choose_audience("PDF", audience) for audience in AUDIENCE_DESCRIPTIONS} == set(AUDIENCE_DESCRIPTIONS)


def test_a_bundle_is_whole_and_for_no_audience() -> None:
    with pytest.raises(Exception, match="a bundle always holds every field"):
        choose_audience("BUNDLE", "public")


def test_a_file_says_in_its_name_whom_it_is_for() -> None:
    version = PassportVersionId(disclose(read_bundle(make_rich_bundle()), "public").receipt.passport_version_id)

    assert format_file_name("PDF", "public", version) == f"passport-{version}-public.pdf"
    assert format_file_name("BUNDLE", "tenant", version) == f"bundle-{version}.zip"


# Types are read back exactly as they are written.


SCALARS: st.SearchStrategy[Type] = st.sampled_from([BOOL, INT, TEXT, DATE, Dec(0), Dec(18), Qty("kWh"), Qty("pct")])
NAMES = st.sampled_from(["a", "b2", "c_d"])
TYPES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        inner.filter(lambda kind: not isinstance(kind, Opt)).map(Opt),
        inner.map(List),
        inner.map(Map),
        st.dictionaries(NAMES, inner, min_size=1).map(lambda members: Record(tuple(members.items()))),
    ),
    max_leaves=8,
)


@given(TYPES)
def test_a_type_is_read_as_it_is_written(kind: Type) -> None:
    assert parse_type(str(kind)) == kind


def test_a_name_is_the_type_of_an_enumeration() -> None:
    assert str(parse_type("Opt(List(Category))")) == "Opt(List(Category))"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2Text",
        "Text ",
        "Dec()",
        "Dec(x)",
        "Dec(123)",
        "Dec(02)",
        "Opt",
        "Opt(Text",
        "List(Text))",
        "Map(Int, Text)",
        "Map(Text,Int)",
        "Record()",
        "Record(a:Text)",
        "Record(b: Text, a: Text)",
        "Battery@1",
        "List(" * 40 + "Text" + ")" * 40,
    ],
)
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(NotAType):
        parse_type(text)


AUDITED = make_compile_input(b"field answer @public: Int = 6 * 7;\n", [])


def _bundle_with_waivers(*payloads: Mapping[str, Any]) -> Bundle:
    """A bundle whose events say that these were waived."""
    stream = EventStream(AUDITED.tenant_id, "PassportVersion", AggregateId(AUDITED.passport_version_id))
    chain: list[AuditEvent] = []
    for payload in payloads:
        head = ChainHead(chain[-1].version, chain[-1].event_hash) if chain else EMPTY_CHAIN
        said = NewEvent(event_type="PASSPORT_WAIVED", payload=payload, actor_id=None, occurred_at=AUDITED.issued_at)
        chain.append(AuditEvent.chain_after(head, stream, said))
    return read_bundle(make_bundle(AUDITED, events=b"".join(map(encode_event_line, chain))))


def test_a_bundle_does_not_tell_how_many_entries_were_waived() -> None:
    """Nobody vouches for events after the signature, and a holder of the bundle could leave them out."""
    bundle = _bundle_with_waivers({"waived": [{"entries": 1}, {"entries": 3}]}, {"waived": [{"entries": 2}]})

    assert disclose(bundle, "public").waived is None


def test_a_bundle_whose_events_are_no_chain_is_not_exported() -> None:
    entries = dict(_bundle_with_waivers({"waived": []}, {"waived": []}).entries)
    entries["events.jsonl"] = entries["events.jsonl"].splitlines(keepends=True)[1]

    with pytest.raises(ExportRefused, match="failed verification"):
        disclose(Bundle(entries), "public")
