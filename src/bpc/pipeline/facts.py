"""Facts, the second step: a document version in, its facts out, all of them or none.

UPLOADED ─┬─► VALIDATED   all facts are stored; the event has their number and everything that was left out
          └─► REJECTED    no fact is stored; the event has every problem of the document

A job that fails for another reason is an event too; the version stays UPLOADED, and the job can be retried.

A table is read under the options that were chosen when it was uploaded; they are in both events. The same bytes under
the same options give the same facts, whatever the supplier's options are by now.

Documents are untrusted. A small text is read in this process: the worst one that we know takes a tenth of a second.
Everything else is read in a child process with limits. A document that exceeds a limit is rejected: it would exceed it
again next time.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Final

from service_jobs import (
    Context,
    Handler,
    Handlers,
    JobError,
    LimitedProcesses,
    LimitExceeded,
    ProcessLimits,
    Rejection,
)

from bpc.core.audit.events import Act
from bpc.core.documents import DocumentNote, NoteSummary
from bpc.core.documents.column_mapping import MappingProblems, parse_mapping
from bpc.core.documents.number_texts import LOCALES
from bpc.core.documents.read_options import ReadOptions
from bpc.core.documents.reader import DocumentFacts, DocumentProblems, is_text, read_document
from bpc.core.errors import Conflict, Invalid
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.hashes import to_hex
from bpc.core.formats.ids import ActorId, DocumentVersionId, TenantId
from bpc.runtime import clock
from bpc.storage.connection import Connection
from bpc.storage.evidence import facts, parse_results
from bpc.storage.jobs import describe_failure, load_job_input, make_subject
from bpc.storage.webhooks.webhook_fanout import append_and_announce

MAX_INLINE_BYTES: Final = 4_096  # a larger document may take so long that other jobs are delayed
MAX_PROBLEMS_IN_ERROR: Final = 100
# With the program itself that is below 256 MB. 50,000 components take most of the memory and a fifth of the time.
READ_LIMITS: Final = ProcessLimits(memory_bytes=220_000_000, cpu_seconds=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParseOrder:
    """The document version to read."""

    document_version_id: DocumentVersionId
    actor_id: ActorId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParseOutcome:
    """What a document version gave. `new_fact_count` facts were not known before; None if it was read before."""

    document_version_id: DocumentVersionId
    fact_count: int
    new_fact_count: int | None
    warnings: int


class DocumentRejected(Invalid):
    """The document does not have the format of its kind. The version lists all of its problems."""

    def __init__(self, version: DocumentVersionId, problems: list[dict[str, str]], total: int) -> None:
        first = f": `{problems[0]['at']}` {problems[0]['says']}" if problems else ""
        more = f", and {total - 1:,} more" if total > 1 else ""
        super().__init__(
            f"the document was rejected{first}{more}",
            fix="correct the document and upload it as a new version",
            details={
                "document_version_id": str(version),
                "problems": problems[:MAX_PROBLEMS_IN_ERROR],
                "problems_total": total,
            },
        )


def declare_parse_job(handlers: Handlers, *, reader_pool: LimitedProcesses) -> Handler[ParseOrder, ParseOutcome]:
    """The job PARSE_FACTS. `reader_pool` are child processes with `READ_LIMITS`."""

    @handlers.job(
        "PARSE_FACTS",
        subject=lambda order: make_subject("document_version", order.document_version_id),
        description="Reads the facts of an uploaded document.",
    )
    async def run(ctx: Context, order: ParseOrder) -> ParseOutcome | Rejection:
        return await parse(
            await ctx.transaction(),
            TenantId(ctx.tenant),
            order.document_version_id,
            reader_pool=reader_pool,
            act=Act(order.actor_id, clock.now()),
        )

    @run.on_failure
    async def record_failure(ctx: Context, error: JobError) -> None:
        conn, tenant = await ctx.transaction(), TenantId(ctx.tenant)
        order = await load_job_input(conn, tenant, ctx.job_id, run)
        version, act = order.document_version_id, Act(order.actor_id, clock.now())
        row = await parse_results.lock_version_for_parse(conn, tenant, version)
        if row.status != "UPLOADED":  # it was rejected, which is recorded
            return
        payload = {"document_id": str(row.document_id), **describe_failure(ctx.job_id, error)}
        await append_and_announce(conn, act, tenant, "DocumentVersion", version, "DOCUMENT_PARSE_FAILED", payload)

    return run


async def parse(
    conn: Connection, tenant: TenantId, version: DocumentVersionId, *, reader_pool: LimitedProcesses, act: Act
) -> ParseOutcome | Rejection:
    """Read an uploaded version. One that was read before stays as it is."""
    row = await parse_results.lock_version_for_parse(conn, tenant, version)
    if row.status in {"VALIDATED", "REJECTED"}:
        earlier = await parse_results.load_parse_result(conn, tenant, version)
        if row.status == "VALIDATED":
            return ParseOutcome(
                document_version_id=version,
                fact_count=earlier.fact_count,
                new_fact_count=None,
                warnings=earlier.warnings_total,
            )
        return Rejection.from_exception(DocumentRejected(version, earlier.problems, earlier.problems_total))
    if row.content is None:
        raise Conflict(
            f"the content of document version `{version}` was removed before it was read",
            fix="upload the document again",
        )
    options_json = canonical_json.read_json(row.read_options)
    options = parse_options(options_json)
    if isinstance(options, ReadOptions):
        outcome = await _read_content(reader_pool, row.kind, row.mime_type, row.content, options)
    else:
        outcome = options
    if isinstance(outcome, DocumentProblems):
        await parse_results.set_document_status(conn, tenant, version, "REJECTED")
        notes = _describe_notes(problems=outcome.problems, warnings=outcome.warnings)
        payload = {"document_id": str(row.document_id), **notes, "options": options_json}
        await append_and_announce(conn, act, tenant, "DocumentVersion", version, "DOCUMENT_REJECTED", payload)
        return Rejection.from_exception(DocumentRejected(version, outcome.problems.as_json(), outcome.problems.total))
    new_count = await facts.insert_facts(conn, tenant, version, outcome.facts, at=act.at)
    await parse_results.set_document_status(conn, tenant, version, "VALIDATED")
    payload = {
        "document_id": str(row.document_id),
        "fact_count": len(outcome.facts),
        "fact_types": dict(Counter(fact.fact_type for fact in outcome.facts)),
        "new_fact_count": new_count,
        "facts_sha256": to_hex(facts.hash_facts(outcome.facts)),
        **_describe_notes(warnings=outcome.warnings),
        "options": options_json,
    }
    await append_and_announce(conn, act, tenant, "DocumentVersion", version, "FACTS_PARSED", payload)
    return ParseOutcome(
        document_version_id=version,
        fact_count=len(outcome.facts),
        new_fact_count=new_count,
        warnings=outcome.warnings.total,
    )


def parse_options(value: Json) -> ReadOptions | DocumentProblems:
    """The options that a version is to be read under; a mapping that this build does not understand is a problem."""
    members = value if isinstance(value, dict) else {}
    locale = next((option for option in LOCALES if option == members.get("locale")), None)
    mapping = parse_mapping(members["mapping"]) if "mapping" in members else None
    if isinstance(mapping, MappingProblems):
        notes = tuple(
            DocumentNote("$", f"has a column mapping that cannot be used: `{path}` {says}; accept a new mapping")
            for path, says in mapping.problems
        )
        return DocumentProblems(NoteSummary(notes, len(notes)), NoteSummary())
    return ReadOptions(locale=locale, mapping=mapping)


async def _read_content(
    reader_pool: LimitedProcesses, kind: str, mime_type: str, content: bytes, options: ReadOptions
) -> DocumentFacts | DocumentProblems:
    if len(content) <= MAX_INLINE_BYTES and is_text(content):
        return read_document(kind, mime_type, content, options)
    try:
        return await reader_pool.run(read_document, (kind, mime_type, content, options))
    except LimitExceeded as error:
        return DocumentProblems(
            NoteSummary((DocumentNote("$", f"{error.says}; split the document"),), 1), NoteSummary()
        )


def _describe_notes(**summaries: NoteSummary) -> dict[str, object]:
    """Each summary under its name, and how many notes there are in all."""
    payload: dict[str, object] = {}
    for name, summary in summaries.items():
        payload |= {name: summary.as_json(), f"{name}_total": summary.total}
    return payload
