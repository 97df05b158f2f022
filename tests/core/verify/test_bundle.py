"""Verification: honest bundles hold in every step, and whatever else comes in gets a report, in bounded time."""

import json
import struct
import sys
import time
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random  # noqa: TID251 (seeded)
from typing import Any

import pytest

from bpc.core.errors import Refusal
from bpc.core.exports.disclosure import make_view
from bpc.core.formats import canonical_json
from bpc.core.formats.timestamps import parse_time
from bpc.core.language import package
from bpc.core.language.evaluating.ready_machines import load_machine
from bpc.core.language.ready_rules import load_program
from bpc.core.passport import qr
from bpc.core.passport.bundle import Bundle, read_bundle, write_bundle
from bpc.core.passport.compile_input import Product
from bpc.core.passport.qr import encode_qr_modules
from bpc.core.verify import (
    VerificationReport,
)
from bpc.core.verify.bundle import (
    STEPS,
    VIEW_STEPS,
    verify_bundle,
    verify_bundle_or_view,
    verify_view,
)
from tests.core.language.random_programs.program import create_random_program
from tests.core.sample_passports import (
    KEY,
    OTHER_KEY,
    RICH_INPUT,
    make_audited_bundle,
    make_bundle,
    make_compile_input,
    make_rich_bundle,
    make_small_bundle,
)
from tests.measurements import RecordMeasurement, allow_seconds, choose_effort

DOCS = Path(__file__).parents[3] / "docs"


def is_well_formed(report: VerificationReport) -> bool:
    """Every step is there, in order, each with a sentence."""
    names = tuple(step.name for step in report.steps)
    return names in {STEPS, VIEW_STEPS} and all(step.detail for step in report.steps)


@pytest.mark.parametrize("bundle", [make_small_bundle, make_rich_bundle, make_audited_bundle])
def test_an_honest_bundle_holds_in_every_step(bundle: Callable[[], bytes]) -> None:
    report = verify_bundle(bundle(), pins=[OTHER_KEY, KEY])

    assert report.ok, report
    assert report.issuer == "pinned"
    assert tuple(step.name for step in report.steps) == STEPS
    assert is_well_formed(report)
    assert "which you trust" in report.steps[STEPS.index("signature")].detail


def test_without_a_pinned_key_the_issuer_is_not_checked() -> None:
    report = verify_bundle(make_small_bundle())

    assert (report.ok, report.issuer) == (True, "unpinned")
    assert "the issuer was not checked" in report.steps[STEPS.index("signature")].detail


def test_a_bundle_without_events_says_so() -> None:
    assert verify_bundle(make_small_bundle()).steps[STEPS.index("events")].detail == "not part of this bundle"
    assert "3 events" in verify_bundle(make_audited_bundle()).steps[STEPS.index("events")].detail


def test_what_compiles_to_other_bytes_is_found_though_everything_else_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """No bundle is known that only replay refuses; that is what the reference evaluator is for."""

    def replay_otherwise(entries: object, **_: object) -> None:
        raise Refusal("payload.json differs")

    monkeypatch.setattr("bpc.core.passport.compile.replay_passport", replay_otherwise)
    report = verify_bundle(make_small_bundle(), pins=[KEY])

    assert report.failed_steps == ("replay",)
    assert report.steps[-1].detail == "payload.json differs"


def test_the_rules_are_read_and_checked_once_for_all_steps_and_bundles(monkeypatch: pytest.MonkeyPatch) -> None:
    load_program.cache_clear()
    load_machine.cache_clear()
    read_again = package.read_again
    texts_read: list[bytes] = []

    def read_and_count(texts: package.PackageTexts) -> package.PackageReading:
        texts_read.append(texts.rules)
        return read_again(texts)

    monkeypatch.setattr(package, "read_again", read_and_count)
    bundle = make_small_bundle()

    assert verify_bundle(bundle, pins=[KEY]).ok
    assert verify_bundle(bundle, pins=[KEY]).ok
    assert texts_read == [read_bundle(bundle)["rules.bpc"]]


