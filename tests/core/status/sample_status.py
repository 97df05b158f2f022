"""Status lists and statements for tests, signed by whoever is asked to, about the passport of a bundle."""

import gzip
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from bpc.core.audit.signing import Seed, Signer
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import PassportVersionId
from bpc.core.passport.bundle import Bundle, build_bundle, read_bundle, read_manifest, write_bundle
from bpc.core.passport.receipt import read_receipt
from bpc.core.status.signed_documents import add_signature
from bpc.core.status.statements import StatusPlace, StatusStatement, encode_unsigned_statement
from bpc.core.status.status_list import ListHead, PassportState, encode_unsigned_list, pack_states
from tests.core.sample_passports import SEED

BASE_URL = "https://passports.example"
LIST_URL = f"{BASE_URL}/status/lists/77777777-0000-4000-8000-000000000007"
INDEX = 94_567
NOW = datetime(2027, 6, 1, 12, tzinfo=UTC)
REVOKED_AT = datetime(2027, 5, 1, tzinfo=UTC)
SUCCESSOR = PassportVersionId(UUID("88888888-0000-4000-8000-000000000008"))


def sign_document(unsigned: bytes, seed: Seed = SEED) -> bytes:
    return add_signature(unsigned, Signer(seed).sign(sha256(unsigned)))


def make_statement(bundle: bytes, *, seed: Seed = SEED, **changes: Any) -> bytes:
    """A signed statement about the passport of a bundle; without changes, the one that binds it to its index."""
    receipt = read_receipt(read_bundle(bundle)["receipt.json"])
    members: dict[str, Any] = {
        "passport_version_id": receipt.passport_version_id,
        "receipt_hash": receipt.hash(),
        "tenant_id": receipt.tenant_id,
        "place": StatusPlace(LIST_URL, INDEX),
        "status": "issued",
        "since": receipt.issued_at,
        "reason": None,
        "successor": None,
        "signed_at": NOW,
        "signing_key_id": receipt.signing_key_id,
    }
    return sign_document(encode_unsigned_statement(StatusStatement(**{**members, **changes})), seed)


def make_list(
    bundle: bytes, states: Mapping[int, PassportState] | None = None, *, seed: Seed = SEED, **changes: Any
) -> bytes:
    """A signed list in which the passport of the bundle has the state at `INDEX`."""
    receipt = read_receipt(read_bundle(bundle)["receipt.json"])
    members: dict[str, Any] = {
        "url": LIST_URL,
        "issuer": BASE_URL,
        "tenant_id": receipt.tenant_id,
        "signing_key_id": receipt.signing_key_id,
        "valid_from": NOW - timedelta(hours=1),
        "valid_until": NOW + timedelta(hours=23),
    }
    bits = gzip.compress(pack_states((states or {}).items()), mtime=0)
    return sign_document(encode_unsigned_list(ListHead(**{**members, **changes}), bits), seed)


def rebuild_bundle(
    data: bytes, *, log_proof: bytes | None = None, status: bytes | None = None, events: bytes | None = None
) -> bytes:
    """The same passport in a bundle with these entries."""
    bundle: Bundle = read_bundle(data)
    return write_bundle(
        build_bundle(
            payload=bundle["payload.json"],
            proof=bundle["proof.json"],
            receipt=bundle["receipt.json"],
            snapshot=bundle["snapshot.json"],
            facts=bundle["facts.jsonl"],
            rules=bundle["rules.bpc"],
            tests=bundle["tests.bpc"],
            public_key=read_manifest(bundle["manifest.json"]).public_key,
            qr_png=bundle["qr.png"],
            events=events,
            log_proof=log_proof,
            status=status,
        )
    )
