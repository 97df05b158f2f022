"""The language server for editors: documents in, diagnostics and answers out. What is said comes from the core."""
