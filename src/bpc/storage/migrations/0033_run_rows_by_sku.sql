-- locks: compile_run_rows: an index over two columns of each row, built in seconds for a million
-- The runs that a product was in.
CREATE INDEX IF NOT EXISTS compile_run_rows_of_product ON compile_run_rows (tenant_id, sku, run_id);
