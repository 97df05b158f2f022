"""A mistake of ours, on its way into the log."""

import sys

import structlog

from bpc import fresh, logs


def logged(error: Exception) -> str:
    """Log the trace and return the correlation id under which it is found."""
    if not structlog.is_configured():  # it happened before the settings were read
        logs.configure(level="info", json=None, component="cli", stream=sys.stderr)
    reference = str(fresh.new_id())
    with logs.correlation(reference):
        logs.logger(__name__).error("bug", exc_info=error)
    return reference
