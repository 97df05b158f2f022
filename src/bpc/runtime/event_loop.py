"""The event loop that the API and workers run on: uvloop where there is one."""

import asyncio
from collections.abc import Callable


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Return the event loop to run it on: `asyncio.Runner(loop_factory=loop_factory())`."""
    try:
        import uvloop  # noqa: PLC0415 (not everywhere)
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop
