"""`bpc worker`: one worker, or several supervised ones with common health and metrics, until Ctrl-C."""

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Annotated, Final

import typer
from service_jobs import Worker

from bpc.cli.run.signer import use_signer
from bpc.cli.support.arguments import ChannelOption
from bpc.cli.support.output import AsJson, print_result
from bpc.cli.support.session import load_settings_and_logs, stop_on_sigterm
from bpc.runtime.event_loop import loop_factory
from bpc.runtime.settings import Settings
from bpc.runtime.signer_client import open_signer_client
from bpc.runtime.supervision import (
    Answers,
    ChildSpec,
    SupervisedProcess,
    build_child_command,
    open_parent_channel,
    supervise_processes,
)
from bpc.runtime.telemetry import merge_metrics, select_cumulative, trace_to_collector
from bpc.storage.database import open_migrated_database
from bpc.storage.server_time import follow_server_time
from bpc.worker.run import MonitoringSource, WorkerHealth, make_monitoring_source, run_worker, serve_monitoring

MAX_WORKERS: Final = 64
EXTRA_STOP_SECONDS: Final = 5.0  # in addition to the time that its jobs get


def build_worker_spec(settings: Settings, number: int) -> ChildSpec:
    """A worker as a supervised child."""
    grace = settings.jobs_stop_grace_seconds + settings.jobs_cancel_grace_seconds
    return ChildSpec(
        name=f"worker {number}", command=build_child_command("worker"), stop_seconds=grace + EXTRA_STOP_SECONDS
    )


def make_answers(worker: Worker, pages: MonitoringSource) -> Answers:
    """The answers of a worker to its parent."""

    async def answer_metrics() -> str:
        return worker.jobs.metrics.render_text().decode()

    async def answer_condition() -> str:
        (state,) = await pages.check_workers()
        return json.dumps({"worker": state.worker, "checks": dict(state.checks)})

    return {"figures": answer_metrics, "condition": answer_condition}


@dataclass(slots=True)
class _WorkerCounts:
    """The metrics of one worker: its current process and those before it."""

    start_count: int = 0
    last: bytes = b""
    before: bytes = b""

    def merge_current(self, start_count: int, text: str | None) -> bytes:
        if start_count != self.start_count:
            self.before = merge_metrics([self.before, select_cumulative(self.last)])
            self.start_count, self.last = start_count, b""
        if text is not None:
            self.last = text.encode()
        return merge_metrics([self.before, self.last if text is not None else select_cumulative(self.last)])


class WorkerGroup:
    """Several supervised workers as one: merged metrics and the health of each."""

    def __init__(self, children: Sequence[SupervisedProcess]) -> None:
        self._children = {child: _WorkerCounts() for child in children}

    def make_watched(self, settings: Settings) -> MonitoringSource:
        """What the monitoring pages show."""
        return MonitoringSource(
            read_metrics=self.collect_metrics if settings.metrics_enabled else None,
            check_workers=self.collect_conditions,
        )

    async def collect_metrics(self) -> bytes:
        """The merged metrics of all workers; a counter never falls, even when a worker dies."""
        texts = await asyncio.gather(*(child.ask("figures") for child in self._children))
        answers = zip(self._children.items(), texts, strict=True)
        return merge_metrics([counts.merge_current(child.start_count, text) for (child, counts), text in answers])

    async def collect_metrics_text(self) -> str:
        """The same as text, for the API process."""
        return (await self.collect_metrics()).decode()

    async def collect_conditions(self) -> Sequence[WorkerHealth]:
        """The health of each worker; only the name if it does not answer."""
        texts = await asyncio.gather(*(child.ask("condition") for child in self._children))
        return [_parse_condition(child, text) for child, text in zip(self._children, texts, strict=True)]


def _parse_condition(child: SupervisedProcess, text: str | None) -> WorkerHealth:
    return WorkerHealth(worker=child.spec.name, checks={}) if text is None else WorkerHealth(**json.loads(text))


def start_worker(
    processes: Annotated[
        int | None,
        typer.Option(
            "--processes",
            metavar="N",
            min=1,
            max=MAX_WORKERS,
            help="Number of worker processes; one that dies is restarted.",
        ),
    ] = None,
    as_json: AsJson = False,
    channel_descriptor: ChannelOption = None,
) -> None:
    """Run a worker until Ctrl-C.

    Any number of workers can share one database, on this machine and on others. Ctrl-C or SIGTERM lets running jobs
    finish for up to BPC_JOBS_STOP_GRACE_SECONDS; the other jobs run elsewhere. A second Ctrl-C stops at once.

    With --processes this process only supervises workers. BPC_WORKER_HTTP_PORT shows health and metrics of all of
    them.

    \b
    bpc worker --processes 4
    """
    settings = load_settings_and_logs("worker", supervised=channel_descriptor is not None)
    if processes is None:
        with trace_to_collector("bpc-worker", os.environ), asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(_run_one(settings, channel_descriptor, as_json=as_json))
    else:
        asyncio.run(_run_several(settings, processes, as_json=as_json))


async def _run_one(settings: Settings, descriptor: int | None, *, as_json: bool) -> None:
    """Be a worker: alone with its own monitoring pages, or one of several that answers its parent."""
    stop = stop_on_sigterm()
    answers: dict[str, Callable[[], Awaitable[str]]] = {}
    async with (
        open_parent_channel(descriptor, answers),
        open_migrated_database(settings, serving=True) as database,
        follow_server_time(database),
        use_signer(settings) if descriptor is None else open_signer_client(settings) as signer,
        run_worker(settings, database, key_ring=signer, on_end=stop.set) as running,
    ):
        os.nice(settings.worker_nice)  # not before: a database that starts with us must not be niced
        pages = make_monitoring_source(settings, running, database, signer)
        answers |= make_answers(running, pages)
        async with serve_monitoring(settings, pages) if descriptor is None else nullcontext():
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.set)
            says = f"worker {running.owner} is running; press Ctrl-C to stop"
            print_result({"worker": running.owner}, says, as_json=as_json)
            await stop.wait()


async def _run_several(settings: Settings, processes: int, *, as_json: bool) -> None:
    """Supervise workers, and serve their health and metrics."""
    async with (
        use_signer(settings),
        supervise_processes([build_worker_spec(settings, number + 1) for number in range(processes)]) as group,
        serve_monitoring(settings, WorkerGroup(group.children).make_watched(settings)),
    ):
        if await group.wait_until_ready():
            workers = [child.ready_message["worker"] for child in group.children]
            says = f"{processes} workers are running; press Ctrl-C to stop"
            print_result({"workers": workers}, says, as_json=as_json)
        await group.wait_until_stopping()
