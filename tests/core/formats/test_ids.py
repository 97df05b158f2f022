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
    make_random_uuid,
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
@given(st.binary(min_size=16, max_size=16))
def test_a_random_id_is_a_version_4_uuid_of_the_bytes_handed_in(entropy: bytes) -> None:
    assert make_random_uuid(entropy) == UUID(bytes=entropy, version=4)


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


@pytest.mark.parametrize("size", [0, 15, 17])
def test_too_little_or_too_much_randomness_is_a_mistake(size: int) -> None:
    with pytest.raises(ValueError, match=f"^a UUID is made of 16 bytes, not of {size}$"):
        make_random_uuid(bytes(size))


# Article numbers: what looks the same is the same.


@pytest.mark.parametrize("sku", ["EB-500-36", "größe 5", "電池-1", " A", "09521234010012/EV-1", "a\u0301"])
def test_a_visible_text_is_a_sku(sku: str) -> None:
    assert find_sku_fault(sku) is None


@pytest.mark.parametrize("sku", ["", " ", "\u3000 ", "A\x01", "A\u200b", "A\u202eB", "\ufeffA", "A\uffff", "A\nB"])
def test_a_sku_with_invisible_characters_is_refused(sku: str) -> None:
    assert find_sku_fault(sku) is not None
