"""What a service refuses to start with in prod, each with its own sentence and without the value."""

from base64 import b64encode
from hashlib import sha256

import pytest

from bpc.runtime.settings.production import find_production_risks
from tests.runtime.settings.values import SEED, load_from

GOOD_SEED = sha256(b"a seed").digest()
GOOD_PEPPER = sha256(b"a pepper").digest()
GOOD = {
    "BPC_ENV": "prod",
    "BPC_SIGNING_ED25519_PRIVATE_KEY_BASE64": b64encode(GOOD_SEED).decode(),
    "BPC_API_KEY_PEPPER_BASE64": b64encode(GOOD_PEPPER).decode(),
    "DATABASE_URL": "postgresql://bpc_login_1:Xk29fjeQ02@db.example/bpc?sslmode=verify-full",
}
RFC_8032_SEED = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")


def _list_names(**changes: str) -> list[str]:
    environ = {name: value for name, value in {**GOOD, **changes}.items() if value}
    risks = find_production_risks(load_from(environ))
    assert all(value not in risk.sentence for risk in risks for value in changes.values() if len(value) > 3)
    return [risk.name for risk in risks]


def test_what_is_random_and_private_is_accepted() -> None:
    assert _list_names() == []


@pytest.mark.parametrize("seed", [SEED, RFC_8032_SEED, bytes(32), b"a passphrase of thirty-two bytes"])
def test_a_published_or_guessable_signing_key_is_refused(seed: bytes) -> None:
    name = "BPC_SIGNING_ED25519_PRIVATE_KEY_BASE64"

    assert _list_names(**{name: b64encode(seed).decode()}) == [name]


@pytest.mark.parametrize(
    "pepper", [GOOD_PEPPER[:31], bytes(32), bytes(range(32)), b"a pepper of tests, 32 bytes long", b"ab" * 32]
)
def test_a_weak_pepper_is_refused(pepper: bytes) -> None:
    name = "BPC_API_KEY_PEPPER_BASE64"

    assert _list_names(**{name: b64encode(pepper).decode()}) == [name]


@pytest.mark.parametrize("password", ["", "postgres", "Password", "bpc", "changeme"])
def test_a_password_that_everybody_tries_first_is_refused(password: str) -> None:
    url = f"postgresql://bpc:{password}@db.example/bpc?sslmode=require"

    assert _list_names(DATABASE_URL=url) == ["DATABASE_URL"]


@pytest.mark.parametrize(
    ("place", "is_safe"),
    [
        ("db.example/bpc", False),
        ("db.example/bpc?sslmode=disable", False),
        ("10.0.0.5/bpc?sslmode=prefer", False),
        ("db.example/bpc?sslmode=require", True),
        ("db.example/bpc?sslmode=verify-ca", True),
        ("localhost/bpc", True),
        ("127.0.0.1:6432/bpc", True),
        ("[::1]/bpc", True),
        ("/bpc?host=/run/postgresql", True),
    ],
)
def test_a_remote_database_needs_tls(place: str, is_safe: bool) -> None:
    url = f"postgresql://bpc_login_1:Xk29fjeQ02@{place}"

    assert _list_names(DATABASE_URL=url) == ([] if is_safe else ["DATABASE_URL"])
    assert _list_names(DATABASE_URL=url, BPC_PROD_ALLOW="plaintext-database") == []


def test_the_embedded_database_needs_an_explicit_word() -> None:
    embedded = {"DATABASE_URL": "", "BPC_DB_PASSWORD": "unused"}

    assert _list_names(**embedded) == ["BPC_PROD_ALLOW"]
    assert _list_names(**embedded, BPC_PROD_ALLOW="embedded-database") == []


def test_the_default_password_of_rabbitmq_is_refused_where_it_is_used() -> None:
    assert _list_names(BPC_QUEUE_URL="amqp://guest:guest@mq.example/") == []
    assert _list_names(BPC_QUEUE_ENABLED="true", BPC_QUEUE_URL="amqp://guest:guest@mq.example/") == ["BPC_QUEUE_URL"]


def test_elsewhere_nothing_of_this_is_asked() -> None:
    assert find_production_risks(load_from({"BPC_API_KEY_PEPPER_BASE64": b64encode(bytes(32)).decode()})) == []
