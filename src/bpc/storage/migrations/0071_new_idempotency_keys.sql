-- A write takes its Idempotency-Key in the message that begins its transaction, after role and tenant are set. Nearly
-- every key is new; if it is not, this refuses, and the stored answer is asked for. The lock is that of `answered_by`,
-- which releases before this one call: both may serve at the same time.
CREATE FUNCTION require_new_key(p_actor uuid, p_key text, p_hash bytea) RETURNS void
  LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM answered_by(current_tenant(), p_actor, p_key, p_hash)) THEN
    RAISE EXCEPTION USING ERRCODE = 'BP003', MESSAGE = 'this idempotency key was used before';
  END IF;
END $$;
REVOKE ALL ON FUNCTION require_new_key(uuid, text, bytea) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION require_new_key(uuid, text, bytea) TO bpc_app;
