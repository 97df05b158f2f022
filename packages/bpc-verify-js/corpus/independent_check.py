"""Check views and bundles with nothing of bpc: written from the pages on formats, for comparison with the other two.

    python independent_check.py FOLDER HONEST

It prints {"files": {"name": true or false, …}, "status": {"case": "revoked", …}}.

It answers whether everything holds that a browser can check: form, hashes, signature, chain of events, log proof; and
what status documents say.
"""

import base64
import binascii
import hashlib
import json
import re
import struct
import sys
import zlib
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

HEX64, HEX32 = re.compile("[0-9a-f]{64}"), re.compile("[0-9a-f]{32}")
UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-5]\d\.\d{6}Z", re.ASCII)
HASHES = ("dsl_sha256", "payload_hash", "proof_root_hash", "snapshot_hash", "tests_sha256")
IDS = (
    "battery_product_id",
    "passport_id",
    "passport_version_id",
    "rule_package_version_id",
    "snapshot_id",
    "tenant_id",
)
NAMES = ("compiler_build_id", "signing_key_id")
RECEIPT = {*HASHES, *IDS, *NAMES, "issued_at", "receipt_version", "signature", "signature_alg"}
REQUIRED = ("facts.jsonl", "manifest.json", "payload.json", "proof.json", "qr.png", "qr.txt", "receipt.json")
ENTRIES = {*REQUIRED, "rules.bpc", "tests.bpc", "snapshot.json"}
PAYLOAD = {"access", "battery_product", "compliance", "fields", "issued_at", "passport_id", "passport_version_id"}
EVENT = {"actor_id", "aggregate_id", "aggregate_type", "aggregate_version", "event_type", "occurred_at"}
EVENT_HASHED = EVENT | {"payload_hash", "prev_event_hash", "tenant_id"}
STATUSES = {"PASS", "FAIL", "WARN", "NOT_APPLICABLE"}
PROOF_FILE = "passport.tlog-proof"
STATUS_FILE = "status.json"
STATEMENT = {"entry", "passport_version_id", "reason", "receipt_hash", "signed_at", "signing_key_id", "since", "status"}
STATES = ("in_force", "superseded", "revoked", "ceased")
WORST_LAST = ("in_force", "superseded", "ceased", "revoked")
LIST_URL = re.compile(r"https?://[^/?#@\s]+(/[^?#\s]*)?/status/lists/[0-9a-f-]{36}")


class Wrong(Exception): ...


def require(condition: object, says: str = "") -> None:
    if not condition:
        raise Wrong(says)


