-- Rights on what the engine's 0003 and 0005 added: as on what was there before.
REVOKE ALL ON FUNCTION
  jobs.submit_one(uuid, text, uuid, text, text, smallint, int, int, text, text, text, text, text, text, text),
  jobs.submit(uuid, text, uuid[], text[], text[], float8[], text[], int, smallint, int, int, uuid, uuid[], text, text,
              text, text, text[], text[], text[])
  FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
  jobs.submit_one(uuid, text, uuid, text, text, smallint, int, int, text, text, text, text, text, text, text),
  jobs.submit(uuid, text, uuid[], text[], text[], float8[], text[], int, smallint, int, int, uuid, uuid[], text, text,
              text, text, text[], text[], text[])
  TO bpc_app;
GRANT UPDATE (limit_key, limit_at_most, subject_kind, subject_id, subject_group) ON jobs.schedule TO bpc_app;
