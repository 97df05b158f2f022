"""View grants: how far they go, what a delegate may have, and what a person may write."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from bpc.core.api_keys import ENTROPY_BYTES, ApiKeySecret, Unauthorized
from bpc.core.errors import Invalid
from bpc.core.formats.ids import BatteryId, PassportId
from bpc.core.view_grants import (
    MAX_REQUEST_BYTES,
    GrantBounds,
    GrantCode,
    GrantSubject,
    RequestWords,
    decode_words,
    find_excess,
)

END = datetime(2027, 3, 1, tzinfo=UTC)
MODEL, OTHER_MODEL = PassportId(UUID(int=1)), PassportId(UUID(int=2))
BATTERY, OTHER_BATTERY = BatteryId(UUID(int=3)), BatteryId(UUID(int=4))
SUBJECTS = {
    "model": GrantSubject(passport_id=MODEL),
    "battery": GrantSubject(passport_id=MODEL, battery_id=BATTERY),
    "neighbour": GrantSubject(passport_id=MODEL, battery_id=OTHER_BATTERY),
    "other model": GrantSubject(passport_id=OTHER_MODEL),
}
ALL = GrantBounds(scope="ALL", expires_at=END)
ONE_MODEL = GrantBounds(scope="MODEL", expires_at=END, passport_id=MODEL)
ONE_BATTERY = GrantBounds(scope="ITEM", expires_at=END, battery_id=BATTERY)


def test_a_scope_covers_what_it_names_and_nothing_else() -> None:
    covered = {
        bounds.scope: {name for name, subject in SUBJECTS.items() if bounds.covers(subject)}
        for bounds in (ALL, ONE_MODEL, ONE_BATTERY)
    }

    assert covered == {"ALL": set(SUBJECTS), "MODEL": {"model", "battery", "neighbour"}, "ITEM": {"battery"}}


def test_a_scope_names_the_id_that_it_needs_and_no_other() -> None:
    for wrong in (
        {"scope": "ALL", "passport_id": MODEL},
        {"scope": "MODEL"},
        {"scope": "ITEM"},
        {"scope": "ITEM", "passport_id": MODEL, "battery_id": BATTERY},
    ):
        with pytest.raises(Invalid):
            GrantBounds(expires_at=END, **wrong)


def test_a_delegate_neither_exceeds_nor_outlasts_its_parent() -> None:
    wishes = {
        "everything": (ALL, None),
        "the model": (ONE_MODEL, SUBJECTS["model"]),
        "the battery": (ONE_BATTERY, SUBJECTS["battery"]),
        "another model": (GrantBounds(scope="MODEL", expires_at=END, passport_id=OTHER_MODEL), SUBJECTS["other model"]),
        "another battery": (
            GrantBounds(scope="ITEM", expires_at=END, battery_id=OTHER_BATTERY),
            SUBJECTS["neighbour"],
        ),
    }
    granted = {
        parent.scope: {
            name for name, (bounds, subject) in wishes.items() if find_excess(parent, bounds, subject) is None
        }
        for parent in (ALL, ONE_MODEL, ONE_BATTERY)
    }
    later = GrantBounds(scope="ALL", expires_at=END + timedelta(microseconds=1))

    assert granted == {
        "ALL": set(wishes),
        "MODEL": {"the model", "the battery", "another battery"},
        "ITEM": {"the battery"},
    }
    assert find_excess(ALL, later, None) == "it would last longer than the grant that it is made from"


def test_what_a_person_writes_is_short_text_and_comes_back_as_it_was() -> None:
    words = RequestWords(name="Zoë", contact="a@b.example", purpose="<b>", evidence="")
    wrong = (
        {"name": " "},
        {"contact": ""},
        {"purpose": "\t"},
        {"name": "x" * 201},
        {"evidence": "ö" * (MAX_REQUEST_BYTES // 2)},
        {"purpose": "a\0"},
        {"purpose": "\ud800"},
    )

    assert decode_words(words.encode()) == words
    for change in wrong:
        with pytest.raises(Invalid):
            RequestWords(**{"name": "A", "contact": "B", "purpose": "C", **change})


def test_a_code_is_no_api_key_and_an_api_key_no_code() -> None:
    code, key = GrantCode.generate(bytes(ENTROPY_BYTES)), ApiKeySecret.generate(bytes(ENTROPY_BYTES))

    assert code.text.startswith("bpg_")
    assert GrantCode.parse(code.text) == code
    assert code.text not in repr(code)
    with pytest.raises(Unauthorized, match="not an API key"):
        ApiKeySecret.parse(code.text)
    with pytest.raises(Unauthorized, match="not a code of a grant"):
        GrantCode.parse(key.text)
    with pytest.raises(Unauthorized, match="typing mistake"):
        GrantCode.parse(code.text[:-1] + "x")
