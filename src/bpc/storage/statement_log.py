"""Timings of SQL at the log level `debug`: the text of a statement, milliseconds and rows, never a parameter.

A connection is timed if `debug` is logged when it is opened. Otherwise it is the driver's own class: nothing is
measured, and it costs nothing.
"""

import re
import time
from collections.abc import Awaitable, Hashable
from functools import cache
from typing import Any, Final, TypeVar, cast

import asyncpg

from bpc.runtime.logs import get_logger, is_debug_logged

T = TypeVar("T")
MAX_STATEMENT_CHARS: Final = 500
ROW_COUNT: Final = re.compile(r"(?:INSERT 0|UPDATE|DELETE|SELECT|MERGE) (\d+)")
# Statements without parameters may have values in their text, such as the tenant of a transaction.
QUOTED: Final = re.compile(r"'(?:[^']|'')*'")
log = get_logger(__name__)


class _TimedStatements:
    """The methods of a connection that run a statement, each followed by a line."""

    __slots__ = ()

    async def execute(self, query: str, *args: Any, **options: Any) -> Any:
        return await _time_statement(query, super().execute(query, *args, **options))  # type: ignore[misc]

    async def executemany(self, command: str, args: Any, **options: Any) -> Any:
        return await _time_statement(command, super().executemany(command, args, **options))  # type: ignore[misc]

    async def fetch(self, query: str, *args: Any, **options: Any) -> Any:
        return await _time_statement(query, super().fetch(query, *args, **options))  # type: ignore[misc]

    async def fetchrow(self, query: str, *args: Any, **options: Any) -> Any:
        return await _time_statement(query, super().fetchrow(query, *args, **options))  # type: ignore[misc]

    async def fetchval(self, query: str, *args: Any, **options: Any) -> Any:
        return await _time_statement(query, super().fetchval(query, *args, **options))  # type: ignore[misc]


def choose_connection_class(base: type[Any] = asyncpg.Connection) -> type[Any]:
    """The class of a new connection: `base`, or if `debug` is logged, one that also logs timings."""
    return _make_timed_class(cast("Hashable", base)) if is_debug_logged() else base


@cache
def _make_timed_class(base: Hashable) -> type[Any]:
    return type("TimedConnection", (_TimedStatements, cast("type[Any]", base)), {"__slots__": ()})


async def _time_statement(statement: str, call: Awaitable[T]) -> T:
    started_at = time.perf_counter()
    try:
        result = await call
    except BaseException as error:
        _write_line(statement, started_at, failed=type(error).__name__)
        raise
    _write_line(statement, started_at, rows=_count_rows(result))
    return result


def _write_line(statement: str, started_at: float, **outcome: object) -> None:
    text = QUOTED.sub("'…'", " ".join(statement.split()))[:MAX_STATEMENT_CHARS]
    log.debug("statement", sql=text, ms=round((time.perf_counter() - started_at) * 1000, 2), **outcome)


def _count_rows(result: object) -> int:
    if isinstance(result, list):
        return len(result)
    if isinstance(result, str) and (match := ROW_COUNT.fullmatch(result)) is not None:
        return int(match[1])
    return 0 if result is None else 1
