"""Steps `receipt_hash` and `signature`: the receipt is this passport's, and the key's owner signed it.

Pure. A public key from the bundle itself proves only that nothing changed since somebody signed; whether that was the
issuer shows only by a key that was known before (a pinned one).

Checks:
  1. receipt, payload and manifest are of one passport version, issued at one time, for one product
  2. the receipt without its signature has the hash that the QR text carries
  3. the manifest names the key that the receipt names
  4. the public key is one signatures can be trusted under
  5. with pinned keys, it is one of them, under the name that the receipt gives it where the pinned one has a name
  6. the signature is that key's, over the receipt's hash
"""

from collections.abc import Collection, Sequence
from typing import TypeAlias

from bpc.core.digest import to_hex
from bpc.core.qr import NotAQrText, read_qr_text
from bpc.core.receipt import Receipt
from bpc.core.signing import PinnedKey, PublicKey, checked_public_key, to_base64
from bpc.core.timestamps import format_time
from bpc.core.verify.report import NotChecked, Wrong
from bpc.core.verify.structure import Opened

UNPINNED = "the issuer was not checked, because no key was given"
Pin: TypeAlias = PublicKey | PinnedKey


def check_receipt_hash(opened: Opened) -> str:
    _agrees(opened)  # 1
    found = opened.receipt.hash()
    try:
        named = read_qr_text(opened.qr_text).receipt_hash
    except NotAQrText as refused:
        raise NotChecked(refused.says) from None
    if found != named:  # 2
        raise Wrong(f"the receipt has the hash {to_hex(found)}, and qr.txt names {to_hex(named)}")
    return f"the receipt is {to_hex(found)}"


def check_signature(opened: Opened, pinned: Sequence[Pin]) -> str:
    manifest, receipt = opened.manifest, opened.receipt
    if manifest.signing_key_id != receipt.signing_key_id:  # 3
        raise Wrong(f"the manifest names the key `{manifest.signing_key_id}`, the receipt `{receipt.signing_key_id}`")
    key = checked_public_key(manifest.public_key)  # 4
    if pinned:
        refuse_others(key, names_of(pinned).get(key), receipt)  # 5
    receipt.verify(key)  # 6
    return signed_by(receipt, pinned=bool(pinned))


def names_of(pinned: Sequence[Pin]) -> dict[PublicKey, set[str | None]]:
    """The pinned keys, each with its names; None is one that goes by any."""
    found: dict[PublicKey, set[str | None]] = {}
    for pin in pinned:
        key, name = pin if isinstance(pin, PinnedKey) else (pin, None)
        found.setdefault(key, set()).add(name)
    return found


def refuse_others(key: PublicKey, names: Collection[str | None] | None, receipt: Receipt) -> None:
    """`Wrong` unless the key is a pinned one, under a name that the receipt gives it."""
    if names is None:
        raise Wrong(f"the manifest's key {to_base64(key)} is not one of those you trust")
    if None not in names and receipt.signing_key_id not in names:
        known = " and ".join(f"`{name}`" for name in sorted(filter(None, names)))
        raise Wrong(f"the receipt names the key `{receipt.signing_key_id}`, and this one is known to you as {known}")


def signed_by(receipt: Receipt, *, pinned: bool) -> str:
    says = f"signed by key `{receipt.signing_key_id}`"
    return f"{says}, which you trust" if pinned else f"{says}; {UNPINNED}"


def _agrees(opened: Opened) -> None:
    receipt, payload = opened.receipt, opened.payload
    shown = {
        "passport_id": (payload["passport_id"], str(receipt.passport_id)),
        "passport_version_id": (payload["passport_version_id"], str(receipt.passport_version_id)),
        "issued_at": (payload["issued_at"], format_time(receipt.issued_at)),
        "battery_product_id": (payload["battery_product"]["battery_product_id"], str(receipt.battery_product_id)),
    }
    for name, (ours, theirs) in shown.items():
        if ours != theirs:
            raise Wrong(f"payload.json has the {name} {ours}, and the receipt {theirs}")
    if opened.manifest.passport_version_id != receipt.passport_version_id:
        raise Wrong("manifest.json is of another passport version than the receipt")
