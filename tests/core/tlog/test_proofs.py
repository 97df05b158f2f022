"""Proofs of logging: they show what they show without the log, and only to somebody whose policy agrees."""

from dataclasses import replace

import pytest

from bpc.core.audit.signing import Seed
from bpc.core.errors import Invalid
from bpc.core.formats.hashes import sha256
from bpc.core.tlog.cosignatures import make_cosignature
from bpc.core.tlog.notes import NoteSigner
from bpc.core.tlog.policy import LogPolicy, parse_policy
from bpc.core.tlog.proofs import BadLogProof, LogProof, check_log_proof, parse_log_proof
from tests.core.tlog.sample_log import ORIGIN, make_ed25519_witness, make_log, make_ml_dsa_witness

LOG = make_log(300)
WITNESSES = (make_ed25519_witness(), make_ml_dsa_witness())


def make_proof(index: int, *, witnesses: int = 2) -> LogProof:
    note = LOG.sign_checkpoint()
    cosignatures = [
        make_cosignature(note.text, key, sign, seconds=1_800_000_000 + number)
        for number, (key, sign) in enumerate(WITNESSES[:witnesses])
    ]
    return LogProof(
        index=index,
        hashes=LOG.prove_entry(index),
        checkpoint=note.add(cosignatures).encode(),
        extra=b"what opens it",
    )


def make_policy(quorum: str = "both") -> LogPolicy:
    lines = [
        f"log {LOG.signer.verifier}",
        *(f"witness w{number} {key}" for number, (key, _) in enumerate(WITNESSES)),
        "group both all w0 w1",
        f"quorum {quorum}",
    ]
    return parse_policy("\n".join(lines).encode())


def test_a_proof_comes_back_and_shows_who_saw_the_entry_when() -> None:
    proof = parse_log_proof(make_proof(7).encode())

    inclusion = check_log_proof(proof, LOG.find_leaf(7), make_policy())

    assert (inclusion.index, inclusion.checkpoint.size) == (7, 300)
    assert inclusion.witnesses == (("w0", 1_800_000_000), ("w1", 1_800_000_001))
    assert proof.extra == b"what opens it"


def test_too_few_witnesses_are_refused() -> None:
    with pytest.raises(BadLogProof, match="1 witnesses of your policy, and that is below its quorum"):
        check_log_proof(make_proof(7, witnesses=1), LOG.find_leaf(7), make_policy())

    assert len(check_log_proof(make_proof(7, witnesses=1), LOG.find_leaf(7), make_policy("w0")).witnesses) == 1
    assert check_log_proof(make_proof(7, witnesses=0), LOG.find_leaf(7), make_policy("none")).witnesses == ()


def test_another_entry_index_hash_or_log_is_refused() -> None:
    proof, leaf, policy = make_proof(7), LOG.find_leaf(7), make_policy()

    with pytest.raises(Invalid, match="does not lead to the root"):
        check_log_proof(proof, LOG.find_leaf(8), policy)
    with pytest.raises(Invalid, match="does not lead to the root"):
        check_log_proof(replace(proof, index=6), leaf, policy)
    with pytest.raises(Invalid, match="does not lead to the root"):
        check_log_proof(replace(proof, hashes=(sha256(b""), *proof.hashes[1:])), leaf, policy)
    with pytest.raises(BadLogProof, match="which your policy does not name"):
        check_log_proof(proof, leaf, parse_policy(b"quorum none"))
    other = NoteSigner(ORIGIN, Seed(b"\x08" * 32)).verifier
    with pytest.raises(Invalid, match="is not signed by"):
        check_log_proof(proof, leaf, parse_policy(f"log {other}\nquorum none".encode()))


DATA = make_proof(7, witnesses=1).encode()


@pytest.mark.parametrize(
    "data",
    [
        *(b"", DATA[1:], DATA[:-1], DATA.replace(b"index 7", b"index 07"), DATA.replace(b"index 7", b"index -1")),
        *(DATA.replace(b"index 7\n", b""), DATA.replace(b"extra ", b"extra  "), DATA.replace(b"\n\n", b"\n", 1)),
        *(DATA.replace(b"index 7\n", b"index 7\n" + b"a" * 44 + b"\n"), DATA.replace(b"@v1", b"@v2"), b"a" * (2 << 20)),
        *(DATA.replace(b"index 7\n", b"index 7\n" + (b"A" * 43 + b"=\n") * 60), "ü".encode() + DATA),
    ],
)
def test_a_proof_in_any_other_form_is_refused(data: bytes) -> None:
    with pytest.raises(BadLogProof):
        parse_log_proof(data)


def test_a_proof_without_extra_has_no_such_line() -> None:
    proof = replace(make_proof(0), extra=None)

    assert b"extra" not in proof.encode()
    assert parse_log_proof(proof.encode()) == proof