def test_an_entry_that_cannot_be_read_leaves_the_other_steps_standing() -> None:
    entries = {**read_bundle(make_small_bundle()).entries, "proof.json": b"{"}

    report = verify_bundle(write_bundle(Bundle(entries)))

    assert report.failed_steps == ("canonical", "proof_structure", "proof_steps", "replay")
    details = {step.name: step.detail for step in report.steps}
    assert details["canonical"] == "proof.json: the text is not JSON at line 1, column 2"
    assert details["proof_structure"] == "not checked: proof.json could not be read"
    assert details["replay"] == "not checked: replay runs only if every other step passes"


def test_a_file_that_is_no_bundle_leaves_nothing_to_check() -> None:
    report = verify_bundle(b"PK nonsense")

    assert report.failed_steps == STEPS
    assert all(step.detail.startswith("not checked") for step in report.steps[1:])


def test_bundles_and_views_are_told_apart() -> None:
    assert tuple(step.name for step in verify_bundle_or_view(make_small_bundle()).steps) == STEPS
    assert (
        tuple(step.name for step in verify_bundle_or_view(make_view(read_bundle(make_small_bundle()), "public")).steps)
        == VIEW_STEPS
    )


def test_how_the_image_is_compressed_does_not_matter() -> None:
    entries = dict(read_bundle(make_small_bundle()).entries)
    rows = qr.pack_rows(encode_qr_modules(entries["qr.txt"].decode()), 10)
    data = zlib.compress(b"".join(b"\x00" + row for row in rows), 9)
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", 610, 610, 1, 0, 0, 0, 0)), (b"IDAT", data), (b"IEND", b"")]
    entries["qr.png"] = qr.PNG_SIGNATURE + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )

    assert entries["qr.png"] != read_bundle(make_small_bundle()).entries["qr.png"]
    assert verify_bundle(write_bundle(Bundle(entries)), pins=[KEY]).ok


@pytest.mark.repeats
def test_whatever_the_compiler_compiles_holds(record_measurement: RecordMeasurement) -> None:
    """Random rule packages over random facts: both evaluators and every format agree."""
    programs = choose_effort(test=30, shown=2_000, campaign=20_000)
    held = 0
    for seed in range(programs):
        random_program = create_random_program(seed)
        product = Product(
            battery_product_id=RICH_INPUT.product.battery_product_id,
            sku=random_program.product_sku,
            name=random_program.product_name,
        )
        try:
            data = make_bundle(
                make_compile_input(
                    random_program.rules.encode(),
                    random_program.facts,
                    product=product,
                    issued_at=parse_time(f"{random_program.issued_on}T00:00:00.000000Z"),
                )
            )
        except Refusal:  # a rule that fails, as some of these do
            continue
        report = verify_bundle(data, pins=[KEY])
        assert report.ok, (seed, report)
        held += 1

    record_measurement("verify-random-programs", programs=programs, compiled=held)
    assert held > programs // 4


# The pages


def test_the_page_names_every_step() -> None:
    text = (DOCS / "verification.md").read_text()

    assert [name for name in STEPS if f"| `{name}` |" not in text] == []


def test_the_checker_on_the_proofs_page_gives_the_hash_that_the_receipt_names() -> None:
    namespace: dict[str, Any] = {}
    exec((DOCS / "formats" / "proof.md").read_text().split("```python\n")[1].split("```")[0], namespace)

    for bundle in (make_small_bundle(), make_rich_bundle(), make_audited_bundle()):
        entries = read_bundle(bundle).entries
        assert namespace["root_hash"](entries["proof.json"]) == json.loads(entries["receipt.json"])["proof_root_hash"]


# Whatever comes in


@pytest.mark.parametrize("kind", ["bundle", "view"])
def test_random_bytes_get_a_report(kind: str) -> None:
    rng = Random(1)
    start = {"bundle": b"PK\x03\x04", "view": b"{"}[kind]

    for _ in range(choose_effort(test=150, shown=20_000, campaign=200_000)):
        report = verify_bundle_or_view(start + rng.randbytes(rng.randint(0, 400)))
        assert not report.ok
        assert is_well_formed(report)


def test_truncated_files_get_a_report() -> None:
    rng = Random(2)
    for honest in (make_small_bundle(), make_audited_bundle(), make_view(read_bundle(make_rich_bundle()), "public")):
        for _ in range(choose_effort(test=100, shown=5_000, campaign=50_000)):
            report = verify_bundle_or_view(honest[: rng.randrange(len(honest))])
            assert not report.ok
            assert is_well_formed(report)


