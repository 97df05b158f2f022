"""Signatures, BPC-SIGN-1: plain Ed25519, under keys that nobody else can sign for.

`add`, `decoded` and `encoded` below are RFC 8032 section 5.1 written out, slowly, and share nothing with the code.

Why keys are checked: with a key of small order the signed content drops out of the equation that is verified, so
one signature is good for many contents. libsodium refuses such keys when it verifies; OpenSSL, which we use, does not,
and implementations also differ on non-canonical keys. We refuse both before any of them is asked.
"""

import base64
from functools import reduce

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bpc.core.audit.signing import (
    BadKey,
    PublicKey,
    Seed,
    SignatureInvalid,
    Signer,
    derive_public_key,
    from_base64,
    parse_public_key,
    parse_seed,
    to_base64,
    verify_signature,
)
from bpc.core.errors import CODES, Invalid
from bpc.core.formats.hashes import Digest, sha256
from tests.measurements import choose_examples

repeatable = settings(derandomize=True, max_examples=choose_examples(100))
seeds = st.binary(min_size=32, max_size=32).map(Seed)
SEED = Seed(bytes(range(32)))
DIGEST = sha256(b"a receipt")

# RFC 8032 section 7.1, TEST 1 to 3: seed, public key, message, signature.
RFC_8032 = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ),
]

# All eight points whose eightfold is the identity, and the order of each.
SMALL_ORDER = {
    "0100000000000000000000000000000000000000000000000000000000000000": 1,
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f": 2,
    "0000000000000000000000000000000000000000000000000000000000000000": 4,
    "0000000000000000000000000000000000000000000000000000000000000080": 4,
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05": 8,
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85": 8,
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a": 8,
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa": 8,
}
# The same points written in ways that some decoders take: x = 0 with a sign, and y not below the prime.
SMALL_ORDER_WITH_A_SIGN = [
    "0100000000000000000000000000000000000000000000000000000000000080",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
]
SMALL_ORDER_ABOVE_THE_PRIME = [
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
]


# The reference

Point = tuple[int, int]
PRIME = 2**255 - 19
CURVE_D = 37095705934669439343138083508754565189542113879843219016388785533085940283555
ORDER = 2**252 + 27742317777372353535851937790883648493
IDENTITY: Point = (0, 1)


def add_points(one: Point, other: Point) -> Point:
    (x1, y1), (x2, y2) = one, other
    product = CURVE_D * x1 * x2 * y1 * y2
    return (
        (x1 * y2 + x2 * y1) * pow(1 + product, -1, PRIME) % PRIME,
        (y1 * y2 + x1 * x2) * pow(1 - product, -1, PRIME) % PRIME,
    )


def multiply_point(factor: int, point: Point) -> Point:
    bits = f"{factor:b}"
    return reduce(
        lambda total, bit: add_points(add_points(total, total), point if bit == "1" else IDENTITY), bits, IDENTITY
    )


