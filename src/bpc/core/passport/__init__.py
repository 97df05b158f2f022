"""Passports: from what they are compiled, what they consist of, and why a field has its value."""
