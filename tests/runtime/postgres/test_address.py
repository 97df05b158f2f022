"""Specification of addresses: every form a URL may have, and no secret in any text."""

import pytest

from bpc.runtime.postgres.address import Address

FORMS = [
    ("postgresql://ada:pw@db.example:6543/passports", "postgresql://ada@db.example:6543/passports"),
    ("postgres://db.example/passports", "postgresql://postgres@db.example:5432/passports"),
    ("postgresql://ada@db.example", "postgresql://ada@db.example:5432/ada"),
    ("postgresql://ada:p%40ss%2Fw@db.example/b%20c", "postgresql://ada@db.example:5432/b%20c"),
    ("postgresql://ada:p:w@[::1]:6543/passports", "postgresql://ada@[::1]:6543/passports"),
    ("postgresql://ada@/passports?host=/var/run/pg", "postgresql://ada@/passports?host=/var/run/pg"),
    ("postgresql://ada@%2Fvar%2FRun/passports", "postgresql://ada@/passports?host=/var/Run"),
    ("postgresql:///passports?user=ada&port=6543&password=pw", "postgresql://ada@localhost:6543/passports"),
    ("postgresql://ada:pw@db.example/x?sslmode=verify-full&sslrootcert=ca.pem", "postgresql://ada@db.example:5432/x"),
]


@pytest.mark.parametrize(("url", "shown"), FORMS)
def test_a_url_is_printed_without_its_password(url: str, shown: str) -> None:
    address = Address.parse(url)

    assert str(address) == shown
    assert "pw" not in f"{address!r} {address}"


def test_the_driver_reads_the_url_itself_with_every_option_in_it() -> None:
    url = "postgresql://ada:pw@db.example/x?sslmode=verify-full&sslrootcert=ca.pem"

    assert Address.parse(url).connect_arguments()["dsn"] == url
    assert Address.parse(url).with_database("y").connect_arguments()["database"] == "y"
