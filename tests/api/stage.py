"""A stage: a tenant with at least one row of everything, for tests that go over all routes.

    async with staged(server, template) as theatre:       # a database of its own, two filled tenants, the application
        await theatre.mine.calls["Admin"].get("/v1/documents")

Rows are written as the product's roles write them, not through the routes: a route that is missing or wrong does not
keep the others from being tested. Every text on a stage holds the stage's `mark`, so a leak is found by looking for it.
"""

import io
import logging
import sys
import threading
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import httpx2
import structlog
from fastapi import FastAPI

from bpc import fresh, logs
from bpc.api.app import create_app
from bpc.api.serve import serving
from bpc.api.service import Service
from bpc.core import canon
from bpc.core.access import ROLES
from bpc.core.blinding import blinding_fact
from bpc.core.bundle import qr_text_of
from bpc.core.compile import compile_passport
from bpc.core.compile_input import CompileInput, Product
from bpc.core.digest import sha256
from bpc.core.events import Act, Stream
from bpc.core.facts import SnapshotFact
from bpc.core.ids import (
    AggregateId,
    BatteryProductId,
    PassportId,
    PassportVersionId,
    RulePackageVersionId,
    SnapshotId,
    TenantId,
)
from bpc.core.policies import canonical_policy, policy_hash
from bpc.core.qr import qr_png
from bpc.core.receipt import read_receipt, signed
from bpc.core.rules.package import checked_program
from bpc.core.signing import Signer, public_key_of
from bpc.db import actors, apikeys, events, signing_keys, tenants
from bpc.db.address import Address
from bpc.db.connection import Connection
from bpc.db.database import Database, open_database
from bpc.settings import Settings
from tests.api.conftest import KEY_ID, PEPPER, PEPPERS, SEED, Api
from tests.api.rulebook import RULES, TESTS
from tests.conftest import TestServer
from tests.db.rows import insert, seal

LONG_AGO = "2020-01-01T00:00:00.000000Z"


@dataclass(frozen=True, slots=True)
class Stage:
    """One tenant: its ids by the names routes and bodies use for them, and a client for each role."""

    tenant: TenantId
    mark: str
    calls: dict[str, Api]
    ids: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Theatre:
    """The application on a database of its own, with two stages."""

    app: FastAPI
    service: Service
    database: Database
    address: Address
    superuser: "asyncpg.Connection[asyncpg.Record]"
    http: httpx2.AsyncClient
    mine: Stage
    theirs: Stage

    @property
    def nobody(self) -> Api:
        return Api(self.http, None)


@asynccontextmanager
async def staged(
    server: TestServer, template: str, data_dir: Path, *, pool_size: int = 10, **settings: Any
) -> AsyncIterator[Theatre]:
    """Two filled tenants in a new database, dropped at the end; `settings` are those of the service."""
    name = f"bpc_stage_{fresh.new_id().hex}"
    admin = await asyncpg.connect(**server.admin.connect_arguments())
    try:
        await admin.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" OWNER bpc_owner')
        superuser = await asyncpg.connect(**server.admin.at(name).connect_arguments())
        database = await open_database(server.login.at(name), pool_size=pool_size)
        try:
            async with _application(database, superuser, {"data_dir": data_dir, **settings}) as theatre:
                yield theatre
        finally:
            await database.close()
            await superuser.close()
    finally:
        await admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        await admin.close()


@asynccontextmanager
async def _application(
    database: Database, superuser: "asyncpg.Connection[asyncpg.Record]", chosen: dict[str, Any]
) -> AsyncIterator[Theatre]:
    act = Act(None, fresh.now())
    await signing_keys.register(database, KEY_ID, public_key_of(SEED), act=act)
    settings = Settings(**{"env": "test", "signing_key_id": KEY_ID, "compiler_build_id": "bpc-test", **chosen})
    signer = Signer(SEED)
    async with serving(
        settings, database, peppers=PEPPERS, signer=lambda key_id: signer if key_id == KEY_ID else None
    ) as service:
        app = create_app(service)
        transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://bpc.test") as http:
            yield Theatre(
                app=app,
                service=service,
                database=database,
                address=database.address,
                superuser=superuser,
                http=http,
                mine=await stage(database, http, "acme"),
                theirs=await stage(database, http, "rival"),
            )


