"""Ids: one spelling, and three ways to make one from what is handed in."""

import uuid
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bpc.core.digest import Digest, sha256
from bpc.core.ids import NotAnId, parse_uuid, random_uuid, time_ordered_uuid, uuid_of_hash

repeatable = settings(derandomize=True, max_examples=200)
TEXT = "f17fd374-1111-4111-8111-1a8ca6233255"


@repeatable
@given(st.uuids())
def test_an_id_reads_as_it_is_written(found: UUID) -> None:
    assert parse_uuid(str(found)) == found


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
    with pytest.raises(NotAnId) as refused:
        parse_uuid(text)

    assert refused.value.says == f"`{text}` is not an id; write it as a lower-case uuid with hyphens"


@repeatable
@given(st.binary(min_size=16, max_size=16))
def test_a_random_id_is_a_version_4_uuid_of_the_bytes_handed_in(entropy: bytes) -> None:
    assert random_uuid(entropy) == UUID(bytes=entropy, version=4)


def test_the_time_ordered_example_of_rfc_9562_comes_out() -> None:
    # RFC 9562 appendix A.6: 2022-02-22 19:22:22 UTC, rand_a 0xCC3, rand_b 0x18C4DC0C0C07398F.
    made = time_ordered_uuid(0x017F22E279B0, bytes.fromhex("0cc318c4dc0c0c07398f"))

    assert str(made) == "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"


@repeatable
@given(st.integers(0, 2**48 - 2), st.binary(min_size=10, max_size=10), st.binary(min_size=10, max_size=10))
def test_an_id_made_a_millisecond_later_sorts_later(unix_ms: int, one: bytes, other: bytes) -> None:
    first, second = time_ordered_uuid(unix_ms, one), time_ordered_uuid(unix_ms + 1, other)

    assert str(first) < str(second)
    assert first.version == second.version == 7
    assert first.variant == second.variant == uuid.RFC_4122


@repeatable
@given(st.binary(min_size=32, max_size=32).map(Digest))
def test_the_id_of_a_hash_is_its_first_16_bytes_but_for_version_and_variant(digest: Digest) -> None:
    made = uuid_of_hash(digest)

    assert made.version == 8
    assert made.variant == uuid.RFC_4122
    assert [
        (at, byte ^ digest[at]) for at, byte in enumerate(made.bytes) if at not in {6, 8} and byte != digest[at]
    ] == []
    assert made.bytes[6] == 0x80 | digest[6] & 0x0F
    assert made.bytes[8] == 0x80 | digest[8] & 0x3F


def test_the_id_on_the_format_page_comes_out() -> None:
    assert str(uuid_of_hash(sha256(b"{}"))) == "44136fa3-55b3-878a-9146-ad16f7e8649e"


@pytest.mark.parametrize("size", [0, 15, 17])
def test_too_little_or_too_much_randomness_is_a_mistake(size: int) -> None:
    with pytest.raises(ValueError, match=f"^a UUID is made of 16 bytes, not of {size}$"):
        random_uuid(bytes(size))
    with pytest.raises(ValueError, match="16 bytes"):
        time_ordered_uuid(0, bytes(size))


@pytest.mark.parametrize("unix_ms", [-1, 2**48])
def test_a_time_that_does_not_fit_is_a_mistake(unix_ms: int) -> None:
    with pytest.raises(OverflowError):
        time_ordered_uuid(unix_ms, bytes(10))
