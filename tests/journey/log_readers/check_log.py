"""Reads a log of ours and checks proofs, and imports nothing of ours: written from the format pages alone.

    check_log.py log FOLDER VERIFIER_KEY < proofs      lines as check_log.go takes them
    check_log.py proof FILE LOG_KEY [WITNESS_KEY…]     a .tlog-proof with the opening of its entry

It prints what it found right, and ends with an error at the first thing that is wrong. It is slow and plain on purpose.
"""

import base64
import hashlib
import json
import struct
import sys
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PublicKey


def sha(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def parse_key(text: str) -> tuple[str, bytes, int, bytes]:
    """Name, key id, type and public key of a verifier key."""
    name, key_id, encoded = text.split("+", 2)
    raw = base64.b64decode(encoded)
    if sha(name.encode() + b"\n" + raw)[:4].hex() != key_id:
        raise SystemExit("the key id is wrong")
    return name, bytes.fromhex(key_id), raw[0], raw[1:]


def open_note(data: bytes, keys: list[str]) -> tuple[str, list[int]]:
    """The text that all of these keys signed, and the times of cosignatures."""
    text, _, lines = data.decode().rpartition("\n\n")
    text, times = text + "\n", []
    for name, key_id, kind, public_key in map(parse_key, keys):
        prefix = f"— {name} "
        raw_signatures = [
            base64.b64decode(line.removeprefix(prefix)) for line in lines.split("\n") if line.startswith(prefix)
        ]
        signature = next(raw[4:] for raw in raw_signatures if raw[:4] == key_id)
        if kind == 1:
            Ed25519PublicKey.from_public_bytes(public_key).verify(signature, text.encode())
            continue
        (seconds,) = struct.unpack(">Q", signature[:8])
        times.append(seconds)
        if kind == 4:
            message = f"cosignature/v1\ntime {seconds}\n{text}".encode()
            Ed25519PublicKey.from_public_bytes(public_key).verify(signature[8:], message)
        else:
            origin, size, root = text.split("\n")[:3]
            message = b"subtree/v1\n\x00" + bytes([len(name)]) + name.encode() + struct.pack(">Q", seconds)
            message += (
                bytes([len(origin)]) + origin.encode() + struct.pack(">QQ", 0, int(size)) + base64.b64decode(root)
            )
            MLDSA44PublicKey.from_public_bytes(public_key).verify(signature[8:], message)
    return text, times


def hash_tree(leaves: list[bytes]) -> bytes:
    """RFC 6962 2.1, as it is written there."""
    if not leaves:
        return sha(b"")
    if len(leaves) == 1:
        return leaves[0]
    split = 1
    while 2 * split < len(leaves):
        split *= 2
    return sha(b"\x01" + hash_tree(leaves[:split]) + hash_tree(leaves[split:]))


def format_path(level: str, index: int, width: int) -> str:
    digits = f"{index:03d}"
    digits = digits.zfill((len(digits) + 2) // 3 * 3)
    groups = [digits[at : at + 3] for at in range(0, len(digits), 3)]
    name = "/".join([f"x{group}" for group in groups[:-1]] + [groups[-1]])
    return f"tile/{level}/{name}" + ("" if width == 256 else f".p/{width}")


def read_log(folder: Path, key: str) -> int:
    """Check every file of a log; the number of entries."""
    text, _ = open_note((folder / "checkpoint").read_bytes(), [key])
    origin, size_text, root = text.split("\n")[:3]
    if origin != parse_key(key)[0]:
        raise SystemExit("the origin is another")
    size, leaves = int(size_text), []
    for start in range(0, size, 256):
        data = (folder / format_path("entries", start // 256, min(256, size - start))).read_bytes()
        while data:
            length = int.from_bytes(data[:2], "big")
            entry, data = data[2 : 2 + length], data[2 + length :]
            if not ((entry[0] == 1 and len(entry) == 33) or (entry[0] == 2 and json.loads(entry[1:])["kind"])):
                raise SystemExit("an entry is neither sealed nor readable")
            leaves.append(sha(b"\x00" + entry))
    if len(leaves) != size or hash_tree(leaves) != base64.b64decode(root):
        raise SystemExit("the entries do not have the root of the checkpoint")
    level, hashes = 0, leaves
    while hashes:
        for start in range(0, len(hashes), 256):
            part = hashes[start : start + 256]
            if (folder / format_path(str(level), start // 256, len(part))).read_bytes() != b"".join(part):
                raise SystemExit(f"a tile of level {level} is wrong")
        hashes = [hash_tree(hashes[at : at + 256]) for at in range(0, len(hashes) - 255, 256)]
        level += 1
    return size


def climb(index: int, size: int, leaf: bytes, path: list[bytes]) -> bytes:
    """The root to which an inclusion proof leads: RFC 6962 2.1.1, read backwards."""
    if size == 1:
        return leaf
    split = 1
    while 2 * split < size:
        split *= 2
    if index < split:
        return sha(b"\x01" + climb(index, split, leaf, path[:-1]) + path[-1])
    return sha(b"\x01" + path[-1] + climb(index - split, size - split, leaf, path[:-1]))


def check_growth(old: int, new: int, old_root: bytes, path: list[bytes], *, whole: bool = True) -> tuple[bytes, bytes]:
    """The old and the new root to which a consistency proof leads: RFC 6962 2.1.2, read backwards."""
    if old == new:
        return (old_root, old_root) if whole else (path[-1], path[-1])
    split = 1
    while 2 * split < new:
        split *= 2
    if old <= split:
        before, after = check_growth(old, split, old_root, path[:-1], whole=whole)
        return before, sha(b"\x01" + after + path[-1])
    before, after = check_growth(old - split, new - split, old_root, path[:-1], whole=False)
    return sha(b"\x01" + path[-1] + before), sha(b"\x01" + path[-1] + after)


def check_line(line: str) -> None:
    kind, first, second, one, other, *hashes = line.split()
    path = [base64.b64decode(text) for text in hashes]
    roots = base64.b64decode(one), base64.b64decode(other)
    if kind == "record":
        ok = climb(int(first), int(second), roots[1], path) == roots[0]
    else:
        ok = check_growth(int(first), int(second), roots[0], path) == roots
    if not ok:
        raise SystemExit(f"a proof is wrong: {line}")


def check_proof(file: Path, keys: list[str]) -> dict[str, object]:
    """Check a proof with the opening of its entry; what it says."""
    head, _, checkpoint = file.read_bytes().partition(b"\n\n")
    header, extra, index, *hashes = head.decode().split("\n")
    if header != "c2sp.org/tlog-proof@v1":
        raise SystemExit("this is not a proof")
    opening = json.loads(base64.b64decode(extra.removeprefix("extra ")))
    statement = json.dumps(opening["statement"], sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    entry = b"\x01" + sha(b"BPC-LOG-1\n" + bytes.fromhex(opening["salt"]) + statement)
    text, times = open_note(checkpoint, keys)
    _, size, root = text.split("\n")[:3]
    path = [base64.b64decode(line) for line in hashes]
    number = int(index.removeprefix("index "))
    if climb(number, int(size), sha(b"\x00" + entry), path) != base64.b64decode(root):
        raise SystemExit("the entry is not in the log")
    return {"index": number, "size": int(size), "times": times, "statement": opening["statement"]}


def main(arguments: list[str]) -> None:
    if arguments[0] == "log":
        size, proofs = read_log(Path(arguments[1]), arguments[2]), 0
        for line in sys.stdin:
            check_line(line)
            proofs += 1
        sys.stdout.write(f"{size} {proofs}\n")
    else:
        sys.stdout.write(json.dumps(check_proof(Path(arguments[1]), arguments[2:])) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
