"""The command `service-jobs`: `main` has its arguments, `queue_view` looks at the queue, `top` shows what it sees."""

from service_jobs.command.main import main

__all__ = ["main"]
