"""Facts, the second step: a document version in, what it says out, all of it or nothing.

UPLOADED ─┬─► VALIDATED   its facts are there, and on record how many and what nobody reads
          └─► REJECTED    no fact is there, and on record everything that is wrong with it

A document comes from strangers. Small texts are read here: the worst of them that we know takes 30 milliseconds.
Everything else is read in a child process with limits, and what takes more is rejected: it would take more the next
time, too.
"""

from collections import Counter
from typing import Final
from uuid import UUID

from pydantic.dataclasses import dataclass

from bpc import fresh
from bpc.core.documents import Found, Note, Read, Rejected, is_text, read_document
from bpc.core.errors import Conflict, Invalid
from bpc.core.events import Act, Said, Stream
from bpc.core.ids import AggregateId, DocumentVersionId, TenantId
from bpc.db import events, facts, readings
from bpc.db.connection import Connection
from bpc.jobs import Context, Handler, Handlers, Limited, LimitExceeded, Limits, Refused

# Bytes. Above this, reading can take long enough for others to notice.
READ_AT_ONCE: Final = 4_096
# With the program itself that is below 256 MB. Fifty thousand components take most of that, and a fifth of the time.
READING: Final = Limits(memory_bytes=220_000_000, cpu_seconds=30)


@dataclass(frozen=True, kw_only=True)
class ParseOrder:
    document_version_id: UUID
    actor_id: UUID | None


class DocumentRejected(Invalid):
    """The document is not what its kind says."""

    def __init__(self, version: DocumentVersionId, problems: list[dict[str, str]], total: int) -> None:
        first = f": `{problems[0]['at']}` {problems[0]['says']}" if problems else ""
        more = f", and {total - 1:,} more" if total > 1 else ""
        super().__init__(
            f"the document was rejected{first}{more}",
            fix="correct the document and upload it as a new version",
            details={"document_version_id": str(version), "problems": problems, "problems_total": total},
        )


class ContentGone(Conflict):
    """Retention was faster."""

    def __init__(self, version: DocumentVersionId) -> None:
        super().__init__(
            f"the content of document version `{version}` was removed before it was read",
            fix="upload the document again",
        )


def parse_job(handlers: Handlers, *, reading: Limited) -> Handler[ParseOrder, None]:
    """`reading` are the child processes, with the limits `READING`."""

    @handlers.job("PARSE_FACTS")
    async def run(ctx: Context, order: ParseOrder) -> Refused | None:
        return await parse(
            await ctx.transaction(),
            TenantId(ctx.tenant),
            DocumentVersionId(order.document_version_id),
            reading=reading,
            act=Act.ordered_by(order.actor_id, fresh.now()),
        )

    return run


async def parse(
    conn: Connection, tenant: TenantId, version: DocumentVersionId, *, reading: Limited, act: Act
) -> Refused | None:
    """Read a version that was uploaded; one that was read before stays as it is."""
    found = await readings.locked(conn, tenant, version)
    if found.status == "VALIDATED":
        return None
    if found.status == "REJECTED":
        before = await readings.outcome(conn, tenant, version)
        return Refused.because(DocumentRejected(version, before.problems, before.problems_total))
    if found.content is None:
        raise ContentGone(version)
    outcome = await _read(reading, found.kind, found.mime_type, found.content)
    stream = Stream(tenant, "DocumentVersion", AggregateId(version))
    if isinstance(outcome, Rejected):
        await readings.set_status(conn, tenant, version, "REJECTED")
        await events.append(conn, stream, _rejected(outcome, act))
        return Refused.because(DocumentRejected(version, outcome.problems.as_json(), outcome.problems.total))
    new = await facts.add(conn, tenant, version, outcome.facts, at=act.at)
    await readings.set_status(conn, tenant, version, "VALIDATED")
    await events.append(conn, stream, _parsed(outcome, new, act))
    return None


async def _read(reading: Limited, kind: str, mime_type: str, content: bytes) -> Read | Rejected:
    if len(content) <= READ_AT_ONCE and is_text(content):
        return read_document(kind, mime_type, content)
    try:
        return await reading.run(read_document, (kind, mime_type, content))
    except LimitExceeded as much:
        return Rejected(Found((Note("$", f"{much.says}; split the document"),), 1), Found())


def _rejected(outcome: Rejected, act: Act) -> Said:
    payload = {
        "problems": outcome.problems.as_json(),
        "problems_total": outcome.problems.total,
        "warnings": outcome.warnings.as_json(),
        "warnings_total": outcome.warnings.total,
    }
    return act.says("DOCUMENT_REJECTED", payload)


def _parsed(outcome: Read, new: int, act: Act) -> Said:
    payload = {
        "fact_count": len(outcome.facts),
        "fact_types": dict(Counter(fact.fact_type for fact in outcome.facts)),
        "new_fact_count": new,
        "warnings": outcome.warnings.as_json(),
        "warnings_total": outcome.warnings.total,
    }
    return act.says("FACTS_PARSED", payload)
