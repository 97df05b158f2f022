"""What the processes of workers take: seconds of a processor and memory, by what each process is for.

A process that has ended keeps what it took. Memory is resident memory: pages that processes share count for each.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import psutil

KINDS: Final = {"multiprocessing.resource_tracker": "other", "spawn_main": "compiling", "signer": "signer"}
WORKER: Final = "worker"


class ProcessWatch:
    """Looks at workers and their children now and then."""

    def __init__(self, workers: Iterable[psutil.Process]) -> None:
        self._workers = tuple(workers)
        self._kinds: dict[int, str] = {worker.pid: WORKER for worker in self._workers}
        self._seconds: dict[int, float] = {}
        self.peak_bytes: dict[str, int] = {}
        self.peak_sum = 0

    def look(self) -> None:
        """Note what each process took until now. What a child took after the last look before its end is lost."""
        memory: dict[str, list[int]] = {}
        for process in self._list_processes():
            try:
                kind = self._kinds.get(process.pid) or self._kinds.setdefault(process.pid, _name_kind(process))
                times = process.cpu_times()
                memory.setdefault(kind, []).append(int(process.memory_info().rss))
            except psutil.NoSuchProcess:
                continue
            self._seconds[process.pid] = float(times.user + times.system)
        for kind, sizes in memory.items():
            self.peak_bytes[kind] = max(self.peak_bytes.get(kind, 0), *sizes)
        self.peak_sum = max(self.peak_sum, sum(map(sum, memory.values())))

    def sum_seconds(self) -> Mapping[str, float]:
        """Seconds of a processor by kind, as of the last look."""
        sums: dict[str, float] = {}
        for pid, seconds in self._seconds.items():
            kind = self._kinds[pid]
            sums[kind] = sums.get(kind, 0.0) + seconds
        return sums

    def _list_processes(self) -> Iterable[psutil.Process]:
        for worker in self._workers:
            try:
                yield worker
                yield from worker.children(recursive=True)
            except psutil.NoSuchProcess:
                continue


def _name_kind(process: psutil.Process) -> str:
    command = " ".join(process.cmdline())
    return next((kind for word, kind in KINDS.items() if word in command), "other")
