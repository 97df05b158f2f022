-- Tokens of a bucket (BPC-RL-1) in slices: a process takes some at once and hands them out itself, so that not every
-- request writes. What is taken is no longer in the bucket, so all processes together never give more than it had.
CREATE FUNCTION take_tokens(p_tenant uuid, p_key bytea, p_capacity integer, p_rate integer, p_most integer,
                            OUT taken integer, OUT tokens_left double precision, OUT wait double precision)
  LANGUAGE plpgsql AS $$
DECLARE
  v_now    timestamptz := clock_timestamp();
  v_tokens float8;
BEGIN
  PERFORM set_config('app.tenant_id', p_tenant::text, true);
  INSERT INTO rate_limit_buckets AS b (tenant_id, key_hash, capacity, tokens, refill_per_second, updated_at)
  VALUES (p_tenant, p_key, p_capacity, p_capacity, p_rate, v_now)
      ON CONFLICT (tenant_id, key_hash) DO UPDATE
     SET capacity = p_capacity, refill_per_second = p_rate,
         tokens = least(p_capacity, b.tokens
                    + p_rate * greatest(0, extract(epoch FROM clock_timestamp() - b.updated_at))),
         updated_at = greatest(b.updated_at, clock_timestamp())
  RETURNING b.tokens INTO v_tokens;
  taken := least(p_most, floor(v_tokens))::integer;
  tokens_left := v_tokens - taken;
  wait := CASE WHEN taken > 0 THEN 0 ELSE (1 - v_tokens) / p_rate END;
  IF taken > 0 THEN
    UPDATE rate_limit_buckets SET tokens = tokens - taken WHERE tenant_id = p_tenant AND key_hash = p_key;
  END IF;
END $$;
REVOKE ALL ON FUNCTION take_tokens(uuid, bytea, integer, integer, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION take_tokens(uuid, bytea, integer, integer, integer) TO bpc_app;
