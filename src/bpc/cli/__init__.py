"""The command line: one file per command, thin, for people and (with --json) for programs."""
