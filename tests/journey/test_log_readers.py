"""Programs of others read our log: Google's Go packages, and a script that imports nothing of ours.

Where Go and its packages are missing, the test installs them from Debian if it may, and otherwise says what it lacks.
"""

import os
import random  # noqa: TID251 (seeded)
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bpc.core.audit.signing import to_base64
from bpc.core.formats.hashes import Digest, sha256
from bpc.core.tlog.cosignatures import make_cosignature
from bpc.core.tlog.entries import encode_opening, make_entry
from bpc.core.tlog.merkle import check_inclusion, hash_tree, make_consistency_proof, make_inclusion_proof
from bpc.core.tlog.proofs import LogProof
from bpc.core.tlog.tiles import TileTree
from bpc.runtime import clock
from tests.core.tlog.sample_log import SampleLog, make_ed25519_witness, make_ml_dsa_witness
from tests.measurements import RecordMeasurement

READERS = Path(__file__).parent / "log_readers"
GO_PACKAGES = Path("/usr/share/gocode/src/golang.org/x/mod/sumdb/tlog")


def make_log(size: int) -> SampleLog:
    """A log of sealed entries, and some readable ones."""
    log = SampleLog()
    readable = b'\x02{"at":"2027-02-18T00:00:00.000000Z","key_id":"k","kind":"KEY_RETIRED"}'
    log.append([readable if number % 97 == 5 else b"\x01" + sha256(b"%d" % number) for number in range(size)])
    return log


def write_log(log: SampleLog, folder: Path) -> None:
    for path, data in log.files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    (folder / "checkpoint").write_bytes(log.sign_checkpoint().encode())


def list_pairs(log: SampleLog, largest: int) -> Iterator[str]:
    """Every proof of trees up to this size, as lines."""
    tree = log.tree
    roots = [hash_tree(size, tree.read) for size in range(largest + 1)]
    for size in range(1, largest + 1):
        for index in range(size):
            yield format_record(log, tree, index, size, roots[size])
        for old_size in range(1, size + 1):
            yield format_tree(tree, old_size, size, roots[old_size], roots[size])


def list_random_pairs(log: SampleLog, count: int) -> Iterator[str]:
    chance, tree = random.Random(21), log.tree
    for _ in range(count):
        size = chance.randrange(1, tree.size + 1)
        old_size, root = chance.randrange(1, size + 1), hash_tree(size, tree.read)
        yield format_record(log, tree, chance.randrange(size), size, root)
        yield format_tree(tree, old_size, size, hash_tree(old_size, tree.read), root)


def format_record(log: SampleLog, tree: TileTree, index: int, size: int, root: Digest) -> str:
    hashes = make_inclusion_proof(index, size, tree.read)
    return " ".join(["record", str(index), str(size), *map(to_base64, [root, log.find_leaf(index), *hashes])])


def format_tree(tree: TileTree, old_size: int, size: int, old_root: Digest, root: Digest) -> str:
    hashes = make_consistency_proof(old_size, size, tree.read)
    return " ".join(["tree", str(old_size), str(size), *map(to_base64, [old_root, root, *hashes])])


