"""Verification: honest bundles hold in every step, and whatever else comes in gets a report, in bounded time."""

import json
import struct
import sys
import time
import tracemalloc
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random  # noqa: TID251 (seeded)
from typing import Any

import pytest

from bpc.core import canon, png
from bpc.core.bundle import Bundle, read_bundle, write_bundle
from bpc.core.compile_input import Product
from bpc.core.errors import Refusal
from bpc.core.qr import qr_modules
from bpc.core.timestamps import parse_time
from bpc.core.verify import events, forms, proof, view
from bpc.core.verify.bundle import STEPS, verify_bundle, verify_either, verify_view
from bpc.core.verify.report import Report, Wrong, counted, taken
from bpc.core.verify.view import VIEW_STEPS
from bpc.core.view import make_view
from tests.core.passports import KEY, OTHER_KEY, RICH_INPUT, audited, bundled, compile_input, rich, small
from tests.core.rules.programs import program
from tests.measuring import Measured, allowed, effort

DOCS = Path(__file__).parents[2] / "docs"


def well_formed(report: Report) -> bool:
    """Every step is there, in order, each with a sentence."""
    names = tuple(step.name for step in report.steps)
    return names in {STEPS, VIEW_STEPS} and all(step.detail for step in report.steps)


@pytest.mark.parametrize("bundle", [small, rich, audited])
def test_an_honest_bundle_holds_in_every_step(bundle: Callable[[], bytes]) -> None:
    report = verify_bundle(bundle(), pinned=[OTHER_KEY, KEY])

    assert report.ok, report
    assert report.issuer == "pinned"
    assert tuple(step.name for step in report.steps) == STEPS
    assert well_formed(report)
    assert "which you trust" in report.steps[STEPS.index("signature")].detail


def test_without_a_pinned_key_the_issuer_is_not_checked() -> None:
    report = verify_bundle(small())

    assert (report.ok, report.issuer) == (True, "unpinned")
    assert "the issuer was not checked" in report.steps[STEPS.index("signature")].detail


def test_a_bundle_without_events_says_so() -> None:
    assert verify_bundle(small()).steps[STEPS.index("events")].detail == "not part of this bundle"
    assert "3 events" in verify_bundle(audited()).steps[STEPS.index("events")].detail


def test_what_compiles_to_other_bytes_is_found_though_everything_else_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """No bundle is known that only replay refuses; that is what the reference evaluator is for."""

    def compiled_otherwise(entries: object) -> None:
        raise Refusal("payload.json differs")

    monkeypatch.setattr("bpc.core.replay.replay", compiled_otherwise)
    report = verify_bundle(small(), pinned=[KEY])

    assert report.failed == ("replay",)
    assert report.steps[-1].detail == "payload.json differs"


def test_an_entry_that_cannot_be_read_leaves_the_other_steps_standing() -> None:
    entries = {**read_bundle(small()).entries, "proof.json": b"{"}

    report = verify_bundle(write_bundle(Bundle(entries)))

    assert report.failed == ("canonical", "proof_structure", "proof_steps", "replay")
    details = {step.name: step.detail for step in report.steps}
    assert details["canonical"] == "proof.json: the text is not JSON at line 1, column 2"
    assert details["proof_structure"] == "not checked: proof.json could not be read"
    assert details["replay"] == "not checked: it runs only where every other step holds"


def test_a_file_that_is_no_bundle_leaves_nothing_to_check() -> None:
    report = verify_bundle(b"PK nonsense")

    assert report.failed == STEPS
    assert all(step.detail.startswith("not checked") for step in report.steps[1:])


def test_bundles_and_views_are_told_apart() -> None:
    assert tuple(step.name for step in verify_either(small()).steps) == STEPS
    assert tuple(step.name for step in verify_either(make_view(read_bundle(small()), "public")).steps) == VIEW_STEPS


def test_how_the_image_is_compressed_does_not_matter() -> None:
    entries = dict(read_bundle(small()).entries)
    rows = png.packed_rows(qr_modules(entries["qr.txt"].decode()), 10)
    data = zlib.compress(b"".join(b"\x00" + row for row in rows), 9)
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", 610, 610, 1, 0, 0, 0, 0)), (b"IDAT", data), (b"IEND", b"")]
    entries["qr.png"] = png.SIGNATURE + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )

    assert entries["qr.png"] != read_bundle(small()).entries["qr.png"]
    assert verify_bundle(write_bundle(Bundle(entries)), pinned=[KEY]).ok


