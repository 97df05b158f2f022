"""The key set: what an issuer publishes is what a verifier reads, and nothing else passes for one."""

from base64 import urlsafe_b64decode

import orjson
import pytest

from bpc.core.key_set import BadKeySet, key_of, read_key_set
from bpc.core.signing import PinnedKey, public_key_of, seed_of, to_base64

ONE = public_key_of(seed_of(bytes(32)))
OTHER = public_key_of(seed_of(bytes(range(32))))
IDENTITY = (1).to_bytes(32, "little")  # of order one: anybody can sign for it


def a_set(*keys: object) -> bytes:
    return orjson.dumps({"keys": keys})


def test_what_is_written_is_read_in_its_order_retired_keys_too() -> None:
    written = a_set(
        key_of("new", ONE, status="ACTIVE", created_at="2027-02-18T00:00:00.000000Z", retired_at=None),
        key_of("old", OTHER, status="RETIRED", created_at="2026-01-01T00:00:00.000000Z", retired_at="2027-02-18T…"),
    )

    assert read_key_set(written) == [PinnedKey(ONE, "new"), PinnedKey(OTHER, "old")]


def test_keys_may_have_one_name_or_none() -> None:
    written = a_set({"public_key": to_base64(ONE)}, {"public_key": to_base64(OTHER), "kid": "web"})

    assert read_key_set(written) == [PinnedKey(ONE, None), PinnedKey(OTHER, "web")]


def test_a_key_is_a_json_web_key_as_well() -> None:
    key = key_of("new", ONE, status="ACTIVE", created_at="2027-02-18T00:00:00.000000Z", retired_at=None)

    assert (key["kid"], key["kty"], key["crv"], key["alg"], key["use"]) == ("new", "OKP", "Ed25519", "EdDSA", "sig")
    assert urlsafe_b64decode(f"{key['x']}=") == ONE


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"{", "this is no set of keys: "),
        (b"[]", "it has no list `keys`"),
        (b"{}", "it has no list `keys`"),
        (b'{"keys": {}}', "it has no list `keys`"),
        (b'{"keys": [], "keys": []}', "this is no set of keys: "),
        (a_set("text"), "its key 1 has no `public_key`"),
        (a_set({"public_key": to_base64(ONE)}, {"x": "…"}), "its key 2 has no `public_key`"),
        (a_set({"public_key": "%%%"}), "its key 1: the key is not base64"),
        (a_set({"public_key": to_base64(IDENTITY)}), "its key 1: the key is of small order"),
        (a_set({"public_key": to_base64(ONE), "x": "AAAA"}), "one in `public_key` and another in `x`"),
        (a_set({"public_key": to_base64(ONE), "key_id": 7}), "the name of its key 1 is not a text"),
        (a_set({"public_key": to_base64(ONE), "kid": ""}), "the name of its key 1 is not a text"),
        (a_set({"public_key": to_base64(ONE), "key_id": "a", "kid": "b"}), "one name in `key_id` and another in `kid`"),
    ],
)
def test_what_is_no_set_of_keys_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(BadKeySet) as refused:
        read_key_set(data)

    assert says in refused.value.says