def run_script(*arguments: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", READERS / "check_log.py", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)


def run_go(folder: Path, key: str, stdin: str, cache: Path) -> str:
    environment = os.environ | {"GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOCACHE": str(cache)}
    command: list[str | Path] = ["go", "run", READERS / "check_log.go", folder, key]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def require_go() -> None:
    if shutil.which("go") and GO_PACKAGES.exists():
        return
    if os.geteuid() == 0 and shutil.which("apt-get"):
        command = ["apt-get", "install", "--yes", "--quiet", "golang-go", "golang-golang-x-mod-dev"]
        subprocess.run(command, capture_output=True, check=False)
    if not shutil.which("go") or not GO_PACKAGES.exists():
        pytest.skip("needs Go and golang.org/x/mod: apt-get install golang-go golang-golang-x-mod-dev")


def test_a_script_that_imports_nothing_of_ours_reads_our_log_and_proofs(tmp_path: Path) -> None:
    log = make_log(700)
    write_log(log, tmp_path)
    lines = [*list_pairs(log, 40), *list_random_pairs(log, 200)]

    done = run_script("log", tmp_path, str(log.signer.verifier), stdin="\n".join(lines))

    assert (done.stdout.strip(), done.stderr) == (f"700 {len(lines)}", "")
    assert "bpc" not in (READERS / "check_log.py").read_text().replace("BPC-LOG-1", "")


def test_the_script_refuses_what_is_wrong(tmp_path: Path) -> None:
    log = make_log(300)
    write_log(log, tmp_path)
    line = next(list_pairs(log, 2))

    assert run_script(
        "log", tmp_path, str(log.signer.verifier), stdin=line.replace("record 0 1", "record 0 2")
    ).returncode
    tile = tmp_path / "tile/entries/001.p/44"
    tile.write_bytes(tile.read_bytes()[:-1] + b"x")
    assert run_script("log", tmp_path, str(log.signer.verifier)).returncode


def test_the_script_opens_a_proof_with_its_witnesses(tmp_path: Path) -> None:
    members = {"receipt_hash": "ab" * 32, "tenant_id": "Überlingen"}
    entry = make_entry("PASSPORT_ISSUED", clock.now(), members, salt=bytes(range(32)))
    log = make_log(300)
    log.append([entry.data])
    log.append([b"\x01" + bytes(32)] * 50)
    note, witnesses = log.sign_checkpoint(), (make_ed25519_witness(), make_ml_dsa_witness())
    cosignatures = [make_cosignature(note.text, key, sign, seconds=1_800_000_000) for key, sign in witnesses]
    proof = LogProof(
        index=300,
        hashes=log.prove_entry(300),
        checkpoint=note.add(cosignatures).encode(),
        extra=encode_opening(entry),
    )
    (tmp_path / "passport.tlog-proof").write_bytes(proof.encode())
    keys = [str(log.signer.verifier), *(str(key) for key, _ in witnesses)]

    done = run_script("proof", tmp_path / "passport.tlog-proof", *keys)

    assert '"times": [1800000000, 1800000000]' in done.stdout, done.stderr
    assert '"index": 300, "size": 351' in done.stdout


@pytest.mark.long
def test_googles_packages_read_our_log_and_every_proof_to_256_and_random_ones_to_a_million(
    tmp_path: Path, record_measurement: RecordMeasurement
) -> None:
    require_go()
    started_at = time.perf_counter()
    log = make_log(1_000_000)
    grow_seconds = time.perf_counter() - started_at
    write_log(log, tmp_path / "log")
    lines = [*list_pairs(log, 256), *list_random_pairs(log, 5_000)]
    stdin = "\n".join(lines)

    assert run_go(tmp_path / "log", str(log.signer.verifier), stdin, tmp_path / "cache") == f"1000000 {len(lines)}"
    done = run_script("log", tmp_path / "log", str(log.signer.verifier), stdin=stdin)
    assert done.stdout.strip() == f"1000000 {len(lines)}", done.stderr

    tree, root = log.tree, log.make_checkpoint().root
    proofs = [make_inclusion_proof(index, 1_000_000, tree.read) for index in range(0, 1_000_000, 1_000)]
    leaves = [log.find_leaf(index) for index in range(0, 1_000_000, 1_000)]
    started_at = time.perf_counter()
    for number, proof in enumerate(proofs):
        check_inclusion(leaves[number], number * 1_000, 1_000_000, proof, root)
    check_seconds = (time.perf_counter() - started_at) / len(proofs)
    record_measurement(
        "log-readers",
        entries=1_000_000,
        proofs=len(lines),
        megabytes_of_tiles=round(sum(map(len, log.files.values())) / 1e6, 1),
        tree_entries_per_second=round(1_000_000 / grow_seconds),
        microseconds_to_check_a_proof=round(check_seconds * 1e6, 1),
    )
