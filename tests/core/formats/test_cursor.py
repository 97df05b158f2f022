"""Cursors: one opens the list it was made for and no other, and not if a single bit of it is changed."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpc.core.cursor import LONGEST, BadCursor, List, Place, cursor_key, read_cursor, write_cursor
from bpc.core.ids import TenantId

KEY = cursor_key(b"a pepper of tests, 32 bytes long")
TENANT = TenantId(UUID(int=1))
LIST = List(tenant=TENANT, route="/v1/facts", filters={"type": "Mass"})
PLACE = Place(datetime(2027, 2, 18, 12, 30, 1, 5, tzinfo=UTC), UUID(int=7))
CURSOR = write_cursor(KEY, LIST, PLACE)


def _opens(text: str, *, key: bytes = KEY, of: List = LIST) -> bool:
    try:
        read_cursor([key], of, text)
    except BadCursor:
        return False
    return True


@given(st.datetimes(timezones=st.just(UTC)), st.uuids())
def test_a_cursor_names_the_place_it_was_made_for(t: datetime, row: UUID) -> None:
    assert read_cursor([KEY], LIST, write_cursor(KEY, LIST, Place(t, row))) == Place(t, row)


def test_no_bit_of_a_cursor_can_be_changed() -> None:
    raw = CURSOR.encode()
    flipped = [raw[:at] + bytes([raw[at] ^ 1 << bit]) + raw[at + 1 :] for at in range(len(raw)) for bit in range(8)]

    assert _opens(CURSOR)
    assert [text for text in flipped if _opens(text.decode("latin-1"))] == []


def test_no_bit_of_what_it_stands_for_can_be_changed() -> None:
    raw = urlsafe_b64decode(CURSOR + "=" * (-len(CURSOR) % 4))
    flipped = [raw[:at] + bytes([raw[at] ^ 1 << bit]) + raw[at + 1 :] for at in range(len(raw)) for bit in range(8)]

    assert [text for text in flipped if _opens(urlsafe_b64encode(text).rstrip(b"=").decode())] == []


def test_another_spelling_of_the_same_place_is_no_cursor() -> None:
    padded = CURSOR + "=" * (-len(CURSOR) % 4 or 4)
    spaced = urlsafe_b64encode(urlsafe_b64decode(CURSOR + "=" * (-len(CURSOR) % 4)) + b" ").rstrip(b"=").decode()

    for text in (padded, f" {CURSOR}", f"{CURSOR}\n", f"{CURSOR[:9]}\n{CURSOR[9:]}", spaced, CURSOR[:-1]):
        assert not _opens(text)


@pytest.mark.parametrize(
    "other",
    [
        List(tenant=TenantId(UUID(int=2)), route=LIST.route, filters=LIST.filters),
        List(tenant=TENANT, route="/v1/documents", filters=LIST.filters),
        List(tenant=TENANT, route=LIST.route, filters={}),
        List(tenant=TENANT, route=LIST.route, filters={"type": "Masse"}),
        List(tenant=TENANT, route=LIST.route, filters={"type": "Mass", "key": "x"}),
        List(tenant=TENANT, route=LIST.route, filters={"typ": "eMass"}),
    ],
)
def test_it_opens_no_other_list(other: List) -> None:
    assert not _opens(CURSOR, of=other)


def test_it_is_sealed_by_the_installation() -> None:
    assert not _opens(CURSOR, key=cursor_key(b"another pepper of 32 bytes, also"))


@pytest.mark.parametrize("at", [0, 1, 2])
def test_it_opens_with_any_key_the_installation_accepts(at: int) -> None:
    keys = [cursor_key(bytes([number]) * 16) for number in range(3)]

    assert read_cursor(keys, LIST, write_cursor(keys[at], LIST, PLACE)) == PLACE
    assert not _opens(write_cursor(KEY, LIST, PLACE), key=keys[at])


def test_a_seal_of_one_place_does_not_fit_another() -> None:
    later = write_cursor(KEY, LIST, Place(PLACE.t + timedelta(microseconds=1), PLACE.id))

    assert later != CURSOR
    assert read_cursor([KEY], LIST, later) != PLACE


@pytest.mark.parametrize("text", ["", "a", "e30", "bnVsbA", "\udc00", "ü", "%", "A" * LONGEST, "A" * (LONGEST + 1)])
def test_nonsense_is_no_cursor(text: str) -> None:
    assert not _opens(text)


@given(st.text(max_size=600))
def test_any_text_is_refused_and_nothing_else_happens(text: str) -> None:
    assert not _opens(text)
