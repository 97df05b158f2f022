"""View envelope, BPC-VIEW-2: the unchanged bytes of a view, BPC-VIEW-1, with its log proof and where its status is.

Pure. A view is canonical JSON, so that it stands in the envelope as it is, and its bytes come out again unchanged.

    view, log proof, statement ── wrap_view ──► bytes ── open_view ──► the same
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from bpc.core.errors import Invalid
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.status.statements import StatusStatement, read_statement
from bpc.core.tlog.entries import LogEntry, parse_opening
from bpc.core.tlog.proofs import LogProof, parse_log_proof

ENVELOPE_VERSION: Final = "BPC-VIEW-2"
_MEMBERS: Final = ("log_proof", "status", "view", "view_version")
_MARK: Final = f'"view_version":"{ENVELOPE_VERSION}"}}'.encode()


class BadEnvelope(Invalid):
    """The bytes are not an envelope around a view."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the envelope of the view {reason}")


class ViewEnvelope(NamedTuple):
    """The bytes of a view, and what came with them. A view without an envelope comes with nothing."""

    view: bytes
    log_proof: LogProof | None
    opening: LogEntry | None
    statement: StatusStatement | None


def is_envelope(data: bytes) -> bool:
    return data.endswith(_MARK)


def wrap_view(view: bytes, *, log_proof: bytes | None, statement: bytes | None) -> bytes:
    """The envelope of a view; without a proof and a statement, the view itself."""
    if log_proof is None and statement is None:
        return view
    members: dict[str, Json] = {
        "log_proof": None if log_proof is None else log_proof.decode(),
        "status": None if statement is None else canonical_json.decode(statement),
        "view": canonical_json.decode(view),
        "view_version": ENVELOPE_VERSION,
    }
    return canonical_json.encode(members)


def open_view(data: bytes) -> ViewEnvelope:
    """What is in an envelope; a view without one comes as it is, and is not read."""
    if not is_envelope(data):
        return ViewEnvelope(data, None, None, None)
    try:
        members = canonical_json.decode(data)
    except Invalid as wrong:
        raise BadEnvelope(f"is not canonical: {wrong.says}") from None
    if not isinstance(members, Mapping) or tuple(sorted(members)) != _MEMBERS:
        raise BadEnvelope(f"is not an object of {', '.join(_MEMBERS)}")
    view, proof_text, status = members["view"], members["log_proof"], members["status"]
    if not isinstance(view, Mapping) or not isinstance(proof_text, str | None):
        raise BadEnvelope("has no view, or a log proof that is not a text")
    proof = None if proof_text is None else parse_log_proof(proof_text.encode())
    return ViewEnvelope(
        view=canonical_json.encode(dict(view)),
        log_proof=proof,
        opening=None if proof is None else parse_opening(proof.extra or b""),
        statement=None if status is None else read_statement(canonical_json.encode(status)),
    )
