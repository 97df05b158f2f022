"""Views: an audience gets its fields, checkably, and not a byte of what is hidden from it."""

import json
from pathlib import Path
from random import Random  # noqa: TID251 (seeded)
from typing import Any
from uuid import UUID

import pytest

from bpc.core import canon
from bpc.core.bundle import Bundle, read_bundle
from bpc.core.errors import Invalid
from bpc.core.ids import PassportVersionId
from bpc.core.verify.bundle import verify_bundle, verify_view
from bpc.core.verify.view import CLAIM, VIEW_STEPS
from bpc.core.view import NoView, make_view
from tests.core.passports import (
    BATTERY,
    KEY,
    OTHER_KEY,
    PCF,
    SECRET,
    SMALL_RULES,
    Draft,
    audited,
    bundled,
    compile_input,
    fact,
    forged,
    rich,
    small,
)
from tests.measuring import effort

PAGE = Path(__file__).parents[2] / "docs" / "formats" / "view.md"
AUDIENCES = ["public", "interest", "authority"]


def view(data: bytes, audience: str) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(make_view(read_bundle(data), audience))
    return made


def paths(data: bytes, audience: str) -> list[str]:
    return [field["data"]["path"] for field in view(data, audience)["fields"]]


@pytest.mark.parametrize("bundle", [small, rich, audited])
@pytest.mark.parametrize("audience", AUDIENCES)
def test_a_view_checks_under_the_issuers_key(bundle: Any, audience: str) -> None:
    report = verify_view(make_view(read_bundle(bundle()), audience), pinned=[OTHER_KEY, KEY])

    assert report.ok, report
    assert report.issuer == "pinned"
    assert tuple(step.name for step in report.steps) == VIEW_STEPS
    assert all(step.detail for step in report.steps)
    assert "which you trust" in report.steps[VIEW_STEPS.index("signature")].detail


def test_an_audience_sees_its_own_fields_and_the_public_ones() -> None:
    public = ["battery.capacity_kwh", "battery.name", "duties.qr", "pcf.class", "pcf.per_kwh"]

    assert paths(rich(), "public") == public
    assert paths(rich(), "interest") == sorted([*public, "battery.chemistry", "parts.total"])
    assert paths(rich(), "authority") == sorted(
        [*public, "arithmetic.four", "battery.chemistry", "parts.critical", "parts.masses", "parts.total"]
    )


def test_the_values_are_those_of_the_passport() -> None:
    payload = json.loads(read_bundle(rich()).entries["payload.json"])

    for field in view(rich(), "authority")["fields"]:
        here = payload["fields"]
        for name in field["data"]["path"].split("."):
            here = here[name]
        assert field["data"]["value"] == here


def test_a_view_is_canonical_and_has_exactly_its_members() -> None:
    made = make_view(read_bundle(rich()), "public")

    found: Any = canon.decode(made)
    assert sorted(found) == ["audience", "fields", "receipt", "root", "view_version"]
    assert sorted(found["root"]) == ["children", "data", "id"]
    assert all(sorted(field) == ["child", "data", "id"] for field in found["fields"])
    assert found["receipt"] == json.loads(read_bundle(rich()).entries["receipt.json"])


def test_the_same_bundle_gives_the_same_view() -> None:
    assert make_view(read_bundle(rich()), "public") == make_view(read_bundle(rich()), "public")


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
    facts = [fact("Battery", "canarykey", name="canaryvalue"), fact("Canarytype", "canaryother", x="canaryx"), SECRET]
    data = bundled(compile_input(CANARY_RULES, facts, b"-- canarytests\n"))
    secret = str(SECRET.payload["key"])

    public = make_view(read_bundle(data), "public")
    interest = make_view(read_bundle(data), "interest")

    assert b"canary" not in public.lower()
    assert b'"value":42' in public
    assert b"canaryitem" in interest
    assert b"canaryvalue" in interest  # part of a list this audience may see
    assert b"canaryliteral" not in interest
    for made in (public, interest):
        assert secret.encode() not in made
        assert b"canarymessage" not in made
        assert b"canarykey" not in made


