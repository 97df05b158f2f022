"""Peppers: which one is behind a hash, whichever of them it is, and what their names tell."""

import hashlib
import hmac

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bpc.core.apikeys import ApiKey
from bpc.core.peppers import IN_USE, NEXT, PREVIOUS, Peppers, SamePepper, pepper_id
from bpc.settings.model import VARIABLES

KEY = ApiKey.generate(bytes(range(40)))
OLD, NOW, NEW = b"the one before it", b"the one that is used", b"the one to come"
ALL = Peppers(in_use=NOW, previous=OLD, next=NEW)

repeatable = settings(derandomize=True, max_examples=100)
peppers = st.binary(min_size=16, max_size=64)


@pytest.mark.parametrize("pepper", [OLD, NOW, NEW])
def test_the_pepper_behind_a_hash_is_found_whichever_it_is(pepper: bytes) -> None:
    assert ALL.behind(KEY, KEY.hash(pepper)) == pepper


@repeatable
@given(peppers, st.binary(min_size=40, max_size=40))
def test_no_other_pepper_and_no_other_key_is_behind_it(pepper: bytes, entropy: bytes) -> None:
    other = ApiKey.generate(entropy)

    assert ALL.behind(KEY, KEY.hash(pepper)) == (pepper if pepper in ALL.accepted else None)
    assert ALL.behind(other, KEY.hash(NOW)) == (NOW if other == KEY else None)
    assert ALL.behind(KEY, b"") is None


def test_all_are_tried_also_after_one_has_matched(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[bytes] = []
    matches = ApiKey.matches

    def noted(key: ApiKey, stored: bytes, pepper: bytes) -> bool:
        tried.append(pepper)
        return matches(key, stored, pepper)

    monkeypatch.setattr(ApiKey, "matches", noted)
    for stored in (KEY.hash(NOW), KEY.hash(NEW), b"nobody's"):
        tried.clear()
        ALL.behind(KEY, stored)
        assert tried == [NOW, OLD, NEW]


def test_one_pepper_alone_accepts_no_other() -> None:
    alone = Peppers(in_use=NOW)

    assert alone.accepted == (NOW,)
    assert [alone.behind(KEY, KEY.hash(pepper)) for pepper in (OLD, NOW, NEW)] == [None, NOW, None]


def test_a_name_is_made_of_the_pepper_in_a_domain_of_its_own() -> None:
    assert pepper_id(NOW) == hmac.new(NOW, b"BPC-PEPPER-NAME-1", hashlib.sha256).hexdigest()[:12]
    assert len({pepper_id(pepper) for pepper in ALL.accepted}) == 3


@repeatable
@given(peppers)
def test_a_name_is_no_part_of_what_is_stored_or_of_what_seals_cursors(pepper: bytes) -> None:
    assert pepper_id(pepper) not in KEY.hash(pepper).hex()
    assert pepper_id(pepper) not in hashlib.sha256(pepper).hexdigest()


def test_peppers_are_never_shown_by_printing_them() -> None:
    assert repr(ALL) == "Peppers()"


@pytest.mark.parametrize(
    ("given", "one", "other"),
    [
        ({"previous": NOW}, IN_USE, PREVIOUS),
        ({"next": NOW}, IN_USE, NEXT),
        ({"previous": OLD, "next": OLD}, NEXT, PREVIOUS),
    ],
)
def test_no_two_of_them_are_the_same(given: dict[str, bytes], one: str, other: str) -> None:
    with pytest.raises(SamePepper) as refused:
        Peppers(in_use=NOW, **given)

    assert refused.value.says == f"`{other}` is the same pepper as `{one}`"
    assert refused.value.details == {"settings": [one, other]}
    assert {one, other} <= VARIABLES.keys()
