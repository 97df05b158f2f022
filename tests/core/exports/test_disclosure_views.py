"""Views: an audience gets its fields, checkably, and not a byte of what is hidden from it."""

import json
from pathlib import Path
from random import Random  # noqa: TID251 (seeded)
from typing import Any
from uuid import UUID

import pytest

from bpc.core.errors import Invalid
from bpc.core.exports.disclosure import ViewImpossible, make_view
from bpc.core.formats import canonical_json
from bpc.core.formats.ids import PassportVersionId
from bpc.core.passport.bundle import Bundle, read_bundle
from bpc.core.verify.bundle import CLAIM, VIEW_STEPS, verify_bundle, verify_view
from tests.core.sample_passports import (
    BATTERY,
    BLINDING_FACT,
    KEY,
    OTHER_KEY,
    PCF,
    SMALL_RULES,
    BundleDraft,
    forge_bundle,
    make_audited_bundle,
    make_bundle,
    make_compile_input,
    make_fact,
    make_rich_bundle,
    make_small_bundle,
)
from tests.measurements import choose_effort

PAGE = Path(__file__).parents[3] / "docs" / "formats" / "view.md"
AUDIENCES = ["public", "interest", "authority"]


def load_view(data: bytes, audience: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(make_view(read_bundle(data), audience))
    return document


def list_paths(data: bytes, audience: str) -> list[str]:
    return [field["data"]["path"] for field in load_view(data, audience)["fields"]]


@pytest.mark.parametrize("bundle", [make_small_bundle, make_rich_bundle, make_audited_bundle])
@pytest.mark.parametrize("audience", AUDIENCES)
def test_a_view_checks_under_the_issuers_key(bundle: Any, audience: str) -> None:
    report = verify_view(make_view(read_bundle(bundle()), audience), pins=[OTHER_KEY, KEY])

    assert report.ok, report
    assert report.issuer == "pinned"
    assert tuple(step.name for step in report.steps) == VIEW_STEPS
    assert all(step.detail for step in report.steps)
    assert "which you trust" in report.steps[VIEW_STEPS.index("signature")].detail


def test_an_audience_sees_its_own_fields_and_the_public_ones() -> None:
    public = ["battery.capacity_kwh", "battery.name", "duties.qr", "pcf.class", "pcf.per_kwh"]

    assert list_paths(make_rich_bundle(), "public") == public
    assert list_paths(make_rich_bundle(), "interest") == sorted([*public, "battery.chemistry", "parts.total"])
    assert list_paths(make_rich_bundle(), "authority") == sorted(
        [*public, "arithmetic.four", "battery.chemistry", "parts.critical", "parts.masses", "parts.total"]
    )


def test_the_values_are_those_of_the_passport() -> None:
    payload = json.loads(read_bundle(make_rich_bundle()).entries["payload.json"])

    for field in load_view(make_rich_bundle(), "authority")["fields"]:
        here = payload["fields"]
        for name in field["data"]["path"].split("."):
            here = here[name]
        assert field["data"]["value"] == here


def test_a_view_is_canonical_and_has_exactly_its_members() -> None:
    view_bytes = make_view(read_bundle(make_rich_bundle()), "public")

    document: Any = canonical_json.decode(view_bytes)
    assert sorted(document) == ["audience", "fields", "receipt", "root", "view_version"]
    assert sorted(document["root"]) == ["children", "data", "id"]
    assert all(sorted(field) == ["child", "data", "id"] for field in document["fields"])
    assert document["receipt"] == json.loads(read_bundle(make_rich_bundle()).entries["receipt.json"])


def test_the_same_bundle_gives_the_same_view() -> None:
    assert make_view(read_bundle(make_rich_bundle()), "public") == make_view(read_bundle(make_rich_bundle()), "public")


CANARY_RULES = b"""
field open.answer @public: Int = 42;
field canarypath.hidden: Text = "canaryliteral";
field canarypath.read @authority: Text =
  let b = requireSome(getFact("Battery", "canarykey"), "canarycode", "canarymessage");
  unwrapOr(recordGet(b, "name"), "canarydefault");
field canarypath.flag: Bool = emitCompliance("canarycode2", "FAIL", "canarymessage2");
field canarypath.list @interest: List(Text) = ["canaryitem", field("canarypath.read")];
"""


def test_no_byte_of_anything_hidden_is_in_a_view() -> None:
    facts = [
        make_fact("Battery", "canarykey", name="canaryvalue"),
        make_fact("Canarytype", "canaryother", x="canaryx"),
        BLINDING_FACT,
    ]
    data = make_bundle(make_compile_input(CANARY_RULES, facts, b"-- canarytests\n"))
    secret = str(BLINDING_FACT.payload["key"])

    public = make_view(read_bundle(data), "public")
    interest = make_view(read_bundle(data), "interest")

    assert b"canary" not in public.lower()
    assert b'"value":42' in public
    assert b"canaryitem" in interest
    assert b"canaryvalue" in interest  # part of a list this audience may see
    assert b"canaryliteral" not in interest
    for view_bytes in (public, interest):
        assert secret.encode() not in view_bytes
        assert b"canarymessage" not in view_bytes
        assert b"canarykey" not in view_bytes


def test_no_salt_of_anything_hidden_is_in_a_view() -> None:
    nodes = json.loads(read_bundle(make_rich_bundle()).entries["proof.json"])["nodes"]
    document = load_view(make_rich_bundle(), "public")
    visible_salts = {field["data"]["salt"] for field in document["fields"]}
    text = canonical_json.encode(document).decode()

    hidden = [node["data"]["salt"] for node in nodes if node["data"].get("salt") not in {None, *visible_salts}]
    assert len(hidden) == 13 + 8  # all derivations, and the fields that are not public
    assert [salt for salt in hidden if salt in text] == []
    assert json.loads(read_bundle(make_rich_bundle()).entries["payload.json"])["salt"] not in text


def test_two_versions_of_one_snapshot_share_no_hash_of_a_field() -> None:
    other = make_compile_input(
        SMALL_RULES,
        [BATTERY, PCF, BLINDING_FACT],
        passport_version_id=PassportVersionId(UUID("77777777-0000-4000-8000-000000000007")),
    )

    one, two = load_view(make_small_bundle(), "public"), load_view(make_bundle(other), "public")

    assert set(one["root"]["children"]).isdisjoint(two["root"]["children"])


def test_without_a_secret_nothing_can_be_hidden() -> None:
    bare = make_bundle(make_compile_input(SMALL_RULES, [BATTERY, PCF]))
    assert verify_bundle(bare).ok

    with pytest.raises(ViewImpossible, match="no secret") as error:
        make_view(read_bundle(bare), "public")

    assert error.value.fix is not None
    assert list_paths(bare, "authority") == ["battery.capacity_kwh", "sustainability.pcf_gco2e_per_kwh"]


def test_the_secret_of_another_snapshot_does_not_count() -> None:
    other = make_fact("Blinding", "blinding:99999999-0000-4000-8000-000000000009", key="ab" * 32)
    bare = make_bundle(make_compile_input(SMALL_RULES, [BATTERY, PCF, other]))

    with pytest.raises(ViewImpossible, match="no secret"):
        make_view(read_bundle(bare), "public")


def test_salts_that_are_not_made_from_the_secret_are_refused() -> None:
    def change(draft: BundleDraft) -> None:
        draft.nodes[draft.find_field("arithmetic.four")["children"][0]]["data"]["salt"] = "0" * 32

    with pytest.raises(ViewImpossible, match="are not made from the snapshot"):
        make_view(read_bundle(forge_bundle(make_rich_bundle(), change)), "public")


def test_there_are_three_audiences() -> None:
    with pytest.raises(ViewImpossible, match="there is no audience `everybody`"):
        make_view(read_bundle(make_small_bundle()), "everybody")


def test_a_broken_bundle_gives_no_view() -> None:
    entries = read_bundle(make_small_bundle()).entries

    for name in ("proof.json", "receipt.json", "payload.json", "manifest.json", "facts.jsonl"):
        with pytest.raises(Invalid):
            make_view(Bundle({**entries, name: b"{}"}), "public")


def test_a_bundle_whose_signature_does_not_hold_gives_no_view() -> None:
    def change(draft: BundleDraft) -> None:
        draft.receipt["compiler_build_id"] = "bpc-other"

    with pytest.raises(ViewImpossible, match="signature"):
        make_view(read_bundle(forge_bundle(make_small_bundle(), change, keep={"signature"})), "public")


def test_a_view_does_not_verify_without_a_pinned_key() -> None:
    report = verify_view(make_view(read_bundle(make_small_bundle()), "public"))

    assert report.failed_steps == ("signature",)
    assert report.issuer == "unpinned"
    assert report.steps[VIEW_STEPS.index("signature")].detail == (
        "not checked: a view carries no key; give the issuer's key to check the signature"
    )


def test_a_small_view_is_small() -> None:
    assert len(make_view(read_bundle(make_small_bundle()), "public")) < 2000


# The page


def verify_with_page_code(data: bytes) -> bool:
    """What the checker that docs/formats/view.md prints makes of it."""
    namespace: dict[str, Any] = {}
    exec(PAGE.read_text().split("```python\n")[1].split("```")[0], namespace)
    try:
        held: bool = namespace["holds"](data, KEY)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        return False
    return held


@pytest.mark.parametrize("audience", AUDIENCES)
def test_the_checker_on_the_page_accepts_an_honest_view(audience: str) -> None:
    assert verify_with_page_code(make_view(read_bundle(make_rich_bundle()), audience))


def test_the_checker_on_the_page_agrees_about_every_flipped_bit() -> None:
    rng = Random(6)
    honest = make_view(read_bundle(make_small_bundle()), "public")
    for _ in range(choose_effort(test=300, shown=10_000, campaign=100_000)):
        at = rng.randrange(len(honest) * 8)
        changed = bytearray(honest)
        changed[at >> 3] ^= 1 << (at & 7)
        assert not verify_with_page_code(bytes(changed)), at


def test_the_page_says_what_a_view_proves() -> None:
    text = " ".join(PAGE.read_text().replace("\n> ", " ").split())

    assert CLAIM in text
    assert [name for name in VIEW_STEPS if f"| `{name}` |" not in text] == []
