"""The transparency log: its rows, its files, and the sequencer that makes the files from the rows."""
