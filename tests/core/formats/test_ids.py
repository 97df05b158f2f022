"""Ids: one spelling, and three ways to make one from what is handed in."""

import uuid
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bpc.core.formats.hashes import Digest, sha256
from bpc.core.formats.ids import (
    NotAnId,
    find_sku_fault,
    make_ordered_uuid,
    parse_uuid,
    uuid_from_hash,
)
from tests.measurements import choose_examples

repeatable = settings(derandomize=True, max_examples=choose_examples(200))
TEXT = "f17fd374-1111-4111-8111-1a8ca6233255"


@repeatable
@given(st.uuids())
def test_an_id_reads_as_it_is_written(uuid: UUID) -> None:
    assert parse_uuid(str(uuid)) == uuid


@pytest.mark.parametrize(
    "text",
    [
        "",
        TEXT.upper(),
        TEXT.replace("-", ""),
        f"{{{TEXT}}}",
        f"urn:uuid:{TEXT}",
        TEXT + "\n",
        " " + TEXT,
        TEXT[:-1],
        TEXT + "0",
        "f17fd37-41111-4111-8111-1a8ca6233255",
        "f17fd374-1111-4111-8111-1a8ca623325g",
        "f17fd374-1111-4111-8111-1a8ca62332_5",
        "f17fd374-1111-4111-8111-1a8ca623325٥",
    ],
)
def test_any_other_spelling_is_refused(text: str) -> None:
    with pytest.raises(NotAnId) as error:
        parse_uuid(text)

    assert error.value.says == f"`{text}` is not an id; write it as a lower-case uuid with hyphens"


@repeatable
@given(st.integers(0, 2**48 - 1), st.binary(min_size=10, max_size=10))
def test_an_ordered_id_is_a_version_7_uuid_of_moment_and_randomness(milliseconds: int, entropy: bytes) -> None:
    ordered_id = make_ordered_uuid(milliseconds, entropy)

    # RFC 9562 section 5.7: 48 bits of time, 4 of version, 12 random, 2 of variant, 62 random.
    assert (ordered_id.version, ordered_id.variant) == (7, uuid.RFC_4122)
    assert ordered_id.int >> 80 == milliseconds
    assert ordered_id.int >> 64 & 0xFFF == int.from_bytes(entropy[:2], "big") & 0xFFF
    assert ordered_id.int & (2**62 - 1) == int.from_bytes(entropy[2:], "big") & (2**62 - 1)


@repeatable
@given(st.integers(0, 2**48 - 2), st.binary(min_size=10, max_size=10), st.binary(min_size=10, max_size=10))
def test_ids_of_a_later_millisecond_are_larger(milliseconds: int, entropy: bytes, other_entropy: bytes) -> None:
    assert make_ordered_uuid(milliseconds, entropy) < make_ordered_uuid(milliseconds + 1, other_entropy)


@repeatable
@given(st.binary(min_size=32, max_size=32).map(Digest))
def test_the_id_of_a_hash_is_its_first_16_bytes_but_for_version_and_variant(digest: Digest) -> None:
    hash_id = uuid_from_hash(digest)

    assert hash_id.version == 8
    assert hash_id.variant == uuid.RFC_4122
    assert [
        (at, byte ^ digest[at]) for at, byte in enumerate(hash_id.bytes) if at not in {6, 8} and byte != digest[at]
    ] == []
    assert hash_id.bytes[6] == 0x80 | digest[6] & 0x0F
    assert hash_id.bytes[8] == 0x80 | digest[8] & 0x3F


def test_the_id_on_the_format_page_comes_out() -> None:
    assert str(uuid_from_hash(sha256(b"{}"))) == "44136fa3-55b3-878a-9146-ad16f7e8649e"


@pytest.mark.parametrize("size", [0, 9, 11])
def test_too_little_or_too_much_randomness_is_a_mistake(size: int) -> None:
    with pytest.raises(ValueError, match=f"^a UUID is made of 16 bytes, not of {6 + size}$"):
        make_ordered_uuid(0, bytes(size))


# Article numbers: what looks the same is the same.


@pytest.mark.parametrize("sku", ["EB-500-36", "größe 5", "電池-1", " A", "09521234010012/EV-1", "a\u0301"])
def test_a_visible_text_is_a_sku(sku: str) -> None:
    assert find_sku_fault(sku) is None


@pytest.mark.parametrize("sku", ["", " ", "\u3000 ", "A\x01", "A\u200b", "A\u202eB", "\ufeffA", "A\uffff", "A\nB"])
def test_a_sku_with_invisible_characters_is_refused(sku: str) -> None:
    assert find_sku_fault(sku) is not None
