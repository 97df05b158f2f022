"""A tenant with a row in every table that follows from events, made by the product itself.

    await record_everything(admin, service, tenant)

Passports go through the API and its jobs. The rest is written by the functions that routes call.
"""

from base64 import b64encode
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from service_jobs import Worker

from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import (
    ActorId,
    CompileRunId,
    DocumentId,
    DocumentVersionId,
    PassportVersionId,
    RulePackageVersionId,
    TenantId,
)
from bpc.core.passport.gate import EntryName
from bpc.runtime import clock
from bpc.storage.access import (
    actor_identities,
    api_keys,
    approvals,
    console_sessions,
    policies,
    tenant_settings,
    tenants_and_actors,
)
from bpc.storage.access.policies import PolicyText
from bpc.storage.connection import Connection
from bpc.storage.evidence import attachments, documents, statements, suppliers
from bpc.storage.evidence.statements import DecisionRow
from bpc.storage.passports import compile_runs, waivers
from bpc.storage.passports.compile_run_progress import CompileRowRequest
from bpc.storage.rules import catalogues
from bpc.storage.webhooks import endpoint_health, endpoints
from tests.api.conftest import PEPPERS, Api
from tests.storage.access_and_job_rows import insert_view_grants

EXAMPLE = Path(__file__).parents[2] / "examples" / "first"
BATCH_RULES = """language 2;

def batch = Batch for productSku();

field batch.plant @public: Opt(Text) = batch.facility_id;
"""
BATCH_TESTS = """property no_batch: cases(500) seed(1) given {} =>
  forall x: Int . implies(true, field("batch.plant") == none);
;
"""
DENY: dict[str, Any] = {"roles": ["Reader"], "resource": {"type": "Document"}}


async def record_everything(admin: Api, service: Service, tenant: TenantId) -> dict[str, str]:
    """Fill the tenant; return ids by name."""
    ids = await _issue_passports(admin, service)
    async with service.database.tenant(tenant) as conn:
        actor = await conn.fetchval("SELECT actor_id FROM actors WHERE tenant_id = $1 LIMIT 1", tenant)
        act = Act(ActorId(actor), clock.now())
        await _record_access(conn, tenant, act)
        await _record_evidence(conn, tenant, ids, act)
        await _record_rest(conn, tenant, ids, act)
    await _issue_batch(admin, service, ids)
    await _offer_battery(admin)
    await admin.post_json(f"/v1/passport-versions/{ids['second']}/exports", {"format": "JSON_LD"}, status=202)
    await Worker(service.jobs).run_until_idle()
    return ids


async def _issue_batch(admin: Api, service: Service, ids: dict[str, str]) -> None:
    """A batch and a battery below the active passport of a product whose rules know batches."""
    rules = await _publish_rules(admin, service, "batch", BATCH_RULES, BATCH_TESTS)
    product = (await admin.post_json("/v1/battery-products", {"sku": "PACK-1", "name": "Pack"}))["battery_product_id"]
    passport = (await admin.post_json("/v1/passports", {"battery_product_id": product}))["passport_id"]
    model = await _compile(admin, service, passport, ids["snapshot"], rules)
    await admin.post_json(f"/v1/passport-versions/{model}/activate", status=200)
    batch = (await admin.post_json("/v1/batches", {"sku": "PACK-1", "batch_number": "B1"}))["battery_batch_id"]
    statements = {"facility_id": "PLANT-7", "manufactured_on": "2026-08-01"}
    await admin.post_json(f"/v1/batches/{batch}:issue", statements, status=202)
    run = await admin.send("POST", "/v1/item-runs", content=b"serial_number\nI1\n", params={"sku": "PACK-1"})
    assert run.status_code == 202, run.text


async def _publish_rules(admin: Api, service: Service, name: str, rules: str, tests: str) -> str:
    package = (await admin.post_json("/v1/rule-packages", {"name": name}))["rule_package_id"]
    texts = {"dsl_source": rules, "tests_source": tests}
    version: str = (await admin.post_json(f"/v1/rule-packages/{package}/versions", texts))["rule_package_version_id"]
    await admin.post_json(f"/v1/rule-package-versions/{version}/tests:run", {"seed": 42}, status=200)
    await Worker(service.jobs).run_until_idle()
    await admin.post_json(f"/v1/rule-package-versions/{version}:publish", status=200)
    return version


async def _compile(admin: Api, service: Service, passport: str, snapshot: str, rules: str) -> str:
    body = {"snapshot_id": snapshot, "rule_package_version_id": rules}
    answer = await admin.post_json(f"/v1/passports/{passport}/compile", body, status=202)
    await Worker(service.jobs).run_until_idle()
    return str(answer["passport_version_id"])


