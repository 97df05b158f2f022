"""Rule packages and their versions; test runs and the status of a version."""
