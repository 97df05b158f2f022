"""Digests: one spelling each, and no other is read."""

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bpc.core.errors import Invalid
from bpc.core.formats.hashes import Digest, from_base32, from_hex, sha256, to_base32, to_hex
from tests.measurements import choose_examples

repeatable = settings(derandomize=True, max_examples=choose_examples(200))
digests = st.binary(min_size=32, max_size=32).map(Digest)
HEX = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


def test_a_digest_is_the_sha_256_of_the_bytes() -> None:
    assert to_hex(sha256(b"{}")) == HEX
    assert len(sha256(b"")) == 32


@repeatable
@given(digests)
def test_hex_and_base32_give_the_digest_back(digest: Digest) -> None:
    assert from_hex(to_hex(digest)) == digest
    assert from_base32(to_base32(digest)) == digest
    assert len(to_hex(digest)) == 64
    assert len(to_base32(digest)) == 52


@repeatable
@given(st.binary(max_size=40))
def test_base32_is_rfc_4648_without_its_padding(data: bytes) -> None:
    written = to_base32(data)

    assert written + "=" * (-len(written) % 8) == base64.b32encode(data).decode()
    assert from_base32(written) == data


@pytest.mark.parametrize(
    "text",
    [
        "",
        HEX[:-1],
        HEX[:-2],
        HEX + "00",
        HEX.upper(),
        HEX[:-1] + "A",
        " " + HEX,
        HEX + "\n",
        f"{HEX[:32]} {HEX[32:]}",
        "0x" + HEX[2:],
        "g" * 64,
        "٠" * 64,
        "é" * 64,
    ],
)
def test_any_other_spelling_of_a_digest_is_refused(text: str) -> None:
    with pytest.raises(Invalid) as error:
        from_hex(text)

    assert error.value.says == f"`{text[:80]}` is not a hash; write it as 64 lower-case hex digits"


@pytest.mark.parametrize(
    "text",
    [
        "my",
        "MZXW6===",
        "MZXW6=",
        "A",
        "AAA",
        "AAAAAA",
        "M1",
        "M0",
        "M8",
        "MZXW 6",
        "MZ\n",
        "MY======",
        "É" * 8,
    ],
)
def test_any_other_spelling_in_base32_is_refused(text: str) -> None:
    with pytest.raises(Invalid) as error:
        from_base32(text)

    assert error.value.says == f"`{text}` is not base32 in upper case without padding"


@repeatable
@given(digests, st.data())
def test_no_other_last_character_reads_as_the_same_bytes(digest: Digest, data: st.DataObject) -> None:
    written = to_base32(digest)
    other = data.draw(st.sampled_from([c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567" if c != written[-1]]))

    try:
        decoded = from_base32(written[:-1] + other)
    except Invalid:
        return
    assert decoded != digest


def test_a_long_text_is_cut_in_the_refusal() -> None:
    with pytest.raises(Invalid) as error:
        from_hex("a" * 10_000)

    assert len(error.value.says) < 200
