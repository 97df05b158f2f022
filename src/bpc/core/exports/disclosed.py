"""Disclosed: what one audience may see of a passport, as every export shows it.

Pure. A field is shown to the audiences that its rule names, and a public one to everybody; the tenant, whose passport
it is, sees every field. Of what is not shown an export holds nothing but how many fields there are. A compliance entry
belongs to the field whose rule said it, and is shown to whom that field is shown.

    Bundle, audience ── disclosed ──► Disclosed(fields, compliance, receipt, …), or NoExport

An export cannot be checked by itself, so it is made only of a bundle that is sound:
  1. every entry is in its one form
  2. the payload is the one the receipt names
  3. the proof is one hash-linked computation of this payload
  4. the receipt is this passport's, with the hash its QR code carries
  5. the key that the manifest names signed it
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from bpc.core.bundle import Bundle
from bpc.core.canon import Json
from bpc.core.errors import Invalid, Refusal
from bpc.core.exports.kinds import read_type
from bpc.core.receipt import Receipt
from bpc.core.rules.types import Type
from bpc.core.signing import PublicKey
from bpc.core.verify.proof import Node, check_proof_structure, nodes_of
from bpc.core.verify.report import NotChecked
from bpc.core.verify.signature import check_receipt_hash, check_signature
from bpc.core.verify.snapshot import check_payload_hash
from bpc.core.verify.structure import Opened, check_canonical

Audience: TypeAlias = Literal["public", "interest", "authority", "tenant"]

TENANT: Final = "tenant"
AUDIENCES: Final[Mapping[Audience, str]] = {
    "public": "everybody",
    "interest": "persons with a legitimate interest",
    "authority": "notified bodies, market surveillance authorities and the Commission",
    "tenant": "the tenant whose passport it is: everything",
}


class NoExport(Invalid):
    """A bundle that does not check is not shown to anybody."""


@dataclass(frozen=True, slots=True)
class ShownField:
    """A field that may be seen: its value as passports write it, `kind` its type, `node` its place in the proof."""

    path: str
    kind: Type
    access: Sequence[str]
    value: Json
    node: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Disclosed:
    """A passport version for one audience, its fields by path. `hidden` fields are not among them."""

    audience: Audience
    receipt: Receipt
    issued_at: str
    product: Mapping[str, str]
    fields: Sequence[ShownField]
    hidden: int
    compliance: Sequence[Mapping[str, str]]
    public_key: PublicKey
    qr_text: str


def disclosed(bundle: Bundle, audience: Audience) -> Disclosed:
    """What `audience` may see of the bundle's passport."""
    return disclosed_of(opened_for_export(bundle), audience)


def opened_for_export(bundle: Bundle) -> Opened:
    """The bundle, opened, if it is sound."""
    opened = Opened(bundle)
    try:
        check_canonical(opened)  # 1
        check_payload_hash(opened)  # 2
        check_proof_structure(opened)  # 3
        check_receipt_hash(opened)  # 4
        check_signature(opened, ())  # 5
    except NotChecked as reason:
        raise _unsound(str(reason)) from None
    except Refusal as wrong:
        raise _unsound(wrong.says) from None
    return opened


def disclosed_of(opened: Opened, audience: Audience) -> Disclosed:
    """What `audience` may see of a bundle that is sound."""
    nodes, count = nodes_of(opened)
    shown = [_field(at, nodes[at]) for at in range(count) if may_see(nodes[at].data["access"], audience)]
    paths, payload = {field.path for field in shown}, opened.payload
    return Disclosed(
        audience=audience,
        receipt=opened.receipt,
        issued_at=payload["issued_at"],
        product=payload["battery_product"],
        fields=shown,
        hidden=count - len(shown),
        compliance=[entry for entry in payload["compliance"] if audience == TENANT or entry["field"] in paths],
        public_key=opened.manifest.public_key,
        qr_text=opened.qr_text,
    )


def may_see(access: Sequence[str], audience: Audience) -> bool:
    """Whether a field for `access` is shown to `audience`."""
    return audience == TENANT or audience in access or "public" in access


def _field(at: int, node: Node) -> ShownField:
    data: Mapping[str, Any] = node.data
    return ShownField(data["path"], read_type(data["type"]), data["access"], data["value"], at)


def _unsound(reason: str) -> NoExport:
    return NoExport(f"the bundle does not check, so nothing is made of it: {reason}", fix="`bpc verify` says more")
