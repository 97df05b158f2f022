"""Outbound requests: HTTP, and files of allowed folders, only where an installation lets its tenants send or read.

    guard = Guard(allow=settings.outbound_allow, https_only=settings.env == "prod")
    answer = await guard.send("POST", url, headers={…}, content=body)
    async with guard.open_url(url, start=0, validator=None) as response: …

Tenants choose the URLs; none of them reaches into the network of this machine. No other module opens a connection to a
host that a tenant chose.
"""

from bpc.outbound.guard import Guard, OutboundAnswer, OutboundFailed, OutboundTimedOut, Resolve, resolve_host

__all__ = ["Guard", "OutboundAnswer", "OutboundFailed", "OutboundTimedOut", "Resolve", "resolve_host"]
