"""One flipped bit anywhere is found and named: in the zip as it is, in every entry zipped anew, and in every view."""

import time
from collections import Counter
from functools import cache
from random import Random  # noqa: TID251 (seeded)
from typing import Any

import pytest

from bpc.core.exports.disclosure import make_view
from bpc.core.passport.bundle import Bundle, read_bundle, write_bundle
from bpc.core.verify import VerificationReport
from bpc.core.verify.bundle import verify_bundle, verify_bundle_or_view
from tests.core.sample_passports import KEY, make_audited_bundle, make_rich_bundle, make_small_bundle
from tests.measurements import RecordMeasurement, choose_effort

SEED = 20270218
BUNDLES = [make_small_bundle, make_rich_bundle, make_audited_bundle]
# The small ones more often: what takes time is evaluating the rules anew.
MORE_OFTEN = [make_small_bundle, make_small_bundle, make_audited_bundle, make_audited_bundle, make_rich_bundle]


def flip_bit(data: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(data) * 8)
    changed = bytearray(data)
    changed[at >> 3] ^= 1 << (at & 7)
    return bytes(changed)


def find_first_failed_step(report: VerificationReport) -> str:
    """The first step that does not hold."""
    return report.failed_steps[0] if report.failed_steps else "nothing"


def format_step_counts(steps: Counter[str]) -> dict[str, Any]:
    return {f"found_by_{name}": count for name, count in sorted(steps.items())}


@cache
def create_views() -> list[bytes]:
    return [
        make_view(read_bundle(bundle()), name) for bundle in BUNDLES for name in ("public", "interest", "authority")
    ]


@pytest.mark.repeats
def test_no_bit_of_an_entry_can_change_unseen_though_the_zip_is_made_anew(
    record_measurement: RecordMeasurement,
) -> None:
    """Every entry gets its share, however small it is: checksums of the zip are no help here."""
    rng = Random(SEED)
    flips = choose_effort(test=250, shown=50_000, campaign=500_000)
    failed_steps: Counter[str] = Counter()
    start = time.perf_counter()
    for _ in range(flips):
        entries = dict(read_bundle(rng.choice(MORE_OFTEN)()).entries)
        name = rng.choice([name for name in sorted(entries) if entries[name]])
        entries[name] = flip_bit(entries[name], rng)
        step = find_first_failed_step(verify_bundle(write_bundle(Bundle(entries)), pins=[KEY]))
        assert step != "nothing", f"a flipped bit of {name} was not found (seed {SEED})"
        failed_steps[step] += 1
    seconds = time.perf_counter() - start

    record_measurement(
        "bit-flips-entries",
        flips=flips,
        accepted=0,
        seed=SEED,
        seconds=round(seconds, 1),
        **format_step_counts(failed_steps),
    )
    assert {"canonical", "payload_hash", "rules", "proof_structure", "signature", "qr"} <= failed_steps.keys()


def test_no_bit_of_a_bundle_can_change_unseen(record_measurement: RecordMeasurement) -> None:
    rng = Random(SEED + 1)
    flips = choose_effort(test=250, shown=25_000, campaign=250_000)
    failed_steps: Counter[str] = Counter()
    for _ in range(flips):
        step = find_first_failed_step(verify_bundle_or_view(flip_bit(rng.choice(BUNDLES)(), rng), pins=[KEY]))
        assert step != "nothing", f"seed {SEED + 1}"
        failed_steps[step] += 1

    record_measurement("bit-flips-bundles", flips=flips, accepted=0, seed=SEED + 1, **format_step_counts(failed_steps))


@pytest.mark.slow
def test_no_bit_of_a_view_can_change_unseen(record_measurement: RecordMeasurement) -> None:
    rng = Random(SEED + 2)
    flips = choose_effort(test=600, shown=25_000, campaign=250_000)
    failed_steps: Counter[str] = Counter()
    for _ in range(flips):
        step = find_first_failed_step(verify_bundle_or_view(flip_bit(rng.choice(create_views()), rng), pins=[KEY]))
        assert step != "nothing", f"seed {SEED + 2}"
        failed_steps[step] += 1

    record_measurement("bit-flips-views", flips=flips, accepted=0, seed=SEED + 2, **format_step_counts(failed_steps))
    assert {"canonical", "signature", "root", "fields"} <= failed_steps.keys()


@pytest.mark.repeats
def test_no_bit_of_a_signature_or_a_key_can_change_unseen() -> None:
    """All of them: base64 has bits that a forgiving reader does not look at."""
    entries = read_bundle(make_audited_bundle()).entries
    for name, member in (("receipt.json", b'"signature":"'), ("manifest.json", b'"public_key":"')):
        start = entries[name].index(member) + len(member)
        end = entries[name].index(b'"', start)
        for at in range(start * 8, end * 8):
            changed = bytearray(entries[name])
            changed[at >> 3] ^= 1 << (at & 7)
            report = verify_bundle(write_bundle(Bundle({**entries, name: bytes(changed)})), pins=[KEY])
            assert not report.ok, (name, at)
            assert {"canonical", "signature"} & set(report.failed_steps)