def decode_point(raw: bytes) -> Point | None:
    """RFC 8032 section 5.1.3, with the candidate root and its two corrections."""
    number = int.from_bytes(raw, "little")
    sign, y = number >> 255, number & (1 << 255) - 1
    if y >= PRIME:
        return None
    u, v = (y * y - 1) % PRIME, (CURVE_D * y * y + 1) % PRIME
    x = u * v**3 * pow(u * v**7, (PRIME - 5) // 8, PRIME) % PRIME
    if v * x * x % PRIME == -u % PRIME:
        x = x * pow(2, (PRIME - 1) // 4, PRIME) % PRIME
    if v * x * x % PRIME != u or (x == 0 and sign):
        return None
    return (x if x & 1 == sign else PRIME - x), y


def encode_point(point: Point) -> bytes:
    return (point[1] | (point[0] & 1) << 255).to_bytes(32, "little")


def is_accepted(raw: bytes) -> bool:
    try:
        return parse_public_key(raw) == raw
    except BadKey:
        return False


# Signing


@pytest.mark.parametrize(("seed", "public", "message", "signature"), RFC_8032, ids=["TEST 1", "TEST 2", "TEST 3"])
def test_the_vectors_of_rfc_8032_come_out(seed: str, public: str, message: str, signature: str) -> None:
    # We only ever sign the 32 bytes of a digest; the vectors' messages are shorter, and go through all the same.
    content = Digest(bytes.fromhex(message))
    key = parse_public_key(bytes.fromhex(public))

    assert derive_public_key(parse_seed(bytes.fromhex(seed))) == key
    assert Signer(parse_seed(bytes.fromhex(seed))).sign(content).hex() == signature
    verify_signature(key, content, bytes.fromhex(signature))


@repeatable
@given(seeds, st.binary(max_size=40))
def test_what_a_key_signed_verifies_under_it_and_is_always_the_same(seed: Seed, content: bytes) -> None:
    signature = Signer(seed).sign(sha256(content))

    assert len(signature) == 64
    assert Signer(seed).sign(sha256(content)) == signature
    verify_signature(derive_public_key(seed), sha256(content), signature)


def is_refused(key: PublicKey, digest: Digest, signature: bytes) -> bool:
    with pytest.raises(SignatureInvalid) as error:
        verify_signature(key, digest, signature)
    return error.value.says == "the signature does not belong to this content and key"


def flip_each_bit(raw: bytes) -> list[bytes]:
    number = int.from_bytes(raw, "big")
    return [(number ^ 1 << bit).to_bytes(len(raw), "big") for bit in range(8 * len(raw))]


def test_every_flipped_bit_of_a_signature_is_refused() -> None:
    key, signature = derive_public_key(SEED), Signer(SEED).sign(DIGEST)

    assert [is_refused(key, DIGEST, forged) for forged in flip_each_bit(signature)] == [True] * 512


def test_every_flipped_bit_of_the_digest_is_refused() -> None:
    key, signature = derive_public_key(SEED), Signer(SEED).sign(DIGEST)

    assert [is_refused(key, Digest(other), signature) for other in flip_each_bit(DIGEST)] == [True] * 256


def test_every_flipped_bit_of_the_key_is_refused() -> None:
    signature = Signer(SEED).sign(DIGEST)

    assert [is_refused(PublicKey(other), DIGEST, signature) for other in flip_each_bit(derive_public_key(SEED))] == [
        True
    ] * 256


def test_the_same_signature_with_a_larger_number_is_refused() -> None:
    # RFC 8032 5.1.7: S + L satisfies the same equation, so it must be refused by its size.
    signature = Signer(SEED).sign(DIGEST)
    larger = int.from_bytes(signature[32:], "little") + ORDER

    assert is_refused(derive_public_key(SEED), DIGEST, signature[:32] + larger.to_bytes(32, "little"))


@pytest.mark.parametrize("length", [0, 1, 32, 63, 65, 128])
def test_a_signature_of_another_length_is_refused(length: int) -> None:
    signature = (Signer(SEED).sign(DIGEST) * 2)[:length]

    assert is_refused(derive_public_key(SEED), DIGEST, signature)


def test_a_wrong_signature_has_its_own_code() -> None:
    assert CODES[SignatureInvalid.code].http == 422
    assert SignatureInvalid.code == "SIGNATURE_INVALID"


# Private keys


@repeatable
@given(seeds)
def test_a_seed_alone_and_a_seed_with_its_public_key_are_the_same_key(seed: Seed) -> None:
    assert parse_seed(seed) == seed
    assert parse_seed(seed + derive_public_key(seed)) == seed


@pytest.mark.parametrize("length", [0, 31, 33, 63, 65, 96])
def test_a_private_key_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(BadKey) as error:
        parse_seed(bytes(length))

    assert error.value.says == f"the key is {length} bytes long, neither 32 nor 64"
    assert error.value.fix == "make a new key pair"


def test_a_private_key_of_two_halves_that_do_not_belong_together_is_refused() -> None:
    other = derive_public_key(Seed(bytes(32)))

    for half in [other, *flip_each_bit(derive_public_key(SEED))]:
        with pytest.raises(BadKey) as error:
            parse_seed(SEED + half)
        assert error.value.says == "the key is not one key: its second half is not the public key of the first"


# Public keys


@repeatable
@given(seeds)
def test_the_public_key_of_every_seed_is_accepted(seed: Seed) -> None:
    assert parse_public_key(derive_public_key(seed)) == derive_public_key(seed)


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_a_public_key_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(BadKey, match=rf"^the key is {length} bytes long, not 32$"):
        parse_public_key(bytes(length))


@pytest.mark.parametrize(("raw", "order"), SMALL_ORDER.items(), ids=lambda value: str(value)[:4])
def test_the_eight_keys_of_small_order_are_refused(raw: str, order: int) -> None:
    point = decode_point(bytes.fromhex(raw))
    assert point is not None
    assert next(factor for factor in range(1, 9) if multiply_point(factor, point) == IDENTITY) == order

    with pytest.raises(BadKey, match=r"^the key is of small order, under which anybody can sign$"):
        parse_public_key(bytes.fromhex(raw))


def test_there_are_no_other_keys_of_small_order() -> None:
    # The points of order dividing 8 are a cyclic group, so one of order 8 gives them all.
    generator = decode_point(bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"))
    assert generator is not None

    assert {encode_point(multiply_point(factor, generator)).hex() for factor in range(8)} == set(SMALL_ORDER)


@pytest.mark.parametrize("raw", SMALL_ORDER_WITH_A_SIGN)
def test_a_key_of_small_order_with_a_sign_on_nothing_is_refused(raw: str) -> None:
    assert decode_point(bytes.fromhex(raw)) is None

    with pytest.raises(BadKey, match="small order"):
        parse_public_key(bytes.fromhex(raw))


@pytest.mark.parametrize("raw", SMALL_ORDER_ABOVE_THE_PRIME)
def test_a_key_of_small_order_written_above_the_prime_is_refused(raw: str) -> None:
    with pytest.raises(BadKey, match=r"^the key is not canonically encoded$"):
        parse_public_key(bytes.fromhex(raw))


@pytest.mark.parametrize("sign", [0, 1])
def test_every_way_to_write_y_above_the_prime_is_refused(sign: int) -> None:
    for y in range(PRIME, 2**255):
        with pytest.raises(BadKey, match=r"^the key is not canonically encoded$"):
            parse_public_key((y | sign << 255).to_bytes(32, "little"))


def test_what_is_no_point_is_refused() -> None:
    # y = 2 is the smallest without an x: of the first 200, about half have none.
    without = [y for y in range(200) if decode_point(y.to_bytes(32, "little")) is None]
    assert without[0] == 2
    assert 80 < len(without) < 120

    for y in without:
        with pytest.raises(BadKey, match=r"^the key is not a point of the curve$"):
            parse_public_key(y.to_bytes(32, "little"))


@settings(repeatable, max_examples=choose_examples(300))
@given(st.binary(min_size=32, max_size=32))
def test_any_32_bytes_are_accepted_exactly_if_the_reference_does(raw: bytes) -> None:
    point = decode_point(raw)

    assert is_accepted(raw) == (point is not None and multiply_point(8, point) != IDENTITY)


@repeatable
@given(seeds)
def test_a_key_shifted_by_a_point_of_small_order_is_not_itself_of_small_order(seed: Seed) -> None:
    point = decode_point(derive_public_key(seed))
    assert point is not None

    for raw in SMALL_ORDER:
        shift = decode_point(bytes.fromhex(raw))
        assert shift is not None
        assert is_accepted(encode_point(add_points(point, shift)))


@settings(repeatable, max_examples=10)
@given(seeds)
def test_the_keys_we_make_have_the_full_prime_order(seed: Seed) -> None:
    point = decode_point(derive_public_key(seed))
    assert point is not None

    assert multiply_point(ORDER, point) == IDENTITY
    assert multiply_point(8, point) != IDENTITY


# Base64


@repeatable
@given(st.binary(max_size=70))
def test_base64_gives_the_bytes_back(raw: bytes) -> None:
    assert from_base64(to_base64(raw)) == raw
    assert to_base64(raw) == base64.b64encode(raw).decode()


@pytest.mark.parametrize(
    "text",
    ["A", "AA", "AAA", "AA=", "AAAA=", "AA==\n", " AAAA", "AA AA", "AA==AA==", "A-_A", "ÄÄÄÄ", "AAA\0", "=", "===="],
    ids=ascii,
)
def test_what_is_not_base64_is_refused(text: str) -> None:
    with pytest.raises(BadKey, match=r"^the key is not (canonical )?base64$"):
        from_base64(text)


@pytest.mark.parametrize(("text", "others"), [("AA==", "ABCDEFGHIJKLMNOP"), ("AAA=", "ABCD")])
def test_bits_that_stand_for_nothing_must_be_zero(text: str, others: str) -> None:
    at = text.index("=") - 1

    for other in others[1:]:
        with pytest.raises(BadKey, match=r"^the key is not canonical base64$"):
            from_base64(text[:at] + other + text[at + 1 :])


@pytest.mark.parametrize("size", [32, 64])
def test_no_flipped_bit_of_a_text_reads_as_the_same_bytes(size: int) -> None:
    raw = bytes(range(size))

    for other in flip_each_bit(to_base64(raw).encode()):
        try:
            assert from_base64(other.decode("latin-1")) != raw
        except Invalid:
            continue