def encode(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def refuse_number(text: str) -> None:
    raise Wrong(f"{text} is not whole")


def read(data: bytes) -> Any:
    try:
        value = json.loads(data.decode(), parse_float=refuse_number, parse_constant=refuse_number)
        require(encode(value) == data, "not canonical")
    except (ValueError, RecursionError) as error:
        raise Wrong("not JSON") from error
    return value


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def from_base64(text: str) -> bytes:
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Wrong("not base64") from error
    require(base64.b64encode(raw).decode() == text, "not canonical base64")
    return raw


def is_signed(key: bytes, message: bytes, signature: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def is_id(value: Any) -> bool:
    return isinstance(value, str) and UUID.fullmatch(value) is not None


def is_hash(value: Any) -> bool:
    return isinstance(value, str) and HEX64.fullmatch(value) is not None


def is_time(value: Any) -> bool:
    return isinstance(value, str) and TIME.fullmatch(value) is not None


def is_audiences(value: Any) -> bool:
    return isinstance(value, list) and value == [each for each in ("authority", "interest", "public") if each in value]


def is_natural(value: Any) -> bool:
    return type(value) is int and value >= 0


def is_product(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and set(value) == {"battery_product_id", "name", "sku"}
        and all(isinstance(part, str) for part in value.values())
        and is_id(value["battery_product_id"])
    )


def check_receipt(receipt: Any, key: bytes, key_name: str) -> str:
    require(isinstance(receipt, dict) and set(receipt) == RECEIPT, "receipt")
    require(all(isinstance(text, str) for text in receipt.values()), "receipt")
    require(all(is_hash(receipt[name]) for name in HASHES) and all(is_id(receipt[name]) for name in IDS), "receipt")
    require(all(0 < len(receipt[name]) <= 200 and "\0" not in receipt[name] for name in NAMES), "receipt")
    require(receipt["receipt_version"] == "BPC-RECEIPT-1" and receipt["signature_alg"] == "ED25519", "receipt")
    require(is_time(receipt["issued_at"]), "receipt")
    signature = from_base64(receipt["signature"])
    receipt_hash = sha(encode({name: text for name, text in receipt.items() if name != "signature"}))
    require(len(signature) == 64 and is_signed(key, bytes.fromhex(receipt_hash), signature), "signature")
    require(receipt["signing_key_id"] == key_name, "key name")
    return receipt_hash


def check_field(data: Any) -> None:
    require(isinstance(data, dict) and set(data) == {"access", "op", "path", "salt", "type", "value"}, "field")
    texts = all(isinstance(data[name], str) for name in ("path", "salt", "type"))
    require(texts and HEX32.fullmatch(data["salt"]) and data["op"] == "field" and is_audiences(data["access"]), "field")


def check_root(data: Any) -> None:
    require(isinstance(data, dict) and set(data) == {"access", "battery_product", "facts_hash", "op"}, "root")
    require(data["op"] == "passport" and is_hash(data["facts_hash"]) and is_product(data["battery_product"]), "root")
    require(isinstance(data["access"], list) and all(map(is_audiences, data["access"])), "root")


def hash_node(node_id: int, data: Any, children: list[str], kind: str = "OP") -> str:
    return sha(encode({"children_hashes": children, "data": data, "id": node_id, "type": kind}))


def check_view(data: bytes, key: bytes, key_name: str) -> None:
    view = read(data)
    require(isinstance(view, dict), "view")
    require(set(view) == {"audience", "fields", "receipt", "root", "view_version"}, "members")
    audience, root, fields = view["audience"], view["root"], view["fields"]
    require(audience in {"public", "interest", "authority"} and view["view_version"] == "BPC-VIEW-1", "view")
    check_receipt(view["receipt"], key, key_name)
    require(isinstance(root, dict) and set(root) == {"children", "data", "id"}, "root")
    require(
        is_natural(root["id"]) and isinstance(root["children"], list) and all(map(is_hash, root["children"])), "root"
    )
    check_root(root["data"])
    access = root["data"]["access"]
    require(root["id"] == len(root["children"]) == len(access), "root")
    require(hash_node(root["id"], root["data"], root["children"]) == view["receipt"]["proof_root_hash"], "root hash")
    require(isinstance(fields, list) and all(isinstance(field, dict) for field in fields), "fields")
    require(all(set(field) == {"child", "data", "id"} and is_natural(field["id"]) for field in fields), "fields")
    wanted = [at for at, names in enumerate(access) if audience in names or "public" in names]
    require([field["id"] for field in fields] == wanted, "completeness")
    for field in fields:
        check_field(field["data"])
        require(is_hash(field["child"]) and field["data"]["access"] == access[field["id"]], "field")
        require(hash_node(field["id"], field["data"], [field["child"]]) == root["children"][field["id"]], "field hash")
    paths = [field["data"]["path"] for field in fields]
    require(paths == sorted(set(paths)), "order")
    require(root["data"]["battery_product"]["battery_product_id"] == view["receipt"]["battery_product_id"], "product")


def read_signed(data: bytes) -> tuple[dict[str, Any], bytes, bytes]:
    members = read(data)
    require(isinstance(members, dict) and isinstance(members["signing_key_id"], str), "signed")
    signature = from_base64(members["signature"])
    require(len(signature) == 64, "signature")
    rest = {name: value for name, value in members.items() if name != "signature"}
    return members, signature, bytes.fromhex(sha(encode(rest)))


def make_entry(url: str, index: str) -> dict[str, Any]:
    words = ("in force", "superseded", "revoked", "ceased")
    messages = [{"message": word, "status": f"0x{at}"} for at, word in enumerate(words)]
    place = {"id": f"{url}#{index}", "statusListCredential": url, "statusListIndex": index}
    kind = {"statusPurpose": "message", "statusSize": 2, "type": "BitstringStatusListEntry"}
    return {**place, **kind, "statusMessage": messages}


def read_moment(text: Any) -> datetime:
    require(is_time(text), "time")
    return datetime.fromisoformat(text)


def read_statement(members: dict[str, Any], receipt: dict[str, str]) -> tuple[str, int, str]:
    """The place and the state that a statement about this receipt names."""
    require(set(members) == STATEMENT | {"signature", "status_version", "successor", "tenant_id"}, "statement")
    require(members["status_version"] == "BPC-STATUS-1", "statement")
    url, index = members["entry"]["statusListCredential"], members["entry"]["statusListIndex"]
    require(LIST_URL.fullmatch(url) and re.fullmatch("0|[1-9][0-9]{0,9}", index), "place")
    require(members["entry"] == make_entry(url, index), "entry")
    require(members["successor"] is None or is_id(members["successor"]), "successor")
    require(members["reason"] is None or (len(members["reason"]) <= 2000 and members["reason"] + ""), "reason")
    read_moment(members["since"])
    read_moment(members["signed_at"])
    unsigned = {name: text for name, text in receipt.items() if name != "signature"}
    about = {"passport_version_id": receipt["passport_version_id"], "receipt_hash": sha(encode(unsigned))}
    about["tenant_id"] = receipt["tenant_id"]
    require(all(members[name] == value for name, value in about.items()), "about another passport")
    state = STATES[("issued", *STATES[1:]).index(members["status"])]
    return url, int(index), state


def read_list(members: dict[str, Any], receipt: dict[str, str]) -> tuple[dict[str, Any], bytes]:
    """The credential and the bits of a list of the receipt's tenant."""
    require(set(members) == {"credential", "signature", "signing_key_id", "status_list_version", "tenant_id"}, "list")
    require(members["tenant_id"] == receipt["tenant_id"], "tenant")
    credential = members["credential"]
    subject = credential["credentialSubject"]
    names = {"@context", "credentialSubject", "id", "issuer", "type", "validFrom", "validUntil"}
    require(set(credential) == names and credential["issuer"] and credential["id"], "credential")
    require(set(subject) == {"encodedList", "id", "statusPurpose", "ttl", "type"}, "subject")
    require(credential["@context"] == ["https://www.w3.org/ns/credentials/v2"], "context")
    require(credential["type"] == ["VerifiableCredential", "BitstringStatusListCredential"], "type")
    require((subject["type"], subject["statusPurpose"]) == ("BitstringStatusList", "message"), "subject")
    require(subject["id"] == f"{credential['id']}#list" and subject["encodedList"][0] == "u", "subject")
    valid = read_moment(credential["validUntil"]) - read_moment(credential["validFrom"])
    require(timedelta() < valid <= timedelta(hours=24), "validity")
    text = subject["encodedList"][1:]
    unpacker = zlib.decompressobj(31)
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        bits = unpacker.decompress(raw, (1 << 22) + 1)
    except (binascii.Error, zlib.error) as error:
        raise Wrong("bits") from error
    require(unpacker.eof and not unpacker.unused_data and 131_072 // 4 <= len(bits) <= 1 << 22, "bits")
    return credential, bits


def judge_status(receipt: dict[str, str], documents: list[bytes], now: str, key: bytes, key_name: str) -> str:
    """The state that signed documents give a passport, `not_asked` or `refused`."""
    statements, lists = [], []
    try:
        for data in documents:
            members, signature, digest = read_signed(data)
            if members.get("status_list_version") == "BPC-STATUS-LIST-1":
                lists.append(read_list(members, receipt))
            else:
                statements.append(read_statement(members, receipt))
            require(members["signing_key_id"] == key_name and is_signed(key, digest, signature), "signature")
        if not documents or not statements:
            return "not_asked"
        [(url, index)] = {place[:2] for place in statements}
        states = {state for *_, state in statements if state != "in_force"}
        for credential, bits in lists:
            require(credential["id"] == url and index < len(bits) * 4, "place")
            state = STATES[bits[index // 4] >> (6 - index % 4 * 2) & 3]
            early = read_moment(credential["validFrom"]) - timedelta(minutes=5) > read_moment(now)
            if state != "in_force" or not (early or read_moment(now) > read_moment(credential["validUntil"])):
                states.add(state)
    except (Wrong, LookupError, TypeError, AttributeError, ValueError):
        return "refused"
    return max(states, key=WORST_LAST.index, default="not_asked")


def open_envelope(data: bytes) -> bytes:
    """The view in an envelope, BPC-VIEW-2, whose statement, if there is one, is about its receipt."""
    if not data.endswith(b'"view_version":"BPC-VIEW-2"}'):
        return data
    envelope = read(data)
    require(set(envelope) == {"log_proof", "status", "view", "view_version"} and envelope["log_proof"] is None)
    if envelope["status"] is not None:
        read_signed(encode(envelope["status"]))
        read_statement(envelope["status"], envelope["view"]["receipt"])
    return encode(envelope["view"])


def open_archive(data: bytes) -> dict[str, bytes]:
    entries = split_archive(data)
    require(ENTRIES <= set(entries) <= ENTRIES | {"events.jsonl", PROOF_FILE, STATUS_FILE}, "entries")
    return entries


def split_archive(data: bytes) -> dict[str, bytes]:
    entries: dict[str, bytes] = {}
    at = 0
    try:
        while data[at : at + 4] == b"PK\x03\x04":
            size, _, name_size = struct.unpack_from("<IIH", data, at + 18)
            start = at + 30 + name_size
            entries[data[at + 30 : start].decode("ascii")] = data[start : start + size]
            at = start + size
    except (struct.error, UnicodeDecodeError) as error:
        raise Wrong("archive") from error
    local, central = b"", b""
    for name, content in entries.items():
        raw = name.encode()
        common = (20, 0, 0, 0, 33, zlib.crc32(content), len(content), len(content), len(raw), 0)
        central += (
            struct.pack("<4sHHHHHHIIIHHHHHII", b"PK\1\2", 788, *common, 0, 0, 0, 0o100644 << 16, len(local)) + raw
        )
        local += struct.pack("<4sHHHHHIIIHH", b"PK\3\4", *common) + raw + content
    end = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, len(entries), len(entries), len(central), len(local), 0)
    require(entries and list(entries) == sorted(entries) and local + central + end == data, "archive")
    return entries


def read_lines(data: bytes) -> list[Any]:
    *lines, rest = data.split(b"\n")
    require(rest == b"", "line feed")
    return [read(line) for line in lines]


def check_bundle(data: bytes, key: bytes, key_name: str, policy: dict[str, Any]) -> None:
    entries = open_archive(data)
    receipt, manifest, payload = (read(entries[name]) for name in ("receipt.json", "manifest.json", "payload.json"))
    receipt_hash = check_receipt(receipt, key, key_name)
    version = "BPC-BUNDLE-2" if {PROOF_FILE, STATUS_FILE} & set(entries) else "BPC-BUNDLE-1"
    expected = {
        "bundle_version": version,
        "passport_version_id": receipt["passport_version_id"],
        "public_key": base64.b64encode(key).decode(),
        "signing_key_id": key_name,
    }
    require(manifest == expected, "manifest")
    for name, member in (("payload.json", "payload_hash"), ("snapshot.json", "snapshot_hash")):
        require(sha(entries[name]) == receipt[member], name)
    require(sha(entries["rules.bpc"]) == receipt["dsl_sha256"], "rules")
    require(sha(entries["tests.bpc"]) == receipt["tests_sha256"], "tests")
    check_payload(payload, receipt)
    check_facts(entries, receipt)
    check_proof(read(entries["proof.json"]), payload, receipt, entries["facts.jsonl"])
    parts = [receipt["payload_hash"], receipt["proof_root_hash"], receipt_hash]
    ph, pr, rh = (base64.b32encode(bytes.fromhex(part)).decode().rstrip("=") for part in parts)
    text = f"BPC1|pv={receipt['passport_version_id']}|ph={ph}|pr={pr}|rh={rh}"
    require(entries["qr.txt"] == text.encode(), "qr")
    if "events.jsonl" in entries:
        check_events(read_lines(entries["events.jsonl"]), receipt)
    if STATUS_FILE in entries:
        read_statement(read_signed(entries[STATUS_FILE])[0], receipt)
    if PROOF_FILE in entries:
        check_log_proof(entries[PROOF_FILE], receipt, receipt_hash, policy)


def check_payload(payload: Any, receipt: dict[str, str]) -> None:
    require(isinstance(payload, dict) and set(payload) == PAYLOAD | {"payload_version", "salt"}, "payload")
    require(payload["payload_version"] in {"BPC-PASSPORT-1", "BPC-PASSPORT-2"}, "payload")
    require(isinstance(payload["salt"], str) and HEX32.fullmatch(payload["salt"]), "payload")
    require(is_product(payload["battery_product"]), "payload")
    require(all(map(is_audiences, payload["access"].values())), "payload")
    require(all(entry["status"] in STATUSES for entry in payload["compliance"]), "payload")
    for name in ("passport_id", "passport_version_id", "issued_at"):
        require(payload[name] == receipt[name], name)
    require(payload["battery_product"]["battery_product_id"] == receipt["battery_product_id"], "product")


def check_facts(entries: dict[str, bytes], receipt: dict[str, str]) -> None:
    facts, snapshot = read_lines(entries["facts.jsonl"]), read(entries["snapshot.json"])
    require(set(snapshot) == {"facts", "snapshot_id", "snapshot_version"}, "snapshot")
    require(snapshot["snapshot_id"] == receipt["snapshot_id"], "snapshot")
    refs = []
    for fact in facts:
        require(isinstance(fact, dict) and set(fact) == {"fact_key", "fact_type", "payload", "schema_version"}, "fact")
        require(is_natural(fact["schema_version"]) and fact["schema_version"], "fact")
        refs.append(
            {"fact_key": fact["fact_key"], "fact_type": fact["fact_type"], "payload_hash": sha(encode(fact["payload"]))}
        )
    keys = [(ref["fact_type"], ref["fact_key"]) for ref in refs]
    require(snapshot["facts"] == refs and keys == sorted(set(keys)), "facts")


def check_proof(proof: Any, payload: dict[str, Any], receipt: dict[str, str], facts: bytes) -> None:
    require(isinstance(proof, dict) and set(proof) == {"field_index", "nodes", "proof_version", "root_hash"}, "proof")
    require(proof["proof_version"] in {"BPC-PROOF-1", "BPC-PROOF-2"}, "proof")
    nodes, count = proof["nodes"], len(proof["field_index"])
    for at, node in enumerate(nodes):
        require(set(node) == {"children", "data", "hash", "id", "type"} and node["id"] == at, "node")
        low, high = (-1, count) if at == count else (count, len(nodes) if at < count else at)
        require(all(type(child) is int and low < child < high for child in node["children"]), "children")
        children = [nodes[child]["hash"] for child in node["children"]]
        require(hash_node(at, node["data"], children, node["type"]) == node["hash"], "node hash")
    root, fields = nodes[count], nodes[:count]
    check_root(root["data"])
    require(root["children"] == list(range(count)) and root["type"] == "OP", "root")
    require(root["hash"] == proof["root_hash"] == receipt["proof_root_hash"], "root hash")
    require(root["data"]["facts_hash"] == sha(facts), "facts hash")
    require(root["data"]["battery_product"] == payload["battery_product"], "product")
    nested: dict[str, Any] = {}
    for at, field in enumerate(fields):
        check_field(field["data"])
        require(proof["field_index"].get(field["data"]["path"]) == at, "index")
        require(nodes[field["children"][0]]["data"].get("op") == "derivation", "derivation")
        *folders, name = field["data"]["path"].split(".")
        target = nested
        for folder in folders:
            target = target.setdefault(folder, {})
        target[name] = field["data"]["value"]
    access = {field["data"]["path"]: field["data"]["access"] for field in fields}
    require(nested == payload["fields"] and access == payload["access"], "payload fields")
    require(root["data"]["access"] == list(access.values()) and list(access) == sorted(access), "access")
    used = {child for node in nodes for child in node["children"]}
    require(used == set(range(len(nodes))) - {count}, "unused")


def check_events(events: list[Any], receipt: dict[str, str]) -> None:
    require(events, "no event")
    previous = None
    for number, event in enumerate(events, 1):
        require(isinstance(event, dict) and set(event) == EVENT_HASHED | {"event_hash", "payload"}, "event")
        require(event["aggregate_version"] == number and event["prev_event_hash"] == previous, "chain")
        require(event["aggregate_type"] == "PassportVersion" and event["tenant_id"] == receipt["tenant_id"], "chain")
        require(event["aggregate_id"] == receipt["passport_version_id"] and is_time(event["occurred_at"]), "chain")
        require(sha(encode(event["payload"])) == event["payload_hash"], "event payload")
        require(sha(encode({name: event[name] for name in EVENT_HASHED})) == event["event_hash"], "event hash")
        previous = event["event_hash"]


def read_policy(text: str) -> dict[str, Any]:
    lines = [line.split() for line in text.splitlines() if line]
    keys = {line[-1].split("+", 2)[0]: line[-1] for line in lines if line[0] in {"log", "witness"}}
    names = {line[1]: line[2].split("+", 1)[0] for line in lines if line[0] == "witness"}
    return {"log": next(line[1].split("+", 1)[0] for line in lines if line[0] == "log"), "keys": keys, "names": names}


def check_log_proof(data: bytes, receipt: dict[str, str], receipt_hash: str, policy: dict[str, Any]) -> None:
    try:
        head, note = data.decode().split("\n\n", 1)
        text, signatures = note.rsplit("\n\n", 1)
    except ValueError as error:
        raise Wrong("log proof") from error
    lines = head.split("\n")
    require(lines[0] == "c2sp.org/tlog-proof@v1" and len(lines) >= 3, "log proof")
    require(lines[1].startswith("extra ") and lines[2].startswith("index "), "log proof")
    opening = read(from_base64(lines[1][6:]))
    require(set(opening) == {"opening_version", "salt", "statement"} and is_hash(opening["salt"]), "opening")
    require(opening["opening_version"] == "BPC-LOG-1", "opening")
    statement = opening["statement"]
    require(statement["kind"] in {"PASSPORT_ISSUED", "PASSPORT_EXISTED"}, "statement")
    require(statement["receipt_hash"] == receipt_hash and statement["aggregate_type"] == "PassportVersion", "statement")
    require(statement["aggregate_id"] == receipt["passport_version_id"], "statement")
    require((statement["signing_key_id"], statement["tenant_id"]) == (receipt["signing_key_id"], receipt["tenant_id"]))
    commitment = hashlib.sha256(b"BPC-LOG-1\n" + bytes.fromhex(opening["salt"]) + encode(statement)).digest()
    checkpoint = text.split("\n")
    require(len(checkpoint) >= 3 and checkpoint[0] == policy["log"] and note.endswith("\n"), "checkpoint")
    require(re.fullmatch("0|[1-9][0-9]*", lines[2][6:]) and re.fullmatch("0|[1-9][0-9]*", checkpoint[1]), "number")
    check_signatures(f"{text}\n", signatures.rstrip("\n").split("\n"), policy)
    leaf = hashlib.sha256(b"\0\1" + commitment).digest()
    root = climb(leaf, int(lines[2][6:]), int(checkpoint[1]), [from_base64(line) for line in lines[3:]])
    require(root == from_base64(checkpoint[2]), "inclusion")


def check_signatures(text: str, lines: list[str], policy: dict[str, Any]) -> None:
    seen = set()
    for line in lines:
        words = line.split(" ")
        require(len(words) == 3 and words[0] == "—", "signature line")
        name, raw = words[1], from_base64(words[2])
        known = policy["keys"].get(name)
        if known is None or name == policy["names"]["w1"]:
            continue
        _, key_id, encoded = known.split("+", 2)
        key = from_base64(encoded)[1:]
        if raw[:4].hex() != key_id:
            continue
        if name == policy["log"]:
            require(is_signed(key, text.encode(), raw[4:]), "log signature")
        else:
            (seconds,) = struct.unpack(">Q", raw[4:12])
            require(is_signed(key, f"cosignature/v1\ntime {seconds}\n{text}".encode(), raw[12:]), "cosignature")
        seen.add(name)
    require({policy["log"], policy["names"]["w0"]} <= seen, "quorum")


def climb(node: bytes, index: int, size: int, hashes: list[bytes]) -> bytes:
    require(0 <= index < size, "index")
    if size == 1:
        require(not hashes, "too many hashes")
        return node
    require(hashes, "too few hashes")
    split = 1 << ((size - 1).bit_length() - 1)
    if index < split:
        return hashlib.sha256(b"\1" + climb(node, index, split, hashes[:-1]) + hashes[-1]).digest()
    return hashlib.sha256(b"\1" + hashes[-1] + climb(node, index - split, size - split, hashes[:-1])).digest()


def check_file(data: bytes, key: bytes, key_name: str, policy: dict[str, Any]) -> bool:
    try:
        if data.startswith(b"{"):
            check_view(open_envelope(data), key, key_name)
        else:
            check_bundle(data, key, key_name, policy)
    except (Wrong, LookupError, TypeError, AttributeError, ValueError):
        return False
    return True


if __name__ == "__main__":
    folder, honest = Path(sys.argv[1]), Path(sys.argv[2])
    [trusted] = json.loads((honest / "keys.json").read_text())["keys"]
    trusted_key = base64.b64decode(trusted["public_key"])
    trusted_policy = read_policy((honest / "policy.txt").read_text())
    files = json.loads((folder / "expected.json").read_text())
    verdicts = {
        name: check_file((folder / name).read_bytes(), trusted_key, trusted["key_id"], trusted_policy) for name in files
    }
    cases = json.loads((folder / "status.json").read_text())
    statuses = {
        name: judge_status(
            json.loads((folder / case["file"]).read_bytes())["receipt"],
            [(folder / each).read_bytes() for each in case["documents"]],
            case["now"],
            trusted_key,
            trusted["key_id"],
        )
        for name, case in cases.items()
    }
    print(json.dumps({"files": verdicts, "status": statuses}))
