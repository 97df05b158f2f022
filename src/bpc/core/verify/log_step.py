"""Step `log`: the passport is in the transparency log, and witnesses that you trust have seen it there.

Pure. What a bundle says about itself is checked always. Whether it is true needs a policy, which names the log and its
witnesses and is yours: the bundle's own log and witnesses are never asked to vouch for it. Without a policy, or without
a proof, the step says plainly that this was not checked, and holds; whoever requires it gets a failure instead.

Checks:
  1. the opened statement says that a passport was issued or existed: this receipt, version, key and tenant
  2. the log of the policy signed the checkpoint, enough witnesses cosigned it, and the entry is in its tree
"""

from collections.abc import Mapping
from datetime import UTC, datetime

from bpc.core.formats.canonical_json import Json
from bpc.core.formats.hashes import to_hex
from bpc.core.formats.timestamps import format_time
from bpc.core.passport.receipt import Receipt
from bpc.core.tlog.entries import PASSPORT_EXISTED, PASSPORT_ISSUED
from bpc.core.tlog.policy import LogPolicy
from bpc.core.tlog.proofs import LogInclusion, check_log_proof
from bpc.core.verify import CheckFailed, format_count
from bpc.core.verify.canonical import LoggedEntry, OpenedBundle


def check_log(bundle: OpenedBundle, policy: LogPolicy | None, *, is_required: bool) -> str:
    """What the log shows of the passport of a bundle, or that it was not asked."""
    return check_logged_receipt(bundle.receipt, bundle.logged, policy, is_required=is_required, what="bundle")


def check_logged_receipt(
    receipt: Receipt, logged: LoggedEntry | None, policy: LogPolicy | None, *, is_required: bool, what: str
) -> str:
    """What the log shows of this receipt, or that it was not asked."""
    if logged is None:
        return _say_unchecked(
            f"the {what} has no log proof: its entry was pending, or it was made elsewhere", is_required
        )
    statement = logged.entry.read_statement()
    _require_this_passport(receipt, statement)  # 1
    if policy is None:
        origin = logged.proof.read_checkpoint().origin
        says = f"give a policy to check that it is entry {logged.proof.index:,} of the log `{origin[:80]}`"
        return _say_unchecked(says, is_required)
    return _describe(check_log_proof(logged.proof, logged.entry.leaf, policy), statement)  # 2


def _say_unchecked(reason: str, is_required: bool) -> str:
    if is_required:
        raise CheckFailed(f"not checked, and you require it: {reason}")
    return f"not checked: {reason}"


def _require_this_passport(receipt: Receipt, statement: Mapping[str, Json]) -> None:
    expected = {
        "aggregate_id": str(receipt.passport_version_id),
        "aggregate_type": "PassportVersion",
        "receipt_hash": to_hex(receipt.hash()),
        "signing_key_id": receipt.signing_key_id,
        "tenant_id": str(receipt.tenant_id),
    }
    if statement["kind"] not in {PASSPORT_ISSUED, PASSPORT_EXISTED}:
        raise CheckFailed(f"the entry of the log says {str(statement['kind'])[:80]}, not that a passport was issued")
    for name, value in expected.items():
        if statement.get(name) != value:
            raise CheckFailed(f"the entry of the log is about another passport: its `{name}` is not the receipt's")


def _describe(inclusion: LogInclusion, statement: Mapping[str, Json]) -> str:
    where = f"entry {inclusion.index:,} of `{inclusion.checkpoint.origin}`"
    if statement["kind"] == PASSPORT_EXISTED:
        where += f", which says that it existed by {statement['at']}"
    if not inclusion.witnesses:
        return f"{where}; your policy asks for no witnesses"
    count = len(inclusion.witnesses)
    seen = format_count(count, "witness") if count == 1 else f"{count} witnesses"
    first = datetime.fromtimestamp(inclusion.witnesses[0].seconds, UTC)
    return f"{where}; seen by {seen} at {format_time(first)}"
