"""Fixtures of all tests, those of the packages included."""

import os
import sys

# Tests start many Python processes. Each would compile every module again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

pytest_plugins = ["tests.fixtures", "tests.running_installation"]
