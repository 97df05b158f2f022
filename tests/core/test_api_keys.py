"""API keys: their form, what their checksum finds, what of them is stored, and that they are never shown.

`crc32` and `base62` below are the format page in a few lines, and share nothing with the code.
"""

import base64
import hashlib
import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bpc.core.api_keys import ApiKeySecret, Unauthorized
from bpc.core.errors import CODES
from tests.measurements import choose_examples

PAGE = Path(__file__).parents[2] / "docs" / "formats" / "api-key.md"
DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
PEPPER = b"sixteen bytes of"
KEY = ApiKeySecret.generate(bytes(range(40)))

repeatable = settings(derandomize=True, max_examples=choose_examples(100))
entropies = st.binary(min_size=40, max_size=40)
keys = entropies.map(ApiKeySecret.generate)


def compute_crc32(data: bytes) -> int:
    register = 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0xEDB88320 if register & 1 else 0)
    return register ^ 0xFFFFFFFF


def encode_base62(number: int, length: int) -> str:
    return "".join(DIGITS[number // 62**place % 62] for place in reversed(range(length)))


def expect_refusal(text: str) -> Unauthorized:
    with pytest.raises(Unauthorized) as error:
        ApiKeySecret.parse(text)
    return error.value


# Form


@repeatable
@given(entropies)
def test_a_key_is_prefix_secret_and_checksum(entropy: bytes) -> None:
    key = ApiKeySecret.generate(entropy)

    prefix = encode_base62(int.from_bytes(entropy[:8], "big"), 10)
    secret = encode_base62(int.from_bytes(entropy[8:], "big"), 43)
    body = f"bpc_{prefix}_{secret}"
    assert key.prefix == prefix
    assert key.text == body + encode_base62(compute_crc32(body.encode()), 6)
    assert len(key.text) == 64


@repeatable
@given(entropies)
def test_a_key_reads_as_it_was_made_and_is_made_of_its_entropy_alone(entropy: bytes) -> None:
    key = ApiKeySecret.generate(entropy)

    assert ApiKeySecret.parse(key.text) == key == ApiKeySecret.generate(entropy)


def test_the_crc_is_the_one_everybody_has() -> None:
    assert compute_crc32(b"123456789") == 0xCBF43926


@pytest.mark.parametrize("entropy", [bytes(40), b"\xff" * 40], ids=["zeros", "ones"])
def test_the_smallest_and_the_largest_randomness_fit(entropy: bytes) -> None:
    key = ApiKeySecret.generate(entropy)

    assert len(key.text) == 64
    assert ApiKeySecret.parse(key.text) == key


def test_no_bit_of_the_secret_is_lost() -> None:
    assert 62**43 >= 2**256
    assert ApiKeySecret.generate(b"\xff" * 40).text[15:58] == encode_base62(2**256 - 1, 43)


@repeatable
@given(entropies, st.integers(0, 319))
def test_another_bit_of_randomness_is_another_key(entropy: bytes, bit: int) -> None:
    other = (int.from_bytes(entropy, "big") ^ 1 << bit).to_bytes(40, "big")

    assert ApiKeySecret.generate(other).text != ApiKeySecret.generate(entropy).text


@pytest.mark.parametrize("size", [0, 32, 39, 41])
def test_too_little_or_too_much_randomness_is_a_mistake(size: int) -> None:
    with pytest.raises(ValueError, match=r"^a key takes 40 random bytes$"):
        ApiKeySecret.generate(bytes(size))


# Mistakes


def test_a_typing_mistake_is_told_from_what_is_no_key() -> None:
    mistyped = expect_refusal(KEY.text[:-1] + ("0" if KEY.text[-1] != "0" else "1"))
    nothing = expect_refusal("password")

    assert mistyped.says == "this API key has a typing mistake"
    assert mistyped.fix == "copy it again, from `bpc_` to its end"
    assert nothing.says == "this is not an API key"
    assert nothing.fix == "send `bpc_…` exactly as it was shown when it was created"
    assert CODES[mistyped.code].http == CODES[nothing.code].http == 401


@pytest.mark.parametrize("entropy", [bytes(40), bytes(range(40)), b"\xff" * 40], ids=["zeros", "counting", "ones"])
def test_every_single_wrong_character_is_found(entropy: bytes) -> None:
    text = ApiKeySecret.generate(entropy).text

    for at, right in enumerate(text):
        for wrong in set(DIGITS + "_- \n.é０") - {right}:
            says = expect_refusal(text[:at] + wrong + text[at + 1 :]).says
            is_digit_for_digit = wrong in DIGITS and right in DIGITS and at >= 4
            assert says == ("this API key has a typing mistake" if is_digit_for_digit else "this is not an API key")


@repeatable
@given(keys)
def test_every_two_neighbours_swapped_are_found(key: ApiKeySecret) -> None:
    for at, (one, other) in enumerate(pairwise(key.text)):
        if one != other:
            expect_refusal(key.text[:at] + other + one + key.text[at + 2 :])


@repeatable
@given(keys)
def test_a_character_too_few_or_too_many_is_found(key: ApiKeySecret) -> None:
    for at, character in enumerate(key.text):
        assert expect_refusal(key.text[:at] + key.text[at + 1 :]).says == "this is not an API key"
        assert expect_refusal(key.text[:at] + character + key.text[at:]).says == "this is not an API key"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "bpc_",
        " " + KEY.text,
        KEY.text + "\n",
        KEY.text + KEY.text,
        f"Bearer {KEY.text}",
        KEY.text.upper(),
        KEY.text.replace("bpc", "BPC"),
        KEY.text.replace("_", "-"),
        KEY.text.replace("0", "٠"),
        "\ud800" * 64,
    ],
    ids=ascii,
)
def test_any_other_text_is_not_a_key(text: str) -> None:
    assert expect_refusal(text).says == "this is not an API key"