class Log(io.StringIO):
    """What was logged, in one of the two forms."""

    as_json = True


@contextmanager
def logged(level: logs.Level, *, as_json: bool = True) -> Iterator[Log]:
    """Everything that is logged while inside; logging is as before at the end."""
    root, out, configured = logging.getLogger(), Log(), structlog.get_config()
    out.as_json = as_json
    handlers, before, hook, thread_hook = root.handlers[:], root.level, sys.excepthook, threading.excepthook
    logs.configure(level=level, json=as_json, component="api", stream=out)
    try:
        yield out
    finally:
        root.handlers[:], sys.excepthook, threading.excepthook = handlers, hook, thread_hook
        root.setLevel(before)
        logging.captureWarnings(capture=False)
        structlog.configure(**configured)


async def stage(database: Database, http: httpx2.AsyncClient, slug: str) -> Stage:
    """A new tenant, filled."""
    act, mark = Act(None, fresh.now()), f"quokka-{slug}"
    tenant = await tenants.create(database, slug=slug, name=f"{mark} tenant", act=act)
    made = Stage(tenant, mark, {})
    async with database.tenant(tenant) as conn:
        await _people(conn, made, http, act)
        await _documents(conn, made)
        await _rules(conn, made)
        await _passports(conn, made)
        await _webhooks(conn, made, act)
    async with database.system(tenant) as conn:
        await _jobs(conn, made)
        await _bulk(conn, made)
    return made


# --- who


async def _people(conn: Connection, made: Stage, http: httpx2.AsyncClient, act: Act) -> None:
    tenant, mark = made.tenant, made.mark
    for role in ROLES:
        actor = await actors.create(
            conn, tenant, kind="API_CLIENT", display_name=f"{mark} {role}", roles=[role], act=act
        )
        issued = await apikeys.create(conn, tenant, actor, pepper=PEPPER, act=act)
        made.calls[role] = Api(http, issued.api_key.text)
    for name in ("actor_id", "idle_actor_id"):
        actor = await actors.create(conn, tenant, kind="USER", display_name=f"{mark} spare", roles=["Auditor"], act=act)
        made.ids[name] = str(actor)
        for key in ("api_key_id", "idle_api_key_id") if name == "actor_id" else ():
            issued = await apikeys.create(conn, tenant, actor, pepper=PEPPER, act=act, label=f"{mark} label")
            made.ids[key] = str(issued.api_key_id)
    role_id = _new(made, "role_id")
    await insert(conn, "roles", tenant_id=tenant, role_id=role_id, name=f"{mark} role")
    await insert(conn, "role_permissions", tenant_id=tenant, role_id=role_id, permission="docs:read")
    for start in ("", "idle_"):
        await _policy(conn, made, start)


async def _policy(conn: Connection, made: Stage, start: str) -> None:
    """In force, and over since long: it decides nothing."""
    policy_json = {"not_after": LONG_AGO, "roles": [f"{made.mark} role"]}
    policy = _new(made, f"{start}policy_id")
    await insert(conn, "policies", tenant_id=made.tenant, policy_id=policy, name=f"{made.mark} {start}policy")
    await insert(
        conn,
        "policy_versions",
        tenant_id=made.tenant,
        policy_version_id=_new(made, f"{start}policy_version_id"),
        policy_id=policy,
        version=1,
        effect="DENY",
        target="docs:read",
        policy_json=canon.encode(policy_json).decode(),
        policy_canonical=canonical_policy("DENY", policy_json, 100, "docs:read"),
        policy_hash=policy_hash("DENY", policy_json, 100, "docs:read"),
    )


# --- documents, facts, snapshots


