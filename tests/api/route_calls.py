"""How to call each route so that it succeeds.

In a line of CALLS, a text `{name}` is the id that a filled tenant has by that name, and `{new}` something that was not
there before.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.formats.timestamps import format_time
from bpc.printing.web_page import load_assets
from bpc.runtime import clock
from tests.api.evidence_rows import ATTACHED_FILE, DISPUTED_SKU


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """How to call a route so that it succeeds: its body, and which of the tenant's ids stand in its path.

    In `path`, what begins with `=` is no id's name and stands there as it is. A `file` is sent instead of a body.
    """

    body: Any = None
    file: str | None = None
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)


RULES: Final = 'field battery.chemistry @public: Text = "{new}";\n'
RECENTLY: Final = format_time(clock.now() - timedelta(hours=1))
LONG_AGO: Final = "2020-01-01T00:00:00.000000Z"
POLICY: Final = {"effect": "DENY", "target": "docs:read", "priority": 100, "policy_json": {"not_after": LONG_AGO}}
PUBLIC_VERSION: Final = {"passport_id": "public_passport_id", "passport_version_id": "public_version_id"}
STEP: Final = {"effective_on": "2025-09-01", "performed_by": "GLN:9521234000006", "reason": "it was handed in"}

CALLS: Final[Mapping[tuple[str, str], Call]] = {
    # Documents, snapshots
    ("POST", "/v1/documents"): Call(body={"kind": "BOM", "external_ref": "{new}"}),
    ("POST", "/v1/documents/{document_id}/versions"): Call(
        body={"mime_type": "application/json", "content_base64": "{new_bytes}"}
    ),
    ("PATCH", "/v1/documents/{document_id}"): Call(body={"supplier": "{new}"}),
    ("PUT", "/v1/documents/by-ref/{external_ref:path}"): Call(
        path={"external_ref": "=ERP/4711"}, query={"kind": "BOM"}, file='{"battery":{"sku":"{new}"}}'
    ),
    ("POST", "/v1/suppliers"): Call(body={"name": "{new}"}),
    ("PATCH", "/v1/suppliers/{supplier_id}"): Call(body={"locale": "comma"}),
    ("POST", "/v1/suppliers/{supplier_id}:rank"): Call(body={"rank": 1}),
    ("POST", "/v1/suppliers/{supplier_id}/column-mappings"): Call(
        body={
            "kind": "BOM",
            "mapping": {
                "sheets": [
                    {
                        "name": "",
                        "fact_types": ["Battery"],
                        "header_row": 1,
                        "columns": [{"header": "{new}", "member": "sku"}],
                    }
                ]
            },
        }
    ),
    ("POST", "/v1/documents:propose-mapping"): Call(query={"kind": "BOM"}, file="sku,Gewicht\nA-1,1\n"),
    ("POST", "/v1/documents/{document_id}/ingest"): Call(body={"file_url": "https://supplier.example/{new}"}),
    ("POST", "/v1/documents/{document_id}:withdraw"): Call(
        path={"document_id": "withdrawn_document_id"}, body={"reason": "it was withdrawn"}
    ),
    ("POST", "/v1/documents/{document_id}:deactivate"): Call(path={"document_id": "withdrawn_document_id"}),
    ("POST", "/v1/documents/{document_id}:reactivate"): Call(
        path={"document_id": "withdrawn_document_id"}, body={"reason": "it is needed"}
    ),
    ("POST", "/v1/attachments"): Call(
        body={"sku": "{new}", "data_point": 42, "document_version_id": "{attached_version_id}"}
    ),
    ("POST", "/v1/attachments/{attachment_id}:withdraw"): Call(
        path={"attachment_id": "withdrawn_attachment_id"}, body={"reason": "it was withdrawn"}
    ),
    ("GET", "/v1/passport-versions/{passport_version_id}/attachments/{sha256}"): Call(
        path={"sha256": f"={to_hex(sha256(ATTACHED_FILE))}"}
    ),
    ("GET", "/v1/passport-versions/{passport_version_id}/why"): Call(query={"field": "papers.declaration"}),
    ("GET", "/v1/conflicts"): Call(query={"sku": DISPUTED_SKU}),
    ("POST", "/v1/conflicts:resolve"): Call(
        body={
            "sku": DISPUTED_SKU,
            "fact_type": "Battery",
            "fact_key": f"battery:{DISPUTED_SKU}",
            "member": "mass_kg",
            "document_id": "{believed_document_id}",
            "reason": "it was weighed",
        }
    ),
    ("POST", "/v1/snapshots"): Call(body={"label": "{new}"}),
    ("POST", "/v1/snapshots/{snapshot_id}/items"): Call(body={"fact_id": "{added_fact_id}"}),
    ("DELETE", "/v1/snapshots/{snapshot_id}/items/{fact_id}"): Call(path={"fact_id": "removed_fact_id"}),
    ("POST", "/v1/snapshots/{snapshot_id}/build"): Call(path={"snapshot_id": "built_snapshot_id"}),
    ("POST", "/v1/snapshots/{snapshot_id}/seal"): Call(path={"snapshot_id": "ready_snapshot_id"}),
    # Rules
    ("POST", "/v1/rule-packages"): Call(body={"name": "{new}"}),
    ("POST", "/v1/rule-packages/{rule_package_id}/versions"): Call(body={"dsl_source": RULES, "tests_source": ""}),
    ("PATCH", "/v1/rule-packages/{rule_package_id}"): Call(body={"name": "{new}"}),
    ("PUT", "/v1/rule-packages/{rule_package_id}/catalogues/{language}"): Call(
        path={"language": "=de"}, body={"content": 'msgid ""\nmsgstr "Language: de\\n"\n# {new}\n'}
    ),
    ("GET", "/v1/rule-packages/{rule_package_id}/catalogues/{language}"): Call(path={"language": "=de"}),
    ("POST", "/v1/rule-packages/{rule_package_id}:deactivate"): Call(path={"rule_package_id": "idle_rule_package_id"}),
    ("POST", "/v1/rule-packages/{rule_package_id}:reactivate"): Call(path={"rule_package_id": "idle_rule_package_id"}),
    ("POST", "/v1/rules:check"): Call(body={"dsl_source": RULES}),
    ("POST", "/v1/rule-package-versions/{rule_package_version_id}/tests:run"): Call(body={"seed": 7}),
    ("POST", "/v1/rule-package-versions/{rule_package_version_id}:publish"): Call(
        path={"rule_package_version_id": "validated_version_id"}
    ),
    ("POST", "/v1/rule-package-versions/{rule_package_version_id}:deprecate"): Call(
        path={"rule_package_version_id": "deprecated_version_id"}
    ),
    ("DELETE", "/v1/rule-package-versions/{rule_package_version_id}"): Call(
        path={"rule_package_version_id": "retired_version_id"}
    ),
    # Passports
    ("POST", "/v1/battery-products"): Call(body={"sku": "{new}", "name": "{new}"}),
    ("PATCH", "/v1/battery-products/{battery_product_id}"): Call(body={"name": "{new}"}),
    ("POST", "/v1/battery-products/{battery_product_id}:deactivate"): Call(
        path={"battery_product_id": "bare_product_id"}
    ),
    ("POST", "/v1/battery-products/{battery_product_id}:reactivate"): Call(
        path={"battery_product_id": "bare_product_id"}
    ),
    # Batteries
    ("PUT", "/v1/battery-products/{battery_product_id}/identification"): Call(
        path={"battery_product_id": "bare_product_id"}, body={"granularity": "BATCH"}
    ),
    ("POST", "/v1/batches"): Call(body={"sku": "{battery_sku}", "batch_number": "B1"}),
    ("POST", "/v1/batches/{battery_batch_id}:issue"): Call(
        path={"battery_batch_id": "model_batch_id"}, body={"manufacturing_country": "DE"}
    ),
    ("GET", "/v1/batches/{battery_batch_id}/passport"): Call(query={"audience": "public"}),
    ("POST", "/v1/batteries"): Call(body={"sku": "{battery_sku}", "serial_number": "N1"}),
    ("POST", "/v1/batteries:register"): Call(
        query={"validate_only": "true"}, file='{"sku":"P","serial_number":"{new}"}'
    ),
    ("GET", "/v1/batteries:lookup"): Call(query={"serial_number": "A1"}),
    ("POST", "/v1/batteries/{battery_id}:place-on-market"): Call(body={"placed_on": "2025-08-01"}),
    ("POST", "/v1/batteries/{battery_id}/readings"): Call(
        body={"source": "BMS", "readings": [{"kind": "full_cycles", "recorded_at": LONG_AGO, "value": 7}]}
    ),
    ("POST", "/v1/batteries:readings"): Call(
        query={"source": "BMS", "validate_only": "true"},
        file='{"sku":"{new}","serial_number":"A1","kind":"full_cycles","recorded_at":"2020-01-01T00:00:00Z","value":7}',
    ),
    ("POST", "/v1/batteries:events"): Call(
        query={"validate_only": "true"}, file='{"eventTime":"2020-01-01T00:00:00Z","eventID":"{new}"}'
    ),
    ("GET", "/v1/batteries/{battery_id}/readings.svg"): Call(query={"kind": "full_cycles"}),
    ("POST", "/v1/item-runs"): Call(
        query={"sku": "{model_sku}", "validate_only": "true"}, file='{"serial_number":"{new}"}'
    ),
    ("POST", "/v1/item-runs:rebase"): Call(query={"sku": "{model_sku}"}),
    ("GET", "/v1/item-runs/{run_id}"): Call(path={"run_id": "item_run_id"}),
    ("POST", "/v1/item-runs/{run_id}:stop"): Call(path={"run_id": "item_run_id"}),
    ("POST", "/v1/item-runs/{run_id}:resume"): Call(path={"run_id": "item_run_id"}),
    ("GET", "/v1/batteries/{battery_id}/passport"): Call(query={"audience": "public"}),
    ("POST", "/v1/batteries/{battery_id}:repair"): Call(body=STEP),
    ("POST", "/v1/batteries/{battery_id}:declare-waste"): Call(path={"battery_id": "old_battery_id"}, body=STEP),
    ("POST", "/v1/batteries/{battery_id}:recycle"): Call(
        path={"battery_id": "waste_battery_id"},
        body={"effective_on": "2025-09-01", "performed_by": "GLN:9521234000006", "report": "R-1"},
    ),
    ("POST", "/v1/batteries/{battery_id}:begin-other-life"): Call(
        path={"battery_id": "spare_battery_id"},
        body={
            "life": "repurposed",
            "effective_on": "2025-09-01",
            "performed_by": "GLN:9521234000006",
            "sku": "{battery_sku}",
            "serial_number": "L1",
        },
    ),
    ("POST", "/v1/transfers"): Call(
        body={
            "battery_id": "{given_battery_id}",
            "to_tenant_id": "00000000-0000-4000-8000-0000000000aa",
            "operator": "GLN:9521234000006",
        }
    ),
    ("GET", "/v1/transfers/{transfer_id}/statements"): Call(path={"transfer_id": "completed_transfer_id"}),
    ("POST", "/v1/transfers/{transfer_id}:accept"): Call(
        path={"transfer_id": "accepted_transfer_id"},
        body={
            "life": "repurposed",
            "effective_on": "2025-09-01",
            "operator": "GLN:9521234000006",
            "sku": "{battery_sku}",
            "serial_number": "T1",
        },
    ),
    ("POST", "/v1/transfers/{transfer_id}:decline"): Call(
        path={"transfer_id": "declined_transfer_id"}, body={"reason": "it does not fit"}
    ),
    ("POST", "/v1/transfers/{transfer_id}:withdraw"): Call(
        path={"transfer_id": "withdrawn_transfer_id"}, body={"reason": "it is needed"}
    ),
    ("GET", "/01/{digital_link:path}"): Call(
        path={"digital_link": "=09521234000013/21/A1"}, query={"linkType": "linkset"}
    ),
    ("OPTIONS", "/01/{digital_link:path}"): Call(path={"digital_link": "=09521234000013"}),
    ("GET", "/p/{passport_id}"): Call(path={"passport_id": "public_passport_id"}),
    ("GET", "/p/{passport_id}/v/{passport_version_id}"): Call(path=PUBLIC_VERSION),
    ("GET", "/p/{passport_id}/v/{passport_version_id}/{file}"): Call(path={**PUBLIC_VERSION, "file": "=view.json"}),
    ("GET", "/p/{passport_id}/access"): Call(path={"passport_id": "public_passport_id"}),
    ("POST", "/p/{passport_id}/access"): Call(path={"passport_id": "public_passport_id"}, file="{access_form}"),
    ("POST", "/p/{passport_id}/access/requests"): Call(
        path={"passport_id": "public_passport_id"}, file="audience=interest&name=A&contact=B&purpose={new}"
    ),
    ("GET", "/page-assets/{name}"): Call(path={"name": f"={min(asset.name for asset in load_assets().values())}"}),
    ("GET", "/status/statements/{passport_version_id}"): Call(path={"passport_version_id": "stated_version_id"}),
    ("POST", "/v1/passports"): Call(body={"battery_product_id": "{bare_product_id}"}),
    ("POST", "/v1/passports/{passport_id}/compile"): Call(
        body={"snapshot_id": "{compiled_snapshot_id}", "rule_package_version_id": "{published_version_id}"}
    ),
    ("POST", "/v1/passport-versions/{passport_version_id}/activate"): Call(
        path={"passport_version_id": "activated_version_id"}
    ),
    ("POST", "/v1/passport-versions/{passport_version_id}/revoke"): Call(
        path={"passport_version_id": "revoked_version_id"}, body={"reason": "it was withdrawn"}
    ),
    ("POST", "/v1/passport-versions/{passport_version_id}:sign"): Call(
        path={"passport_version_id": "unsigned_version_id"}
    ),
    ("POST", "/v1/passport-versions/{passport_version_id}:abandon"): Call(
        path={"passport_version_id": "stuck_version_id"}, body={"reason": "its key is lost"}
    ),
    ("POST", "/v1/passport-versions/{passport_version_id}:waive"): Call(
        body={"entries": [{"code": "D1", "field": "duty.parts_listed"}], "reason": "they are listed elsewhere"}
    ),
    ("POST", "/v1/passport-versions/{passport_version_id}/replay"): Call(),
    ("GET", "/v1/passport-versions/{passport_version_id}/view"): Call(query={"audience": "public"}),
    ("POST", "/v1/passport-versions/{passport_version_id}/exports"): Call(body={"format": "PDF"}),
    ("POST", "/v1/passports:bulk-compile"): Call(
        body={"rule_package_version_id": "{published_version_id}", "items": [{"sku": "{new}"}]}
    ),
    ("POST", "/v1/passports:check"): Call(
        body={"skus": [DISPUTED_SKU], "rule_package_version_id": "{published_version_id}"}
    ),
    ("POST", "/v1/passports:what-if"): Call(body={"all": True, "rule_package_version_id": "{published_version_id}"}),
    ("GET", "/v1/passport-versions/{passport_version_id}/diff/{other_version_id}"): Call(
        path={"other_version_id": "passport_version_id"}
    ),
    ("GET", "/v1/compile-runs/{run_id}"): Call(path={"run_id": "run_id_of_compiles"}),
    ("GET", "/v1/compile-runs/{run_id}/rows"): Call(path={"run_id": "run_id_of_compiles"}),
    ("POST", "/v1/compile-runs/{run_id}:cancel"): Call(path={"run_id": "run_id_of_compiles"}),
    # Jobs
    ("GET", "/v1/jobs/{job_id}/result"): Call(path={"job_id": "done_job_id"}),
    ("POST", "/v1/jobs/{job_id}:cancel"): Call(body={"reason": "no longer wanted"}),
    ("POST", "/v1/jobs/{job_id}:retry"): Call(path={"job_id": "failed_job_id"}),
    ("POST", "/v1/schedules"): Call(
        body={"name": "{new}", "type": "REPLAY_AUDIT", "cron": "0 4 * * *", "input": {"sample": 1}}
    ),
    ("PUT", "/v1/schedules/{schedule_id}"): Call(body={"cron": "0 5 * * *"}),
    ("DELETE", "/v1/schedules/{schedule_id}"): Call(path={"schedule_id": "idle_schedule_id"}),
    ("POST", "/v1/schedules/{schedule_id}:pause"): Call(),
    ("POST", "/v1/schedules/{schedule_id}:resume"): Call(),
    # Who may do what
    ("PUT", "/v1/tenant/branding"): Call(body={"palette": "ocean"}),
    ("PUT", "/v1/tenant/settings"): Call(body={"activation_blocked_by": "FAIL_AND_WARN"}),
    ("PUT", "/v1/tenant/four-eyes"): Call(body={"actions": []}),
    ("POST", "/v1/approvals/{approval_id}:approve"): Call(),
    ("POST", "/v1/approvals/{approval_id}:reject"): Call(
        path={"approval_id": "idle_approval_id"}, body={"reason": "no"}
    ),
    ("POST", "/v1/view-requests/{view_request_id}:approve"): Call(body={}),
    ("POST", "/v1/view-requests/{view_request_id}:reject"): Call(
        path={"view_request_id": "idle_view_request_id"}, body={"reason": "no"}
    ),
    ("POST", "/v1/view-requests/{view_request_id}:remove-words"): Call(
        path={"view_request_id": "decided_view_request_id"}
    ),
    ("POST", "/v1/view-grants"): Call(
        body={"grantee": "{new}", "audience": "interest", "scope": "MODEL", "passport_id": "{public_passport_id}"}
    ),
    ("POST", "/v1/view-grants/{view_grant_id}:revoke"): Call(
        path={"view_grant_id": "idle_view_grant_id"}, body={"reason": "no"}
    ),
    ("POST", "/v1/actors"): Call(body={"type": "USER", "display_name": "{new}", "roles": ["Auditor"]}),
    ("POST", "/v1/roles"): Call(body={"name": "{new}", "permissions": ["docs:read"]}),
    ("POST", "/v1/api-keys"): Call(body={"actor_id": "{actor_id}", "label": "{new}"}),
    ("POST", "/v1/api-keys/{api_key_id}:revoke"): Call(path={"api_key_id": "idle_api_key_id"}),
    ("POST", "/v1/api-keys/{api_key_id}:rotate"): Call(body={}),
    ("POST", "/v1/signing-keys"): Call(body={}),
    ("POST", "/v1/signing-keys/{key_id}:retire"): Call(path={"key_id": "idle_key_id"}),
    ("POST", "/v1/signing-keys/{key_id}:report-compromise"): Call(
        path={"key_id": "stolen_key_id"}, body={"since": LONG_AGO, "reason": "{new}"}
    ),
    ("GET", "/.well-known/bpc-keys/{tenant}.json"): Call(path={"tenant": "=acme"}),
    ("POST", "/v1/policies"): Call(body={"name": "{new}", **POLICY}),
    ("POST", "/v1/policies/{policy_id}/versions"): Call(body=POLICY),
    ("PATCH", "/v1/actors/{actor_id}"): Call(path={"actor_id": "idle_actor_id"}, body={"display_name": "{new}"}),
    ("PUT", "/v1/actors/{actor_id}/roles"): Call(path={"actor_id": "idle_actor_id"}, body={"roles": ["Auditor"]}),
    ("PUT", "/v1/roles/{role_id}/permissions"): Call(body={"permissions": ["docs:read"]}),
    ("POST", "/v1/policies/{policy_id}:deactivate"): Call(path={"policy_id": "idle_policy_id"}),
    ("POST", "/v1/policies:dry-run"): Call(
        body={
            "actor_id": "{actor_id}",
            "permission": "passport:read",
            "resource": {"type": "Passport", "id": "{passport_id}"},
        }
    ),
    # Asking and reading
    ("POST", "/v1/graphql"): Call(body={"query": "{ passports(first: 10) { items { passportId } nextCursor } }"}),
    ("GET", "/v1/docs/{asset}"): Call(path={"asset": "=docs.js"}),
    ("GET", "/log/tile/{path:path}"): Call(path={"path": "=0/000.p/1"}),
    ("GET", "/log/timestamp/{path:path}"): Call(path={"path": "=latest"}),
    ("GET", "/v1/schemas/{kind}"): Call(path={"kind": "=BOM"}),
    ("GET", "/v1/templates/{category}"): Call(path={"category": "=ev"}),
    # Webhooks
    ("POST", "/v1/webhook-endpoints"): Call(body={"url": "https://example.com/{new}"}),
    ("DELETE", "/v1/webhook-endpoints/{webhook_endpoint_id}"): Call(
        path={"webhook_endpoint_id": "idle_webhook_endpoint_id"}
    ),
    ("PATCH", "/v1/webhook-endpoints/{webhook_endpoint_id}"): Call(body={"timeout_seconds": 5}),
    ("POST", "/v1/webhook-endpoints/{webhook_endpoint_id}:disable"): Call(
        path={"webhook_endpoint_id": "spare_webhook_endpoint_id"}, body={"reason": "maintenance"}
    ),
    ("POST", "/v1/webhook-endpoints/{webhook_endpoint_id}:enable"): Call(
        path={"webhook_endpoint_id": "disabled_webhook_endpoint_id"}, body={}
    ),
    ("POST", "/v1/webhook-endpoints/{webhook_endpoint_id}:redeliver-failed"): Call(query={"since": RECENTLY}),
    ("POST", "/v1/webhook-endpoints/{webhook_endpoint_id}:rotate"): Call(),
    ("POST", "/v1/webhook-endpoints/{webhook_endpoint_id}:test"): Call(),
    ("POST", "/v1/webhook-deliveries/{webhook_delivery_id}:redeliver"): Call(),
    ("POST", "/v1/webhook-subscriptions"): Call(
        body={"webhook_endpoint_id": "{webhook_endpoint_id}", "event_type": "passport.version.revoked"}
    ),
    ("DELETE", "/v1/webhook-subscriptions/{webhook_subscription_id}"): Call(
        path={"webhook_subscription_id": "idle_webhook_subscription_id"}
    ),
}