JUNK: list[object] = [
    None, True, 0, -1, 1, 2**63, 10**40, "", "x", "0" * 64, [], [0], [[]], {}, {"op": "field"}, "\u2028", "😀",
]  # fmt: skip


def mutate(value: object, rng: Random) -> object:
    """`value` with one thing in it replaced, removed, added or doubled."""
    deeper, choice = rng.random() < 0.9, rng.random()
    if isinstance(value, dict) and value and deeper:
        name = rng.choice(sorted(value))
        changed = {key: part for key, part in value.items() if key != name}
        if choice > 0.2:
            changed[name] = mutate(value[name], rng)
        elif choice > 0.1:
            changed = {**value, rng.choice(["note", "", "op", "value", name + "x"]): rng.choice(JUNK)}
        return changed
    if isinstance(value, list) and value and deeper:
        at = rng.randrange(len(value))
        middle = [mutate(value[at], rng)] if choice > 0.2 else [value[at]] * (2 if choice > 0.1 else 0)
        return [*value[:at], *middle, *value[at + 1 :]]
    return rng.choice(JUNK)


@pytest.mark.repeats
def test_json_of_any_other_shape_gets_a_report() -> None:
    rng = Random(3)
    for _ in range(choose_effort(test=200, shown=20_000, campaign=200_000)):
        entries = dict(read_bundle(rng.choice([make_small_bundle, make_rich_bundle, make_audited_bundle])()).entries)
        for name in rng.sample([name for name in entries if name.endswith(".json")], rng.randint(1, 2)):
            entries[name] = canonical_json.encode(mutate(json.loads(entries[name]), rng))
        report = verify_bundle(write_bundle(Bundle(entries)))
        assert not report.ok
        assert is_well_formed(report)


def test_views_of_any_other_shape_get_a_report() -> None:
    rng = Random(4)
    honest = json.loads(make_view(read_bundle(make_rich_bundle()), "interest"))
    for _ in range(choose_effort(test=200, shown=20_000, campaign=200_000)):
        report = verify_view(canonical_json.encode(mutate(honest, rng)), pins=[KEY])
        assert not report.ok
        assert is_well_formed(report)


@pytest.mark.repeats
def test_lines_and_texts_of_any_other_shape_get_a_report() -> None:
    rng = Random(5)
    for _ in range(choose_effort(test=200, shown=10_000, campaign=100_000)):
        entries = dict(read_bundle(rng.choice([make_small_bundle, make_rich_bundle, make_audited_bundle])()).entries)
        name = rng.choice([name for name in entries if not name.endswith(".json") and entries[name]])
        at = rng.randrange(len(entries[name]))
        entries[name] = entries[name][:at] + rng.randbytes(rng.randint(0, 5)) + entries[name][at + rng.randint(1, 5) :]
        report = verify_bundle(write_bundle(Bundle(entries)))
        assert is_well_formed(report)
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
        ("qr.png", qr.PNG_SIGNATURE + b"\xff" * 1_000_000),
        ("qr.txt", b"|" * 1_000),
    ],
)
def test_zip_bombs_are_refused_in_bounded_time_and_memory(name: str, content: bytes) -> None:
    data = write_bundle(Bundle({**read_bundle(make_small_bundle()).entries, name: content}))

    start = time.perf_counter()
    report = verify_bundle(data)
    took = time.perf_counter() - start

    assert not report.ok
    assert is_well_formed(report)
    assert took < allow_seconds(10)


def test_a_size_that_is_only_declared_takes_no_memory() -> None:
    honest = make_small_bundle()
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

    report = verify_bundle(write_bundle(Bundle({**read_bundle(make_small_bundle()).entries, "rules.bpc": deep})))

    assert "more than 1,000,000 steps" in report.steps[STEPS.index("proof_steps")].detail


def test_deep_calls_are_not_what_decides(record_measurement: RecordMeasurement) -> None:
    """A report does not depend on how much of Python's stack is left."""
    start = time.perf_counter()
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(600)
    try:
        assert verify_bundle(make_rich_bundle(), pins=[KEY]).ok
    finally:
        sys.setrecursionlimit(limit)
    record_measurement(
        "verify-bundle", milliseconds=round((time.perf_counter() - start) * 1000, 1), bytes=len(make_rich_bundle())
    )
