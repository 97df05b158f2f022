"""The audit log: events and their chains, searching them, retention, and the signing keys."""
