"""Formats: canonical JSON, hashes, ids, times, cursors, file types."""
