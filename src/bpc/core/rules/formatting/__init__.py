"""Syntax tree to rule text in its one standard form, comments kept: `formatted` in format.py."""
