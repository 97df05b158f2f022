"""What a witness decides: growth is cosigned, forks, rollbacks and forgeries never are."""

import random  # noqa: TID251 (seeded)
from dataclasses import replace

import pytest

from bpc.core.audit.signing import Seed
from bpc.core.formats.hashes import Digest, sha256
from bpc.core.tlog.checkpoints import LogCheckpoint
from bpc.core.tlog.merkle import EMPTY_ROOT
from bpc.core.tlog.notes import NoteSigner
from bpc.core.tlog.witness import (
    WitnessRefusal,
    WitnessRequest,
    decide_cosigning,
    find_log_key,
    parse_witness_request,
)
from tests.core.tlog.sample_log import ORIGIN, SampleLog, make_log

LOG = make_log(600)
KEY = LOG.signer.verifier


def make_request(old_size: int, new_size: int) -> WitnessRequest:
    return WitnessRequest(
        old_size=old_size, proof=LOG.prove_growth(old_size, new_size), note=LOG.sign_checkpoint(new_size)
    )


@pytest.mark.parametrize(("old_size", "new_size"), [(0, 0), (0, 1), (1, 600), (255, 256), (256, 257), (300, 300)])
def test_growth_is_cosigned(old_size: int, new_size: int) -> None:
    request = parse_witness_request(make_request(old_size, new_size).encode())
    last = LOG.make_checkpoint(old_size) if old_size else None

    assert decide_cosigning(request, find_log_key(request, {ORIGIN: KEY}), last).checkpoint.size == new_size


@pytest.mark.parametrize(
    ("old_size", "new_size", "known_size", "status"),
    [
        (300, 200, 300, 400),  # a rollback
        (200, 300, 250, 409),  # not what it cosigned last
        (0, 300, 250, 409),
        (300, 600, 0, 409),
    ],
)
def test_a_wrong_old_size_is_refused(old_size: int, new_size: int, known_size: int, status: int) -> None:
    request = replace(make_request(0, new_size), old_size=old_size)

    with pytest.raises(WitnessRefusal) as refusal:
        decide_cosigning(request, KEY, LOG.make_checkpoint(known_size) if known_size else None)

    assert refusal.value.status == status
    assert refusal.value.known_size == (known_size if status == 409 else None)


def test_an_unknown_log_is_refused() -> None:
    with pytest.raises(WitnessRefusal) as refusal:
        find_log_key(make_request(0, 1), {})

    assert refusal.value.status == 404


def test_an_empty_log_needs_the_root_of_an_empty_tree() -> None:
    forged = LogCheckpoint(origin=ORIGIN, size=0, root=Digest(EMPTY_ROOT[::-1]))
    request = WitnessRequest(old_size=0, proof=(), note=LOG.signer.sign(forged.text))

    with pytest.raises(WitnessRefusal) as refusal:
        decide_cosigning(request, KEY, None)

    assert refusal.value.status == 422


def forge_request(chance: random.Random, last: LogCheckpoint) -> WitnessRequest:
    """A request that a witness who cosigned `last` must refuse: a fork, a rollback, a wrong proof or signature."""
    new_size = chance.randrange(last.size, 601)
    fork = SampleLog()
    at = chance.randrange(last.size)
    fork.append([*LOG.entries[:at], b"another history", *LOG.entries[at + 1 : new_size]])
    forgeries = [
        # Another history, with its own proof and with the true one.
        WitnessRequest(
            old_size=last.size, proof=fork.prove_growth(last.size, new_size), note=fork.sign_checkpoint(new_size)
        ),
        replace(make_request(last.size, new_size), note=fork.sign_checkpoint(new_size)),
        # The same size, another root.
        WitnessRequest(old_size=last.size, proof=(), note=fork.sign_checkpoint(last.size)),
        # A rollback.
        replace(make_request(0, at), old_size=last.size),
        make_request(at, at),
        # A random root; a proof with a hash changed; another key; another origin's text.
        WitnessRequest(
            old_size=last.size,
            proof=make_request(last.size, new_size).proof,
            note=LOG.signer.sign(LogCheckpoint(origin=ORIGIN, size=new_size, root=sha256(chance.randbytes(8))).text),
        ),
        WitnessRequest(
            old_size=last.size,
            proof=(sha256(chance.randbytes(8)), *make_request(last.size, new_size).proof[1:]),
            note=LOG.sign_checkpoint(new_size),
        ),
        replace(
            make_request(last.size, new_size),
            note=NoteSigner(ORIGIN, Seed(chance.randbytes(32))).sign(LOG.make_checkpoint(new_size).text),
        ),
    ]
    return chance.choice(forgeries)


def count_cosigned(forged_heads: int) -> int:
    chance, cosigned = random.Random(19), 0
    for _ in range(forged_heads):
        last = LOG.make_checkpoint(chance.choice([1, 2, 255, 256, 257, 400, 511, 512, 599]))
        request = forge_request(chance, last)
        try:
            decide_cosigning(parse_witness_request(request.encode()), KEY, last)
        except WitnessRefusal:
            continue
        cosigned += 1
    return cosigned


def test_of_a_hundred_forged_heads_none_is_cosigned() -> None:
    assert count_cosigned(100) == 0


@pytest.mark.long
def test_of_a_thousand_forged_heads_none_is_cosigned() -> None:
    assert count_cosigned(1000) == 0


BODY = make_request(3, 600).encode()


@pytest.mark.parametrize(
    "body",
    [
        *(b"", BODY[1:], BODY[:-1], BODY.replace(b"old 3", b"old 03"), BODY.replace(b"old 3", b"old")),
        *(BODY.replace(b"old 3\n", b"old 3\nAAAA\n"), BODY.replace(b"old 3\n", b"old 3\n!\n"), b"\xff" + BODY),
        *(BODY.replace(b"old 3\n", b"old 3\n" + (b"A" * 43 + b"=\n") * 64), b"old 3\n" * (1 << 18)),
    ],
)
def test_a_request_in_another_form_is_refused(body: bytes) -> None:
    with pytest.raises(WitnessRefusal) as refusal:
        parse_witness_request(body)

    assert refusal.value.status == 400


def test_a_signed_text_that_is_no_checkpoint_is_refused() -> None:
    request = WitnessRequest(old_size=0, proof=(), note=LOG.signer.sign(f"{ORIGIN}\n1\n"))

    with pytest.raises(WitnessRefusal) as refusal:
        decide_cosigning(request, KEY, None)

    assert refusal.value.status == 400
