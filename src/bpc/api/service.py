"""Service: everything that stands behind the routes of one process."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from bpc.api.denials import Denials
from bpc.api.metrics import HttpMetrics
from bpc.api.shares import Places, Room
from bpc.core.cursor import cursor_key
from bpc.core.peppers import Peppers
from bpc.db.database import Database
from bpc.errands import Errands
from bpc.jobs import Jobs, Processes
from bpc.pipeline import Steps
from bpc.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Made once, when the process starts.

    `heavy` are the places for requests that compute for long, `processes` where such work is done beside the event
    loop, and `room` is what there is for large bodies. `workers` asks for the figures of the workers that were started
    together with this process, if any were.
    """

    settings: Settings
    database: Database
    jobs: Jobs
    steps: Steps
    errands: Errands
    peppers: Peppers
    heavy: Places
    processes: Processes
    room: Room
    metrics: HttpMetrics = field(default_factory=HttpMetrics)
    denials: Denials = field(default_factory=Denials)
    workers: Callable[[], Awaitable[bytes | None]] | None = None

    @property
    def pepper(self) -> bytes:
        """The one that new keys are hashed with."""
        return self.peppers.in_use

    @property
    def cursor_key(self) -> bytes:
        """What new cursors are sealed with."""
        return cursor_key(self.pepper)

    @property
    def cursor_keys(self) -> tuple[bytes, ...]:
        """What cursors that come back may be sealed with: a list goes on while the pepper is being replaced."""
        return tuple(cursor_key(pepper) for pepper in self.peppers.accepted)
