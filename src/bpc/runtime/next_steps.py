"""What the person who runs the service does next, by the hint of a refusal.

The database layer and the embedded server name neither settings nor commands: their refusals carry a hint and details,
and the code that shows one (the command line, the log of the API) finds the sentence here. `{name}` is one of the
details.
"""

from collections.abc import Mapping
from typing import Final

OPERATOR_STEPS: Final[Mapping[str, str]] = {
    "reach the database": (
        "check that it is running and that DATABASE_URL or BPC_DB_* is correct; `bpc doctor` checks"
    ),
    "use a plain login": (
        "give the service a login of its own with the three roles and nothing else (docs/database.md), "
        "or name `superuser-database` in BPC_PROD_ALLOW"
    ),
    "bring back the key of stored secrets": (
        "set BPC_STORED_SECRETS_KEY_PREVIOUS_BASE64 (or BPC_API_KEY_PEPPER_PREVIOUS_BASE64) to the key it was "
        "encrypted with; if that is lost, rotate the secret of the webhook endpoint"
    ),
    "check the login": "check DATABASE_URL or BPC_DB_*",
    "enlarge the pool": "try again; if it happens often, raise BPC_DB_POOL_SIZE",
    "upgrade the server": "upgrade the server, or unset DATABASE_URL to use the embedded one",
    "migrate": "run `bpc migrate`",
    "migrate again": "earlier migrations are applied; fix the cause, then run `bpc migrate` again",
    "migrate later": "{holder}; end it, or wait, then run `bpc migrate` again",
    "name a backup": "name a folder that `bpc backup` created",
    "restore into a database": "restore it into a database: set DATABASE_URL",
    "restore into a data directory": "restore it into an empty data directory: unset DATABASE_URL",
    "restore the signing key": (
        "put the right key back (its file, or the variable), or give the new one its own BPC_SIGNING_KEY_ID"
    ),
    "start the signer": "start `bpc signer`, or check BPC_SIGNER_ADDRESS; `bpc doctor` checks",
    "read the signer's log": "the log of the signer says which request it refused",
    "find the private key": (
        "put its file back (or the variable); if it is lost for good, choose another BPC_SIGNING_KEY_ID"
    ),
    "name the signing key": (
        "create one with `bpc keys add {key_id} --new`, or set BPC_SIGNING_KEY_ID={registered_as}"
    ),
    **{
        f"raise the {artifact} limit": f"make fewer or smaller fields, or raise BPC_{artifact.upper()}_MAX_BYTES"
        for artifact in ("payload", "proof", "receipt")
    },
    "allow the address": "use a public address, or name this one in BPC_OUTBOUND_ALLOW",
    "verify the bundle": "run `bpc verify` on the bundle for a full report",
    "make a key pair": "make one with `bpc keygen`",
    "fetch the key set": "fetch /.well-known/bpc-keys.json from the issuer again",
    "use a written checkpoint": "use the file as `bpc audit checkpoint` wrote it",
    **{
        f"replace the {pepper} pepper": (
            f"set BPC_API_KEY_PEPPER_{pepper.upper()}_BASE64 to another pepper, or unset it; "
            "without BPC_API_KEY_PEPPER_BASE64 the current pepper is the one in the data folder"
        )
        for pepper in ("next", "previous")
    },
    "read the server log": "read {log}; `bpc doctor` checks disk space and rights",
}
