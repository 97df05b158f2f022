"""Syntax tree to typed tree: names, types, units, order, tests. `check` in check.py."""
