"""Running the tests that are written in the language: `run_tests` in run.py."""
