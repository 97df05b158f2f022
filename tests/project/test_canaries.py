"""The watch over all tests bites: a secret that is handed to a logger is seen, however it is handed over."""

import logging

import pytest

from tests.secret_watch import SECRET, SecretWatch

API_KEY = "bpc_0123456789_" + "a" * 49


@pytest.mark.parametrize(
    ("message", "arguments", "extra"),
    [(f"key {API_KEY}", (), {}), ("key %s", (API_KEY,), {}), ("key", (), {"given": {"header": [API_KEY]}})],
    ids=["in the message", "as an argument", "beside the message"],
)
def test_a_secret_is_seen(message: str, arguments: tuple[str, ...], extra: dict[str, object]) -> None:
    watch, logger = SecretWatch(), logging.getLogger("watched")
    logger.propagate = False  # or the watch over this test would see it too
    logger.addHandler(watch)

    logger.warning(message, *arguments, extra=extra)

    assert len(watch.leaks) == 1


def test_what_is_public_is_no_secret() -> None:
    assert not SECRET.search("bpc_0123456789 made bpc_job_retries_total and whsec_")
