"""Step `key`: the key was valid when it signed, and nobody else had it then.

Pure. What is known of the key stands in the key set that you pinned. When it signed is what the transparency log shows,
if you have a policy; otherwise only the receipt says so, which is enough for a key that nobody stole.

Checks:
  1. a key that is compromised since T signed before T: the log of your policy shows it, and the issuer's word does not
     count. With witnesses, the time is when the first of them saw it; without, what the log says
  2. the signature is inside the window of the key, give or take a minute between clocks
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from bpc.core.audit.signing import PinnedKey, parse_public_key
from bpc.core.formats.timestamps import format_time, parse_time
from bpc.core.tlog.entries import PASSPORT_ISSUED
from bpc.core.tlog.policy import LogPolicy
from bpc.core.tlog.proofs import check_log_proof
from bpc.core.verify import CheckFailed
from bpc.core.verify.artifacts import AnyReceipt, Pin, find_pin
from bpc.core.verify.canonical import LoggedEntry, OpenedBundle

CLOCK_TOLERANCE: Final = timedelta(minutes=1)
UNKNOWN_WINDOW: Final = "not checked: no key set says when the key is valid"


def check_key(bundle: OpenedBundle, pins: Sequence[Pin], policy: LogPolicy | None) -> str:
    """What your keys and the log show of the time of the signature."""
    if not any(isinstance(pin, PinnedKey) for pin in pins):
        return UNKNOWN_WINDOW
    receipt = bundle.receipt
    pin = find_pin(pins, parse_public_key(bundle.manifest.public_key), receipt)
    if pin is None:
        return UNKNOWN_WINDOW
    return _check_time(pin, receipt, bundle.logged_entry if bundle.has_log_proof else None, policy)


def check_key_of_view(
    pin: PinnedKey | None,
    receipt: AnyReceipt,
    logged_entry: LoggedEntry | None = None,
    policy: LogPolicy | None = None,
) -> None:
    """The same for a view, whose envelope may carry a log proof, and for a battery, which has none."""
    if pin is not None:
        _check_time(pin, receipt, logged_entry, policy)


def _check_time(pin: PinnedKey, receipt: AnyReceipt, logged_entry: LoggedEntry | None, policy: LogPolicy | None) -> str:
    if policy is None or logged_entry is None:
        _refuse_compromised(pin, receipt, None)  # 1
        _require_window(pin, receipt.issued_at, "the receipt says")  # 2
        return f"valid at {format_time(receipt.issued_at)}, when the receipt says it was issued; no log was asked"
    logged_at, seen_at = _read_log_times(logged_entry, policy)
    _refuse_compromised(pin, receipt, seen_at)
    signed_at = receipt.issued_at if logged_at is None else logged_at
    _require_window(pin, signed_at, "the log says" if logged_at else "the receipt says")
    return f"valid at {format_time(signed_at)}, and the log shows the signature by {format_time(seen_at)}"


def _read_log_times(logged_entry: LoggedEntry, policy: LogPolicy) -> tuple[datetime | None, datetime]:
    """When the log says it was signed, None if it only says that it existed; and by when it was there for sure."""
    inclusion = check_log_proof(logged_entry.proof, logged_entry.entry.leaf, policy)
    statement = logged_entry.entry.read_statement()
    at = parse_time(str(statement["at"]))
    seen_at = at
    if inclusion.witnesses:
        seen_at = datetime.fromtimestamp(inclusion.witnesses[0].seconds, UTC)
    return (at if statement["kind"] == PASSPORT_ISSUED else None), max(at, seen_at)


def _refuse_compromised(pin: PinnedKey, receipt: AnyReceipt, seen_at: datetime | None) -> None:
    since = pin.compromised_since
    if since is None or (seen_at is not None and seen_at < since):
        return
    says = f"the key `{receipt.signing_key_id}` is compromised since {format_time(since)}"
    if seen_at is None:
        raise CheckFailed(
            f"{says}, and no log shows that it signed this before; give a policy, and a bundle or view with a log proof"
        )
    raise CheckFailed(f"{says}, and the log shows this signature only at {format_time(seen_at)}")


def _require_window(pin: PinnedKey, signed_at: datetime, source: str) -> None:
    time = f"{source} that it signed at {format_time(signed_at)}"
    if pin.valid_from is not None and signed_at + CLOCK_TOLERANCE < pin.valid_from:
        raise CheckFailed(f"the key `{pin.key_id}` is valid from {format_time(pin.valid_from)} on, and {time}")
    if pin.valid_until is not None and signed_at - CLOCK_TOLERANCE > pin.valid_until:
        raise CheckFailed(f"the key `{pin.key_id}` was valid until {format_time(pin.valid_until)}, and {time}")
