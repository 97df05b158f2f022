"""Specification of stored API keys: shown once, found by prefix, revoked for good, never readable again."""

from datetime import timedelta

import asyncpg
import pytest

from bpc.cli.support.output import find_fix
from bpc.core.api_keys import ApiKeySecret, compute_pepper_id
from bpc.core.audit.events import Act
from bpc.core.errors import Conflict
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import ActorId, TenantId
from bpc.runtime import clock
from bpc.storage.access import api_keys, tenants_and_actors
from bpc.storage.access.api_keys import ApiKeyPrefixUnknown, IssuedApiKey
from bpc.storage.access.api_requests import Caller, find_caller
from bpc.storage.audit import events
from bpc.storage.connection import Connection
from bpc.storage.database import Database
from tests.storage.probes import Superuser
from tests.storage.rows import PEPPER, insert_actor

pytestmark = pytest.mark.external


async def create_admin_key(database: Database, tenant: TenantId, act: Act) -> IssuedApiKey:
    """A new key of a new administrator."""
    async with database.tenant(tenant) as conn:
        return await api_keys.create_key(conn, tenant, await insert_actor(conn, tenant, act), pepper=PEPPER, act=act)


async def find_key(database: Database, prefix: str) -> Caller | None:
    """As a request finds it: without knowing the tenant."""
    async with database.system() as conn:
        return await find_caller(conn, prefix)


async def list_key_events(conn: Connection) -> list[tuple[str, str]]:
    rows = await conn.fetch(
        """SELECT event_type, payload_canonical FROM events WHERE aggregate_type = 'ApiKey'
            ORDER BY aggregate_id, aggregate_version"""
    )
    return [(row["event_type"], row["payload_canonical"].decode()) for row in rows]


async def test_a_new_key_is_found_by_its_prefix_and_proven_by_its_text(
    database: Database, tenant: TenantId, act: Act
) -> None:
    issued_key = await create_admin_key(database, tenant, act)

    stored_key = await find_key(database, issued_key.api_key.prefix)

    assert stored_key is not None
    assert (stored_key.tenant_id, stored_key.api_key_id, stored_key.actor_id) == (
        tenant,
        issued_key.api_key_id,
        issued_key.actor_id,
    )
    assert (stored_key.is_active, stored_key.expires_at, stored_key.revoked_at, stored_key.last_used_at) == (
        True,
        None,
        None,
        None,
    )
    assert ApiKeySecret.parse(issued_key.api_key.text).matches(stored_key.key_hash, PEPPER)
    assert not ApiKeySecret.parse(issued_key.api_key.text).matches(stored_key.key_hash, b"another pepper")


async def test_the_text_of_a_key_is_stored_nowhere(
    database: Database, superuser: Superuser, tenant: TenantId, act: Act
) -> None:
    issued_key = await create_admin_key(database, tenant, act)
    secret = issued_key.api_key.text.rsplit("_", 1)[1]
    tables = await superuser.fetch(
        "SELECT oid::regclass::text AS name FROM pg_class WHERE relkind = 'r' AND oid > 16384"
    )

    rows = [
        row["line"]
        for table in tables
        for row in await superuser.fetch(f"SELECT to_jsonb(t)::text AS line FROM {table['name']} t")
    ]

    assert any(issued_key.api_key.prefix in row for row in rows)
    assert not any(secret in row or secret.encode().hex() in row for row in rows)
    assert secret not in repr(issued_key)


async def test_two_keys_of_one_actor_are_different_keys(database: Database, tenant: TenantId, act: Act) -> None:
    async with database.tenant(tenant) as conn:
        actor = await insert_actor(conn, tenant, act)
        issued_keys = [await api_keys.create_key(conn, tenant, actor, pepper=PEPPER, act=act) for _ in range(2)]

    stored_keys = [await find_key(database, one.api_key.prefix) for one in issued_keys]
    assert [one.api_key_id for one in issued_keys] == [one and one.api_key_id for one in stored_keys]
    assert issued_keys[0].api_key.text != issued_keys[1].api_key.text


async def test_creating_and_revoking_a_key_append_events_without_its_secret(
    database: Database, tenant: TenantId, act: Act
) -> None:
    async with database.tenant(tenant) as conn:
        actor = await insert_actor(conn, tenant, act)
        issued_key = await api_keys.create_key(conn, tenant, actor, pepper=PEPPER, act=act, label="ci")
        revoked = await api_keys.revoke_key_by_prefix(conn, tenant, issued_key.api_key.prefix, act=act)

        on_record = await list_key_events(conn)
        verified = await events.verify_tenant(conn, tenant)
    prefix = issued_key.api_key.prefix
    assert revoked == issued_key.api_key_id
    digest = sha256(issued_key.api_key.hash(PEPPER)).hex()  # a hash of the stored hash
    hashes = f'"expires_at":null,"key_hash_sha256":"{digest}"'
    assert on_record == [
        ("API_KEY_CREATED", f'{{"actor_id":"{actor}",{hashes},"key_prefix":"{prefix}","label":"ci"}}'),
        ("API_KEY_REVOKED", f'{{"key_prefix":"{prefix}"}}'),
    ]
    assert verified.faults == ()


