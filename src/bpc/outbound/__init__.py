"""The way out: HTTP to where an installation lets its tenants send, and to nowhere else.

    guard = Guard(allow=settings.outbound_allow, https_only=settings.env == "prod")
    answer = await guard.send("POST", url, headers={…}, content=body)
    async with guard.open_url(url, start=0, validator=None) as response: …

A tenant names the URLs; none of them reaches into the network this runs in. Nothing else of ours opens a connection to
a place that a tenant named.
"""

from bpc.outbound.addresses import Resolve, resolved
from bpc.outbound.answers import Answer, OutboundFailed, OutboundTimedOut
from bpc.outbound.guard import Guard

__all__ = ["Answer", "Guard", "OutboundFailed", "OutboundTimedOut", "Resolve", "resolved"]
