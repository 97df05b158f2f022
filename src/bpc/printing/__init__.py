"""Printing: passports as files in other people's forms. Knows fonts and pages; the database it does not know."""

from bpc.printing.exports import exported

__all__ = ["exported"]
