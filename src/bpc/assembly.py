"""Assembly: every type of job there is, declared once, for whoever submits them and whoever runs them.

    assembled(settings, signer=…) ─► Assembly(handlers, steps, errands)

Steps and errands do not know each other. Where an errand does what a step does, it is handed that step here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bpc import errands, pipeline
from bpc.core.errors import Refusal
from bpc.core.events import Act
from bpc.core.ids import DocumentId, FactId, PassportId, PassportVersionId, RulePackageVersionId, SnapshotId, TenantId
from bpc.core.signing import Signer
from bpc.db.connection import Connection
from bpc.db.database import Database
from bpc.errands import Errands
from bpc.errands.bulk import Compiling
from bpc.errands.deliver import Deliveries
from bpc.errands.deliver import Uncounted as UncountedDeliveries
from bpc.errands.ingest import Added, AddVersion, Sources
from bpc.errands.replay_audit import Replays, Uncounted
from bpc.errands.retention import Periods
from bpc.jobs import NORMAL, Context, Handler, Handlers, Limited, Nowhere, Queue
from bpc.outbound import Guard
from bpc.outbound.folders import Folders
from bpc.pipeline import Measures, Steps
from bpc.pipeline.compile import request_compile
from bpc.pipeline.facts import ParseOrder
from bpc.pipeline.replay import replay
from bpc.pipeline.snapshot import sealed_of
from bpc.pipeline.upload import BytesKnown, upload
from bpc.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """All jobs of this installation."""

    handlers: Handlers
    steps: Steps
    errands: Errands


def assembled(
    settings: Settings,
    *,
    signer: Callable[[str], Signer | None],
    measures: Measures | None = None,
    replays: Replays | None = None,
    deliveries: Deliveries | None = None,
    database: Database | None = None,
    reading: Limited | None = None,
) -> Assembly:
    """`signer` gives the private key of a name, where it is at hand; `measures`, `replays` and `deliveries` keep
    count.

    Who runs jobs, and does not only submit them, gives the `database`; a worker also has child processes for `reading`
    documents.
    """
    handlers, guard = Handlers(), guard_of(settings)
    steps = pipeline.declare(handlers, pipeline.Means.of(settings, signer, measures=measures, reading=reading))
    means = errands.Means(
        max_steps=settings.rules_max_steps,
        periods=Periods.of(settings),
        data_dir=settings.data_dir,
        upload_max_bytes=settings.upload_max_bytes,
        sources=Sources(guard=fetching_guard_of(settings), folders=Folders(allow=settings.outbound_allow)),
        add_version=adding(steps.parse),
        guard=guard,
        seal=sealed,
        compile=requesting(steps),
        replay=replayed,
        replay_sample=settings.replay_audit_sample,
        replays=replays or Uncounted(),
        deliveries=deliveries or UncountedDeliveries(),
        opening=None if database is None else database.tenant,
        reading=reading or Nowhere(),
    )
    return Assembly(handlers=handlers, steps=steps, errands=errands.declare(handlers, means))


async def sealed(conn: Connection, tenant: TenantId, wanted: Sequence[FactId], *, label: str, act: Act) -> SnapshotId:
    """A sealed snapshot of facts."""
    return (await sealed_of(conn, tenant, wanted, label=label, act=act)).snapshot_id


async def replayed(
    ctx: Context, conn: Connection, tenant: TenantId, version: PassportVersionId, *, act: Act
) -> Refusal | None:
    """What replaying a version finds, on record; None if it holds."""
    return (await replay(conn, tenant, version, act=act, beside=ctx.compute)).refusal


def requesting(steps: Steps) -> Compiling:
    """Asks for versions with this installation's build and key."""

    async def request(
        conn: Connection,
        queue: Queue,
        tenant: TenantId,
        passport: PassportId,
        *,
        snapshot: SnapshotId,
        rule_version: RulePackageVersionId,
        activate: bool,
        act: Act,
    ) -> PassportVersionId:
        requested = await request_compile(
            conn,
            queue,
            steps.compile,
            tenant,
            passport,
            snapshot=snapshot,
            rule_version=rule_version,
            compiler_build_id=steps.means.compiler_build_id,
            signing_key_id=steps.means.signing_key_id,
            act=act,
            activate=activate,
            priority=NORMAL,  # behind what somebody asks for alone
        )
        return requested.passport_version_id

    return request


def adding(parse: Handler[ParseOrder, None]) -> AddVersion:
    """The upload, for who finds it no mistake that the bytes are known."""

    async def add_version(
        conn: Connection,
        queue: Queue,
        tenant: TenantId,
        document: DocumentId,
        *,
        mime_type: str,
        content: bytes,
        act: Act,
    ) -> Added:
        try:
            made = await upload(conn, queue, parse, tenant, document, mime_type=mime_type, content=content, act=act)
        except BytesKnown as known:
            return Added(document_version_id=known.version, document_id=known.document, is_new=False)
        return Added(
            document_version_id=made.document_version_id, document_id=document, is_new=True, parse_job_id=made.job_id
        )

    return add_version


def guard_of(settings: Settings) -> Guard:
    """The way out for webhooks."""
    return Guard(
        allow=settings.outbound_allow, https_only=settings.env == "prod", longest=settings.webhook_timeout_seconds
    )


def fetching_guard_of(settings: Settings) -> Guard:
    """The way out for files that are fetched: https; outside of prod also http, to what the installation names."""
    return replace(guard_of(settings), https_only=True, http_to_allowed=settings.env != "prod")
