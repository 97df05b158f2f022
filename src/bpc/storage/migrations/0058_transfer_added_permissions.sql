-- Transfers of batteries: a tenant offers a battery that is waste to another, which takes it for another life.
-- Each of the two has a row of its own, in its own tenant. Who takes has one from its answer on.

INSERT INTO permissions (permission) VALUES ('battery:transfer');

CREATE TABLE battery_transfers (
  tenant_id         uuid NOT NULL REFERENCES tenants,
  transfer_id       uuid NOT NULL,
  side              text NOT NULL CHECK (side IN ('GIVES', 'TAKES')),
  -- No reference: an offer to a tenant that does not exist is stored like any other, and tells nothing.
  other_tenant_id   uuid NOT NULL,
  state             text NOT NULL
                    CHECK (state IN ('OFFERED', 'ACCEPTED', 'COMPLETED', 'DECLINED', 'WITHDRAWN', 'EXPIRED')),
  -- One's own record: of who gives from the offer on, of who takes when it is completed.
  battery_id        uuid,
  offer             bytea NOT NULL,
  acceptance        bytea,
  -- What is for who takes alone: product and serial number of the new record.
  entry             bytea,
  gives_statement   bytea,
  takes_statement   bytea,
  offered_at        timestamptz NOT NULL,
  expires_at        timestamptz NOT NULL CHECK (expires_at > offered_at),
  accepted_at       timestamptz,
  ended_at          timestamptz,
  reason            text CHECK (reason <> ''),
  PRIMARY KEY (tenant_id, transfer_id),
  FOREIGN KEY (tenant_id, battery_id) REFERENCES batteries (tenant_id, battery_id),
  CONSTRAINT battery_transfers_two_tenants CHECK (other_tenant_id <> tenant_id),
  CONSTRAINT battery_transfers_given CHECK (side = 'TAKES' OR battery_id IS NOT NULL AND entry IS NULL),
  CONSTRAINT battery_transfers_answered CHECK (side = 'GIVES' OR state <> 'OFFERED'),
  CONSTRAINT battery_transfers_ended CHECK ((state IN ('OFFERED', 'ACCEPTED')) = (ended_at IS NULL)),
  CONSTRAINT battery_transfers_accepted CHECK (
    (acceptance IS NULL) = (accepted_at IS NULL)
    AND CASE state WHEN 'OFFERED' THEN acceptance IS NULL WHEN 'EXPIRED' THEN acceptance IS NULL
                   WHEN 'ACCEPTED' THEN acceptance IS NOT NULL WHEN 'COMPLETED' THEN acceptance IS NOT NULL
                   ELSE true END),
  CONSTRAINT battery_transfers_signed CHECK (
    (state = 'COMPLETED') = (gives_statement IS NOT NULL) AND (gives_statement IS NULL) = (takes_statement IS NULL)
    AND (state <> 'COMPLETED' OR battery_id IS NOT NULL))
);
CREATE INDEX battery_transfers_by_time ON battery_transfers (tenant_id, offered_at, transfer_id);
CREATE UNIQUE INDEX battery_transfers_one_at_a_time ON battery_transfers (tenant_id, battery_id)
  WHERE side = 'GIVES' AND state IN ('OFFERED', 'ACCEPTED');
-- Who is offered something looks for it by its own id.
CREATE INDEX battery_transfers_incoming ON battery_transfers (other_tenant_id, offered_at, transfer_id)
  WHERE side = 'GIVES' AND state = 'OFFERED';

ALTER TABLE battery_transfers ENABLE ROW LEVEL SECURITY;
ALTER TABLE battery_transfers FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON battery_transfers USING (tenant_id = (SELECT current_tenant()))
  WITH CHECK (tenant_id = (SELECT current_tenant()));
CREATE POLICY offers_to_others ON battery_transfers FOR SELECT TO bpc_owner USING (true);
GRANT SELECT, INSERT,
      UPDATE (state, battery_id, acceptance, gives_statement, takes_statement, accepted_at, ended_at, reason)
  ON battery_transfers TO bpc_app;

CREATE TRIGGER battery_transfers_final BEFORE UPDATE ON battery_transfers
  FOR EACH ROW WHEN (OLD.ended_at IS NOT NULL OR OLD.accepted_at IS NOT NULL AND NEW.state = 'OFFERED'
    OR OLD.accepted_at IS NOT NULL
       AND (OLD.acceptance, OLD.accepted_at) IS DISTINCT FROM (NEW.acceptance, NEW.accepted_at)
    OR OLD.side = 'GIVES' AND OLD.battery_id IS DISTINCT FROM NEW.battery_id
    OR (OLD.tenant_id, OLD.transfer_id, OLD.side, OLD.other_tenant_id, OLD.offer, OLD.entry, OLD.offered_at,
        OLD.expires_at)
       IS DISTINCT FROM
       (NEW.tenant_id, NEW.transfer_id, NEW.side, NEW.other_tenant_id, NEW.offer, NEW.entry, NEW.offered_at,
        NEW.expires_at))
  EXECUTE FUNCTION refuse('what was offered and accepted never changes, and the end of a transfer is final');
CREATE TRIGGER battery_transfers_never_deleted BEFORE DELETE ON battery_transfers
  FOR EACH ROW EXECUTE FUNCTION refuse('a transfer is never deleted');
CREATE TRIGGER battery_transfers_not_truncated BEFORE TRUNCATE ON battery_transfers
  EXECUTE FUNCTION refuse('transfers are never deleted');

-- What a tenant may know of rows of others: offers that are addressed to it and still open. Nothing else crosses.
CREATE FUNCTION offers_to_this_tenant()
  RETURNS TABLE (tenant_id uuid, transfer_id uuid, other_tenant_id uuid, offer bytea, offered_at timestamptz,
                 expires_at timestamptz)
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
  SELECT t.other_tenant_id, t.transfer_id, t.tenant_id, t.offer, t.offered_at, t.expires_at
    FROM public.battery_transfers t
   WHERE t.other_tenant_id = public.current_tenant() AND t.side = 'GIVES' AND t.state = 'OFFERED'
     AND t.expires_at > now()
$$;
REVOKE ALL ON FUNCTION offers_to_this_tenant() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION offers_to_this_tenant() TO bpc_app;
