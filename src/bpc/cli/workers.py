"""The workers among the processes that are looked after, seen as one: their figures together, and how each is."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bpc.cli.line import Answers
from bpc.cli.supervise import Child, Role, bpc
from bpc.jobs import Worker
from bpc.jobs.figures import combined, counted
from bpc.settings import Settings
from bpc.worker.run import Condition, Watched

MOST: Final = 64
FAREWELL: Final = 5.0  # seconds that a worker gets beyond what its jobs get


def role(settings: Settings, number: int) -> Role:
    """A worker, as a process that is looked after."""
    grace = settings.jobs_stop_grace_seconds + settings.jobs_cancel_grace_seconds
    return Role(name=f"worker {number}", command=bpc("worker"), stop_seconds=grace + FAREWELL)


def answers_of(worker: Worker, pages: Watched) -> Answers:
    """What such a process answers."""

    async def figures() -> str:
        return worker.jobs.metrics.text().decode()

    async def condition() -> str:
        (found,) = await pages.conditions()
        return json.dumps({"worker": found.worker, "checks": dict(found.checks)})

    return {"figures": figures, "condition": condition}


@dataclass(slots=True)
class _Counted:
    """What one worker counted: the process that is there, as of late, and those before it."""

    life: int = 0
    last: bytes = b""
    before: bytes = b""

    def now(self, life: int, text: str | None) -> bytes:
        if life != self.life:
            self.life, self.before, self.last = life, combined([self.before, counted(self.last)]), b""
        if text is not None:
            self.last = text.encode()
        return combined([self.before, self.last if text is not None else counted(self.last)])


class Workers:
    """The workers of one fleet."""

    def __init__(self, children: Sequence[Child]) -> None:
        self._children = {child: _Counted() for child in children}

    def watched(self, settings: Settings) -> Watched:
        """What their pages show."""
        return Watched(figures=self.figures if settings.metrics_enabled else None, conditions=self.conditions)

    async def figures(self) -> bytes:
        """What all of them counted since we started; a count never falls, whichever of them dies."""
        texts = await asyncio.gather(*(child.ask("figures") for child in self._children))
        found = zip(self._children.items(), texts, strict=True)
        return combined([counted_by.now(child.started, text) for (child, counted_by), text in found])

    async def told_figures(self) -> str:
        """The same, as another process is told."""
        return (await self.figures()).decode()

    async def conditions(self) -> Sequence[Condition]:
        """How each is; of one that does not answer, only its name."""
        texts = await asyncio.gather(*(child.ask("condition") for child in self._children))
        return [_condition(child, text) for child, text in zip(self._children, texts, strict=True)]


def _condition(child: Child, text: str | None) -> Condition:
    return Condition(worker=child.role.name, checks={}) if text is None else Condition(**json.loads(text))
