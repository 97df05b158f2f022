"""What `bpc doctor` finds out about the providers that people sign in to the console with."""

from collections.abc import AsyncIterator
from typing import Final

from bpc.cli.run.doctor_service import HealthCheck
from bpc.cli.support.output import find_fix
from bpc.core.errors import Refusal
from bpc.outbound.openid import OpenIdClient, open_providers
from bpc.runtime.settings import ConfigMissing, Settings

CHECK: Final = "sign-in"
RETURN_PATH: Final = "/console/sign-in/back/"


async def check_providers(settings: Settings) -> AsyncIterator[HealthCheck]:
    """Whether the file of providers can be read, and each provider answers as one that we can use."""
    try:
        clients = open_providers(settings)
    except ConfigMissing as refusal:
        yield HealthCheck(CHECK, "fail", refusal.says, find_fix(refusal))
        return
    if not clients:
        fix = "set BPC_CONSOLE_PROVIDERS_FILE: docs/console-sign-in.md"
        if settings.env == "prod":
            yield HealthCheck(CHECK, "warn", "nobody can sign in to the console: no provider is configured", fix)
        else:
            yield HealthCheck(CHECK, "skip", "no provider is configured; links sign in (`bpc console link`)")
    for client in clients.values():
        yield await _check_provider(settings, client)


async def _check_provider(settings: Settings, client: OpenIdClient) -> HealthCheck:
    provider = client.provider
    try:
        metadata = await client.load_metadata()
    except Refusal as refusal:
        fix = f"allow `{provider.issuer}` in BPC_OUTBOUND_ALLOW if it is in your own network"
        return HealthCheck(CHECK, "fail", f"`{provider.name}`: {refusal.says}", find_fix(refusal) or fix)
    methods = metadata.content.get("code_challenge_methods_supported")
    if isinstance(methods, list) and "S256" not in methods:
        return HealthCheck(CHECK, "fail", f"`{provider.name}` does not know PKCE with S256", "use another provider")
    if settings.public_url is None:
        return HealthCheck(
            CHECK, "warn", f"`{provider.name}` answers; the console has no address", "set BPC_PUBLIC_URL"
        )
    return HealthCheck(
        CHECK,
        "ok",
        f"`{provider.name}` answers with {len(metadata.keys)} keys; it must know "
        f"{settings.public_url}{RETURN_PATH}{provider.name}",
    )
