-- contract: nobody needs constraint status_statements.status_statements_pkey since 0.0.0
-- What was said of a version may be said again: with another key, once the key that signed it is compromised. The first
-- statement of each state stays, and so do the bytes of bundles.

ALTER TABLE status_statements DROP CONSTRAINT status_statements_pkey,
  ADD PRIMARY KEY (tenant_id, passport_version_id, state, signed_at);
