"""The key set: what an issuer publishes is what a verifier reads, and nothing else passes for one."""

from base64 import urlsafe_b64decode
from datetime import UTC, datetime

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
EARLIER, LATER = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 2, 18, tzinfo=UTC)
IDENTITY = (1).to_bytes(32, "little")  # of order one: anybody can sign for it


def encode_set(*keys: object) -> bytes:
    return orjson.dumps({"keys": keys})


def test_what_is_written_is_read_in_its_order_retired_keys_too() -> None:
    written = encode_set(
        key_to_json(PinnedKey(ONE, "new"), status="ACTIVE", created_at=LATER, retired_at=None),
        key_to_json(PinnedKey(OTHER, "old"), status="RETIRED", created_at=EARLIER, retired_at=LATER),
    )

    assert read_key_set(written) == [PinnedKey(ONE, "new"), PinnedKey(OTHER, "old", valid_until=LATER)]


def test_a_key_says_its_tenant_its_window_and_since_when_it_is_compromised() -> None:
    key = PinnedKey(
        ONE,
        "acme-1",
        tenant_id="11111111-1111-4111-8111-111111111111",
        tenant="acme",
        valid_from=EARLIER,
        valid_until=LATER,
        compromised_since=EARLIER,
    )

    written = key_to_json(key, status="COMPROMISED", created_at=EARLIER, retired_at=None)

    assert read_key_set(encode_set(written)) == [key]
    retired = written | {"retired_at": "2026-06-01T00:00:00.000000Z"}
    assert read_key_set(encode_set(retired))[0].valid_until == datetime(2026, 6, 1, tzinfo=UTC)
    for changed, says in (
        ({"status": "ACTIVE"}, "`status` and `compromised_since` of key 1 contradict each other"),
        ({"compromised_since": None}, "`status` and `compromised_since` of key 1 contradict each other"),
        ({"tenant_id": "acme"}, "`tenant_id` of key 1"),
        ({"tenant": 7}, "`tenant` of key 1 is not a text"),
        ({"valid_from": "yesterday"}, "`valid_from` of key 1"),
    ):
        with pytest.raises(BadKeySet) as error:
            read_key_set(encode_set(written | changed))
        assert says in error.value.says


def test_keys_may_have_one_name_or_none() -> None:
    written = encode_set({"public_key": to_base64(ONE)}, {"public_key": to_base64(OTHER), "kid": "web"})

    assert read_key_set(written) == [PinnedKey(ONE, None), PinnedKey(OTHER, "web")]


def test_a_key_is_a_json_web_key_as_well() -> None:
    key = key_to_json(PinnedKey(ONE, "new"), status="ACTIVE", created_at=LATER, retired_at=None)

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
