"""Passports of single batteries: runs that issue them, their chunks, their versions, and the packs with their bytes."""
