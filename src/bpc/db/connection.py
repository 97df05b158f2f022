"""The driver's connection type, named once."""

from typing import TypeAlias

import asyncpg
from asyncpg.pool import PoolConnectionProxy

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]"
