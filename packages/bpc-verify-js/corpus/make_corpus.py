"""Make good and bad views and bundles of the honest ones beside this file, and say of each which it is.

    python make_corpus.py FOLDER

It writes the files, expected.json: {"name": true or false}, and status.json: what signed status documents say, case by
case.

It needs nothing of bpc: the standard library, and `cryptography` to sign what a forger would sign.
"""

import base64
import copy
import gzip
import hashlib
import json
import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

HONEST = Path(__file__).parent / "honest"
# The private key of the honest files. Everybody has it: it signs test files, and nothing else.
ISSUER = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
STRANGER = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
LOG_PROOF = "passport.tlog-proof"


def encode(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def digest(value: Any) -> str:
    return hashlib.sha256(value if isinstance(value, bytes) else encode(value)).hexdigest()


def sign(receipt: dict[str, Any], key: Ed25519PrivateKey) -> None:
    receipt.pop("signature", None)
    receipt["signature"] = base64.b64encode(key.sign(bytes.fromhex(digest(receipt)))).decode()


def alter(leaf: Any) -> Any:
    """Another value of the same kind, as close as possible."""
    if isinstance(leaf, bool):
        return not leaf
    if isinstance(leaf, int):
        return leaf + 1
    if leaf is None:
        return "x"
    if not leaf:
        return "x"
    last = leaf[-1]
    swaps = {"0": "1", "f": "e", "Z": "Y"}
    if last == "=":  # base64: one bit of the last byte
        raw = bytearray(base64.b64decode(leaf))
        raw[-1] ^= 1
        return base64.b64encode(raw).decode()
    return leaf[:-1] + swaps.get(last, "0")


def iterate_leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for name in value:
            yield from iterate_leaves(value[name], (*path, name))
    elif isinstance(value, list):
        for at, part in enumerate(value):
            yield from iterate_leaves(part, (*path, at))
    else:
        yield path


def change_at(value: Any, path: tuple[Any, ...], change: Callable[[Any], Any]) -> Any:
    changed = copy.deepcopy(value)
    target = changed
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = change(target[path[-1]])
    return changed


def read_archive(data: bytes) -> dict[str, bytes]:
    entries, at = {}, 0
    while data[at : at + 4] == b"PK\x03\x04":
        size, _, name_size = struct.unpack_from("<IIH", data, at + 18)
        start = at + 30 + name_size
        entries[data[at + 30 : start].decode()] = data[start : start + size]
        at = start + size
    return entries


def write_archive(entries: dict[str, bytes]) -> bytes:
    local, central = b"", b""
    for name in sorted(entries):
        content, raw = entries[name], name.encode()
        common = (20, 0, 0, 0, 33, zlib.crc32(content), len(content), len(content), len(raw), 0)
        head = struct.pack("<4sHHHHHIIIHH", b"PK\x03\x04", *common)
        central += struct.pack("<4sHHHHHHIIIHHHHHII", b"PK\x01\x02", 788, *common, 0, 0, 0, 0o100644 << 16, len(local))
        central += raw
        local += head + raw + content
    end = struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, len(entries), len(entries), len(central), len(local), 0)
    return local + central + end


def list_views() -> Iterator[tuple[str, bytes, bool]]:
    for audience in ("public", "interest", "authority"):
        data = (HONEST / f"view-{audience}.json").read_bytes()
        yield f"view-{audience}", data, True
        yield f"view-{audience}-cut", data[:-1], False
    data = (HONEST / "view-public.json").read_bytes()
    view = json.loads(data)
    for path in iterate_leaves(view):
        name = ".".join(map(str, path))
        yield f"view-altered-{name}", encode(change_at(view, path, alter)), False
        if path[0] == "receipt" and path[-1] != "signature":
            forged = change_at(view, path, alter)
            sign(forged["receipt"], STRANGER)
            yield f"view-forged-{name}", encode(forged), False
    yield from list_view_spellings(data, view)


