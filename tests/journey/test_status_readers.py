"""A corpus of bundles over time: `bpc verify` and a script that imports nothing of ours give the same verdicts."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from bpc.core.audit.signing import PublicKey, Seed, read_key_set, to_base64
from bpc.core.formats.hashes import to_hex
from bpc.core.formats.timestamps import format_time
from bpc.core.passport.bundle import read_bundle
from bpc.core.passport.receipt import read_receipt
from bpc.core.status.status_list import PassportState
from bpc.core.tlog.entries import encode_opening, make_entry
from bpc.core.tlog.policy import parse_policy
from bpc.core.tlog.proofs import LogProof
from bpc.core.verify.bundle import verify_bundle
from bpc.core.verify.status_step import StatusQuestion
from tests.core.sample_passports import (
    ISSUED_AT,
    KEY,
    OTHER_KEY,
    OTHER_SEED,
    SMALL_INPUT,
    encode_event_line,
    make_event_chain,
    make_small_bundle,
)
from tests.core.status.sample_status import INDEX, NOW, REVOKED_AT, make_list, make_statement, rebuild_bundle
from tests.core.tlog.sample_log import SampleLog

READER = Path(__file__).parent / "log_readers" / "check_status.py"
PLAIN = make_small_bundle()
RECEIPT = read_receipt(read_bundle(PLAIN)["receipt.json"])
CHAIN = make_event_chain(SMALL_INPUT, 4)
LOG = SampleLog()
NOBODY = UUID(int=7)


def make_proof(at: datetime) -> bytes:
    """A proof that the log has the passport since then; its entry names the second event."""
    members = {
        "aggregate_id": str(RECEIPT.passport_version_id),
        "aggregate_type": "PassportVersion",
        "aggregate_version": 2,
        "event_hash": to_hex(CHAIN[1].event_hash),
        "receipt_hash": to_hex(RECEIPT.hash()),
        "signing_key_id": RECEIPT.signing_key_id,
        "tenant_id": str(RECEIPT.tenant_id),
    }
    entry = make_entry("PASSPORT_ISSUED", at, members, salt=bytes(32))
    log = SampleLog()
    log.append([b"\x01" + bytes(32), entry.data, b"\x01" + bytes(range(32))])
    checkpoint = log.sign_checkpoint().encode()
    proof = LogProof(index=1, hashes=log.prove_entry(1), checkpoint=checkpoint, extra=encode_opening(entry))
    return proof.encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class OldBundle:
    """A bundle as somebody has it years later, with what they know: verdict and whether it may be relied on."""

    verdict: str
    ok: bool
    status: tuple[bytes, ...] = ()
    bound: bytes | None = make_statement(PLAIN)
    logged_at: datetime | None = ISSUED_AT
    events: bytes | None = None
    key: PublicKey = KEY
    key_members: Mapping[str, str | None] | None = None


def join_events(*versions: int) -> bytes:
    return b"".join(encode_event_line(CHAIN[version - 1]) for version in versions)


def make_state_list(state: PassportState, seed: Seed | None = None) -> bytes:
    return make_list(PLAIN, {INDEX: state}) if seed is None else make_list(PLAIN, {INDEX: state}, seed=seed)


STALE: dict[str, Any] = {"valid_from": NOW - timedelta(days=9), "valid_until": NOW - timedelta(days=8)}
COMPROMISED = {"status": "COMPROMISED", "tenant_id": str(RECEIPT.tenant_id)}
CORPUS: Mapping[str, OldBundle] = {
    "in force": OldBundle(verdict="in_force", ok=True, status=(make_list(PLAIN),)),
    "not asked": OldBundle(verdict="not_asked", ok=True),
    "superseded": OldBundle(verdict="superseded", ok=True, status=(make_state_list(PassportState.SUPERSEDED),)),
    "ceased": OldBundle(verdict="ceased", ok=True, status=(make_state_list(PassportState.CEASED),)),
    "revoked": OldBundle(verdict="revoked", ok=False, status=(make_state_list(PassportState.REVOKED),)),
    "revoked, by its statement": OldBundle(
        verdict="revoked", ok=False, status=(make_statement(PLAIN, status="revoked", since=REVOKED_AT),)
    ),
    "revoked, in an old list": OldBundle(
        verdict="revoked", ok=False, status=(make_list(PLAIN, {INDEX: PassportState.REVOKED}, **STALE),)
    ),
    "an old list without a word": OldBundle(verdict="not_asked", ok=True, status=(make_list(PLAIN, **STALE),)),
    "from before status lists": OldBundle(
        verdict="revoked",
        ok=False,
        bound=None,
        status=(make_statement(PLAIN), make_state_list(PassportState.REVOKED)),
    ),
    "without a place": OldBundle(verdict="not_asked", ok=True, bound=None, status=(make_list(PLAIN),)),
    "another tenant's list": OldBundle(verdict="not_asked", ok=False, status=(make_list(PLAIN, tenant_id=NOBODY),)),
    "a list that a stranger signed": OldBundle(
        verdict="not_asked", ok=False, status=(make_state_list(PassportState.IN_FORCE, OTHER_SEED),)
    ),
    "another passport's statement": OldBundle(
        verdict="not_asked", ok=False, status=(make_statement(PLAIN, receipt_hash=bytes(32)),)
    ),
    "a key that nobody trusts": OldBundle(verdict="not_asked", ok=False, key=OTHER_KEY),
    "whole history": OldBundle(verdict="not_asked", ok=True, events=join_events(1, 2)),
    "history with later events": OldBundle(verdict="not_asked", ok=True, events=join_events(1, 2, 3, 4)),
    "removed history, at the beginning": OldBundle(verdict="not_asked", ok=False, events=join_events(2)),
    "removed history, in between": OldBundle(verdict="not_asked", ok=False, events=join_events(1, 3)),
    "removed history, up to the signature": OldBundle(verdict="not_asked", ok=False, events=join_events(1)),
    "another history": OldBundle(
        verdict="not_asked",
        ok=False,
        events=join_events(1, 2).replace(b"STEP_1", b"STEP_9"),
    ),
    "another tenant's key": OldBundle(
        verdict="not_asked",
        ok=False,
        key_members={"tenant_id": str(NOBODY), "tenant": "nobody"},
    ),
    "compromised after": OldBundle(
        verdict="not_asked",
        ok=True,
        key_members={**COMPROMISED, "compromised_since": format_time(ISSUED_AT + timedelta(days=1))},
    ),
    "compromised after, and the status by the same key": OldBundle(
        verdict="not_asked",
        ok=False,
        status=(make_list(PLAIN),),
        key_members={**COMPROMISED, "compromised_since": format_time(ISSUED_AT + timedelta(days=1))},
    ),
    "compromised before": OldBundle(
        verdict="not_asked",
        ok=False,
        key_members={**COMPROMISED, "compromised_since": format_time(ISSUED_AT - timedelta(days=1))},
    ),
    "compromised, and in no log": OldBundle(
        verdict="not_asked",
        ok=False,
        logged_at=None,
        key_members={**COMPROMISED, "compromised_since": format_time(ISSUED_AT + timedelta(days=1))},
    ),
}


def write_case(folder: Path, case: OldBundle) -> tuple[Path, Path, list[Path]]:
    proof = None if case.logged_at is None else make_proof(case.logged_at)
    bundle, keys = folder / "bundle.zip", folder / "keys.json"
    bundle.write_bytes(rebuild_bundle(PLAIN, log_proof=proof, status=case.bound, events=case.events))
    key = {"key_id": RECEIPT.signing_key_id, "public_key": to_base64(case.key), **(case.key_members or {})}
    keys.write_text(json.dumps({"keys": [key]}))
    files = [folder / f"status-{number}.json" for number in range(len(case.status))]
    for file, document in zip(files, case.status, strict=True):
        file.write_bytes(document)
    return bundle, keys, files


def test_two_programs_judge_old_bundles_alike(tmp_path: Path) -> None:
    policy = parse_policy(f"log {LOG.signer.verifier}\nquorum none".encode())
    for number, (name, case) in enumerate(CORPUS.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        bundle, keys, files = write_case(folder, case)

        report = verify_bundle(
            bundle.read_bytes(),
            pins=read_key_set(keys.read_bytes()),
            policy=policy,
            question=StatusQuestion(documents=case.status, now=NOW),
        )
        arguments = [str(bundle), str(keys), format_time(NOW), str(LOG.signer.verifier), *map(str, files)]
        command = [sys.executable, str(READER), *arguments]
        answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

        assert (report.ok, report.status.name) == (case.ok, case.verdict), (name, report.cause)
        assert (answer["ok"], answer["status"]) == (case.ok, case.verdict), (name, answer)
