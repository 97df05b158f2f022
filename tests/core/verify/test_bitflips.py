"""One flipped bit anywhere is found and named: in the zip as it is, in every entry zipped anew, and in every view."""

import time
from collections import Counter
from functools import cache
from random import Random  # noqa: TID251 (seeded)
from typing import Any

import pytest

from bpc.core.bundle import Bundle, read_bundle, write_bundle
from bpc.core.verify.bundle import verify_bundle, verify_either
from bpc.core.verify.report import Report
from bpc.core.view import make_view
from tests.core.passports import KEY, audited, rich, small
from tests.measuring import Measured, effort

SEED = 20270218
BUNDLES = [small, rich, audited]
# The small ones more often: what takes time is evaluating the rules anew.
MORE_OFTEN = [small, small, audited, audited, rich]


def flipped(data: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(data) * 8)
    changed = bytearray(data)
    changed[at >> 3] ^= 1 << (at & 7)
    return bytes(changed)


def blamed(report: Report) -> str:
    """The first step that does not hold."""
    return report.failed[0] if report.failed else "nothing"


def found_by(steps: Counter[str]) -> dict[str, Any]:
    return {f"found_by_{name}": count for name, count in sorted(steps.items())}


@cache
def views() -> list[bytes]:
    return [
        make_view(read_bundle(bundle()), name) for bundle in BUNDLES for name in ("public", "interest", "authority")
    ]


@pytest.mark.repeats
def test_no_bit_of_an_entry_can_change_unseen_though_the_zip_is_made_anew(measured: Measured) -> None:
    """Every entry gets its share, however small it is: checksums of the zip are no help here."""
    rng = Random(SEED)
    flips = effort(test=600, shown=50_000, campaign=500_000)
    found: Counter[str] = Counter()
    start = time.perf_counter()
    for _ in range(flips):
        entries = dict(read_bundle(rng.choice(MORE_OFTEN)()).entries)
        name = rng.choice([name for name in sorted(entries) if entries[name]])
        entries[name] = flipped(entries[name], rng)
        step = blamed(verify_bundle(write_bundle(Bundle(entries)), pinned=[KEY]))
        assert step != "nothing", f"a flipped bit of {name} was not found (seed {SEED})"
        found[step] += 1
    seconds = time.perf_counter() - start

    measured("bit-flips-entries", flips=flips, accepted=0, seed=SEED, seconds=round(seconds, 1), **found_by(found))
    assert {"canonical", "payload_hash", "rules", "proof_structure", "signature", "qr"} <= found.keys()


def test_no_bit_of_a_bundle_can_change_unseen(measured: Measured) -> None:
    rng = Random(SEED + 1)
    flips = effort(test=600, shown=25_000, campaign=250_000)
    found: Counter[str] = Counter()
    for _ in range(flips):
        step = blamed(verify_either(flipped(rng.choice(BUNDLES)(), rng), pinned=[KEY]))
        assert step != "nothing", f"seed {SEED + 1}"
        found[step] += 1

    measured("bit-flips-bundles", flips=flips, accepted=0, seed=SEED + 1, **found_by(found))


def test_no_bit_of_a_view_can_change_unseen(measured: Measured) -> None:
    rng = Random(SEED + 2)
    flips = effort(test=1_500, shown=25_000, campaign=250_000)
    found: Counter[str] = Counter()
    for _ in range(flips):
        step = blamed(verify_either(flipped(rng.choice(views()), rng), pinned=[KEY]))
        assert step != "nothing", f"seed {SEED + 2}"
        found[step] += 1

    measured("bit-flips-views", flips=flips, accepted=0, seed=SEED + 2, **found_by(found))
    assert {"canonical", "signature", "root", "fields"} <= found.keys()


@pytest.mark.repeats
def test_no_bit_of_a_signature_or_a_key_can_change_unseen() -> None:
    """All of them: base64 has bits that a forgiving reader does not look at."""
    entries = read_bundle(audited()).entries
    for name, member in (("receipt.json", b'"signature":"'), ("manifest.json", b'"public_key":"')):
        start = entries[name].index(member) + len(member)
        end = entries[name].index(b'"', start)
        for at in range(start * 8, end * 8):
            changed = bytearray(entries[name])
            changed[at >> 3] ^= 1 << (at & 7)
            report = verify_bundle(write_bundle(Bundle({**entries, name: bytes(changed)})), pinned=[KEY])
            assert not report.ok, (name, at)
            assert {"canonical", "signature"} & set(report.failed)
