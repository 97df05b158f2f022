"""The worker: job type in, step or errand out."""
