"""Peppers: which one is behind a hash, whichever of them it is, and what their names tell."""

import hashlib
import hmac

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bpc.core.api_keys import ApiKeySecret, Peppers, SamePepper, compute_pepper_id
from bpc.runtime.next_steps import OPERATOR_STEPS
from tests.measurements import choose_examples

KEY = ApiKeySecret.generate(bytes(range(40)))
OLD, NOW, NEW = b"the one before it", b"the one that is used", b"the one to come"
ALL = Peppers(in_use=NOW, previous=OLD, next=NEW)

repeatable = settings(derandomize=True, max_examples=choose_examples(100))
peppers = st.binary(min_size=16, max_size=64)


@pytest.mark.parametrize("pepper", [OLD, NOW, NEW])
def test_the_pepper_behind_a_hash_is_found_whichever_it_is(pepper: bytes) -> None:
    assert ALL.find_matching(KEY, KEY.hash(pepper)) == pepper


@repeatable
@given(peppers, st.binary(min_size=40, max_size=40))
def test_no_other_pepper_and_no_other_key_is_behind_it(pepper: bytes, entropy: bytes) -> None:
    other = ApiKeySecret.generate(entropy)

    assert ALL.find_matching(KEY, KEY.hash(pepper)) == (pepper if pepper in ALL.accepted else None)
    assert ALL.find_matching(other, KEY.hash(NOW)) == (NOW if other == KEY else None)
    assert ALL.find_matching(KEY, b"") is None


def test_all_are_tried_also_after_one_has_matched(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[bytes] = []
    matches = ApiKeySecret.matches

    def record_match(key: ApiKeySecret, stored: bytes, pepper: bytes) -> bool:
        tried.append(pepper)
        return matches(key, stored, pepper)

    monkeypatch.setattr(ApiKeySecret, "matches", record_match)
    for stored in (KEY.hash(NOW), KEY.hash(NEW), b"nobody's"):
        tried.clear()
        ALL.find_matching(KEY, stored)
        assert tried == [NOW, OLD, NEW]


def test_one_pepper_alone_accepts_no_other() -> None:
    alone = Peppers(in_use=NOW)

    assert alone.accepted == (NOW,)
    assert [alone.find_matching(KEY, KEY.hash(pepper)) for pepper in (OLD, NOW, NEW)] == [None, NOW, None]


def test_a_name_is_made_of_the_pepper_in_a_domain_of_its_own() -> None:
    assert compute_pepper_id(NOW) == hmac.new(NOW, b"BPC-PEPPER-NAME-1", hashlib.sha256).hexdigest()[:12]
    assert len({compute_pepper_id(pepper) for pepper in ALL.accepted}) == 3


@repeatable
@given(peppers)
def test_a_name_is_no_part_of_what_is_stored_or_of_what_seals_cursors(pepper: bytes) -> None:
    assert compute_pepper_id(pepper) not in KEY.hash(pepper).hex()
    assert compute_pepper_id(pepper) not in hashlib.sha256(pepper).hexdigest()


def test_peppers_are_never_shown_by_printing_them() -> None:
    assert repr(ALL) == "Peppers()"


@pytest.mark.parametrize(
    ("values", "one", "other"),
    [
        ({"previous": NOW}, "current", "previous"),
        ({"next": NOW}, "current", "next"),
        ({"previous": OLD, "next": OLD}, "next", "previous"),
    ],
)
def test_equal_peppers_are_refused(values: dict[str, bytes], one: str, other: str) -> None:
    with pytest.raises(SamePepper) as error:
        Peppers(in_use=NOW, **values)

    assert error.value.says == f"the {other} pepper is the same as the {one} pepper"
    assert error.value.details == {"peppers": [one, other]}
    assert error.value.hint in OPERATOR_STEPS
