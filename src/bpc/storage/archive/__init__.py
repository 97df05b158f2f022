"""One tenant as an archive: out of one installation, into another."""