async def test_a_rolled_back_transaction_leaves_neither_key_nor_event(
    database: Database, superuser: Superuser, tenant: TenantId, act: Act
) -> None:
    class ChangedMyMind(Exception):
        pass

    issued_key = await create_admin_key(database, tenant, act)
    before = await superuser.fetchval("SELECT count(*) FROM events")

    async def change_my_mind() -> None:
        async with database.tenant(tenant) as conn:
            actor = await insert_actor(conn, tenant, act)
            await api_keys.create_key(conn, tenant, actor, pepper=PEPPER, act=act)
            await api_keys.revoke_key_by_prefix(conn, tenant, issued_key.api_key.prefix, act=act)
            raise ChangedMyMind

    with pytest.raises(ChangedMyMind):
        await change_my_mind()

    stored_key = await find_key(database, issued_key.api_key.prefix)
    assert stored_key is not None
    assert stored_key.revoked_at is None
    counts = [
        await superuser.fetchval(f"SELECT count(*) FROM {table}")
        for table in ("actors", "api_keys", "api_key_prefixes")
    ]
    assert counts == [1, 1, 1]
    assert await superuser.fetchval("SELECT count(*) FROM events") == before


async def test_a_revoked_key_is_still_found_as_revoked_and_cannot_be_revoked_again(
    database: Database, tenant: TenantId, act: Act
) -> None:
    prefix = (await create_admin_key(database, tenant, act)).api_key.prefix
    async with database.tenant(tenant) as conn:
        await api_keys.revoke_key_by_prefix(conn, tenant, prefix, act=act)
    later = Act(None, act.at + timedelta(hours=1))

    async with database.tenant(tenant) as conn:
        with pytest.raises(ApiKeyPrefixUnknown, match=f"there is no valid key with the prefix `{prefix}`") as refused:
            await api_keys.revoke_key_by_prefix(conn, tenant, prefix, act=later)
        on_record = [event_type for event_type, _ in await list_key_events(conn)]

    stored_key = await find_key(database, prefix)
    assert stored_key is not None
    assert stored_key.revoked_at == act.at, "the first revocation counts"
    assert on_record == ["API_KEY_CREATED", "API_KEY_REVOKED"]
    assert refused.value.code == "NOT_FOUND"
    assert find_fix(refused.value) == "`bpc apikeys list` shows them"


async def test_an_unknown_or_foreign_key_cannot_be_revoked(
    database: Database, tenant: TenantId, other_tenant: TenantId, act: Act
) -> None:
    prefix = (await create_admin_key(database, tenant, act)).api_key.prefix

    async with database.tenant(other_tenant) as conn:
        for unknown in (prefix, "0000000000", ""):
            with pytest.raises(ApiKeyPrefixUnknown):
                await api_keys.revoke_key_by_prefix(conn, other_tenant, unknown, act=act)
            with pytest.raises(ApiKeyPrefixUnknown):  # nor by naming the other tenant in the query
                await api_keys.revoke_key_by_prefix(conn, tenant, unknown, act=act)

    stored_key = await find_key(database, prefix)
    assert stored_key is not None
    assert stored_key.revoked_at is None


async def test_a_key_is_found_with_its_expiry_and_its_last_use(database: Database, tenant: TenantId, act: Act) -> None:
    expired, used = act.at - timedelta(days=1), act.at - timedelta(days=2)
    async with database.tenant(tenant) as conn:
        actor = await insert_actor(conn, tenant, act)
        issued_key = await api_keys.create_key(conn, tenant, actor, pepper=PEPPER, act=act, expires_at=expired)
        await conn.execute("UPDATE api_keys SET last_used_at = $1", used)

    stored_key = await find_key(database, issued_key.api_key.prefix)

    assert stored_key is not None
    assert (stored_key.expires_at, stored_key.last_used_at, stored_key.is_active) == (expired, used, True)


async def test_a_key_is_inactive_while_its_actor_or_its_tenant_is(
    database: Database, tenant: TenantId, act: Act
) -> None:
    issued_key = await create_admin_key(database, tenant, act)
    async with database.system() as conn:
        acme = await tenants_and_actors.get_tenant_by_slug(conn, "acme")

    async def is_active() -> bool:
        stored_key = await find_key(database, issued_key.api_key.prefix)
        return stored_key is not None and stored_key.is_active

    async def set_actor(*, active: bool) -> None:
        async with database.tenant(tenant) as conn:
            await conn.execute("UPDATE actors SET is_active = $2 WHERE actor_id = $1", issued_key.actor_id, active)

    states = [await is_active()]
    await tenants_and_actors.set_tenant_active(database, acme, active=False, act=act)
    states.append(await is_active())
    await set_actor(active=False)
    states.append(await is_active())
    await tenants_and_actors.set_tenant_active(database, acme, active=True, act=act)
    states.append(await is_active())
    await set_actor(active=True)
    states.append(await is_active())

    assert states == [True, False, False, False, True]


