"""Specification of stored API keys: shown once, found by prefix, revoked for good, never readable again."""

from datetime import timedelta
from typing import TypeAlias

import asyncpg
import pytest

from bpc import fresh
from bpc.core.apikeys import ApiKey
from bpc.core.errors import Conflict
from bpc.core.events import Act
from bpc.core.ids import ActorId, TenantId
from bpc.core.peppers import pepper_id
from bpc.db import actors, apikeys, events, tenants
from bpc.db.apikeys import Issued, KeyUnknown, Known
from bpc.db.connection import Connection
from bpc.db.database import Database
from tests.db.rows import PEPPER, an_actor

pytestmark = pytest.mark.external

Superuser: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


async def issued(database: Database, tenant: TenantId, act: Act) -> Issued:
    """A new key of a new administrator."""
    async with database.tenant(tenant) as conn:
        return await apikeys.create(conn, tenant, await an_actor(conn, tenant, act), pepper=PEPPER, act=act)


async def found(database: Database, prefix: str) -> Known | None:
    """As a request finds it: without knowing the tenant."""
    async with database.system() as conn:
        return await apikeys.find(conn, prefix)


async def recorded(conn: Connection) -> list[tuple[str, str]]:
    rows = await conn.fetch(
        """SELECT event_type, payload_canonical FROM events WHERE aggregate_type = 'ApiKey'
            ORDER BY aggregate_id, aggregate_version"""
    )
    return [(row["event_type"], row["payload_canonical"].decode()) for row in rows]


async def test_a_new_key_is_found_by_its_prefix_and_proven_by_its_text(
    database: Database, tenant: TenantId, act: Act
) -> None:
    made = await issued(database, tenant, act)

    known = await found(database, made.api_key.prefix)

    assert known is not None
    assert (known.tenant_id, known.api_key_id, known.actor_id) == (tenant, made.api_key_id, made.actor_id)
    assert (known.is_active, known.expires_at, known.revoked_at, known.last_used_at) == (True, None, None, None)
    assert ApiKey.parse(made.api_key.text).matches(known.key_hash, PEPPER)
    assert not ApiKey.parse(made.api_key.text).matches(known.key_hash, b"another pepper")


async def test_the_keys_text_is_stored_nowhere(
    database: Database, superuser: Superuser, tenant: TenantId, act: Act
) -> None:
    made = await issued(database, tenant, act)
    secret = made.api_key.text.rsplit("_", 1)[1]
    tables = await superuser.fetch(
        "SELECT oid::regclass::text AS name FROM pg_class WHERE relkind = 'r' AND oid > 16384"
    )

    rows = [
        row["line"]
        for table in tables
        for row in await superuser.fetch(f"SELECT to_jsonb(t)::text AS line FROM {table['name']} t")
    ]

    assert any(made.api_key.prefix in row for row in rows)
    assert not any(secret in row or secret.encode().hex() in row for row in rows)
    assert secret not in repr(made)


async def test_two_keys_of_one_actor_are_different_keys(database: Database, tenant: TenantId, act: Act) -> None:
    async with database.tenant(tenant) as conn:
        actor = await an_actor(conn, tenant, act)
        made = [await apikeys.create(conn, tenant, actor, pepper=PEPPER, act=act) for _ in range(2)]

    known = [await found(database, one.api_key.prefix) for one in made]
    assert [one.api_key_id for one in made] == [one and one.api_key_id for one in known]
    assert made[0].api_key.text != made[1].api_key.text


async def test_making_and_revoking_a_key_is_on_record_without_its_secret(
    database: Database, tenant: TenantId, act: Act
) -> None:
    async with database.tenant(tenant) as conn:
        actor = await an_actor(conn, tenant, act)
        made = await apikeys.create(conn, tenant, actor, pepper=PEPPER, act=act, label="ci")
        revoked = await apikeys.revoke(conn, tenant, made.api_key.prefix, act=act)

        on_record = await recorded(conn)
        verified = await events.verify_tenant(conn, tenant)
    prefix = made.api_key.prefix
    assert revoked == made.api_key_id
    assert on_record == [
        ("API_KEY_CREATED", f'{{"actor_id":"{actor}","key_prefix":"{prefix}","label":"ci"}}'),
        ("API_KEY_REVOKED", f'{{"key_prefix":"{prefix}"}}'),
    ]
    assert verified.faults == ()