@pytest.mark.repeats
def test_whatever_the_compiler_compiles_holds(measured: Measured) -> None:
    """Random rule packages over random facts: both evaluators and every format agree."""
    programs = effort(test=60, shown=2_000, campaign=20_000)
    held = 0
    for seed in range(programs):
        made = program(seed)
        product = Product(
            battery_product_id=RICH_INPUT.product.battery_product_id, sku=made.product_sku, name=made.product_name
        )
        try:
            data = bundled(
                compile_input(
                    made.rules.encode(),
                    made.facts,
                    product=product,
                    issued_at=parse_time(f"{made.issued_on}T00:00:00.000000Z"),
                )
            )
        except Refusal:  # a rule that fails, as some of these do
            continue
        report = verify_bundle(data, pinned=[KEY])
        assert report.ok, (seed, report)
        held += 1

    measured("verify-random-programs", programs=programs, compiled=held)
    assert held > programs // 4


# The pages


def test_the_page_names_every_step() -> None:
    text = (DOCS / "verification.md").read_text()

    assert [name for name in STEPS if f"| `{name}` |" not in text] == []


def test_the_checker_on_the_proofs_page_gives_the_hash_that_the_receipt_names() -> None:
    namespace: dict[str, Any] = {}
    exec((DOCS / "formats" / "proof.md").read_text().split("```python\n")[1].split("```")[0], namespace)

    for bundle in (small(), rich(), audited()):
        entries = read_bundle(bundle).entries
        assert namespace["root_hash"](entries["proof.json"]) == json.loads(entries["receipt.json"])["proof_root_hash"]


# Whatever comes in


@pytest.mark.parametrize("kind", ["bundle", "view"])
def test_random_bytes_get_a_report(kind: str) -> None:
    rng = Random(1)
    start = {"bundle": b"PK\x03\x04", "view": b"{"}[kind]

    for _ in range(effort(test=300, shown=20_000, campaign=200_000)):
        report = verify_either(start + rng.randbytes(rng.randint(0, 400)))
        assert not report.ok
        assert well_formed(report)


def test_truncated_files_get_a_report() -> None:
    rng = Random(2)
    for honest in (small(), audited(), make_view(read_bundle(rich()), "public")):
        for _ in range(effort(test=100, shown=5_000, campaign=50_000)):
            report = verify_either(honest[: rng.randrange(len(honest))])
            assert not report.ok
            assert well_formed(report)


JUNK: list[object] = [
    None, True, 0, -1, 1, 2**63, 10**40, "", "x", "0" * 64, [], [0], [[]], {}, {"op": "field"}, "\u2028", "😀",
]  # fmt: skip


def mutated(value: object, rng: Random) -> object:
    """`value` with one thing in it replaced, removed, added or doubled."""
    deeper, choice = rng.random() < 0.9, rng.random()
    if isinstance(value, dict) and value and deeper:
        name = rng.choice(sorted(value))
        changed = {key: part for key, part in value.items() if key != name}
        if choice > 0.2:
            changed[name] = mutated(value[name], rng)
        elif choice > 0.1:
            changed = {**value, rng.choice(["note", "", "op", "value", name + "x"]): rng.choice(JUNK)}
        return changed
    if isinstance(value, list) and value and deeper:
        at = rng.randrange(len(value))
        middle = [mutated(value[at], rng)] if choice > 0.2 else [value[at]] * (2 if choice > 0.1 else 0)
        return [*value[:at], *middle, *value[at + 1 :]]
    return rng.choice(JUNK)


@pytest.mark.repeats
def test_json_of_any_other_shape_gets_a_report() -> None:
    rng = Random(3)
    for _ in range(effort(test=500, shown=20_000, campaign=200_000)):
        entries = dict(read_bundle(rng.choice([small, rich, audited])()).entries)
        for name in rng.sample([name for name in entries if name.endswith(".json")], rng.randint(1, 2)):
            entries[name] = canon.encode(mutated(json.loads(entries[name]), rng))
        report = verify_bundle(write_bundle(Bundle(entries)))
        assert not report.ok
        assert well_formed(report)


def test_views_of_any_other_shape_get_a_report() -> None:
    rng = Random(4)
    honest = json.loads(make_view(read_bundle(rich()), "interest"))
    for _ in range(effort(test=500, shown=20_000, campaign=200_000)):
        report = verify_view(canon.encode(mutated(honest, rng)), pinned=[KEY])
        assert not report.ok
        assert well_formed(report)