async def _documents(conn: Connection, made: Stage) -> None:
    document = _new(made, "document_id")
    content = canon.encode({"battery": {"sku": made.mark}, "components": []})
    await insert(
        conn, "documents", tenant_id=made.tenant, document_id=document, kind="BOM", external_ref=f"{made.mark} ref"
    )
    await insert(
        conn,
        "document_versions",
        tenant_id=made.tenant,
        document_version_id=_new(made, "document_version_id"),
        document_id=document,
        version=1,
        status="VALIDATED",
        mime_type="application/json",
        sha256=sha256(content),
        content=content,
    )
    await insert(
        conn,
        "document_texts",
        tenant_id=made.tenant,
        document_version_id=UUID(made.ids["document_version_id"]),
        pages=1,
        text=f"{made.mark} text",
    )
    for number, name in enumerate(["fact_id", "removed_fact_id", "added_fact_id", "ready_fact_id"]):
        fact = SnapshotFact(
            fact_type="Battery",
            fact_key=f"battery:{made.mark}-{number}",
            schema_version=1,
            payload={"sku": f"{made.mark}-{number}"},
        )
        made.ids[name] = str(await _fact(conn, made, fact))
    in_it = ["fact_id", "removed_fact_id"]
    for name, status, facts in [
        ("snapshot_id", "BUILDING", in_it),
        ("built_snapshot_id", "BUILDING", in_it),
        ("ready_snapshot_id", "READY", in_it),
        ("sealed_snapshot_id", "SEALED", in_it),
    ]:
        await _snapshot(conn, made, _new(made, name), status, [_id(made, fact) for fact in facts])


async def _fact(conn: Connection, made: Stage, fact: SnapshotFact) -> UUID:
    fact_id = fresh.new_id()
    is_secret = fact.fact_type == "Blinding"
    await insert(
        conn,
        "facts",
        tenant_id=made.tenant,
        fact_id=fact_id,
        fact_type=fact.fact_type,
        fact_key=fact.fact_key,
        schema_version=1,
        source_document_version_id=None if is_secret else _id(made, "document_version_id"),
        source_path=None if is_secret else "/battery",
        payload=canon.encode(fact.payload).decode(),
        payload_canonical=canon.encode(fact.payload),
        payload_hash=fact.digest(),
    )
    if not is_secret:
        await insert(
            conn,
            "fact_sources",
            tenant_id=made.tenant,
            fact_id=fact_id,
            document_version_id=_id(made, "document_version_id"),
            source_path="/battery",
        )
    return fact_id


async def _snapshot(conn: Connection, made: Stage, snapshot: UUID, status: str, facts: list[UUID]) -> None:
    await insert(
        conn,
        "data_snapshots",
        tenant_id=made.tenant,
        snapshot_id=snapshot,
        status="BUILDING",
        label=f"{made.mark} snapshot",
    )
    for fact in facts:
        await insert(conn, "snapshot_items", tenant_id=made.tenant, snapshot_id=snapshot, fact_id=fact)
    if status != "BUILDING":
        await conn.execute("UPDATE data_snapshots SET status = 'READY' WHERE snapshot_id = $1", snapshot)
    if status == "SEALED":
        await seal(conn, SnapshotId(snapshot))


# --- rules


async def _rules(conn: Connection, made: Stage) -> None:
    await insert(
        conn,
        "rule_packages",
        tenant_id=made.tenant,
        rule_package_id=_new(made, "rule_package_id"),
        name=f"{made.mark} rules",
        description=f"{made.mark} description",
    )
    for number, (name, steps) in enumerate(
        [
            ("rule_package_version_id", []),
            ("validated_version_id", ["VALIDATED"]),
            ("published_version_id", ["VALIDATED", "PUBLISHED"]),
            ("deprecated_version_id", ["VALIDATED", "PUBLISHED"]),
            ("retired_version_id", ["VALIDATED", "PUBLISHED"]),
        ],
        start=1,
    ):
        await _rule_version(conn, made, _new(made, name), number, steps)


def rules_of(made: Stage, number: int) -> bytes:
    return f"-- {made.mark} {number}\n".encode() + RULES