async def test_if_the_transaction_is_taken_back_there_is_neither_a_key_nor_a_record_of_it(
    database: Database, superuser: Superuser, tenant: TenantId, act: Act
) -> None:
    class ChangedMyMind(Exception):
        pass

    made = await issued(database, tenant, act)
    before = await superuser.fetchval("SELECT count(*) FROM events")

    async def change_my_mind() -> None:
        async with database.tenant(tenant) as conn:
            actor = await an_actor(conn, tenant, act)
            await apikeys.create(conn, tenant, actor, pepper=PEPPER, act=act)
            await apikeys.revoke(conn, tenant, made.api_key.prefix, act=act)
            raise ChangedMyMind

    with pytest.raises(ChangedMyMind):
        await change_my_mind()

    known = await found(database, made.api_key.prefix)
    assert known is not None
    assert known.revoked_at is None
    counts = [
        await superuser.fetchval(f"SELECT count(*) FROM {table}")
        for table in ("actors", "api_keys", "api_key_prefixes")
    ]
    assert counts == [1, 1, 1]
    assert await superuser.fetchval("SELECT count(*) FROM events") == before


async def test_a_revoked_key_is_still_found_as_revoked_and_cannot_be_revoked_again(
    database: Database, tenant: TenantId, act: Act
) -> None:
    prefix = (await issued(database, tenant, act)).api_key.prefix
    async with database.tenant(tenant) as conn:
        await apikeys.revoke(conn, tenant, prefix, act=act)
    later = Act(None, act.at + timedelta(hours=1))

    async with database.tenant(tenant) as conn:
        with pytest.raises(KeyUnknown, match=f"there is no valid key with the prefix `{prefix}`") as refused:
            await apikeys.revoke(conn, tenant, prefix, act=later)
        on_record = [event_type for event_type, _ in await recorded(conn)]

    known = await found(database, prefix)
    assert known is not None
    assert known.revoked_at == act.at, "the first revocation counts"
    assert on_record == ["API_KEY_CREATED", "API_KEY_REVOKED"]
    assert refused.value.code == "NOT_FOUND"
    assert "bpc apikey list" in (refused.value.fix or "")


async def test_a_key_that_is_unknown_or_anothers_cannot_be_revoked(
    database: Database, tenant: TenantId, other_tenant: TenantId, act: Act
) -> None:
    prefix = (await issued(database, tenant, act)).api_key.prefix

    async with database.tenant(other_tenant) as conn:
        for unknown in (prefix, "0000000000", ""):
            with pytest.raises(KeyUnknown):
                await apikeys.revoke(conn, other_tenant, unknown, act=act)
            with pytest.raises(KeyUnknown):  # nor by naming the other tenant in the query
                await apikeys.revoke(conn, tenant, unknown, act=act)

    known = await found(database, prefix)
    assert known is not None
    assert known.revoked_at is None


async def test_when_a_key_expires_and_was_last_used_comes_with_it(
    database: Database, tenant: TenantId, act: Act
) -> None:
    expired, used = act.at - timedelta(days=1), act.at - timedelta(days=2)
    async with database.tenant(tenant) as conn:
        actor = await an_actor(conn, tenant, act)
        made = await apikeys.create(conn, tenant, actor, pepper=PEPPER, act=act, expires_at=expired)
        await conn.execute("UPDATE api_keys SET last_used_at = $1", used)

    known = await found(database, made.api_key.prefix)

    assert known is not None
    assert (known.expires_at, known.last_used_at, known.is_active) == (expired, used, True)


async def test_a_key_is_inactive_while_its_actor_or_its_tenant_is(
    database: Database, tenant: TenantId, act: Act
) -> None:
    made = await issued(database, tenant, act)
    async with database.system() as conn:
        acme = await tenants.by_slug(conn, "acme")

    async def is_active() -> bool:
        known = await found(database, made.api_key.prefix)
        return known is not None and known.is_active

    async def set_actor(*, active: bool) -> None:
        async with database.tenant(tenant) as conn:
            await conn.execute("UPDATE actors SET is_active = $2 WHERE actor_id = $1", made.actor_id, active)

    seen = [await is_active()]
    await tenants.set_active(database, acme, active=False, act=act)
    seen.append(await is_active())
    await set_actor(active=False)
    seen.append(await is_active())
    await tenants.set_active(database, acme, active=True, act=act)
    seen.append(await is_active())
    await set_actor(active=True)
    seen.append(await is_active())

    assert seen == [True, False, False, False, True]


