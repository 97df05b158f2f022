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
ALLOWED_TESTS: Final = ("tests/runtime/test_logs_redaction.py", "tests/api/access/test_secret_leaks.py")


class SecretWatch(logging.Handler):
    """Keeps which logger was handed a secret."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.leaks: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if SECRET.search(f"{vars(record)}"):
            self.leaks.append(f"{record.name} was handed a secret at {record.pathname}:{record.lineno}")


_WATCH: Final = SecretWatch()
logging.getLogger().addHandler(_WATCH)


@pytest.fixture(autouse=True)
def forbid_logged_secrets(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    leaks, _WATCH.leaks = _WATCH.leaks, []
    assert not leaks or request.node.nodeid.startswith(ALLOWED_TESTS), leaks