async def _rule_version(conn: Connection, made: Stage, version: UUID, number: int, steps: list[str]) -> None:
    source = rules_of(made, number)
    await insert(
        conn,
        "rule_package_versions",
        tenant_id=made.tenant,
        rule_package_version_id=version,
        rule_package_id=_id(made, "rule_package_id"),
        version=number,
        status="DRAFT",
        compiler_min_build="1",
        dsl_source=source,
        dsl_sha256=sha256(source),
        tests_source=TESTS,
        tests_sha256=sha256(TESTS),
    )
    for declared in checked_program(source, TESTS).fields:
        await insert(
            conn,
            "rule_fields",
            tenant_id=made.tenant,
            rule_field_id=fresh.new_id(),
            rule_package_version_id=version,
            field_path=declared.path,
            field_type="Text",
            audiences=["public"],
        )
    await insert(
        conn,
        "rule_tests_runs",
        tenant_id=made.tenant,
        run_id=_new(made, "run_id" if number == 1 else f"run_{number}_id"),
        rule_package_version_id=version,
        seed=1,
        cases=502,
        passed=502,
        failed=0,
        discarded=0,
        status="PASSED",
        coverage=_COVERAGE,
    )
    for step in steps:
        await conn.execute(
            """UPDATE rule_package_versions SET status = $2::rule_pkg_status,
                      published_at = CASE WHEN $2 = 'PUBLISHED' THEN $3 ELSE published_at END
                WHERE rule_package_version_id = $1""",
            version,
            step,
            fresh.now(),
        )


# --- passports


async def _passports(conn: Connection, made: Stage) -> None:
    await _product(conn, made, _new(made, "bare_product_id"), f"SKU-{made.mark}-bare")
    for number, name in enumerate(["passport_version_id", "activated_version_id", "revoked_version_id"]):
        await _passport_version(conn, made, number, PassportVersionId(_new(made, name)))
    await _export(conn, made)


async def _export(conn: Connection, made: Stage) -> None:
    """An export that is ready."""
    content = f"{made.mark} export".encode()
    await insert(
        conn,
        "passport_exports",
        tenant_id=made.tenant,
        export_id=_new(made, "export_id"),
        passport_version_id=_id(made, "passport_version_id"),
        format="XML",
        audience="tenant",
        status="READY",
        mime_type="application/xml",
        file_name="passport.xml",
        content=content,
        sha256=sha256(content),
        job_id=fresh.new_id(),
        finished_at=fresh.now(),
    )


async def _product(conn: Connection, made: Stage, product: UUID, sku: str) -> None:
    await insert(
        conn,
        "battery_products",
        tenant_id=made.tenant,
        battery_product_id=product,
        sku=sku,
        name=f"{made.mark} battery",
    )


async def _passport_version(conn: Connection, made: Stage, number: int, version: PassportVersionId) -> None:
    """A passport of its own with one version, compiled, signed and with its QR code."""
    sku = f"SKU-{made.mark}-{number}"
    product, passport, snapshot = fresh.new_id(), fresh.new_id(), SnapshotId(fresh.new_id())
    if number == 0:
        names = ("battery_product_id", "passport_id", "compiled_snapshot_id")
        made.ids.update(zip(names, map(str, (product, passport, snapshot)), strict=True))
    await _product(conn, made, product, sku)
    await insert(conn, "passports", tenant_id=made.tenant, passport_id=passport, battery_product_id=product)
    facts = (
        SnapshotFact(
            fact_type="Battery",
            fact_key=f"battery:{sku}",
            schema_version=1,
            payload={"sku": sku, "capacity_kwh": "75.500000"},
        ),
        blinding_fact(snapshot, sha256(made.mark.encode() + bytes([number]))),
    )
    await _snapshot(conn, made, snapshot, "SEALED", [await _fact(conn, made, fact) for fact in facts])
    rules = _id(made, "published_version_id")
    given = CompileInput(
        tenant_id=made.tenant,
        passport_id=PassportId(passport),
        passport_version_id=version,
        product=Product(battery_product_id=BatteryProductId(product), sku=sku, name=f"{made.mark} battery"),
        snapshot_id=snapshot,
        rule_package_version_id=RulePackageVersionId(rules),
        issued_at=fresh.now(),
        compiler_build_id="bpc-test",
        signing_key_id=KEY_ID,
        facts=facts,
        rules=rules_of(made, 3),
        tests=TESTS,
    )
    compiled = compile_passport(given)
    receipt = signed(compiled.receipt, SEED)
    text = qr_text_of(read_receipt(receipt))
    await insert(
        conn,
        "passport_versions",
        tenant_id=made.tenant,
        passport_version_id=version,
        passport_id=passport,
        status="SIGNED",
        snapshot_id=snapshot,
        rule_package_version_id=rules,
        compiler_build_id="bpc-test",
        payload_canonical=compiled.payload,
        payload_hash=compiled.payload_hash,
        proof_canonical=compiled.proof,
        proof_root_hash=compiled.proof_root_hash,
        receipt_canonical=receipt,
        receipt_hash=compiled.receipt_hash,
        signature_alg="ED25519",
        signature=Signer(SEED).sign(compiled.receipt_hash),
        signing_key_id=KEY_ID,
        qr_png=qr_png(text),
        qr_payload=text,
    )