def list_view_spellings(data: bytes, view: Any) -> Iterator[tuple[str, bytes, bool]]:
    """Changes that a lenient reader would not notice, and changes that are signed again by the right key."""
    text, first_id = data.decode(), f'"id":{view["fields"][0]["id"]}'
    spellings = {
        "spaces": json.dumps(view, sort_keys=True).encode(),
        "line-end": data + b"\n",
        "byte-order-mark": b"\xef\xbb\xbf" + data,
        "unsorted": json.dumps(dict(reversed(view.items())), separators=(",", ":")).encode(),
        "twice": (text[:-1] + ',"audience":"public"}').encode(),
        "escape": text.replace("public", "\\u0070ublic", 1).encode(),
        "fraction": text.replace(first_id, f"{first_id}.0", 1).encode(),
        "exponent": text.replace(first_id, f"{first_id}e0", 1).encode(),
        "upper-case-hash": text.replace(view["root"]["children"][0], view["root"]["children"][0].upper()).encode(),
        "not-utf-8": data.replace(b"public", b"\xffublic", 1),
        "empty": b"{}",
        "nothing": b"{",
        "deep": b"{" + b'"a":[' * 200,
        "prototype": (text[:-1] + ',"__proto__":{}}').encode(),
    }
    for name, content in spellings.items():
        yield f"view-spelled-{name}", content, False
    changes: dict[str, Callable[[Any], Any]] = {
        "field-left-out": lambda each: each["fields"].pop(),
        "first-field-left-out": lambda each: each["fields"].pop(0),
        "field-twice": lambda each: each["fields"].append(each["fields"][-1]),
        "fields-reversed": lambda each: each["fields"].reverse(),
        "no-fields": lambda each: each["fields"].clear(),
        "child-added": lambda each: each["root"]["children"].append("ab" * 32),
        "access-added": lambda each: each["root"]["data"]["access"].append(["public"]),
        "access-hidden": lambda each: each["root"]["data"]["access"][0].clear(),
        "audience-interest": lambda each: each.update(audience="interest"),
        "unknown-member": lambda each: each.update(more="x"),
        "unknown-field-member": lambda each: each["fields"][0].update(more="x"),
        "unknown-data-member": lambda each: each["fields"][0]["data"].update(more="x"),
        "no-receipt": lambda each: each.pop("receipt"),
        "no-signature": lambda each: each["receipt"].pop("signature"),
        "product-renamed": lambda each: each["root"]["data"]["battery_product"].update(name="Another"),
        "value-of-another-kind": lambda each: each["fields"][0]["data"].update(value=[1, None, {"a": True}]),
        "large-number": lambda each: each["fields"][0].update(id=10**30),
        "negative-number": lambda each: each["fields"][0].update(id=-1),
        "true-for-one": lambda each: each["fields"][0].update(id=True),
        "root-is-a-list": lambda each: each.update(root=[]),
        "fields-are-texts": lambda each: each.update(fields=["a"]),
    }
    for name, change in changes.items():
        changed = copy.deepcopy(view)
        change(changed)
        yield f"view-changed-{name}", encode(changed), False
    for name, member, text_value in (
        ("other-key-name", "signing_key_id", "somebody-else"),
        ("other-root", "proof_root_hash", "ab" * 32),
        ("other-product", "battery_product_id", "55555555-0000-4000-8000-000000000006"),
    ):
        changed = copy.deepcopy(view)
        changed["receipt"][member] = text_value
        sign(changed["receipt"], ISSUER)
        yield f"view-signed-{name}", encode(changed), False
    changed = copy.deepcopy(view)  # facts that a view does not show may differ: the issuer signed it
    changed["receipt"]["payload_hash"] = "ab" * 32
    sign(changed["receipt"], ISSUER)
    yield "view-signed-other-payload", encode(changed), True


