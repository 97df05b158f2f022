"""The transparency log: Merkle tree, tiles, notes, checkpoints, cosignatures, proofs, policies and our entries."""
