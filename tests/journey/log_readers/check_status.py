"""Judges bundles over time, and imports nothing of ours: written from the format pages alone.

    check_status.py BUNDLE KEYS NOW LOG_KEY STATUS…

KEYS is a bpc-keys.json; LOG_KEY is a verifier key, or `-` for none; a STATUS is a signed list or statement. It prints
one line of JSON: whether the bundle is to be relied on, and what is known of its status. It does not compile anything.
"""

import base64
import gzip
import hashlib
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

from check_log import check_proof  # type: ignore[import-not-found] # beside this file
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

Document = dict[str, Any]
WORDS = ("in_force", "superseded", "revoked", "ceased")


class Wrong(Exception):
    """The bundle is not to be relied on."""


def hash_json(value: object) -> bytes:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).digest()


def leave_out(document: Document, *names: str) -> Document:
    return {name: value for name, value in document.items() if name not in names}


def find_key(keys: list[Document], name: str, tenant: str) -> Document:
    for key in keys:
        if key["key_id"] == name:
            if key.get("tenant_id") not in (None, tenant):
                raise Wrong("the key is another tenant's")
            return key
    raise Wrong("nobody trusts this key")


def require_signature(document: Document, key: Document) -> None:
    public_key = Ed25519PublicKey.from_public_bytes(base64.b64decode(key["public_key"]))
    try:
        public_key.verify(base64.b64decode(document["signature"]), hash_json(leave_out(document, "signature")))
    except InvalidSignature:
        raise Wrong("the signature is wrong") from None


def check_key_time(receipt: Document, key: Document, log: Document | None) -> None:
    """A key that is compromised since a time counts only for what the log shows before it."""
    since = key.get("compromised_since")
    if since is None:
        return
    if log is None or log["statement"]["at"] >= since:
        raise Wrong("the key is compromised, and no log shows that it signed before")


def check_history(events: list[Document], receipt: Document, log: Document | None) -> None:
    """The events are one chain, and the one that the entry of the log names is in it."""
    before = None
    for number, event in enumerate(events, 1):
        if (event["aggregate_version"], event["prev_event_hash"]) != (number, before):
            raise Wrong("an event is missing")
        if event["aggregate_id"] != receipt["passport_version_id"] or event["tenant_id"] != receipt["tenant_id"]:
            raise Wrong("an event is of another passport")
        if hash_json(event["payload"]).hex() != event["payload_hash"]:
            raise Wrong("the payload of an event was changed")
        if hash_json(leave_out(event, "payload", "event_hash")).hex() != event["event_hash"]:
            raise Wrong("an event was changed")
        before = event["event_hash"]
    if events and log is not None:
        version = log["statement"]["aggregate_version"]
        if len(events) < version or events[version - 1]["event_hash"] != log["statement"]["event_hash"]:
            raise Wrong("the history is not the one that the log names")


def read_bits(document: Document, index: int) -> str:
    encoded = document["credential"]["credentialSubject"]["encodedList"]
    bits = gzip.decompress(base64.urlsafe_b64decode(encoded[1:] + "=" * (-len(encoded[1:]) % 4)))
    if len(bits) * 4 < 131_072:
        raise Wrong("the list is too short")
    return WORDS[bits[index // 4] >> (6 - 2 * (index % 4)) & 3]


def judge_status(
    receipt: Document, bound: Document | None, files: list[Document], keys: list[Document], now: str
) -> str:
    """What the issuer says of the passport."""
    tenant = receipt["tenant_id"]
    receipt_hash = hash_json(leave_out(receipt, "signature")).hex()
    compromised = [key["key_id"] for key in keys if key.get("compromised_since")]
    if any(file["signing_key_id"] in compromised for file in files):
        raise Wrong("a key that was stolen says nothing of the status")
    statements = [] if bound is None or bound["signing_key_id"] in compromised else [bound]
    statements += [file for file in files if "status_version" in file]
    lists = [file for file in files if "status_list_version" in file]
    for document in [*statements, *lists]:
        if document["tenant_id"] != tenant:
            raise Wrong("the status is another tenant's")
        require_signature(document, find_key(keys, document["signing_key_id"], tenant))
    for statement in statements:
        if (statement["passport_version_id"], statement["receipt_hash"]) != (
            receipt["passport_version_id"],
            receipt_hash,
        ):
            raise Wrong("the status is of another passport")
    if not files or not statements:
        return "not_asked"
    entry = statements[0]["entry"]
    verdicts = [statement["status"] for statement in statements if statement["status"] != "issued"]
    for document in lists:
        credential = document["credential"]
        if credential["id"] != entry["statusListCredential"]:
            raise Wrong("this is another list")
        word = read_bits(document, int(entry["statusListIndex"]))
        if word != "in_force" or credential["validFrom"] <= now <= credential["validUntil"]:
            verdicts.append(word)
    order = ("not_asked", "in_force", "superseded", "ceased", "revoked")
    return max(verdicts, key=order.index, default="not_asked")


def check_bundle(bundle: Path, keys: list[Document], now: str, log_key: str, files: list[Document]) -> str:
    with zipfile.ZipFile(bundle) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    receipt = json.loads(entries["receipt.json"])
    for name, member in (("payload.json", "payload_hash"), ("snapshot.json", "snapshot_hash")):
        if hashlib.sha256(entries[name]).hexdigest() != receipt[member]:
            raise Wrong(f"{name} was changed")
    key = find_key(keys, receipt["signing_key_id"], receipt["tenant_id"])
    require_signature(receipt, key)
    log = None
    if "passport.tlog-proof" in entries and log_key != "-":
        proof = bundle.with_suffix(".tlog-proof")
        proof.write_bytes(entries["passport.tlog-proof"])
        log = check_proof(proof, [log_key])
        if log["statement"]["receipt_hash"] != hash_json(leave_out(receipt, "signature")).hex():
            raise Wrong("the entry of the log is about another passport")
    check_key_time(receipt, key, log)
    check_history([json.loads(line) for line in entries.get("events.jsonl", b"").splitlines()], receipt, log)
    bound = json.loads(entries["status.json"]) if "status.json" in entries else None
    return judge_status(receipt, bound, files, keys, now)


def main(arguments: list[str]) -> None:
    bundle, key_file, now, log_key, *status_files = arguments
    keys = json.loads(Path(key_file).read_bytes())["keys"]
    files = [json.loads(Path(file).read_bytes()) for file in status_files]
    try:
        status = check_bundle(Path(bundle), keys, now, log_key, files)
        answer = {"ok": status != "revoked", "status": status}
    except Wrong as wrong:
        answer = {"ok": False, "status": "not_asked", "why": str(wrong)}
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
