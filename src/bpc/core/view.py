"""View, BPC-VIEW-1: what one audience may see of a passport, still checkable without seeing the rest.

Pure. A view holds the signed receipt, the proof's root with its children's hashes, and the field nodes of that
audience; of a hidden field it holds a salted hash and nothing else.

    Bundle, audience ── make_view ──► canonical bytes, which bpc.core.verify.view checks

A view is made only if it hides what it should and checks:
  1. the audience is one of the three
  2. the bundle's proof is laid out as BPC-PROOF-1 says and hash-linked up to the receipt
  3. the snapshot has a secret, and every salt in the proof is made from it; or the audience sees every field
  4. what was made passes every check of a view, the signature's under the key of the bundle's manifest
"""

from collections.abc import Mapping, Sequence
from typing import Final

from bpc.core import canon
from bpc.core.blinding import Salts, blinding_key
from bpc.core.bundle import Bundle
from bpc.core.canon import Json
from bpc.core.errors import Invalid
from bpc.core.signing import PublicKey, checked_public_key
from bpc.core.verify.forms import AUDIENCES
from bpc.core.verify.proof import Node, check_proof_structure, nodes_of
from bpc.core.verify.report import NotChecked, Wrong
from bpc.core.verify.structure import Opened
from bpc.core.verify.view import verify_view

VERSION: Final = "BPC-VIEW-1"


class NoView(Invalid):
    """A view that would not hide what it should, or not check."""


def make_view(bundle: Bundle, audience: str) -> bytes:
    """The view of `audience`: public, interest or authority."""
    if audience not in AUDIENCES:  # 1
        raise NoView(
            f"there is no audience `{audience[:80]}`", fix=f"the audiences are {', '.join(reversed(AUDIENCES))}"
        )
    try:
        return _made(Opened(bundle), audience)
    except NotChecked as reason:
        raise _broken(str(reason)) from None
    except Wrong as wrong:
        raise _broken(wrong.says) from None


def _made(opened: Opened, audience: str) -> bytes:
    check_proof_structure(opened)  # 2
    nodes, count = nodes_of(opened)
    shown = [at for at in range(count) if _may_see(nodes[at].data["access"], audience)]
    if len(shown) < count:
        _check_hidden(opened, nodes, count)
    view = canon.encode_typed(_view(opened, audience, nodes, count, shown))
    _check_view(view, opened)  # 4
    return view


def _broken(reason: str) -> NoView:
    return NoView(f"the bundle is broken: {reason}", fix="`bpc verify` says more")


def _may_see(access: Sequence[str], audience: str) -> bool:
    return audience in access or "public" in access


def _check_hidden(opened: Opened, nodes: Sequence[Node], count: int) -> None:
    secret = blinding_key(opened.facts, opened.receipt.snapshot_id)
    if secret is None:  # 3
        raise NoView(
            "the snapshot has no secret, so whoever sees this view could find out hidden values by trying",
            fix="compile it over a snapshot with a `Blinding` fact, or name an audience that sees every field",
        )
    salts = Salts(secret, opened.receipt.passport_version_id)
    for node in nodes[:count]:
        derivation = nodes[node.children[0]]
        if (node.data["salt"], derivation.data.get("salt")) != salts.field(node.data["path"]):
            raise NoView(f"the salts of `{node.data['path']}` are not made from the snapshot's secret")


def _view(opened: Opened, audience: str, nodes: Sequence[Node], count: int, shown: Sequence[int]) -> Mapping[str, Json]:
    return {
        "audience": audience,
        "fields": [{"child": nodes[nodes[at].children[0]].hash, "data": nodes[at].data, "id": at} for at in shown],
        "receipt": canon.decode(opened.entries["receipt.json"]),
        "root": {"children": [node.hash for node in nodes[:count]], "data": nodes[count].data, "id": count},
        "view_version": VERSION,
    }


def _check_view(view: bytes, opened: Opened) -> None:
    key: PublicKey = checked_public_key(opened.manifest.public_key)
    report = verify_view(view, pinned=[key])
    for step in report.steps:
        if not step.ok:
            raise NoView(f"the bundle does not give a view that checks: {step.name}: {step.detail}")
