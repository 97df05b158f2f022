"""The eight steps from a document to a passport that replays, a file each.

    upload ─► facts ─► snapshot ─► compile ─► sign ─► qr ─► activate ─► replay

Those that run as jobs are declared here, each knowing the one that follows it. Whoever starts a process hands in what
they work with; nothing in here is global.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

from bpc.core.compile import Limits
from bpc.core.signing import Signer
from bpc.jobs import Handler, Handlers, Limited, Nowhere
from bpc.pipeline.activate import ActivateOrder, activate_job
from bpc.pipeline.compile import CompileOrder, Measures, Result, compile_job
from bpc.pipeline.facts import ParseOrder, parse_job
from bpc.pipeline.qr import QrOrder, qr_job
from bpc.pipeline.sign import SignOrder, sign_job
from bpc.pipeline.snapshot import BuildOrder, build_job
from bpc.settings import Settings

__all__ = ["Means", "Measures", "Result", "Steps", "declare"]


class Unmeasured:
    """Keeps no count."""

    def compiled(
        self,
        result: Result,
        seconds: float,
        payload_bytes: int | None,
        proof_bytes: int | None,
        receipt_bytes: int | None,
    ) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What the steps work with."""

    limits: Limits
    compiler_build_id: str
    signing_key_id: str
    signer: Callable[[str], Signer | None]
    measures: Measures = field(default_factory=Unmeasured)
    reading: Limited = field(default_factory=Nowhere)

    @classmethod
    def of(
        cls,
        settings: Settings,
        signer: Callable[[str], Signer | None],
        *,
        measures: Measures | None = None,
        reading: Limited | None = None,
    ) -> Self:
        """`signer` gives the private key of a name, where it is at hand; `measures` keeps count of what is done.

        `reading` are child processes with the limits for reading documents; who only submits jobs needs none.
        """
        return cls(
            limits=Limits(
                payload=settings.payload_max_bytes,
                proof=settings.proof_max_bytes,
                receipt=settings.receipt_max_bytes,
                steps=settings.rules_max_steps,
            ),
            compiler_build_id=settings.compiler_build_id,
            signing_key_id=settings.signing_key_id,
            signer=signer,
            measures=measures or Unmeasured(),
            reading=reading or Nowhere(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The steps that are jobs, and what all of them work with."""

    means: Means
    parse: Handler[ParseOrder, None]
    build: Handler[BuildOrder, None]
    compile: Handler[CompileOrder, None]
    sign: Handler[SignOrder, None]
    qr: Handler[QrOrder, None]
    activate: Handler[ActivateOrder, None]


def declare(handlers: Handlers, means: Means) -> Steps:
    """Add the steps to `handlers`."""
    activate = activate_job(handlers)
    qr = qr_job(handlers, then=activate)
    sign = sign_job(handlers, signer=means.signer, then=qr)
    return Steps(
        means=means,
        parse=parse_job(handlers, reading=means.reading),
        build=build_job(handlers),
        compile=compile_job(handlers, limits=means.limits, measures=means.measures, then=sign),
        sign=sign,
        qr=qr,
        activate=activate,
    )
