"""Fixtures of all tests, those of the packages included: see tests/fixtures.py."""

pytest_plugins = ["tests.fixtures"]
