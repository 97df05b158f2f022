"""Assembly: every type of job there is, declared once, for whoever submits them and whoever runs them.

    assembled(settings, signer=…) ─► Assembly(handlers, steps, errands)

Steps and errands do not know each other. Where an errand does what a step does, it is handed that step here.
"""

from collections.abc import Callable
from dataclasses import dataclass

from bpc import errands, pipeline
from bpc.core.signing import Signer
from bpc.errands import Errands
from bpc.jobs import Handlers
from bpc.pipeline import Measures, Steps
from bpc.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """All jobs of this installation."""

    handlers: Handlers
    steps: Steps
    errands: Errands


def assembled(
    settings: Settings, *, signer: Callable[[str], Signer | None], measures: Measures | None = None
) -> Assembly:
    """`signer` gives the private key of a name, where it is at hand; `measures` keeps count of what is compiled."""
    handlers = Handlers()
    steps = pipeline.declare(handlers, pipeline.Means.of(settings, signer, measures=measures))
    means = errands.Means(max_steps=settings.rules_max_steps)
    return Assembly(handlers=handlers, steps=steps, errands=errands.declare(handlers, means))
