"""Fixtures of the tests of logs."""

import logging
import sys
import threading
from collections.abc import Iterator

import pytest
import structlog

from bpc.runtime import logs
from tests.runtime.log_lines import Lines


@pytest.fixture
def restore_logging() -> Iterator[None]:
    """Logging belongs to the process: put back what a test changed."""
    root, configured = logging.getLogger(), structlog.get_config()
    handlers, level, hook, thread_hook = root.handlers[:], root.level, sys.excepthook, threading.excepthook
    yield
    root.handlers[:], sys.excepthook, threading.excepthook = handlers, hook, thread_hook
    root.setLevel(level)
    logging.captureWarnings(capture=False)
    structlog.configure(**configured)


@pytest.fixture
def lines(restore_logging: None) -> Lines:
    out = Lines()
    logs.configure(level="debug", json=True, component="api", stream=out)
    return out
