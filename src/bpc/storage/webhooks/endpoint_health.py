"""How an endpoint does: failures are counted, and one that fails persistently is disabled until somebody enables it.

    attempt failed ─► failing_since, failed_attempts + 1 ─► disabled, if it lasts
    attempt arrived ─► both are cleared

Disabling and enabling append an event each, which webhooks announce: another endpoint of the tenant can be told.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString

from bpc.core.audit.events import Act
from bpc.core.errors import Conflict
from bpc.core.formats.ids import TenantId, WebhookEndpointId
from bpc.core.formats.timestamps import format_time
from bpc.storage.connection import Connection, fetch_one
from bpc.storage.webhooks.endpoints import ENDPOINT_COLUMNS, EndpointRow, explain_inactive, lock_endpoint
from bpc.storage.webhooks.webhook_fanout import append_and_announce

COUNT_FAILURE: Final[LiteralString] = """
    UPDATE webhook_endpoints
       SET failing_since = coalesce(failing_since, $3), failed_attempts = failed_attempts + 1
     WHERE tenant_id = $1 AND webhook_endpoint_id = $2
    RETURNING failing_since, failed_attempts
"""
CLEAR_FAILURES: Final[LiteralString] = """
    UPDATE webhook_endpoints SET failing_since = NULL, failed_attempts = 0
     WHERE tenant_id = $1 AND webhook_endpoint_id = $2 AND failing_since IS NOT NULL
"""
DISABLE_ENDPOINT: Final[LiteralString] = f"""
    UPDATE webhook_endpoints SET is_active = false, disabled_at = $3, disabled_reason = $4
     WHERE tenant_id = $1 AND webhook_endpoint_id = $2 AND is_active
    RETURNING {ENDPOINT_COLUMNS}
"""
ENABLE_ENDPOINT: Final[LiteralString] = f"""
    UPDATE webhook_endpoints
       SET is_active = true, disabled_at = NULL, disabled_reason = NULL, failing_since = NULL, failed_attempts = 0
     WHERE tenant_id = $1 AND webhook_endpoint_id = $2
    RETURNING {ENDPOINT_COLUMNS}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointFailures:
    """How often attempts failed in a row, and since when."""

    failing_since: datetime
    failed_attempts: int


async def count_failure(
    conn: Connection, tenant: TenantId, endpoint: WebhookEndpointId, *, at: datetime
) -> EndpointFailures:
    """Count an attempt that failed."""
    [row] = await conn.fetch(COUNT_FAILURE, tenant, endpoint, at)
    return EndpointFailures(**row)


async def clear_failures(conn: Connection, tenant: TenantId, endpoint: WebhookEndpointId) -> None:
    """An attempt arrived: the endpoint does not fail any more."""
    await conn.execute(CLEAR_FAILURES, tenant, endpoint)


async def disable_endpoint(
    conn: Connection, tenant: TenantId, endpoint: WebhookEndpointId, *, reason: str, act: Act
) -> EndpointRow | None:
    """Send nothing more to an endpoint, and append an event; None if it was inactive before."""
    row = await conn.fetchrow(DISABLE_ENDPOINT, tenant, endpoint, act.at, reason)
    if row is None:
        return None
    disabled_endpoint = EndpointRow(**row)
    since = disabled_endpoint.failing_since
    payload = {
        "url": disabled_endpoint.url,
        "reason": reason,
        "failing_since": None if since is None else format_time(since),
        "failed_attempts": disabled_endpoint.failed_attempts,
    }
    await append_and_announce(conn, act, tenant, "WebhookEndpoint", endpoint, "WEBHOOK_ENDPOINT_DISABLED", payload)
    return disabled_endpoint


async def require_disabled(
    conn: Connection, tenant: TenantId, endpoint: WebhookEndpointId, *, reason: str, act: Act
) -> EndpointRow:
    """Disable an endpoint; refuse if it is inactive."""
    disabled_endpoint = await disable_endpoint(conn, tenant, endpoint, reason=reason, act=act)
    if disabled_endpoint is None:
        raise await explain_inactive(conn, tenant, endpoint)
    return disabled_endpoint


async def enable_endpoint(
    conn: Connection, tenant: TenantId, endpoint: WebhookEndpointId, *, reason: str | None, act: Act
) -> EndpointRow:
    """Send to a disabled endpoint again, and append an event. Its count of failures starts again."""
    before = await lock_endpoint(conn, tenant, endpoint)
    if before.is_active:
        raise Conflict(f"webhook endpoint `{endpoint}` is active", fix="nothing to do")
    if before.disabled_at is None:
        raise await explain_inactive(conn, tenant, endpoint)
    row = await fetch_one(conn, EndpointRow, ENABLE_ENDPOINT, tenant, endpoint, kind="webhook endpoint")
    payload = {"url": row.url, "reason": reason, "disabled_at": format_time(before.disabled_at)}
    await append_and_announce(conn, act, tenant, "WebhookEndpoint", endpoint, "WEBHOOK_ENDPOINT_ENABLED", payload)
    return row
