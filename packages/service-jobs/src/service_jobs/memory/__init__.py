"""The engine in memory, for tests and for work that may be lost: the same jobs without PostgreSQL."""