@pytest.mark.repeats
def test_lines_and_texts_of_any_other_shape_get_a_report() -> None:
    rng = Random(5)
    for _ in range(effort(test=200, shown=10_000, campaign=100_000)):
        entries = dict(read_bundle(rng.choice([small, rich, audited])()).entries)
        name = rng.choice([name for name in entries if not name.endswith(".json") and entries[name]])
        at = rng.randrange(len(entries[name]))
        entries[name] = entries[name][:at] + rng.randbytes(rng.randint(0, 5)) + entries[name][at + rng.randint(1, 5) :]
        report = verify_bundle(write_bundle(Bundle(entries)))
        assert well_formed(report)
        assert not report.ok, name


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("payload.json", b"[" * 1_000_000),
        ("proof.json", b'{"a":' * 1_000_000),
        ("proof.json", b"[" * 100_000 + b"]" * 100_000),
        ("manifest.json", b"[" * 4_000),
        ("proof.json", b'{"field_index":{},"nodes":[' + b"1," * 1_000_000 + b'1],"proof_version":"","root_hash":""}'),
        ("receipt.json", b"9" * 400_000),
        ("facts.jsonl", b"{}\n" * 500_000),
        ("facts.jsonl", b"\n" * 2_000_000),
        ("rules.bpc", b"(" * 1_000_000),
        ("rules.bpc", b"field x: Int = " + b"1+" * 300_000 + b"1;"),
        ("rules.bpc", b"field x: Bool = " + b"!" * 500_000 + b"true;"),
        ("qr.png", png.SIGNATURE + b"\xff" * 1_000_000),
        ("qr.txt", b"|" * 1_000),
    ],
)
def test_bombs_go_off_in_bounded_time_and_memory(name: str, content: bytes) -> None:
    data = write_bundle(Bundle({**read_bundle(small()).entries, name: content}))

    start = time.perf_counter()
    report = verify_bundle(data)
    took = time.perf_counter() - start

    assert not report.ok
    assert well_formed(report)
    assert took < allowed(10)


def test_a_size_that_is_only_declared_takes_no_memory() -> None:
    honest = small()
    at = honest.index(b"PK\x01\x02")
    huge = honest[:18] + b"\xfe\xff\xff\xff" * 2 + honest[26:at] + honest[at:]

    tracemalloc.start()
    report = verify_bundle(huge)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert not report.ok
    assert peak < 10_000_000


@pytest.mark.repeats
def test_rules_that_run_to_the_limit_are_stopped() -> None:
    deep = (
        b"field x: Int = let t = [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1];\n"
        b"  fold(t, 0, fn(a, i) => fold(t, a, fn(b, j) => fold(t, b, fn(c, k) => fold(t, c, fn(d, l) =>\n"
        b"  fold(t, d, fn(e, m) => fold(t, e, fn(f, n) => f + n))))));\n"
    )

    report = verify_bundle(write_bundle(Bundle({**read_bundle(small()).entries, "rules.bpc": deep})))

    assert "more than 1,000,000 steps" in report.steps[STEPS.index("proof_steps")].detail


def test_deep_calls_are_not_what_decides(measured: Measured) -> None:
    """A report does not depend on how much of Python's stack is left."""
    start = time.perf_counter()
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(600)
    try:
        assert verify_bundle(rich(), pinned=[KEY]).ok
    finally:
        sys.setrecursionlimit(limit)
    measured("verify-bundle", milliseconds=round((time.perf_counter() - start) * 1000, 1), bytes=len(rich()))


# The one spelling of each member

UUID = "55555555-0000-4000-8000-000000000005"
ENTRY = {"code": "QR", "field": "duties.qr", "message": "due", "status": "PASS"}
PRODUCT = {"battery_product_id": UUID, "name": "Traction battery", "sku": "SKU-1"}
NO_TEXTS: list[Any] = [None, True, 0, [], {}, ["a"], {"a": 1}]
NO_COUNTS: list[Any] = [-1, True, False, "0", None, [], {}]
NO_AUDIENCES: list[Any] = [None, 0, {}, "public", ["public", "authority"], ["public", "public"], ["everybody"], [0]]


