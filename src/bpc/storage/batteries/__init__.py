"""Batteries: how they are identified, their batches, registrations, readings and lives."""