# What is stored


def test_what_is_stored_is_the_hash_of_the_whole_key_and_the_pepper() -> None:
    text = "bpc_01IYT0XLWR_1u8QmlquE1rQpeqoulx6MZVGVGgufeog3UsDEHmrG2p2hqK7C"

    assert ApiKeySecret.parse(text).hash(PEPPER) == hashlib.sha256(text.encode() + b"sixteen bytes of").digest()
    assert (
        ApiKeySecret.parse(text).hash(PEPPER).hex()
        == "b481b2beaa146ebd83c1d20dee0cc0689f97348a4f9f7bcb73b16989732bd259"
    )


@repeatable
@given(keys, keys, st.binary(min_size=16, max_size=32), st.binary(min_size=16, max_size=32))
def test_a_hash_matches_its_own_key_and_pepper_only(
    key: ApiKeySecret, other: ApiKeySecret, pepper: bytes, salt: bytes
) -> None:
    stored = key.hash(pepper)

    assert key.matches(stored, pepper)
    assert key.matches(stored, salt) == (salt == pepper)
    assert other.matches(stored, pepper) == (other == key)
    assert not key.matches(stored[:-1], pepper)
    assert not key.matches(b"", pepper)


# What is shown


@repeatable
@given(keys)
def test_a_key_is_never_shown_by_printing_it(key: ApiKeySecret) -> None:
    printed = [repr(key), str(key), f"{key}", repr([key]), repr({"key": key})]

    assert printed[0] == f"ApiKeySecret(prefix='{key.prefix}')"
    assert [text for text in printed if key.text[15:58] in text or key.text[-6:] in text] == []


def test_a_refusal_never_repeats_what_was_sent() -> None:
    for text in (KEY.text + "x", KEY.text[:-1] + "#", KEY.text[:20] + "0" + KEY.text[21:]):
        refused = expect_refusal(text)

        message = f"{refused!r} {refused} {refused.says} {refused.fix} {dict(refused.details)}"
        assert text not in message
        assert KEY.text[25:50] not in message
        # Nor does the chain of causes, which ends up in logs.
        assert refused.__cause__ is None
        assert refused.__context__ is None


# The page


def test_the_example_of_the_page_is_true() -> None:
    (block,) = re.findall(r"```text\n(.*?)\n```", PAGE.read_bytes().decode(), re.DOTALL)
    page = dict(line.split(": ", 1) for line in block.split("\n"))
    entropy, pepper = bytes.fromhex(page["entropy"]), base64.b64decode(page["pepper"])

    assert page["prefix"] == encode_base62(int.from_bytes(entropy[:8], "big") % 62**10, 10)
    assert page["body"] == f"bpc_{page['prefix']}_{encode_base62(int.from_bytes(entropy[8:], 'big'), 43)}"
    assert page["crc32"] == str(compute_crc32(page["body"].encode()))
    assert page["checksum"] == encode_base62(int(page["crc32"]), 6)
    assert page["key"] == page["body"] + page["checksum"]
    assert page["stored"] == hashlib.sha256(page["key"].encode() + pepper).hexdigest()

    key = ApiKeySecret.generate(entropy)
    assert (key.prefix, key.text, key.hash(pepper).hex()) == (page["prefix"], page["key"], page["stored"])


def test_the_pattern_of_the_page_is_the_one_we_read() -> None:
    (pattern,) = re.findall(r"^    (bpc_\[.*)$", PAGE.read_bytes().decode(), re.MULTILINE)

    assert re.fullmatch(pattern, KEY.text)
    assert pattern == "bpc_[0-9A-Za-z]{10}_[0-9A-Za-z]{49}"
