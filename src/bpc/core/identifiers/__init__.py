"""Identifiers: of GS1, of operators, and the addresses on batteries. Each is checked, none is looked up."""
