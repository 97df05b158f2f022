"""What comes of a request: an answer, or a sentence that says why there is none.

The sentences name the host as it was given and never an address it resolved to: who names a host learns nothing about
the network this runs in.
"""

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import httpx2

from bpc.core.errors import Refusal
from bpc.core.outbound_urls import Destination

LOOK: Final = "if it stays so, look at that server and at the way to it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a server said. The body is as it was sent; one that goes on after `body` was cut off there."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    is_cut: bool = False


class OutboundFailed(Refusal):
    """Something between us and the other side, or the other side itself; another attempt may help."""

    code = "OUTBOUND_FAILED"


class OutboundTimedOut(OutboundFailed):
    """It took longer than it may."""

    code = "REQUEST_TIMEOUT"


@contextmanager
def in_words(wanted: Destination, seconds: float) -> Iterator[None]:
    """Errors of the HTTP client, as refusals."""
    where = f"`{wanted.authority}`"
    try:
        yield
    except (httpx2.TimeoutException, TimeoutError):
        raise OutboundTimedOut(f"{where} did not answer within {seconds:g} s", fix=LOOK) from None
    except httpx2.ConnectError as error:
        raise _not_connected(where, error) from None
    except httpx2.RemoteProtocolError:
        says = f"{where} did not answer in HTTP, or stopped in the middle of its answer"
        raise OutboundFailed(says, fix=LOOK) from None
    except (httpx2.TransportError, OSError):
        raise OutboundFailed(f"the connection to {where} was lost", fix=LOOK) from None


def _not_connected(where: str, error: BaseException) -> OutboundFailed:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return OutboundFailed(
                f"the certificate of {where} was not accepted: {cause.verify_message}",
                fix="renew it, or have it issued for this name by an authority that this machine trusts",
            )
        if isinstance(cause, ssl.SSLError):
            return OutboundFailed(f"{where} does not speak TLS as we do", fix="let it offer TLS 1.2 or later")
        cause = cause.__cause__ or cause.__context__
    return OutboundFailed(f"{where} could not be reached", fix=LOOK)
