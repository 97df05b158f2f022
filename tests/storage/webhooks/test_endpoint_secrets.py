"""Secrets of webhook endpoints: stored encrypted, also those of earlier releases, and keys can change."""

from typing import Any

import pytest

from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.core.secret_box import SecretBox, SecretUnreadable
from bpc.runtime import clock
from bpc.storage.database import Database
from bpc.storage.webhooks import endpoints
from bpc.storage.webhooks.endpoint_secrets import open_secret, seal_secret, seal_stored_secrets

OLD, NEW = SecretBox(materials=(b"an old key",)), SecretBox(materials=(b"a new key", b"an old key"))


async def _read_secret(superuser: Any) -> str:
    return str(await superuser.fetchval("SELECT secret_base64 FROM webhook_endpoints"))


async def test_what_an_earlier_release_stored_is_encrypted_at_the_next_start_and_keys_can_change(
    database: Database, tenant: TenantId, act: Act, superuser: Any
) -> None:
    async with database.tenant(tenant) as conn:
        issued = await endpoints.create_endpoint(conn, tenant, url="https://example.com/", act=act)
        plain = await _read_committed(conn, tenant)
    endpoint, secret = issued.webhook_endpoint_id, issued.secret.removeprefix("whsec_")
    assert plain == secret

    assert await seal_stored_secrets(database, OLD) == 1
    first = await _read_secret(superuser)
    assert await seal_stored_secrets(database, OLD) == 0
    assert await seal_stored_secrets(database, NEW) == 1
    second = await _read_secret(superuser)

    assert secret not in first + second
    assert open_secret(NEW, tenant, endpoint, first) == open_secret(NEW, tenant, endpoint, second) == secret
    with pytest.raises(SecretUnreadable):
        open_secret(OLD, tenant, endpoint, second)


async def _read_committed(conn: Any, tenant: TenantId) -> str:
    return str(await conn.fetchval("SELECT secret_base64 FROM webhook_endpoints WHERE tenant_id = $1", tenant))


def test_a_text_that_was_changed_or_copied_to_another_row_does_not_open() -> None:
    tenant, endpoint, other = TenantId(clock.new_id()), clock.new_id(), clock.new_id()
    stored = seal_secret(NEW, tenant, endpoint, "secret")
    changed = stored[:-6] + ("A" if stored[-6] != "A" else "B") + stored[-5:]

    for text, place in ((changed, endpoint), (stored, other)):
        with pytest.raises(SecretUnreadable):
            open_secret(NEW, tenant, place, text)
    assert open_secret(NEW, tenant, endpoint, stored) == "secret"
    assert "new key" not in repr(NEW)