@pytest.mark.parametrize(
    ("spelling", "right", "wrong"),
    [
        (forms.TEXT, ["", "a"], NO_TEXTS),
        (forms.OBJECT, [{}, {"a": 1}], [None, 0, "", []]),
        (forms.LIST, [[], [1]], [None, 0, "", {}]),
        (forms.ID, [UUID], [UUID.upper().replace("5", "A"), UUID.replace("-", ""), "", *NO_TEXTS]),
        (forms.HASH, ["0f" * 32], ["0F" * 32, "0f" * 31, "0f" * 33, "0g" * 32, "", *NO_TEXTS]),
        (forms.SALT, ["0f" * 16], ["0F" * 16, "0f" * 15, "0f" * 17, "0f" * 16 + "\n", "", *NO_TEXTS]),
        (forms.TIME, ["2027-02-18T00:00:00.000000Z"], ["2027-02-18T00:00:00Z", "2027-02-18", "", *NO_TEXTS]),
        (forms.exactly("a"), ["a"], ["b", "", "aa", *NO_TEXTS]),
        (forms.ACCESS, [{}, {"a": [], "b": ["public"]}], [None, 0, [], "", *({"a": bad} for bad in NO_AUDIENCES)]),
        (forms.PAYLOAD["access"], [{"a": ["authority", "interest", "public"]}], [{"a": ["public", "interest"]}]),
        (
            forms.COMPLIANCE,
            [[], [ENTRY], [ENTRY, ENTRY]],
            [
                *(None, 0, {}, "", [None], [0], [[]], [{}]),
                *([{name: text for name, text in ENTRY.items() if name != left_out}] for left_out in ENTRY),
                *([{**ENTRY, name: 0}] for name in ENTRY),
                *(
                    [ENTRY, {**ENTRY, **change}]
                    for change in ({"status": "pass"}, {"status": ""}, {"note": "trust me"})
                ),
            ],
        ),
        (
            forms.PRODUCT,
            [PRODUCT],
            [
                *(None, 0, [], "", {}),
                *({name: text for name, text in PRODUCT.items() if name != left_out} for left_out in PRODUCT),
                *({**PRODUCT, name: wrong} for name in PRODUCT for wrong in (0, None)),
                *({**PRODUCT, **change} for change in ({"battery_product_id": "5"}, {"note": "trust me"})),
            ],
        ),
        (proof.PROOF["field_index"], [{}, {"a": 0, "b": 7}], [None, 0, [], "", *({"a": bad} for bad in NO_COUNTS)]),
        (proof.FIELD["access"], [[], ["public"], ["authority", "interest"]], NO_AUDIENCES),
        (proof.ROOT["access"], [[], [[]], [["public"], []]], [None, 0, {}, "", *([bad] for bad in NO_AUDIENCES)]),
        (view.VIEW["audience"], ["public", "interest", "authority"], ["", "Public", "publi", *NO_TEXTS]),
        (view.VIEW_ROOT["children"], [[], ["0f" * 32]], [None, 0, {}, "", [0], [""], ["0f" * 32, "0F" * 32]]),
        (view.VIEW_ROOT["id"], [0, 1, 10**30], NO_COUNTS),
        (view.VIEW_FIELD["id"], [0, 1, 10**30], NO_COUNTS),
        (events.EVENT["aggregate_version"], [0, 1, 10**30], NO_COUNTS),
        (events.EVENT["actor_id"], [None, UUID], ["", UUID.replace("-", ""), 0, [], {}]),
        (events.EVENT["prev_event_hash"], [None, "0f" * 32], ["", "0F" * 32, 0, [], {}]),
    ],
    ids=lambda given: given.called if isinstance(given, forms.Spelling) else "",
)
def test_a_member_has_one_spelling(spelling: forms.Spelling, right: list[Any], wrong: list[Any]) -> None:
    assert [value for value in right if not spelling.accepts(value)] == []
    assert [value for value in wrong if spelling.accepts(value)] == []


def test_a_member_that_does_not_belong_there_is_named_and_its_name_cut() -> None:
    for name, shown in (("n" * 80, "n" * 80), ("n" * 81, "n" * 80)):
        with pytest.raises(Wrong, match=f"here has a member `{shown}` that does not belong there"):
            forms.formed("here", {name: 1}, {})


def test_what_was_done_is_counted() -> None:
    assert [counted(number, "fact") for number in (0, 1, 2, 1_000)] == ["0 facts", "1 fact", "2 facts", "1,000 facts"]


def test_a_report_says_how_to_mend_what_can_be_mended() -> None:
    def refuse(*, fix: str | None) -> str:
        raise Refusal("that is too much", fix=fix)

    assert taken("qr", partial(refuse, fix=None)) == ("qr", False, "that is too much")
    assert taken("qr", partial(refuse, fix="make it less")) == ("qr", False, "that is too much; make it less")