async def _offer_battery(admin: Api) -> None:
    """A battery that was read out, is waste, and is offered to another tenant."""
    product = (await admin.get_json("/v1/battery-products", params={"sku": "SKU-123"}))["items"][0]
    identification = {"operator_scheme": "GLN", "operator_id": "9521234000006"}
    path = f"/v1/battery-products/{product['battery_product_id']}/identification"
    assert (await admin.send("PUT", path, identification)).status_code == 200
    battery = (await admin.post_json("/v1/batteries", {"sku": "SKU-123", "serial_number": "A1"}))["battery_id"]
    reading = {"kind": "full_cycles", "recorded_at": "2025-08-01T00:00:00Z", "value": "7"}
    await admin.post_json(f"/v1/batteries/{battery}/readings", {"source": "BMS", "readings": [reading]})
    step = {"effective_on": "2025-09-01", "performed_by": "GLN:9521234000006", "reason": "it was handed in"}
    await admin.post_json(f"/v1/batteries/{battery}:declare-waste", step, status=200)
    offer = {"battery_id": battery, "to_tenant_id": str(clock.new_id()), "operator": "GLN:9521234000006"}
    await admin.post_json("/v1/transfers", offer)


async def _issue_passports(admin: Api, service: Service) -> dict[str, str]:
    """A passport with three versions: superseded, active, and revoked."""
    ids: dict[str, str] = {}
    uploads = {
        "BOM": b'{"battery":{"sku":"SKU-123","capacity_kwh":75.5},"components":[]}',
        "PCF": b'{"sku":"SKU-123","total_gco2e":4500000.00}',
        "OTHER": b"%PDF-1.4 a declaration",
    }
    for kind, content in uploads.items():
        document = (await admin.post_json("/v1/documents", {"kind": kind}))["document_id"]
        mime = "application/pdf" if kind == "OTHER" else "application/json"
        body = {"mime_type": mime, "content_base64": b64encode(content).decode()}
        version = await admin.post_json(f"/v1/documents/{document}/versions", body)
        ids |= {f"document_{kind}": document, f"version_{kind}": version["document_version_id"]}
    await Worker(service.jobs).run_until_idle()
    facts = [fact["fact_id"] for fact in (await admin.get_json("/v1/facts"))["items"]]
    for name in ("snapshot", "open_snapshot"):
        ids[name] = (await admin.post_json("/v1/snapshots", {"label": name}))["snapshot_id"]
        await admin.post_json(f"/v1/snapshots/{ids[name]}/items", {"fact_ids": facts}, status=200)
    await admin.post_json(f"/v1/snapshots/{ids['snapshot']}/build", status=202)
    await Worker(service.jobs).run_until_idle()
    await admin.post_json(f"/v1/snapshots/{ids['snapshot']}/seal", status=200)
    rules = await _publish_rules(
        admin, service, "battery", (EXAMPLE / "rules.bpc").read_text(), (EXAMPLE / "tests.bpc").read_text()
    )
    product = (await admin.post_json("/v1/battery-products", {"sku": "SKU-123", "name": "First"}))["battery_product_id"]
    passport = (await admin.post_json("/v1/passports", {"battery_product_id": product}))["passport_id"]
    for name in ("first", "second", "third"):
        ids[name] = await _compile(admin, service, passport, ids["snapshot"], rules)
    for name in ("first", "second"):
        await admin.post_json(f"/v1/passport-versions/{ids[name]}/activate", status=200)
    await admin.post_json(f"/v1/passport-versions/{ids['third']}/revoke", {"reason": "a mistake"}, status=200)
    await admin.post_json(f"/v1/passport-versions/{ids['second']}/replay", status=200)
    return ids | {"rules": rules, "passport": passport, "product": product}


async def _record_access(conn: Connection, tenant: TenantId, act: Act) -> None:
    await tenants_and_actors.create_role(conn, tenant, name="Reader", permissions=["passport:read"], act=act)
    person = await tenants_and_actors.create_actor(
        conn, tenant, kind="USER", display_name="Reader 1", roles=["Reader"], act=act
    )
    await tenants_and_actors.change_actor(conn, tenant, person, {"display_name": "Reader 2"}, act=act)
    await tenants_and_actors.set_actor_roles(conn, tenant, person, ["Auditor", "Reader"], act=act)
    pepper, later = PEPPERS.in_use, act.at + timedelta(days=9)
    key = await api_keys.create_key(conn, tenant, person, pepper=pepper, act=act, label="x", expires_at=later)
    await api_keys.rotate_key(
        conn, tenant, key.api_key_id, pepper=pepper, act=act, old_expires_at=act.at + timedelta(1)
    )
    await api_keys.revoke_key_by_id(conn, tenant, key.api_key_id, act=act)
    text = PolicyText(effect="DENY", target="document:read", priority=5, policy_json=DENY)
    policy = await policies.create_policy(conn, tenant, name="no documents", text=text, act=act)
    await policies.insert_policy_version(conn, tenant, policy.policy_id, replace(text, priority=6), act=act)
    await policies.deactivate_policy(conn, tenant, policy.policy_id, act=act)
    await policies.create_policy(conn, tenant, name="still none", text=text, act=act)
    await tenant_settings.change_settings(conn, tenant, {"minimum_branch_coverage_pct": 70}, act=act)
    request = await approvals.request_approval(
        conn,
        tenant,
        action="revoke",
        permission="passport:revoke",
        method="POST",
        path="/v1/x",
        content_type="application/json",
        body=b"{}",
        requested_by=person,
        act=Act(person, act.at),
    )
    await approvals.record_approved(conn, tenant, request, status=200, act=act)
    for number in range(2):  # the first one is ended
        session = await console_sessions.start_session(
            conn,
            tenant,
            person,
            sign_in="LINK",
            link_hash=sha256(clock.random_bytes(8)),
            device="Firefox, Linux",
            valid_for=timedelta(hours=1),
            act=Act(person, act.at),
        )
        if number == 0:
            await console_sessions.end_sessions(conn, tenant, act=act, session=session.session_id)
    issuer = "https://login.example"
    known = await actor_identities.find_or_create_person(
        conn, tenant, sha256(b"somebody"), issuer=issuer, display_name="Known elsewhere", act=act
    )
    await actor_identities.follow_groups(conn, tenant, known, ["Auditor"], administration=False, act=act)
    await console_sessions.start_session(
        conn,
        tenant,
        known,
        sign_in="OIDC",
        link_hash=sha256(clock.random_bytes(8)),
        device="Firefox, Linux",
        valid_for=timedelta(hours=1),
        act=Act(known, act.at),
        issuer=issuer,
    )


