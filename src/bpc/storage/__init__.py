"""Hand-written SQL by subject. A query is a constant; functions take an open connection and never commit."""