# --- webhooks and jobs


async def _webhooks(conn: Connection, made: Stage, act: Act) -> None:
    stream = Stream(made.tenant, "Document", AggregateId(_id(made, "document_id")))
    event = await events.append(conn, stream, act.says("DOCUMENT_CREATED", {"external_ref": f"{made.mark} ref"}))
    made.ids["event_id"] = str(event.event_id)
    for start in ("", "idle_"):
        endpoint = _new(made, f"{start}webhook_endpoint_id")
        await insert(
            conn,
            "webhook_endpoints",
            tenant_id=made.tenant,
            webhook_endpoint_id=endpoint,
            url=f"https://example.com/{made.mark}",
            secret_base64=b64encode(sha256(f"{made.mark}{start}".encode())).decode(),
        )
        await insert(
            conn,
            "webhook_subscriptions",
            tenant_id=made.tenant,
            webhook_subscription_id=_new(made, f"{start}webhook_subscription_id"),
            webhook_endpoint_id=endpoint,
            event_type="passport.version.active",
        )
        await insert(
            conn,
            "webhook_deliveries",
            tenant_id=made.tenant,
            webhook_delivery_id=_new(made, f"{start}webhook_delivery_id"),
            webhook_endpoint_id=endpoint,
            event_id=event.event_id,
            status="FAILED",
        )


async def _jobs(conn: Connection, made: Stage) -> None:
    order = canon.encode({"document_version_id": made.ids["document_version_id"], "actor_id": None}).decode()
    for name, status in [("job_id", "QUEUED"), ("failed_job_id", "FAILED"), ("done_job_id", "SUCCEEDED")]:
        at = fresh.now()
        if status == "QUEUED":
            submitted = await conn.fetchval(
                "SELECT jobs.submit($1, 'PARSE_FACTS', $2, $3, NULL, NULL, NULL, 1, 2::smallint, 5, 60, NULL, NULL,"
                " NULL, NULL, NULL)",
                made.tenant,
                [_new(made, name)],
                [order],
            )
            made.ids[name] = str(submitted[0])
            continue
        await insert(
            conn,
            "jobs.job",
            tenant_id=made.tenant,
            job_id=_new(made, name),
            type="PARSE_FACTS",
            status=status,
            attempts=1,
            max_attempts=5,
            payload=order,
            result="null" if status == "SUCCEEDED" else None,
            last_error=_ERROR if status == "FAILED" else None,
            created_at=at,
            scheduled_at=at,
            started_at=at,
            finished_at=at,
            failed_at=at if status == "FAILED" else None,
            keep_seconds=1_000_000,
        )


async def _bulk(conn: Connection, made: Stage) -> None:
    """A run that nobody begins: one row, without a job."""
    run = _new(made, "run_id_of_compiles")
    of_run = {"tenant_id": made.tenant, "run_id": run, "activate": False}
    rules = _id(made, "published_version_id")
    await insert(conn, "compile_runs", **of_run, rule_package_version_id=rules, total=1)
    await insert(
        conn, "compile_run_rows", **of_run, row_number=1, sku=f"SKU-{made.mark}-bulk", name=f"{made.mark} name"
    )


_COVERAGE = (
    '{"fields":{"total":1,"reached":1,"percent":100},"branches":{"total":0,"reached":0,"percent":100},'
    '"assertions":{"total":0,"reached":0,"percent":100},"unreached":[]}'
)
_ERROR = '{"code":"VALIDATION_ERROR","message":"the document has no battery","retryable":false,"details":{}}'


def _new(made: Stage, name: str) -> UUID:
    """A new id, known on the stage by `name`."""
    found = fresh.new_id()
    made.ids[name] = str(found)
    return found


def _id(made: Stage, name: str) -> UUID:
    return UUID(made.ids[name])