async def _record_evidence(conn: Connection, tenant: TenantId, ids: dict[str, str], act: Act) -> None:
    supplier = await suppliers.create_supplier(conn, tenant, name="Supplier", locale="comma", act=act)
    if supplier is None:
        raise AssertionError
    await suppliers.set_supplier_rank(conn, tenant, supplier, 3, act=act)
    mapping = {"columns": {"Kapazität": "capacity_kwh"}, "sheet": 1}
    await suppliers.insert_column_mapping(conn, tenant, supplier.supplier_id, "BOM", mapping, act=act)
    document = DocumentId(UUID(ids["document_BOM"]))
    row = await documents.lock_document(conn, tenant, document)
    await documents.declare_source(conn, tenant, row, supplier=supplier, locale="point", act=act)
    await documents.claim_ref(conn, tenant, "ERP-1", document, act=act)
    version = DocumentVersionId(UUID(ids["version_BOM"]))
    await documents.insert_version_ref(conn, tenant, document, "7", version, act=act)
    await statements.insert_statement(conn, tenant, document, None, reason="wrong battery", act=act)
    decision = DecisionRow(fact_type="Battery", fact_key="battery:SKU-123", member="name", document_id=document)
    await statements.insert_decision(conn, tenant, decision, reason="newer", act=act)
    attached, _ = await attachments.add_attachment(
        conn,
        tenant,
        DocumentVersionId(UUID(ids["version_OTHER"])),
        sku="SKU-123",
        data_point=40,
        title="Declaration",
        act=act,
    )
    await attachments.withdraw_attachment(conn, tenant, attached.attachment_id, reason="expired", act=act)


async def _record_rest(conn: Connection, tenant: TenantId, ids: dict[str, str], act: Act) -> None:
    version, rules = PassportVersionId(UUID(ids["second"])), RulePackageVersionId(UUID(ids["rules"]))
    await waivers.insert_waivers(conn, tenant, version, {EntryName("E1", "pcf"): 2}, reason="agreed", act=act)
    content = b'msgid ""\nmsgstr ""\n'
    package = await conn.fetchval("SELECT rule_package_id FROM rule_packages WHERE tenant_id = $1", tenant)
    await catalogues.store_catalogue(conn, tenant, package, "de", content, texts=0, act=act)
    passport = await conn.fetchval("SELECT passport_id FROM passports WHERE tenant_id = $1 LIMIT 1", tenant)
    await insert_view_grants(conn, tenant, passport, act)
    rows = [CompileRowRequest(sku="SKU-123", name=None, snapshot_id=None, activate=False, problem=None)]
    run = CompileRunId(clock.new_id())
    await compile_runs.insert_run(
        conn, tenant, run, rows, rule_version=rules, activate=False, skip_unchanged=False, batch=None, act=act
    )
    await compile_runs.cancel_run(conn, tenant, run, act=act)
    endpoint = (
        await endpoints.create_endpoint(conn, tenant, url="https://receiver.example/x", act=act)
    ).webhook_endpoint_id
    await endpoints.rotate_secret(conn, tenant, endpoint, act=act)
    await endpoints.change_endpoint(conn, tenant, endpoint, timeout_seconds=7, act=act)
    await endpoints.subscribe(conn, tenant, endpoint, "passport.version.active", act=act)
    subscription = await endpoints.subscribe(conn, tenant, endpoint, "passport.version.revoked", act=act)
    await endpoints.unsubscribe(conn, tenant, subscription.webhook_subscription_id, act=act)
    await endpoint_health.disable_endpoint(conn, tenant, endpoint, reason="it fails", act=act)
