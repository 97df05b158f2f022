"""Cosignatures: valid ones give their time; a wrong one spoils the note, one of a stranger is ignored."""

import pytest

from bpc.core.tlog.cosignatures import make_cosignature, read_cosignature_time
from bpc.core.tlog.notes import BadNote, BadVerifierKey, NoteSignature, VerifierKey, parse_note
from tests.core.tlog.sample_log import make_ed25519_witness, make_log, make_ml_dsa_witness

# The example of the specification: a checkpoint with a cosignature, whose public key it does not publish.
EXAMPLE_MESSAGE = (
    "cosignature/v1\ntime 1679315147\nexample.com/behind-the-sofa\n20852163\n"
    "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
)
WITNESSES = {"ed25519": make_ed25519_witness, "ml-dsa-44": make_ml_dsa_witness}


@pytest.mark.parametrize("kind", list(WITNESSES))
def test_a_cosignature_gives_its_time(kind: str) -> None:
    key, sign = WITNESSES[kind]()
    note = make_log(5).sign_checkpoint()

    cosigned = note.add([make_cosignature(note.text, key, sign, seconds=1_800_000_000)])

    assert read_cosignature_time(parse_note(cosigned.encode()), key) == 1_800_000_000
    assert read_cosignature_time(note, key) is None
    assert VerifierKey.parse(str(key)) == key


@pytest.mark.parametrize("kind", list(WITNESSES))
@pytest.mark.parametrize("at", [0, 7, 8, 40, -1])
def test_a_changed_cosignature_spoils_the_note(kind: str, at: int) -> None:
    key, sign = WITNESSES[kind]()
    note = make_log(5).sign_checkpoint()
    raw = bytearray(make_cosignature(note.text, key, sign, seconds=1_800_000_000).signature)
    raw[at] ^= 1

    with pytest.raises(BadNote, match="cosignature of"):
        read_cosignature_time(note.add([NoteSignature(key.name, key.key_id, bytes(raw))]), key)


@pytest.mark.parametrize("kind", list(WITNESSES))
def test_a_cosignature_of_another_checkpoint_is_wrong(kind: str) -> None:
    key, sign = WITNESSES[kind]()
    log = make_log(5)
    cosignature = make_cosignature(log.sign_checkpoint(4).text, key, sign, seconds=1)

    with pytest.raises(BadNote, match="wrong cosignature"):
        read_cosignature_time(log.sign_checkpoint().add([cosignature]), key)


def test_a_cosignature_without_a_time_or_of_another_length_is_wrong() -> None:
    key, sign = make_ed25519_witness()
    note = make_log(5).sign_checkpoint()

    with pytest.raises(BadNote, match="without a time"):
        read_cosignature_time(note.add([make_cosignature(note.text, key, sign, seconds=0)]), key)
    with pytest.raises(BadNote, match="right length"):
        read_cosignature_time(note.add([NoteSignature(key.name, key.key_id, b"a" * 71)]), key)


def test_a_witness_of_the_same_name_with_another_key_is_ignored() -> None:
    (key, sign), (other, _) = make_ed25519_witness(), make_ed25519_witness(seed=9)
    note = make_log(5).sign_checkpoint()

    assert read_cosignature_time(note.add([make_cosignature(note.text, key, sign, seconds=1)]), other) is None


def test_a_log_key_does_not_cosign() -> None:
    log = make_log(1)

    with pytest.raises(BadVerifierKey, match="type 4 or 6"):
        make_cosignature(log.sign_checkpoint().text, log.signer.verifier, lambda message: message, seconds=1)


def test_the_ed25519_message_is_that_of_the_specification() -> None:
    key, _ = make_ed25519_witness()
    messages = list[bytes]()

    def keep(message: bytes) -> bytes:
        messages.append(message)
        return b"a" * 64

    make_cosignature(EXAMPLE_MESSAGE.partition("1679315147\n")[2], key, keep, seconds=1679315147)

    assert messages == [EXAMPLE_MESSAGE.encode()]


def test_the_ml_dsa_message_is_the_structure_of_the_specification() -> None:
    key, _ = make_ml_dsa_witness()
    messages = list[bytes]()

    def keep(message: bytes) -> bytes:
        messages.append(message)
        return b"a" * 2420

    log = make_log(5)
    make_cosignature(log.sign_checkpoint().text, key, keep, seconds=258)

    name, origin = b"witness.example/w2", b"log.example/passports"
    assert messages == [
        b"subtree/v1\n\x00"
        + bytes([len(name)])
        + name
        + bytes.fromhex("0000000000000102")
        + bytes([len(origin)])
        + origin
        + bytes(8)
        + bytes.fromhex("0000000000000005")
        + log.make_checkpoint().root
    ]
