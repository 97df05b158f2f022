"""Signed notes and checkpoints: what C2SP publishes is read, every other byte is refused."""

import pytest

from bpc.core.audit.signing import Seed
from bpc.core.tlog.checkpoints import open_checkpoint
from bpc.core.tlog.notes import (
    BadNote,
    BadVerifierKey,
    NoteSigner,
    SignatureType,
    VerifierKey,
    parse_note,
    require_log_signature,
)
from tests.core.tlog.sample_log import ORIGIN, make_ed25519_witness, make_log

# The example of the specification.
KEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
NOTE = (
    "This is an example message.\n\n"
    "— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n"
).encode()


def test_the_example_of_the_specification_verifies() -> None:
    key = VerifierKey.parse(KEY)

    require_log_signature(parse_note(NOTE), key)

    assert str(key) == KEY
    assert parse_note(NOTE).encode() == NOTE


@pytest.mark.parametrize("at", list(range(0, len(NOTE), 3)))
def test_no_changed_byte_is_accepted(at: int) -> None:
    changed = NOTE[:at] + bytes([NOTE[at] ^ 1]) + NOTE[at + 1 :]

    with pytest.raises(BadNote):
        require_log_signature(parse_note(changed), VerifierKey.parse(KEY))


@pytest.mark.parametrize(
    "data",
    [
        *(
            b"",
            b"text\n",
            b"text\n\n",
            b"text\n\nno signature\n",
            NOTE[:-1],
            NOTE + b"\n",
            NOTE.replace(b"e", b"\x01", 1),
        ),
        *(b"\xff\n\n", NOTE.replace(b"Uw2Q", b"Uw2"), b"a" * (1 << 20) + NOTE, "text\n\n— a AAAAAA==\n".encode()),
        *("text\n\n— a+b AAAAAAAA\n".encode(), NOTE + NOTE.split(b"\n\n")[1] * 100),
    ],
)
def test_what_is_not_a_note_is_refused(data: bytes) -> None:
    with pytest.raises(BadNote):
        parse_note(data)


@pytest.mark.parametrize(
    "text",
    [
        *("", "a", "a+530d903a", KEY.replace("530d", "530D"), KEY.replace("530d", "530e"), KEY + "A", KEY[:-4]),
        *(KEY.replace("example.com/foo", "a b"), KEY.replace("example.com/foo", ""), "a+00000000+/w=="),
        "a+8f6ac34b+AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",  # of small order
    ],
)
def test_what_is_not_a_verifier_key_is_refused(text: str) -> None:
    with pytest.raises(BadVerifierKey):
        VerifierKey.parse(text)


def test_a_checkpoint_is_opened_with_the_key_of_its_log_only() -> None:
    log = make_log(3)
    data = log.sign_checkpoint().encode()

    opened = open_checkpoint(data, log.signer.verifier)

    assert (opened.checkpoint.origin, opened.checkpoint.size) == (ORIGIN, 3)
    with pytest.raises(BadNote, match="is not signed by"):
        open_checkpoint(data, NoteSigner(ORIGIN, Seed(b"\x08" * 32)).verifier)
    with pytest.raises(BadVerifierKey, match="type 1"):
        open_checkpoint(data, make_ed25519_witness()[0])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("other.example/log\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n", "is of the log"),
        (f"{ORIGIN}\n0\n57DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n", "empty tree"),
        (f"{ORIGIN}\n01\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n", "tree size"),
        (f"{ORIGIN}\n99999999999999999999\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n", "tree size"),
        (f"{ORIGIN}\n0\nAAAA\n", "not a hash"),
        (f"{ORIGIN}\n0\n", "not a checkpoint"),
    ],
)
def test_a_signed_text_that_is_not_a_checkpoint_of_the_log_is_refused(text: str, reason: str) -> None:
    signer = make_log(0).signer

    with pytest.raises(BadNote, match=reason):
        open_checkpoint(signer.sign(text).encode(), signer.verifier)


def test_a_signature_is_added_once() -> None:
    note = make_log(1).sign_checkpoint()

    assert note.add(note.signatures) == note


def test_the_key_ids_of_types_differ() -> None:
    key = VerifierKey.parse(KEY)

    assert VerifierKey(key.name, SignatureType.COSIGNATURE_ED25519, key.public_key).key_id != key.key_id
