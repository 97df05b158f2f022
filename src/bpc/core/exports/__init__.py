"""Exports: a passport in other people's forms. A bundle and an audience in, bytes out.

Pure. Each form has a file; which fields an audience may see is decided once, in disclosure.py.
"""
