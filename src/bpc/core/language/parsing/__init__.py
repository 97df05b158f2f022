"""Rule text to syntax tree, all mistakes of a file in one run: `parse` in parse.py."""