async def test_keys_are_listed_oldest_first_with_their_roles_and_without_secrets(
    database: Database, tenant: TenantId, other_tenant: TenantId, act: Act
) -> None:
    await create_admin_key(database, other_tenant, act)
    issued_keys = []
    for after, label in enumerate(("first", "second")):
        then = Act(None, act.at + timedelta(seconds=after))
        async with database.tenant(tenant) as conn:
            roles = ["Auditor", "Admin"]
            actor = await tenants_and_actors.create_actor(
                conn, tenant, kind="API_CLIENT", display_name=label, roles=roles, act=then
            )
            issued_keys.append(await api_keys.create_key(conn, tenant, actor, pepper=PEPPER, act=then, label=label))
    async with database.tenant(tenant) as conn:
        await api_keys.revoke_key_by_prefix(conn, tenant, issued_keys[0].api_key.prefix, act=act)

        key_rows = await api_keys.list_all_keys(conn, tenant)

    assert [(key.api_key_id, key.label, key.display_name, key.roles, key.revoked_at) for key in key_rows] == [
        (issued_keys[0].api_key_id, "first", "first", ["Admin", "Auditor"], act.at),
        (issued_keys[1].api_key_id, "second", "second", ["Admin", "Auditor"], None),
    ]
    assert "hash" not in repr(key_rows)
    assert not any(one.api_key.text in repr(key_rows) for one in issued_keys)


async def test_a_key_for_an_unknown_or_foreign_actor_is_refused(
    database: Database, superuser: Superuser, tenant: TenantId, other_tenant: TenantId, act: Act
) -> None:
    async with database.tenant(other_tenant) as conn:
        foreign = await insert_actor(conn, other_tenant, act)

    async def key_for(actor: ActorId) -> None:
        async with database.tenant(tenant) as conn:
            await api_keys.create_key(conn, tenant, actor, pepper=PEPPER, act=act)

    for actor in (foreign, ActorId(clock.new_id())):
        with pytest.raises(asyncpg.ForeignKeyViolationError):
            await key_for(actor)

    assert await superuser.fetchval("SELECT count(*) FROM api_key_prefixes") == 0, "not even the prefix is taken"


async def test_each_key_names_its_pepper_and_the_system_counts_keys_by_pepper(
    database: Database, tenant: TenantId, other_tenant: TenantId, act: Act
) -> None:
    for owner in (tenant, tenant, other_tenant):
        await create_admin_key(database, owner, act)
    revoked_key = await create_admin_key(database, tenant, act)
    async with database.tenant(tenant) as conn:
        await api_keys.revoke_key_by_prefix(conn, tenant, revoked_key.api_key.prefix, act=act)
        key_rows = await api_keys.list_all_keys(conn, tenant)

    async with database.system() as conn:
        usages = await api_keys.count_keys_by_pepper(conn)

    assert {key.pepper_id for key in key_rows} == {compute_pepper_id(PEPPER)}
    assert [(usage.slug, usage.pepper_id, usage.keys) for usage in usages] == [
        ("acme", compute_pepper_id(PEPPER), 2),
        ("rival", compute_pepper_id(PEPPER), 1),
    ]


async def test_only_the_system_may_count_keys_of_all_tenants(database: Database, tenant: TenantId) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        async with database.tenant(tenant) as conn:
            await api_keys.count_keys_by_pepper(conn)


CHANGE = "UPDATE api_keys SET key_hash = $1, pepper_id = $2"


async def test_the_hash_of_a_key_changes_only_with_its_pepper(database: Database, tenant: TenantId, act: Act) -> None:
    issued_key = await create_admin_key(database, tenant, act)
    other_hash = issued_key.api_key.hash(b"another pepper")

    for name in (compute_pepper_id(PEPPER), None):
        with pytest.raises(Conflict, match="changes only with its pepper"):
            async with database.tenant(tenant) as conn:
                await conn.execute(CHANGE, other_hash, name)

    async with database.tenant(tenant) as conn:
        assert await conn.execute(CHANGE, other_hash, "another") == "UPDATE 1"


async def test_the_hash_of_a_revoked_key_does_not_change_at_all(database: Database, tenant: TenantId, act: Act) -> None:
    issued_key = await create_admin_key(database, tenant, act)
    async with database.tenant(tenant) as conn:
        await api_keys.revoke_key_by_prefix(conn, tenant, issued_key.api_key.prefix, act=act)

    with pytest.raises(Conflict, match="changes only with its pepper"):
        async with database.tenant(tenant) as conn:
            await conn.execute(CHANGE, issued_key.api_key.hash(b"another pepper"), "another")
