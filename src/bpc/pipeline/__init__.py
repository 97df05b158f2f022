"""The eight steps from a document to a passport that can be compiled again to the same bytes, one file each.

upload ─► facts ─► snapshot ─► compile ─► sign ─► qr ─► activate ─► replay
"""
