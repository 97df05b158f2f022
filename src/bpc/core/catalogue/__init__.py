"""Catalogues: the words of one language for labels, findings and values. They lie outside every hash.

Pure. A catalogue is a gettext file (PO), so that every tool for translators reads it. A text without a translation is
shown in English, as a whole: no sentence is ever mixed.

    Program ── list_source_texts ──► texts ── update_catalogue ──► de.po ── a translator ──► de.po
    de.po ── read_catalogue ──► Catalogue ┐
    … of the product, of the package ─────┴─► Wording ──► labels, findings and numbers as the language writes them
"""
