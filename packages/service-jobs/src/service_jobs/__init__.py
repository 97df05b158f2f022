"""A job engine on PostgreSQL, and in memory.

    handlers = Handlers()

    @handlers.job("greet")
    async def greet(ctx: Context, name: str) -> str:
        return f"hello {name}"

    async with Jobs.connect(url, handlers) as jobs:          # submit, query, wait, cancel
        await jobs.submit(greet, "world", tenant=tenant)
        await Worker(jobs).run()                             # in this process, or in any other with this database

`install` creates the engine's tables; a service with a migration tool of its own runs `list_migrations` with that.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from service_jobs.public import *  # noqa: F403
    from service_jobs.public import __all__ as __all__

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import the engine when something of it is first asked for: a child that only computes needs none of it."""
    if find_spec(f"{__name__}.{name}") is not None:  # a module of the engine that another one imports
        return import_module(f"{__name__}.{name}")
    public = import_module("service_jobs.public")
    if name in public.__dict__:
        return public.__dict__[name]
    raise AttributeError(f"module `service_jobs` has no attribute `{name}`")


def __dir__() -> list[str]:
    names: list[str] = import_module("service_jobs.public").__all__
    return names
