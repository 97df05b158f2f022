"""All job types of this installation, declared once, for the processes that submit jobs and those that run them."""

from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache, partial

from service_jobs import Defaults, Handler, Handlers, LimitedProcesses, UnavailableProcesses
from service_jobs.schedules import Schedule

from bpc.core.passport.compile import ArtifactLimits
from bpc.outbound import Guard
from bpc.outbound.folders import AllowedFolders
from bpc.pipeline.activate import ActivateOrder, ActivationResult, declare_activate_job
from bpc.pipeline.compile import CompileOutcome, declare_compile_job
from bpc.pipeline.compile_order import CompileOrder
from bpc.pipeline.facts import ParseOrder, ParseOutcome, declare_parse_job
from bpc.pipeline.qr import QrOrder, QrOutcome, declare_qr_job
from bpc.pipeline.quick_signing import QuickSigning
from bpc.pipeline.sign import SignOrder, SignOutcome, declare_sign_job
from bpc.pipeline.snapshot import BuildOrder, BuildOutcome, declare_build_job
from bpc.runtime.key_ring import SigningService
from bpc.runtime.ray_pool import RayPool
from bpc.runtime.settings import Settings
from bpc.runtime.stored_secrets import load_secret_box
from bpc.runtime.telemetry import JobMetrics
from bpc.storage.database import Database
from bpc.storage.items.pack_bucket import locate_packs
from bpc.storage.jobs import SweepOrder, make_job_defaults
from bpc.storage.webhooks.webhook_retries import DeliveryPolicy
from bpc.tasks import replay_audit, retention, sweep_packs
from bpc.tasks.compile_rows import RowOrder, RowOutcome, declare_row_job
from bpc.tasks.deliver_webhooks import DeliveryOrder, DeliveryOutcome, declare_deliver_job
from bpc.tasks.export import ExportOrder, ExportOutcome, declare_export_job
from bpc.tasks.finish_runs import RunWatchOrder, RunWatchOutcome, declare_finish_job
from bpc.tasks.ingest import IngestOrder, IngestResult, IngestSources, declare_ingest_job
from bpc.tasks.issue_batches import BatchVersionOrder, BatchVersionOutcome, declare_batch_job
from bpc.tasks.issue_items import ChunkOrder, ChunkOutcome, declare_issue_job
from bpc.tasks.pdf_text import TextOrder, TextOutcome, declare_text_job
from bpc.tasks.renew_items import RenewOrder, RenewOutcome, declare_renew_job
from bpc.tasks.replay_audit import ReplayAuditJobs, declare_audit_jobs
from bpc.tasks.retention import RetentionJobs, declare_retention_jobs
from bpc.tasks.rule_tests import TestsOrder, TestsOutcome, declare_tests_job
from bpc.tasks.sign_transfers import TransferOrder, TransferOutcome, declare_transfer_job
from bpc.tasks.sweep_packs import PackSweepOutcome, declare_pack_sweep_job


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineJobs:
    """The steps that are jobs."""

    parse: Handler[ParseOrder, ParseOutcome]
    build: Handler[BuildOrder, BuildOutcome]
    compile: Handler[CompileOrder, CompileOutcome]
    sign: Handler[SignOrder, SignOutcome]
    qr: Handler[QrOrder, QrOutcome]
    activate: Handler[ActivateOrder, ActivationResult]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskJobs:
    """The other jobs, and where files may be ingested from."""

    rule_tests: Handler[TestsOrder, TestsOutcome]
    export: Handler[ExportOrder, ExportOutcome]
    retention: RetentionJobs
    texts: Handler[TextOrder, TextOutcome]
    ingest: Handler[IngestOrder, IngestResult]
    sources: IngestSources
    deliver: Handler[DeliveryOrder, DeliveryOutcome]
    compile_row: Handler[RowOrder, RowOutcome]
    finish_run: Handler[RunWatchOrder, RunWatchOutcome]
    replay_audit: ReplayAuditJobs
    issue_items: Handler[ChunkOrder, ChunkOutcome]
    issue_batch: Handler[BatchVersionOrder, BatchVersionOutcome]
    renew_items: Handler[RenewOrder, RenewOutcome]
    sweep_packs: Handler[SweepOrder, PackSweepOutcome]
    sign_transfer: Handler[TransferOrder, TransferOutcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTypes:
    """All jobs."""

    handlers: Handlers
    pipeline_jobs: PipelineJobs
    task_jobs: TaskJobs


def declare_job_types(
    settings: Settings,
    *,
    database: Database,
    key_ring: SigningService,
    metrics: JobMetrics = JobMetrics(),  # noqa: B008 (it has no state)
    reader_pool: LimitedProcesses = UnavailableProcesses(),  # noqa: B008 (it has no state)
) -> JobTypes:
    """Declare every job. `reader_pool` are child processes with limits, in which a worker reads untrusted documents."""
    handlers, defaults = Handlers(), make_job_defaults(settings)
    pipeline_jobs = declare_pipeline_jobs(
        handlers, limits=make_artifact_limits(settings), key_ring=key_ring, metrics=metrics, reader_pool=reader_pool
    )
    texts = declare_text_job(handlers, reader_pool=reader_pool)
    sources = IngestSources(guard=make_fetch_guard(settings), folders=AllowedFolders(allow=settings.outbound_allow))
    pack_location = locate_packs(settings)
    issue_items = declare_issue_job(
        handlers,
        key_ring=key_ring,
        pack_location=pack_location,
        load_box=cache(partial(load_secret_box, settings)),
        engine=RayPool(settings.ray_address) if settings.items_engine == "ray" else None,
    )
    task_jobs = TaskJobs(
        rule_tests=declare_tests_job(handlers, max_steps=settings.rules_max_steps, open_transaction=database.tenant),
        export=declare_export_job(handlers, open_transaction=database.tenant),
        retention=declare_retention_jobs(handlers, settings=settings, defaults=defaults),
        texts=texts,
        ingest=declare_ingest_job(
            handlers,
            sources=sources,
            data_dir=settings.data_dir,
            max_bytes=settings.upload_max_bytes,
            default_quota=settings.tenant_storage_bytes,
            parse_job=pipeline_jobs.parse,
            text_job=texts,
        ),
        sources=sources,
        compile_row=declare_row_job(
            handlers,
            compile_job=pipeline_jobs.compile,
            compiler_build_id=settings.compiler_build_id,
            signing_key_id=settings.signing_key_id,
            max_steps=settings.rules_max_steps,
        ),
        finish_run=declare_finish_job(handlers),
        replay_audit=declare_audit_jobs(
            handlers,
            sample=settings.replay_audit_sample,
            open_transaction=database.tenant,
            metrics=metrics,
            defaults=defaults,
        ),
        issue_items=issue_items,
        renew_items=declare_renew_job(
            handlers,
            issue_items=issue_items,
            pack_location=pack_location,
            compiler_build_id=settings.compiler_build_id,
            signing_key_id=settings.signing_key_id,
            load_box=cache(partial(load_secret_box, settings)),
        ),
        issue_batch=declare_batch_job(handlers, key_ring=key_ring, load_box=cache(partial(load_secret_box, settings))),
        sweep_packs=declare_pack_sweep_job(handlers, pack_location=pack_location, open_transaction=database.tenant),
        sign_transfer=declare_transfer_job(handlers, key_ring=key_ring, installation_key=settings.signing_key_id),
        deliver=declare_deliver_job(
            handlers,
            guard=make_webhook_guard(settings),
            open_transaction=database.tenant,
            metrics=metrics,
            policy=make_delivery_policy(settings),
            load_box=cache(partial(load_secret_box, settings)),
        ),
    )
    return JobTypes(handlers=handlers, pipeline_jobs=pipeline_jobs, task_jobs=task_jobs)


def declare_pipeline_jobs(
    handlers: Handlers,
    *,
    limits: ArtifactLimits,
    key_ring: SigningService,
    metrics: JobMetrics = JobMetrics(),  # noqa: B008 (it has no state)
    reader_pool: LimitedProcesses = UnavailableProcesses(),  # noqa: B008 (it has no state)
    sign_at_once: bool = True,
) -> PipelineJobs:
    """Declare the steps that are jobs, each with the step that follows it.

    With `sign_at_once`, a compile also signs and makes the QR code, as long as signatures come quickly.
    """
    activate = declare_activate_job(handlers)
    qr = declare_qr_job(handlers, then=activate)
    sign = declare_sign_job(handlers, key_ring=key_ring, then=qr)
    return PipelineJobs(
        parse=declare_parse_job(handlers, reader_pool=reader_pool),
        build=declare_build_job(handlers),
        compile=declare_compile_job(
            handlers,
            limits=limits,
            metrics=metrics,
            then=sign,
            quick_signing=QuickSigning(key_ring) if sign_at_once else None,
            activate_job=activate,
        ),
        sign=sign,
        qr=qr,
        activate=activate,
    )


def make_artifact_limits(settings: Settings) -> ArtifactLimits:
    """How large the parts of a passport may be, and how many steps its rules may take."""
    return ArtifactLimits(
        payload=settings.payload_max_bytes,
        proof=settings.proof_max_bytes,
        receipt=settings.receipt_max_bytes,
        steps=settings.rules_max_steps,
    )


def make_webhook_guard(settings: Settings) -> Guard:
    """The guard of the connections that deliver webhooks."""
    return Guard(
        allow=settings.outbound_allow, https_only=settings.env == "prod", max_seconds=settings.webhook_timeout_seconds
    )


def make_delivery_policy(settings: Settings) -> DeliveryPolicy:
    """How long webhooks are retried, and how long an endpoint may fail."""
    disable_hours = settings.webhook_disable_after_hours
    return DeliveryPolicy(
        retry_for=timedelta(hours=settings.webhook_retry_hours),
        jitter=settings.webhook_retry_jitter_percent / 100,
        disable_after=timedelta(hours=disable_hours) if disable_hours else None,
    )


def make_fetch_guard(settings: Settings) -> Guard:
    """The guard of the connections that fetch files: https; except in prod also http to the hosts in the settings."""
    return replace(make_webhook_guard(settings), https_only=True, http_to_allowed=settings.env != "prod")


def list_nightly_schedules(defaults: Defaults = Defaults()) -> tuple[Schedule, ...]:  # noqa: B008 (frozen)
    """The schedules of the tenant `system`: each runs a job that submits one job per tenant, or sweeps all packs."""
    return tuple(each.make_nightly_schedule(defaults) for each in (replay_audit, retention, sweep_packs))
