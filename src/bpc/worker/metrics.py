"""Counts of what the steps make, beside those of the jobs: how many compiles, how long they took, how large they are.

A compile is an execution: one that is tried again is counted again. So is a webhook: RETRIED counts the attempts that
are followed by another one, DELIVERED and FAILED the deliveries that ended. One that ends because its job was cancelled
is FAILED in the database and counted nowhere: the database ends it, also where no worker knows of it.
"""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, Info, disable_created_metrics, generate_latest

from bpc import __version__
from bpc.errands import deliver
from bpc.errands.replay_audit import Verdict
from bpc.pipeline import Result

RESULTS: Final[tuple[Result, ...]] = ("SUCCEEDED", "FAILED")
SENT: Final[tuple[deliver.Result, ...]] = ("DELIVERED", "FAILED", "RETRIED")
SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
BYTES: Final = tuple(float(4**power) for power in range(4, 13))  # 256 bytes to 16 MiB

# A second series beside each of ours, with the time it began: nobody asks for it.
disable_created_metrics()  # type: ignore[no-untyped-call]


class StepMetrics:
    """The figures of one process, in a registry that others may share."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._compiles = Counter("bpc_compiles", "Compiles, by how they ended.", ["result"], registry=registry)
        self._seconds = Histogram(
            "bpc_compile_duration_seconds", "How long a compile took.", ["result"], buckets=SECONDS, registry=registry
        )
        self._payload = Histogram("bpc_payload_bytes", "Size of a payload.", buckets=BYTES, registry=registry)
        self._proof = Histogram("bpc_proof_bytes", "Size of a proof.", buckets=BYTES, registry=registry)
        self._receipt = Histogram("bpc_receipt_bytes", "Size of a receipt.", buckets=BYTES, registry=registry)
        self._replays = Counter("bpc_replays", "Passport versions that the audit replayed.", registry=registry)
        self._mismatches = Counter("bpc_replay_mismatches", "Those that did not replay.", registry=registry)
        self._errors = Counter("bpc_replay_errors", "Those that could not be replayed at all.", registry=registry)
        self._deliveries = Counter("bpc_webhook_deliveries", "Webhooks, by status.", ["status"], registry=registry)
        for status in SENT:
            self._deliveries.labels(status)
        for result in RESULTS:  # shown from the start: the first one is then a step that a rate can see
            self._compiles.labels(result)
            self._seconds.labels(result)

    def compiled(
        self,
        result: Result,
        seconds: float,
        payload_bytes: int | None,
        proof_bytes: int | None,
        receipt_bytes: int | None,
    ) -> None:
        """One execution is over; there are sizes if it succeeded."""
        self._compiles.labels(result).inc()
        self._seconds.labels(result).observe(seconds)
        sizes = (self._payload, payload_bytes), (self._proof, proof_bytes), (self._receipt, receipt_bytes)
        for histogram, size in sizes:
            if size is not None:
                histogram.observe(size)

    def replayed(self, verdict: Verdict) -> None:
        """One version of the audit is done."""
        self._replays.inc()
        if verdict == "MISMATCH":
            self._mismatches.inc()
        elif verdict == "ERROR":
            self._errors.inc()

    def sent(self, result: deliver.Result) -> None:
        """One webhook was sent, or given up."""
        self._deliveries.labels(result).inc()


def built(build: str) -> bytes:
    """Which build this is, as a figure that is always 1."""
    registry = CollectorRegistry()
    info = Info("bpc_build", "The build of this process.", registry=registry)
    info.info({"component": "worker", "version": __version__, "build": build})
    return generate_latest(registry)