def list_bundles() -> Iterator[tuple[str, bytes, bool]]:
    for name in ("rich", "audited", "logged"):
        data = (HONEST / f"{name}.zip").read_bytes()
        entries = read_archive(data)
        yield f"bundle-{name}", data, True
        yield f"bundle-{name}-cut", data[:-1], False
        yield f"bundle-{name}-longer", data + b"\0", False
        yield f"bundle-{name}-directory", data[:-30] + b"\1" + data[-29:], False
        yield f"bundle-{name}-header", data[:10] + b"\1" + data[11:], False
        yield f"bundle-{name}-checksum", data[:14] + bytes([data[14] ^ 1]) + data[15:], False
        for entry, content in entries.items():
            if entry == "qr.png":  # its pixels are checked by bpc alone
                continue
            yield (
                f"bundle-{name}-without-{entry}",
                write_archive({each: text for each, text in entries.items() if each != entry}),
                entry == "events.jsonl",
            )
            for at, label in ((0, "first"), (len(content) // 2, "middle"), (len(content) - 1, "last")):
                if 0 <= at < len(content) and (entry, label) != (LOG_PROOF, "middle"):  # ML-DSA-44
                    flipped = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
                    yield f"bundle-{name}-{entry}-{label}", write_archive({**entries, entry: flipped}), False
            yield f"bundle-{name}-{entry}-empty", write_archive({**entries, entry: b""}), content == b""
            yield f"bundle-{name}-{entry}-line", write_archive({**entries, entry: content + b"\n"}), False
        yield f"bundle-{name}-unknown-entry", write_archive({**entries, "more.txt": b""}), False
        forged = json.loads(entries["receipt.json"])
        sign(forged, STRANGER)
        manifest = json.loads(entries["manifest.json"])
        manifest["public_key"] = base64.b64encode(STRANGER.public_key().public_bytes_raw()).decode()
        stolen = {**entries, "receipt.json": encode(forged), "manifest.json": encode(manifest)}
        yield f"bundle-{name}-signed-by-a-stranger", write_archive(stolen), False
    yield from list_log_proofs()


def list_log_proofs() -> Iterator[tuple[str, bytes, bool]]:
    entries = read_archive((HONEST / "logged.zip").read_bytes())
    lines = entries[LOG_PROOF].decode().split("\n")
    for at, line in enumerate(lines):
        if line and "witness.example/w2" not in line:  # ML-DSA-44, which browsers cannot check
            start, space, word = line.rpartition(" ")
            changed = [*lines[:at], f"{start}{space}{alter(word)}", *lines[at + 1 :]]
            yield f"proof-line-{at}", write_archive({**entries, LOG_PROOF: "\n".join(changed).encode()}), False
        dropped = [*lines[:at], *lines[at + 1 :]]
        if line and "witness.example/w2" not in line:
            yield f"proof-without-line-{at}", write_archive({**entries, LOG_PROOF: "\n".join(dropped).encode()}), False
    without_ml_dsa = [line for line in lines if "witness.example/w2" not in line]
    yield "proof-without-ml-dsa", write_archive({**entries, LOG_PROOF: "\n".join(without_ml_dsa).encode()}), True


LIST_URL = "https://passports.example/status/lists/77777777-0000-4000-8000-000000000007"
INDEX = 94_567
ENTRIES = 131_072
NOW, YESTERDAY, TOMORROW = (f"2027-06-{day}T12:00:00.000000Z" for day in ("02", "01", "03"))
STATES = {"in_force": 0, "superseded": 1, "revoked": 2, "ceased": 3}


def make_entry(url: str, index: int) -> dict[str, Any]:
    words = ("in force", "superseded", "revoked", "ceased")
    return {
        "id": f"{url}#{index}",
        "statusListCredential": url,
        "statusListIndex": str(index),
        "statusMessage": [{"message": word, "status": f"0x{at}"} for at, word in enumerate(words)],
        "statusPurpose": "message",
        "statusSize": 2,
        "type": "BitstringStatusListEntry",
    }


def make_statement(receipt: dict[str, Any], key: Ed25519PrivateKey = ISSUER, **changes: Any) -> dict[str, Any]:
    unsigned = {name: value for name, value in receipt.items() if name != "signature"}
    statement = {
        "entry": make_entry(LIST_URL, INDEX),
        "passport_version_id": receipt["passport_version_id"],
        "reason": None,
        "receipt_hash": digest(unsigned),
        "signed_at": YESTERDAY,
        "signing_key_id": receipt["signing_key_id"],
        "since": receipt["issued_at"],
        "status": "issued",
        "status_version": "BPC-STATUS-1",
        "successor": None,
        "tenant_id": receipt["tenant_id"],
        **changes,
    }
    sign(statement, key)
    return statement


def pack_bits(states: dict[int, int], entries: int = ENTRIES) -> str:
    bits = bytearray(entries // 4)
    for index, state in states.items():
        bits[index // 4] |= state << (6 - 2 * (index % 4))
    return encode_bits(gzip.compress(bytes(bits), mtime=0))


def encode_bits(packed: bytes) -> str:
    return "u" + base64.urlsafe_b64encode(packed).decode().rstrip("=")


def make_list(
    receipt: dict[str, Any], state: int, key: Ed25519PrivateKey = ISSUER, *, bits: str = "", **changes: Any
) -> dict[str, Any]:
    """A signed list; changes with a name of a member of the credential change that."""
    url = changes.pop("id", LIST_URL)
    credential = {
        "@context": ["https://www.w3.org/ns/credentials/v2"],
        "credentialSubject": {
            "encodedList": bits or pack_bits({INDEX: state}),
            "id": f"{url}#list",
            "statusPurpose": "message",
            "ttl": 300_000,
            "type": "BitstringStatusList",
        },
        "id": url,
        "issuer": "https://passports.example",
        "type": ["VerifiableCredential", "BitstringStatusListCredential"],
        "validFrom": changes.pop("validFrom", YESTERDAY),
        "validUntil": changes.pop("validUntil", NOW),
    }
    credential |= changes.pop("credential", {})
    document = {
        "credential": credential,
        "signing_key_id": receipt["signing_key_id"],
        "status_list_version": "BPC-STATUS-LIST-1",
        "tenant_id": receipt["tenant_id"],
        **changes,
    }
    sign(document, key)
    return document


def list_status_cases(view: Any) -> Iterator[tuple[str, list[Any], str, str]]:
    """Documents, the time at which they are read, and what they say: a state, `not_asked`, or that they are refused."""
    receipt = view["receipt"]
    bound = make_statement(receipt)
    lists = {name: make_list(receipt, state) for name, state in STATES.items()}
    ended = {
        name: make_statement(receipt, status=name, since=YESTERDAY, reason="recalled" if name == "revoked" else None)
        for name in ("superseded", "revoked", "ceased")
    }
    yield "nothing", [], NOW, "not_asked"
    yield "statement-alone", [bound], NOW, "not_asked"
    for name, document in lists.items():
        yield f"list-{name}", [bound, document], NOW, name
        yield f"list-{name}-too-late", [bound, document], TOMORROW, "not_asked" if name == "in_force" else name
        yield f"list-{name}-alone", [document], NOW, "not_asked"
    for name, document in ended.items():
        yield f"statement-{name}", [document], NOW, name
        yield f"statement-{name}-and-list", [document, lists["in_force"]], NOW, name
    yield "worst-of-two", [ended["superseded"], ended["revoked"]], NOW, "revoked"
    yield "ceased-before-superseded", [ended["ceased"], lists["superseded"]], NOW, "ceased"
    early = make_list(receipt, 0, validFrom=NOW, validUntil=TOMORROW)
    yield "list-of-the-future", [bound, early], YESTERDAY, "not_asked"
    yield "list-four-minutes-ahead", [bound, early], "2027-06-02T11:56:00.000000Z", "in_force"
    yield "list-six-minutes-ahead", [bound, early], "2027-06-02T11:54:00.000000Z", "not_asked"
    for path in iterate_leaves(lists["in_force"]):
        name = ".".join(map(str, path))
        yield f"list-altered-{name}", [bound, change_at(lists["in_force"], path, alter)], NOW, "refused"
    for path in iterate_leaves(ended["superseded"]):
        name = ".".join(map(str, path))
        yield f"statement-altered-{name}", [change_at(ended["superseded"], path, alter)], NOW, "refused"
    raw = gzip.compress(bytes(ENTRIES // 4), mtime=0)
    forged = {
        "by-a-stranger": make_list(receipt, 0, STRANGER),
        "under-another-name": make_list(receipt, 0, signing_key_id="somebody-else"),
        "of-another-tenant": make_list(receipt, 0, tenant_id="99999999-0000-4000-8000-000000000009"),
        "of-another-address": make_list(receipt, 0, id=LIST_URL.replace("7777-", "8888-", 1)),
        "of-two-days": make_list(receipt, 0, validUntil=TOMORROW),
        "of-no-time": make_list(receipt, 0, validUntil=YESTERDAY),
        "too-short": make_list(receipt, 0, bits=pack_bits({}, ENTRIES // 2)),
        "not-compressed": make_list(receipt, 0, bits=encode_bits(bytes(ENTRIES // 4))),
        "cut": make_list(receipt, 0, bits=encode_bits(raw[:-9])),
        "with-a-wrong-checksum": make_list(receipt, 0, bits=encode_bits(raw[:-8] + b"abcd" + raw[-4:])),
        "longer": make_list(receipt, 0, bits=encode_bits(raw + b"more")),
        "too-long": make_list(receipt, 0, bits=pack_bits({}, ENTRIES * 256)),
        "without-its-letter": make_list(receipt, 0, bits=pack_bits({})[1:]),
        "of-another-kind": make_list(receipt, 0, credential={"type": ["VerifiableCredential"]}),
        "with-more": make_list(receipt, 0, credential={"name": "x"}),
        "of-another-version": make_list(receipt, 0, status_list_version="BPC-STATUS-LIST-2"),
    }
    for name, document in forged.items():
        yield f"list-{name}", [bound, document], NOW, "refused"
    wrong = {
        "by-a-stranger": make_statement(receipt, STRANGER),
        "about-another-version": make_statement(receipt, passport_version_id="99999999-0000-4000-8000-000000000009"),
        "about-another-receipt": make_statement(receipt, receipt_hash="ab" * 32),
        "of-another-tenant": make_statement(receipt, tenant_id="99999999-0000-4000-8000-000000000009"),
        "of-another-status": make_statement(receipt, status="lost"),
        "with-a-place-that-is-no-list": make_statement(receipt, entry=make_entry("https://passports.example/x", INDEX)),
        "with-a-negative-place": make_statement(receipt, entry=make_entry(LIST_URL, -1)),
        "with-a-place-outside": make_statement(receipt, entry=make_entry(LIST_URL, ENTRIES)),
        "with-another-size": make_statement(receipt, entry={**make_entry(LIST_URL, INDEX), "statusSize": 1}),
        "with-a-long-reason": make_statement(receipt, reason="x" * 2001),
        "with-more": make_statement(receipt, more="x"),
        "with-a-time-that-is-none": make_statement(receipt, since="2027-02-30T00:00:00.000000Z"),
    }
    for name, document in wrong.items():
        yield f"statement-{name}", [document, lists["in_force"]], NOW, "refused"
    elsewhere = make_statement(receipt, entry=make_entry(LIST_URL, INDEX + 1))
    yield "statements-that-differ", [bound, elsewhere, lists["in_force"]], NOW, "refused"
    yield "statement-of-another-index", [elsewhere, lists["revoked"]], NOW, "in_force"  # its issuer says so
    yield "not-json", ["{"], NOW, "refused"
    yield "not-signed", [{"status_list_version": "BPC-STATUS-LIST-1"}], NOW, "refused"


def write_status_cases(folder: Path) -> int:
    """Write the documents of each case, and what they say."""
    data = (HONEST / "view-public.json").read_bytes()
    cases, count = {}, 0
    for name, documents, now, expected in list_status_cases(json.loads(data)):
        names = []
        for document in documents:
            names.append(f"document-{count}")
            content = document.encode() if isinstance(document, str) else encode(document)
            (folder / names[-1]).write_bytes(content)
            count += 1
        if name in cases:
            raise ValueError(f"two cases are called {name}")
        cases[name] = {"file": "view-public", "documents": names, "now": now, "expected": expected}
    (folder / "status.json").write_text(json.dumps(cases, indent=1))
    return len(cases)


def list_envelopes() -> Iterator[tuple[str, bytes, bool]]:
    """Views in their envelope, and bundles with a statement."""
    view = json.loads((HONEST / "view-public.json").read_bytes())
    statement = make_statement(view["receipt"])
    envelope = {"log_proof": None, "status": statement, "view": view, "view_version": "BPC-VIEW-2"}
    yield "envelope", encode(envelope), True
    yield "envelope-empty", encode({**envelope, "status": None}), True
    yield "envelope-of-a-stranger", encode({**envelope, "status": make_statement(view["receipt"], STRANGER)}), True
    other = make_statement(view["receipt"], receipt_hash="ab" * 32)
    yield "envelope-of-another", encode({**envelope, "status": other}), False
    yield "envelope-with-more", encode({**envelope, "more": 1}), False
    yield "envelope-without-view", encode({**envelope, "view": {}}), False
    yield "envelope-with-a-bad-proof", encode({**envelope, "log_proof": "x"}), False
    yield "envelope-with-a-bad-statement", encode({**envelope, "status": {}}), False
    for path in iterate_leaves(envelope):
        if path[0] == "status":
            name = ".".join(map(str, path))
            # A statement that nobody signed is not believed, and one that is not about this passport is refused.
            is_form_kept = path[1] in {"reason", "signature", "signing_key_id"}
            yield f"envelope-altered-{name}", encode(change_at(envelope, path, alter)), is_form_kept
    entries = read_archive((HONEST / "rich.zip").read_bytes())
    receipt = json.loads(entries["receipt.json"])
    manifest = {**json.loads(entries["manifest.json"]), "bundle_version": "BPC-BUNDLE-2"}
    bound = {**entries, "manifest.json": encode(manifest), "status.json": encode(make_statement(receipt))}
    yield "bundle-bound", write_archive(bound), True
    yield "bundle-bound-as-1", write_archive({**bound, "manifest.json": entries["manifest.json"]}), False
    yield "bundle-bound-to-another", write_archive({**bound, "status.json": encode(other)}), False
    for name, content in (("empty", b""), ("line", bound["status.json"] + b"\n"), ("not-signed", b"{}")):
        yield f"bundle-bound-{name}", write_archive({**bound, "status.json": content}), False


def make_corpus(folder: Path) -> dict[str, bool]:
    """Write all files; return which of them are good."""
    expected: dict[str, bool] = {}
    for name, data, is_good in (*list_views(), *list_bundles(), *list_envelopes()):
        if name in expected:
            raise ValueError(f"two files are called {name}")
        file_name = name.replace("/", "-")
        (folder / file_name).write_bytes(data)
        expected[file_name] = is_good
    (folder / "expected.json").write_text(json.dumps(expected, indent=1))
    return expected


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    verdicts = make_corpus(target)
    cases = write_status_cases(target)
    print(f"{len(verdicts)} files, {sum(verdicts.values())} of them good; {cases} cases of a status")
