"""Counts of requests. Labels are route templates, never paths: an id is not a label.

What nobody declared is one label each, `(none)` for a path and `(other)` for a method, so that a stranger who tries
names cannot make a new series.
"""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
UNKNOWN_METHOD: Final = "(other)"
UNKNOWN_PATH: Final = "(none)"

# A second series beside each of ours, with the time it began: nobody asks for it, and it has another name.
disable_created_metrics()  # type: ignore[no-untyped-call]


class HttpMetrics:
    """The figures of one process, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "bpc_http_requests",
            "Requests answered.",
            ["method", "path", "status"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "bpc_http_request_duration_seconds",
            "Time until a request was answered.",
            ["method", "path"],
            buckets=BUCKETS,
            registry=self.registry,
        )
        self.limited = Counter("bpc_rate_limited", "Requests refused by the rate limit.", registry=self.registry)
        self.unauthorized = Counter(
            "bpc_unauthorized", "Requests without a key that opens anything.", registry=self.registry
        )
        self.pool_in_use = Gauge(
            "bpc_db_pool_in_use", "Database connections in use by requests.", registry=self.registry
        )
        self.pool_size = Gauge(
            "bpc_db_pool_size", "Database connections that requests may use at once.", registry=self.registry
        )

    def answered(self, method: str, path: str | None, status: int, seconds: float) -> None:
        """A request of a route, or of none, got its answer."""
        method, path = method if method in METHODS else UNKNOWN_METHOD, path or UNKNOWN_PATH
        self.requests.labels(method, path, str(status)).inc()
        self.seconds.labels(method, path).observe(seconds)
