"""What the engine itself logged: `asyncio` may complain of tasks that an earlier test abandoned on purpose."""

import logging

import pytest


def list_engine_logs(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name.startswith("service_jobs")]
