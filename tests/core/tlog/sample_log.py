"""A small log in memory: entries in, tiles, checkpoints and proofs out; and the keys of two witnesses."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PrivateKey

from bpc.core.audit.signing import Seed
from bpc.core.formats.hashes import Digest
from bpc.core.tlog.checkpoints import LogCheckpoint
from bpc.core.tlog.cosignatures import Sign
from bpc.core.tlog.merkle import hash_leaf, hash_tree, make_consistency_proof, make_inclusion_proof
from bpc.core.tlog.notes import NoteSigner, SignatureType, SignedNote, VerifierKey
from bpc.core.tlog.tiles import TileTree, grow_tiles

ORIGIN = "log.example/passports"


@dataclass(slots=True)
class SampleLog:
    """A log whose files are in a dictionary."""

    signer: NoteSigner = field(default_factory=lambda: NoteSigner(ORIGIN, Seed(b"\x07" * 32)))
    files: dict[str, bytes] = field(default_factory=dict)
    entries: list[bytes] = field(default_factory=list)

    def append(self, entries: Sequence[bytes]) -> None:
        for tile, data in grow_tiles(len(self.entries), entries, lambda tile: self.files[tile.path]):
            self.files[tile.path] = data
        self.entries += entries

    @property
    def tree(self) -> TileTree:
        return TileTree(len(self.entries), lambda tile: self.files[tile.path])

    def find_leaf(self, index: int) -> Digest:
        return hash_leaf(self.entries[index])

    def make_checkpoint(self, size: int | None = None) -> LogCheckpoint:
        size = len(self.entries) if size is None else size
        return LogCheckpoint(origin=self.signer.verifier.name, size=size, root=hash_tree(size, self.tree.read))

    def sign_checkpoint(self, size: int | None = None) -> SignedNote:
        return self.signer.sign(self.make_checkpoint(size).text)

    def prove_entry(self, index: int) -> tuple[Digest, ...]:
        return make_inclusion_proof(index, len(self.entries), self.tree.read)

    def prove_growth(self, old_size: int, new_size: int) -> tuple[Digest, ...]:
        return make_consistency_proof(old_size, new_size, self.tree.read)


def make_log(size: int) -> SampleLog:
    log = SampleLog()
    log.append([b"entry %d" % number for number in range(size)])
    return log


@cache
def make_ed25519_witness(name: str = "witness.example/w1", seed: int = 1) -> tuple[VerifierKey, Sign]:
    key = Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)
    return VerifierKey(name, SignatureType.COSIGNATURE_ED25519, key.public_key().public_bytes_raw()), key.sign


@cache
def make_ml_dsa_witness(name: str = "witness.example/w2", seed: int = 2) -> tuple[VerifierKey, Sign]:
    key = MLDSA44PrivateKey.from_seed_bytes(bytes([seed]) * 32)
    return VerifierKey(name, SignatureType.COSIGNATURE_ML_DSA_44, key.public_key().public_bytes_raw()), key.sign
