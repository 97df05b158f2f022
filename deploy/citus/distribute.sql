-- Spread BPC over the nodes of a Citus cluster, tenants apart, tables of one tenant together. Made by
-- `python tools/distribution.py`, which proves on a migrated database that its keys allow it; NOT run on Citus by us.
-- docs/capacity.md says what else of BPC would have to change first, and why each table is where it is.
--
-- Run once, with psql, on the coordinator, as a superuser, on a database that `bpc migrate` has made and nobody uses.
-- The coordinator is a node, too (citus_set_coordinator_host), or local tables could not refer to reference tables.

\set ON_ERROR_STOP on
BEGIN;

-- A tenant is named by SET LOCAL, which policies on the nodes have to see.
ALTER DATABASE :"DBNAME" SET citus.propagate_set_commands = 'local';
-- Ours refuse changes to what is finished. Citus carries triggers to the shards only when told so.
ALTER DATABASE :"DBNAME" SET citus.enable_unsafe_triggers = on;
SET LOCAL citus.enable_unsafe_triggers = on;
-- Foreign keys to reference tables, in the same transaction.
SET LOCAL citus.multi_shard_modify_mode = 'sequential';
-- Citus connects to nodes as the role that asks.
ALTER ROLE bpc_owner LOGIN;
ALTER ROLE bpc_app LOGIN;
ALTER ROLE bpc_system LOGIN;

-- Citus takes no subquery in a policy. Ours has the tenant computed once, and can be left out.
ALTER POLICY own_tenant ON public.actor_identities USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.actor_roles USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.actors USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.api_key_prefixes USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.api_keys USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.approvals USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.attachment_withdrawals USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.attachments USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.batch_passport_versions USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.batteries USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.battery_batches USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.battery_changes USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.battery_identifications USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.battery_products USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.battery_readings USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.battery_registrations USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.battery_transfers USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.column_mappings USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.compile_run_rows USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.compile_runs USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.console_sessions USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.data_snapshots USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.document_refs USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.document_statements USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.document_texts USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.document_version_refs USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.document_versions USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.documents USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.event_anchors USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.events USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.fact_decisions USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.fact_sources USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.facts USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.idempotency_keys USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.item_chunks USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.item_passport_versions USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.item_runs USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.passport_exports USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.passport_versions USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.passport_waivers USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.passports USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.policies USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.policy_versions USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.rate_limit_buckets USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.reading_deliveries USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.removed_events USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.retention_anchors USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.role_permissions USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.roles USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.rule_catalogues USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.rule_fields USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.rule_package_versions USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.rule_packages USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.rule_tests_runs USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.snapshot_items USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.status_entries USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.status_lists USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.status_statements USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.suppliers USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.tenant_settings USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.tenants USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.view_grants USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.view_requests USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.webhook_deliveries USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.webhook_endpoints USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
ALTER POLICY own_tenant ON public.webhook_subscriptions USING ((tenant_id = current_tenant())) WITH CHECK ((tenant_id = current_tenant()));
DROP POLICY without_a_tenant ON public.events;  -- `bpc audit verify` no longer sees events of tenants that do not exist

-- Tables that refer to each other: one of the references comes last.
ALTER TABLE public.passport_versions DROP CONSTRAINT passport_versions_tenant_id_passport_id_fkey;

-- A copy on every node.
-- the same for all tenants
SELECT create_reference_table('public.permissions');
-- every table refers to it, and a slug is there once among all tenants
SELECT create_reference_table('public.tenants');
-- whoever calls is found by the prefix alone, before a tenant is known
SELECT create_reference_table('public.api_key_prefixes');
-- of the installation, not of a tenant; every version refers to one
SELECT create_reference_table('public.signing_keys');

-- By tenant; all in one group, so that whatever belongs to a tenant is on one node.
SELECT create_distributed_table('public.actors', 'tenant_id', colocate_with => 'none');
SELECT create_distributed_table('public.battery_products', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.event_anchors', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.idempotency_keys', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.rate_limit_buckets', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.roles', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.status_lists', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.suppliers', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.actor_identities', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.actor_roles', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.api_keys', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.approvals', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.battery_batches', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.battery_identifications', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.battery_registrations', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.column_mappings', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.console_sessions', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.data_snapshots', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.documents', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.events', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.passport_waivers', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.policies', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.reading_deliveries', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.role_permissions', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.rule_packages', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.status_entries', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.tenant_settings', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.webhook_endpoints', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.batteries', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.document_refs', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.document_versions', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.fact_decisions', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.policy_versions', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.removed_events', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.retention_anchors', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.rule_catalogues', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.rule_package_versions', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.status_statements', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.webhook_deliveries', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.webhook_subscriptions', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.attachments', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.battery_changes', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.battery_readings', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.battery_transfers', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.compile_runs', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.document_statements', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.document_texts', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.document_version_refs', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.facts', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.rule_fields', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.rule_tests_runs', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.attachment_withdrawals', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.compile_run_rows', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.fact_sources', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.snapshot_items', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.passport_versions', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.batch_passport_versions', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.item_runs', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.passport_exports', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.passports', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.item_chunks', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.view_requests', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.item_passport_versions', 'tenant_id', colocate_with => 'public.actors');
SELECT create_distributed_table('public.view_grants', 'tenant_id', colocate_with => 'public.actors');

ALTER TABLE public.passport_versions ADD CONSTRAINT passport_versions_tenant_id_passport_id_fkey FOREIGN KEY (tenant_id, passport_id) REFERENCES passports(tenant_id, passport_id);

-- On the coordinator only, as they are.
-- says what was done to this database; the coordinator is where migrations run
-- local: public.schema_migrations
-- of the log, which is one for all tenants
-- local: public.log_checkpoints
-- local: public.log_entries
-- local: public.log_state
-- the sequencer takes the rows of all tenants in one order
-- local: public.log_openings
-- local: public.log_outbox
-- local: public.log_proofs
-- workers serve all tenants
-- local: jobs.job_worker
-- a worker claims for all tenants in one statement, with SKIP LOCKED, which Citus does on one shard only
-- local: jobs.batch
-- local: jobs.job
-- local: jobs.job_dependency
-- local: jobs.job_later
-- local: jobs.job_lease
-- local: jobs.job_ready
-- local: jobs.job_slot
-- local: jobs.schedule

COMMIT;
