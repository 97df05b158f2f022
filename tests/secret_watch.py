"""No secret reaches a log, whichever test is run: what is handed to a logger is looked at before anything redacts it.

Redaction is the last line of defence and has tests of its own, which hand secrets to loggers on purpose: those are
named here. API keys and webhook secrets are known by their form, whatever value a test gave them.
"""

import logging
import re
from collections.abc import Iterator
from typing import Final

import pytest

SECRET: Final = re.compile(r"bpc_[0-9A-Za-z]{10}_[0-9A-Za-z]{49}|whsec_[A-Za-z0-9+/]{42,}")
ON_PURPOSE: Final = ("tests/logs/", "tests/api/test_canaries.py")


class Watch(logging.Handler):
    """Keeps which logger was handed a secret."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if SECRET.search(f"{vars(record)}"):
            self.found.append(f"{record.name} was handed a secret at {record.pathname}:{record.lineno}")


_WATCH: Final = Watch()
logging.getLogger().addHandler(_WATCH)


@pytest.fixture(autouse=True)
def no_secret_is_logged(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    found, _WATCH.found = _WATCH.found, []
    assert not found or request.node.nodeid.startswith(ON_PURPOSE), found
