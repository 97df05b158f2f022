"""The key set: what an issuer publishes is what a verifier reads, and nothing else passes for one."""

from base64 import urlsafe_b64decode

import orjson
import pytest

from bpc.core.audit.signing import (
    BadKeySet,
    PinnedKey,
    derive_public_key,
    key_to_json,
    parse_seed,
    read_key_set,
    to_base64,
)

ONE = derive_public_key(parse_seed(bytes(32)))
OTHER = derive_public_key(parse_seed(bytes(range(32))))
IDENTITY = (1).to_bytes(32, "little")  # of order one: anybody can sign for it


def encode_set(*keys: object) -> bytes:
    return orjson.dumps({"keys": keys})


def test_what_is_written_is_read_in_its_order_retired_keys_too() -> None:
    written = encode_set(
        key_to_json("new", ONE, status="ACTIVE", created_at="2027-02-18T00:00:00.000000Z", retired_at=None),
        key_to_json(
            "old", OTHER, status="RETIRED", created_at="2026-01-01T00:00:00.000000Z", retired_at="2027-02-18T…"
        ),
    )

    assert read_key_set(written) == [PinnedKey(ONE, "new"), PinnedKey(OTHER, "old")]


def test_keys_may_have_one_name_or_none() -> None:
    written = encode_set({"public_key": to_base64(ONE)}, {"public_key": to_base64(OTHER), "kid": "web"})

    assert read_key_set(written) == [PinnedKey(ONE, None), PinnedKey(OTHER, "web")]


def test_a_key_is_a_json_web_key_as_well() -> None:
    key = key_to_json("new", ONE, status="ACTIVE", created_at="2027-02-18T00:00:00.000000Z", retired_at=None)

    assert (key["kid"], key["kty"], key["crv"], key["alg"], key["use"]) == ("new", "OKP", "Ed25519", "EdDSA", "sig")
    assert urlsafe_b64decode(f"{key['x']}=") == ONE


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"{", "this is not a valid key set: "),
        (b"[]", "it has no list `keys`"),
        (b"{}", "it has no list `keys`"),
        (b'{"keys": {}}', "it has no list `keys`"),
        (b'{"keys": [], "keys": []}', "this is not a valid key set: "),
        (encode_set("text"), "key 1 has no `public_key`"),
        (encode_set({"public_key": to_base64(ONE)}, {"x": "…"}), "key 2 has no `public_key`"),
        (encode_set({"public_key": "%%%"}), "key 1: the key is not base64"),
        (encode_set({"public_key": to_base64(IDENTITY)}), "key 1: the key is of small order"),
        (encode_set({"public_key": to_base64(ONE), "x": "AAAA"}), "`public_key` and `x` are different keys"),
        (encode_set({"public_key": to_base64(ONE), "key_id": 7}), "the name of key 1 is not a text"),
        (encode_set({"public_key": to_base64(ONE), "kid": ""}), "the name of key 1 is not a text"),
        (
            encode_set({"public_key": to_base64(ONE), "key_id": "a", "kid": "b"}),
            "`key_id` and `kid` differ",
        ),
    ],
)
def test_what_is_no_set_of_keys_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(BadKeySet) as error:
        read_key_set(data)

    assert says in error.value.says
