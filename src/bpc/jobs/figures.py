"""The figures of several processes as one: what each of them shows for monitoring, put together.

    combined([text, text])     counts and durations add up; what each read from the same database is there once
    counted(text)              only what counts up: what is left to say of a process that has ended

A process that ends takes its counts with it. Whoever shows them for several keeps what it counted, or a sum that falls
would look as if everything had begun anew.
"""

from collections.abc import Iterable
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

# Not of the process that shows them but of the whole installation, looked up by each worker for itself.
OF_ALL: Final = ("_job_queue_depth", "_jobs_dead_letter")
GROWING: Final = frozenset({"counter", "histogram"})

Sample = tuple[str, tuple[tuple[str, str], ...]]


def combined(texts: Iterable[bytes]) -> bytes:
    """One exposition of all that these say."""
    families: dict[str, Metric] = {}
    values: dict[str, dict[Sample, float]] = {}
    for text in texts:
        for family in text_string_to_metric_families(text.decode()):
            families.setdefault(family.name, family)
            _add(values.setdefault(family.name, {}), family)
    return _exposed(_family(families[name], found) for name, found in values.items())


def counted(text: bytes) -> bytes:
    """Of these figures, the ones that only ever grow."""
    return _exposed(family for family in text_string_to_metric_families(text.decode()) if family.type in GROWING)


def _add(values: dict[Sample, float], family: Metric) -> None:
    of_all = family.name.endswith(OF_ALL)
    for sample in family.samples:
        key = sample.name, tuple(sorted(sample.labels.items()))
        before = values.get(key, 0.0)
        values[key] = max(before, sample.value) if of_all else before + sample.value


def _family(like: Metric, values: dict[Sample, float]) -> Metric:
    family = Metric(like.name, like.documentation, like.type)
    for (name, labels), value in values.items():
        family.add_sample(name, dict(labels), value)
    return family


class _Families(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


def _exposed(families: Iterable[Metric]) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(families))
    return generate_latest(registry)
