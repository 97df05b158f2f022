"""Jobs that are not restartable: in the memory of this process, and gone with it."""

from bpc.jobs.memory.engine import EngineStopped, MemoryEngine, MemoryHealth
from bpc.jobs.memory.store import Clock

__all__ = ["Clock", "EngineStopped", "MemoryEngine", "MemoryHealth"]