def test_no_salt_of_anything_hidden_is_in_a_view() -> None:
    nodes = json.loads(read_bundle(rich()).entries["proof.json"])["nodes"]
    made = view(rich(), "public")
    shown = {field["data"]["salt"] for field in made["fields"]}
    text = canon.encode(made).decode()

    hidden = [node["data"]["salt"] for node in nodes if node["data"].get("salt") not in {None, *shown}]
    assert len(hidden) == 13 + 8  # all derivations, and the fields that are not public
    assert [salt for salt in hidden if salt in text] == []
    assert json.loads(read_bundle(rich()).entries["payload.json"])["salt"] not in text


def test_two_versions_of_one_snapshot_share_no_hash_of_a_field() -> None:
    other = compile_input(
        SMALL_RULES,
        [BATTERY, PCF, SECRET],
        passport_version_id=PassportVersionId(UUID("77777777-0000-4000-8000-000000000007")),
    )

    one, two = view(small(), "public"), view(bundled(other), "public")

    assert set(one["root"]["children"]).isdisjoint(two["root"]["children"])


def test_without_a_secret_nothing_can_be_hidden() -> None:
    bare = bundled(compile_input(SMALL_RULES, [BATTERY, PCF]))
    assert verify_bundle(bare).ok

    with pytest.raises(NoView, match="no secret") as refused:
        make_view(read_bundle(bare), "public")

    assert refused.value.fix is not None
    assert paths(bare, "authority") == ["battery.capacity_kwh", "sustainability.pcf_gco2e_per_kwh"]


def test_the_secret_of_another_snapshot_is_none() -> None:
    other = fact("Blinding", "blinding:99999999-0000-4000-8000-000000000009", key="ab" * 32)
    bare = bundled(compile_input(SMALL_RULES, [BATTERY, PCF, other]))

    with pytest.raises(NoView, match="no secret"):
        make_view(read_bundle(bare), "public")


def test_salts_that_are_not_made_from_the_secret_are_refused() -> None:
    def change(draft: Draft) -> None:
        draft.nodes[draft.field("arithmetic.four")["children"][0]]["data"]["salt"] = "0" * 32

    with pytest.raises(NoView, match="are not made from the snapshot"):
        make_view(read_bundle(forged(rich(), change)), "public")


def test_there_are_three_audiences() -> None:
    with pytest.raises(NoView, match="there is no audience `everybody`"):
        make_view(read_bundle(small()), "everybody")


def test_a_broken_bundle_gives_no_view() -> None:
    entries = read_bundle(small()).entries

    for name in ("proof.json", "receipt.json", "payload.json", "manifest.json", "facts.jsonl"):
        with pytest.raises(Invalid):
            make_view(Bundle({**entries, name: b"{}"}), "public")


def test_a_bundle_whose_signature_does_not_hold_gives_no_view() -> None:
    def change(draft: Draft) -> None:
        draft.receipt["compiler_build_id"] = "bpc-other"

    with pytest.raises(NoView, match="signature"):
        make_view(read_bundle(forged(small(), change, keep={"signature"})), "public")


def test_a_view_carries_no_key_so_without_one_it_does_not_hold() -> None:
    report = verify_view(make_view(read_bundle(small()), "public"))

    assert report.failed == ("signature",)
    assert report.issuer == "unpinned"
    assert report.steps[VIEW_STEPS.index("signature")].detail == (
        "not checked: a view carries no key; give the issuer's to check its signature"
    )


def test_a_small_view_is_small() -> None:
    assert len(make_view(read_bundle(small()), "public")) < 2000


# The page


def holds_by_the_page(data: bytes) -> bool:
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
    assert holds_by_the_page(make_view(read_bundle(rich()), audience))


def test_the_checker_on_the_page_agrees_about_every_flipped_bit() -> None:
    rng = Random(6)
    honest = make_view(read_bundle(small()), "public")
    for _ in range(effort(test=300, shown=10_000, campaign=100_000)):
        at = rng.randrange(len(honest) * 8)
        changed = bytearray(honest)
        changed[at >> 3] ^= 1 << (at & 7)
        assert not holds_by_the_page(bytes(changed)), at


def test_the_page_says_what_a_view_proves() -> None:
    text = " ".join(PAGE.read_text().replace("\n> ", " ").split())

    assert CLAIM in text
    assert [name for name in VIEW_STEPS if f"| `{name}` |" not in text] == []
