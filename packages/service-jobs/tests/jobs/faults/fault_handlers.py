"""The jobs that are run while things break: with and without effects, failing, followed, limited, and deadly.

A deadly job kills its own worker process, as `kill -9` does, at one exact point of its first execution.
"""

import asyncio
import os
import signal
from dataclasses import dataclass
from typing import Final

from service_jobs.context import Context, Lease
from service_jobs.handler import Handler, HandlerFunction, Handlers
from service_jobs.job import Retry

EFFECT: Final = """
    INSERT INTO public.effect (job_id, attempt, owner) VALUES ($1, $2, $3)
"""
# No unique key: an effect that happens twice is to be seen, not prevented.
EFFECTS: Final = """
    CREATE TABLE public.effect (job_id uuid NOT NULL, attempt int NOT NULL, owner text NOT NULL);
    GRANT SELECT, INSERT ON public.effect TO bpc_app
"""
FAST_RETRY: Final = Retry(attempts=1_000, first_delay=0.05, factor=1.0)

PLAIN: Final = "plain"
EFFECTIVE: Final = "effective"
# Where a worker can die, in the order in which one execution passes them.
POINTS: Final = ("claimed", "begun", "written", "returned", "committed")
DEADLY_PLAIN: Final = {point: f"plain.dies.{point}" for point in POINTS if point != "written"}
DEADLY: Final = {point: f"effective.dies.{point}" for point in POINTS}


class DeliberateFailure(Exception):
    """An execution fails, on purpose."""


@dataclass(frozen=True, slots=True)
class FaultInput:
    """How long to take, how many executions fail first, how many jobs follow, and whose follower this is."""

    seconds: float = 0.0
    fails: int = 0
    follows: int = 0
    parent: str | None = None
    nth: int = 0


def register_handlers() -> Handlers:
    """All types of jobs there are here, for workers and for whoever submits."""
    handlers = Handlers()
    for job_type in (PLAIN, *DEADLY_PLAIN.values()):
        handlers.job(job_type, retry=FAST_RETRY)(_run_plain)
    for job_type in (EFFECTIVE, *DEADLY.values()):
        handlers.job(job_type, retry=FAST_RETRY)(_build_effective(handlers))
    return handlers


def has_effect(job_type: str) -> bool:
    return job_type.startswith(EFFECTIVE)


def die_if_at(point: str, lease: Lease) -> None:
    """The end of this process, if this job is one that dies here."""
    if lease.attempt == 1 and lease.type.endswith(f".dies.{point}"):
        os.kill(os.getpid(), signal.SIGKILL)


async def _run_plain(ctx: Context, work: FaultInput) -> int:
    die_if_at("begun", ctx.lease)
    await asyncio.sleep(work.seconds)
    if ctx.attempt <= work.fails:
        raise DeliberateFailure
    return ctx.attempt


def _build_effective(handlers: Handlers) -> "HandlerFunction[FaultInput, int]":
    async def run(ctx: Context, work: FaultInput) -> int:
        die_if_at("begun", ctx.lease)
        await asyncio.sleep(work.seconds / 2)
        conn = await ctx.transaction()
        await conn.execute(EFFECT, ctx.job_id, ctx.lease.attempt, ctx.lease.owner)
        die_if_at("written", ctx.lease)
        await asyncio.sleep(work.seconds / 2)
        if ctx.attempt <= work.fails:
            raise DeliberateFailure
        for nth in range(work.follows):
            kind: Handler[FaultInput, int] = handlers[EFFECTIVE if nth % 2 else PLAIN]
            ctx.submit(kind, FaultInput(seconds=work.seconds, parent=str(ctx.job_id), nth=nth))
        return ctx.attempt

    return run
