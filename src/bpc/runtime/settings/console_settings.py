"""Settings of the console: how long somebody stays signed in, and who says who somebody is."""

from pathlib import Path

from pydantic import Field

from bpc.runtime.settings.signer_settings import SignerSettings


class ConsoleSettings(SignerSettings):
    """What signing in to the console needs."""

    console_idle_minutes: int = Field(
        60, ge=1, le=1440, description="A session of the console that is not used for this time is over."
    )
    console_session_hours: int = Field(
        12, ge=1, le=720, description="A session of the console is over after this time, used or not."
    )
    console_providers_file: Path | None = Field(
        None, description="TOML file of the providers (OpenID Connect) that people sign in to the console with."
    )
