"""Cursors: one opens the list it was made for and no other, and not if a single bit of it is changed."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpc.core.formats.cursor import (
    MAX_CURSOR_LENGTH,
    BadCursor,
    CursorPosition,
    CursorScope,
    derive_cursor_key,
    read_cursor,
    write_cursor,
)
from bpc.core.formats.ids import TenantId

KEY = derive_cursor_key(b"a pepper of tests, 32 bytes long")
TENANT = TenantId(UUID(int=1))
SCOPE = CursorScope(tenant=TENANT, route="/v1/facts", filters={"type": "Mass"})
POSITION = CursorPosition(datetime(2027, 2, 18, 12, 30, 1, 5, tzinfo=UTC), UUID(int=7))
CURSOR = write_cursor(KEY, SCOPE, POSITION)


def _can_open(text: str, *, key: bytes = KEY, scope: CursorScope = SCOPE) -> bool:
    try:
        read_cursor([key], scope, text)
    except BadCursor:
        return False
    return True


@given(st.datetimes(timezones=st.just(UTC)), st.uuids())
def test_a_cursor_names_the_place_it_was_made_for(t: datetime, row: UUID) -> None:
    assert read_cursor([KEY], SCOPE, write_cursor(KEY, SCOPE, CursorPosition(t, row))) == CursorPosition(t, row)


def test_no_bit_of_a_cursor_can_be_changed() -> None:
    raw = CURSOR.encode()
    flipped = [raw[:at] + bytes([raw[at] ^ 1 << bit]) + raw[at + 1 :] for at in range(len(raw)) for bit in range(8)]

    assert _can_open(CURSOR)
    assert [text for text in flipped if _can_open(text.decode("latin-1"))] == []


def test_no_bit_of_what_it_stands_for_can_be_changed() -> None:
    raw = urlsafe_b64decode(CURSOR + "=" * (-len(CURSOR) % 4))
    flipped = [raw[:at] + bytes([raw[at] ^ 1 << bit]) + raw[at + 1 :] for at in range(len(raw)) for bit in range(8)]

    assert [text for text in flipped if _can_open(urlsafe_b64encode(text).rstrip(b"=").decode())] == []


def test_another_spelling_of_the_same_place_is_no_cursor() -> None:
    padded = CURSOR + "=" * (-len(CURSOR) % 4 or 4)
    spaced = urlsafe_b64encode(urlsafe_b64decode(CURSOR + "=" * (-len(CURSOR) % 4)) + b" ").rstrip(b"=").decode()

    for text in (padded, f" {CURSOR}", f"{CURSOR}\n", f"{CURSOR[:9]}\n{CURSOR[9:]}", spaced, CURSOR[:-1]):
        assert not _can_open(text)


@pytest.mark.parametrize(
    "other",
    [
        CursorScope(tenant=TenantId(UUID(int=2)), route=SCOPE.route, filters=SCOPE.filters),
        CursorScope(tenant=TENANT, route="/v1/documents", filters=SCOPE.filters),
        CursorScope(tenant=TENANT, route=SCOPE.route, filters={}),
        CursorScope(tenant=TENANT, route=SCOPE.route, filters={"type": "Masse"}),
        CursorScope(tenant=TENANT, route=SCOPE.route, filters={"type": "Mass", "key": "x"}),
        CursorScope(tenant=TENANT, route=SCOPE.route, filters={"typ": "eMass"}),
    ],
)
def test_a_cursor_opens_no_other_list(other: CursorScope) -> None:
    assert not _can_open(CURSOR, scope=other)


def test_a_cursor_needs_the_key_of_its_installation() -> None:
    assert not _can_open(CURSOR, key=derive_cursor_key(b"another pepper of 32 bytes, also"))


@pytest.mark.parametrize("at", [0, 1, 2])
def test_it_opens_with_any_key_the_installation_accepts(at: int) -> None:
    keys = [derive_cursor_key(bytes([number]) * 16) for number in range(3)]

    assert read_cursor(keys, SCOPE, write_cursor(keys[at], SCOPE, POSITION)) == POSITION
    assert not _can_open(write_cursor(KEY, SCOPE, POSITION), key=keys[at])


def test_a_seal_of_one_place_does_not_fit_another() -> None:
    later = write_cursor(KEY, SCOPE, CursorPosition(POSITION.moment + timedelta(microseconds=1), POSITION.id))

    assert later != CURSOR
    assert read_cursor([KEY], SCOPE, later) != POSITION


@pytest.mark.parametrize(
    "text", ["", "a", "e30", "bnVsbA", "\udc00", "ü", "%", "A" * MAX_CURSOR_LENGTH, "A" * (MAX_CURSOR_LENGTH + 1)]
)
def test_nonsense_is_no_cursor(text: str) -> None:
    assert not _can_open(text)


@given(st.text(max_size=600))
def test_any_text_is_refused_and_nothing_else_happens(text: str) -> None:
    assert not _can_open(text)