async def test_keys_are_listed_oldest_first_with_their_roles_and_nothing_that_opens_a_door(
    database: Database, tenant: TenantId, other_tenant: TenantId, act: Act
) -> None:
    await issued(database, other_tenant, act)
    made = []
    for after, label in enumerate(("first", "second")):
        then = Act(None, act.at + timedelta(seconds=after))
        async with database.tenant(tenant) as conn:
            roles = ["Auditor", "Admin"]
            actor = await actors.create(conn, tenant, kind="API_CLIENT", display_name=label, roles=roles, act=then)
            made.append(await apikeys.create(conn, tenant, actor, pepper=PEPPER, act=then, label=label))
    async with database.tenant(tenant) as conn:
        await apikeys.revoke(conn, tenant, made[0].api_key.prefix, act=act)

        listed = await apikeys.every(conn, tenant)

    assert [(key.api_key_id, key.label, key.display_name, key.roles, key.revoked_at) for key in listed] == [
        (made[0].api_key_id, "first", "first", ("Admin", "Auditor"), act.at),
        (made[1].api_key_id, "second", "second", ("Admin", "Auditor"), None),
    ]
    assert "hash" not in repr(listed)
    assert not any(one.api_key.text in repr(listed) for one in made)


async def test_there_is_no_key_for_an_actor_that_does_not_exist_or_is_anothers(
    database: Database, superuser: Superuser, tenant: TenantId, other_tenant: TenantId, act: Act
) -> None:
    async with database.tenant(other_tenant) as conn:
        foreign = await an_actor(conn, other_tenant, act)

    async def key_for(actor: ActorId) -> None:
        async with database.tenant(tenant) as conn:
            await apikeys.create(conn, tenant, actor, pepper=PEPPER, act=act)

    for actor in (foreign, ActorId(fresh.new_id())):
        with pytest.raises(asyncpg.ForeignKeyViolationError):
            await key_for(actor)

    assert await superuser.fetchval("SELECT count(*) FROM api_key_prefixes") == 0, "not even the prefix is taken"


async def test_a_key_says_which_pepper_it_hangs_on_and_the_system_can_count_them(
    database: Database, tenant: TenantId, other_tenant: TenantId, act: Act
) -> None:
    for each in (tenant, tenant, other_tenant):
        await issued(database, each, act)
    ended = await issued(database, tenant, act)
    async with database.tenant(tenant) as conn:
        await apikeys.revoke(conn, tenant, ended.api_key.prefix, act=act)
        listed = await apikeys.every(conn, tenant)

    async with database.system() as conn:
        counted = await apikeys.by_pepper(conn)

    assert {key.pepper_id for key in listed} == {pepper_id(PEPPER)}
    assert [(found.slug, found.pepper_id, found.keys) for found in counted] == [
        ("acme", pepper_id(PEPPER), 2),
        ("rival", pepper_id(PEPPER), 1),
    ]


async def test_nobody_else_may_count_over_all_tenants(database: Database, tenant: TenantId) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        async with database.tenant(tenant) as conn:
            await apikeys.by_pepper(conn)


CHANGE = "UPDATE api_keys SET key_hash = $1, pepper_id = $2"


async def test_the_hash_of_a_key_changes_only_with_its_pepper(database: Database, tenant: TenantId, act: Act) -> None:
    made = await issued(database, tenant, act)
    other = made.api_key.hash(b"another pepper")

    for name in (pepper_id(PEPPER), None):
        with pytest.raises(Conflict, match="changes only with its pepper"):
            async with database.tenant(tenant) as conn:
                await conn.execute(CHANGE, other, name)

    async with database.tenant(tenant) as conn:
        assert await conn.execute(CHANGE, other, "another") == "UPDATE 1"


async def test_the_hash_of_a_revoked_key_does_not_change_at_all(database: Database, tenant: TenantId, act: Act) -> None:
    made = await issued(database, tenant, act)
    async with database.tenant(tenant) as conn:
        await apikeys.revoke(conn, tenant, made.api_key.prefix, act=act)

    with pytest.raises(Conflict, match="changes only with its pepper"):
        async with database.tenant(tenant) as conn:
            await conn.execute(CHANGE, made.api_key.hash(b"another pepper"), "another")
