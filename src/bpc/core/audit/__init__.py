"""Audit: the chain of events, checkpoints of it, signatures and key sets."""
