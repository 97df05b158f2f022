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
