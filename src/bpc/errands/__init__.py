"""Jobs beside the eight steps, a file each."""

from dataclasses import dataclass, field
from pathlib import Path

from bpc.db.database import Opening
from bpc.errands.bulk import Compiling, RowOrder, Sealing, row_job
from bpc.errands.deliver import Deliveries, DeliveryOrder, deliver_job
from bpc.errands.export import ExportOrder, export_job
from bpc.errands.ingest import AddVersion, Ingested, IngestOrder, Sources, ingest_job
from bpc.errands.replay_audit import Audit, Replaying, Replays, Uncounted, audit_jobs
from bpc.errands.retention import Periods, Retention, retention_jobs
from bpc.errands.rule_tests import TestsOrder, tests_job
from bpc.errands.texts import TextOrder, texts_job
from bpc.jobs import Handler, Handlers, Limited, Nowhere
from bpc.outbound import Guard

__all__ = ["Errands", "Means", "declare"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What the errands work with."""

    max_steps: int
    periods: Periods
    data_dir: Path
    upload_max_bytes: int
    sources: Sources
    add_version: AddVersion
    guard: Guard
    seal: Sealing
    compile: Compiling
    replay: Replaying
    replay_sample: int
    replays: Replays = field(default_factory=Uncounted)
    deliveries: Deliveries
    opening: Opening | None  # a transaction of a tenant; only who runs jobs has it
    reading: Limited = field(default_factory=Nowhere)  # child processes for what strangers sent; the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Errands:
    """The errands that can be asked for."""

    rule_tests: Handler[TestsOrder, None]
    export: Handler[ExportOrder, None]
    retention: Retention
    texts: Handler[TextOrder, None]
    ingest: Handler[IngestOrder, Ingested]
    sources: Sources
    deliver: Handler[DeliveryOrder, None]
    compile_row: Handler[RowOrder, None]
    replay_audit: Audit


def declare(handlers: Handlers, means: Means) -> Errands:
    """Add the errands to `handlers`."""
    texts = texts_job(handlers, reading=means.reading)
    return Errands(
        rule_tests=tests_job(handlers, max_steps=means.max_steps, opening=means.opening),
        export=export_job(handlers, opening=means.opening),
        retention=retention_jobs(handlers, periods=means.periods),
        texts=texts,
        ingest=ingest_job(
            handlers,
            sources=means.sources,
            data_dir=means.data_dir,
            max_bytes=means.upload_max_bytes,
            add_version=means.add_version,
            then=texts,
        ),
        sources=means.sources,
        compile_row=row_job(handlers, seal=means.seal, compile=means.compile),
        replay_audit=audit_jobs(
            handlers,
            sample=means.replay_sample,
            replay=means.replay,
            opening=means.opening,
            count=means.replays,
        ),
        deliver=deliver_job(handlers, guard=means.guard, opening=means.opening, count=means.deliveries),
    )
