"""Sessions and sign-in links: unforgeable texts, and an end that cannot be missed."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from bpc.core.console_access import (
    LINK_ENTROPY_BYTES,
    SESSION_ENTROPY_BYTES,
    LinkRefused,
    SessionOver,
    SessionSecret,
    SignInLink,
    is_session_over,
)
from bpc.core.formats.ids import ActorId, ConsoleSessionId, TenantId

NOW = datetime(2027, 2, 18, 12, tzinfo=UTC)
PEPPER, OTHER_PEPPER = b"a pepper of this installation", b"a pepper of another one"
LINK = SignInLink(
    tenant_id=TenantId(UUID(int=1)),
    actor_id=ActorId(UUID(int=2)),
    expires_at=NOW + timedelta(minutes=10),
    number=bytes(LINK_ENTROPY_BYTES),
)
SECRET = SessionSecret.generate(TenantId(UUID(int=1)), ConsoleSessionId(UUID(int=3)), bytes(SESSION_ENTROPY_BYTES))


def test_a_link_is_read_as_it_was_written() -> None:
    assert SignInLink.read(LINK.write(PEPPER), (OTHER_PEPPER, PEPPER), NOW) == LINK


def test_a_link_of_another_installation_is_refused() -> None:
    with pytest.raises(LinkRefused, match="not made by this installation"):
        SignInLink.read(LINK.write(OTHER_PEPPER), (PEPPER,), NOW)


def test_a_link_ends_at_its_second() -> None:
    text = LINK.write(PEPPER)

    assert SignInLink.read(text, (PEPPER,), LINK.expires_at - timedelta(seconds=1)) == LINK
    with pytest.raises(LinkRefused, match="has expired"):
        SignInLink.read(text, (PEPPER,), LINK.expires_at)


def test_no_changed_character_of_a_link_is_accepted() -> None:
    text = LINK.write(PEPPER)

    for at in range(len(text)):
        changed = f"{text[:at]}{'A' if text[at] != 'A' else 'B'}{text[at + 1 :]}"
        with pytest.raises(LinkRefused):
            SignInLink.read(changed, (PEPPER,), NOW)


def test_a_cookie_is_read_as_it_was_written_and_does_not_show_its_secret() -> None:
    assert SessionSecret.parse(SECRET.text) == SECRET
    assert SECRET.matches(SECRET.hash())
    assert SECRET.text.rpartition(".")[2] not in repr(SECRET)


@pytest.mark.parametrize("text", ["", "x", SECRET.text[:-1], SECRET.text + "A", SECRET.text.replace("0", "O"), "🔋"])
def test_anything_else_is_no_cookie(text: str) -> None:
    with pytest.raises(SessionOver):
        SessionSecret.parse(text)


def test_a_form_is_accepted_with_the_token_of_its_own_session_alone() -> None:
    other = SessionSecret.generate(SECRET.tenant_id, SECRET.session_id, bytes(31) + b"x")

    assert SECRET.accepts_form_token(SECRET.make_form_token())
    assert not SECRET.accepts_form_token(other.make_form_token())
    assert not SECRET.accepts_form_token("")
    assert not SECRET.accepts_form_token("ü")


@pytest.mark.parametrize(
    ("ended", "expires_in", "unused_for", "is_over"),
    [
        (False, 1, 59, False),
        (True, 1, 0, True),
        (False, 0, 0, True),
        (False, 1, 60, True),
    ],
)
def test_a_session_is_over_when_it_is_ended_too_old_or_unused(
    ended: bool, expires_in: int, unused_for: int, is_over: bool
) -> None:
    over = is_session_over(
        ended_at=NOW if ended else None,
        expires_at=NOW + timedelta(seconds=expires_in),
        last_used_at=NOW - timedelta(minutes=unused_for),
        idle=timedelta(hours=1),
        now=NOW,
    )

    assert over is is_over
