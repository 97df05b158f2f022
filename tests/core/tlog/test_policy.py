"""Policies: who is trusted, and how many witnesses are enough."""

import pytest

from bpc.core.tlog.policy import BadLogPolicy, parse_policy
from tests.core.tlog.sample_log import make_ed25519_witness, make_log, make_ml_dsa_witness

LOG = str(make_log(0).signer.verifier)
KEYS = [str(make_ed25519_witness(f"w{number}.example", number)[0]) for number in range(1, 7)]
ML_DSA = str(make_ml_dsa_witness()[0])
TWO_LEVELS = "\n".join(
    [
        "# two organisations",
        f"log {LOG} https://log.example/passports",
        *(f"witness X{number} {KEYS[number]}" for number in range(3)),
        "group X-witnesses 2 X0 X1 X2",
        *(f"\twitness  Y{number} {KEYS[number]} https://y{number}.example " for number in range(3, 6)),
        "group Y-witnesses any Y3 Y4 Y5",
        "",
        "group X-and-Y all X-witnesses Y-witnesses",
        "quorum X-and-Y",
    ]
).encode()


@pytest.mark.parametrize(
    ("cosigners", "is_enough"),
    [
        ({"X0", "X1", "Y3"}, True),
        ({"X0", "X1", "X2", "Y5"}, True),
        ({"X0", "Y3", "Y4", "Y5"}, False),
        ({"X0", "X1", "X2"}, False),
        (set[str](), False),
    ],
)
def test_a_quorum_of_groups_counts_as_the_standard_says(cosigners: set[str], is_enough: bool) -> None:
    assert parse_policy(TWO_LEVELS).is_met(cosigners) is is_enough


def test_a_policy_names_its_logs_and_where_witnesses_are() -> None:
    policy = parse_policy(TWO_LEVELS)

    log = policy.find_log("log.example/passports")
    assert log is not None
    assert log.url == "https://log.example/passports"
    assert policy.find_log("other") is None
    assert [witness.url for witness in policy.witnesses.values()][:4] == [None, None, None, "https://y3.example"]


def test_quorum_none_needs_nobody() -> None:
    assert parse_policy(b"quorum none\n").is_met(())
    assert not parse_policy(f"witness w {ML_DSA}\nquorum w".encode()).is_met(())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "has no quorum"),
        ("quorum none\nquorum none", "line 2 .* a second time"),
        ("quorum w", "which no line before it defines"),
        ("quorum", "not of the form"),
        ("trust me", "does not begin with"),
        ("quorum none\r", "control character"),
        (f"log {LOG}\nlog {LOG}\nquorum none", "a log a second time"),
        (f"log {KEYS[0]}\nquorum none", "must be of type 1"),
        (f"witness w {LOG}\nquorum w", "must be of type 4 or 6"),
        (f"witness w {KEYS[0]}\nwitness w {KEYS[1]}\nquorum w", "defines `w` a second time"),
        (f"witness w {KEYS[0]}\nwitness v {KEYS[0]}\nquorum w", "names a witness a second time"),
        (f"witness none {KEYS[0]}\nquorum none", "a second time"),
        (f"witness w {KEYS[0]}x\nquorum w", "wrong key"),
        (f"witness w {KEYS[0]}\ngroup g 2 w\nquorum g", "a number from 1 to 1"),
        (f"witness w {KEYS[0]}\ngroup g 0 w\nquorum g", "a number from 1 to 1"),
        (f"witness w {KEYS[0]}\ngroup g all w w\nquorum g", "counts `w` a second time"),
        (f"witness w {KEYS[0]}\ngroup g all w\ngroup h all w\nquorum g", "counts `w` a second time"),
        ("group g all g\nquorum g", "which no line before it defines"),
        ("log\nquorum none", "not of the form"),
        ("witness w\nquorum none", "not of the form"),
        ("group g all\nquorum none", "not of the form"),
        ("log \xff+00000000+AAAA\nquorum none", "not UTF-8"),
    ],
)
def test_a_wrong_line_is_named(text: str, reason: str) -> None:
    with pytest.raises(BadLogPolicy, match=reason):
        parse_policy(text.encode("latin-1"))


def test_a_policy_has_limits() -> None:
    lines = [f"witness w{number} {make_ed25519_witness(f'w{number}', number)[0]}" for number in range(1, 34)]

    with pytest.raises(BadLogPolicy, match=r"line 33 .* at most 32 witnesses"):
        parse_policy("\n".join(lines).encode())
    with pytest.raises(BadLogPolicy, match="bytes"):
        parse_policy(b"#" * ((1 << 20) + 1))
