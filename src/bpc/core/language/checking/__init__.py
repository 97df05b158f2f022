"""Syntax tree to typed tree: names, types, units, order, tests. `check` is in language/package.py."""
