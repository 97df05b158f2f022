"""The worker: it claims jobs and runs the steps and tasks that handle them."""
