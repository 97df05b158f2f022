"""Hand-written SQL, one module per family of tables, and the PostgreSQL it runs on."""
