"""What every command that needs a database does first: settings and logs."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from bpc import fresh, logs
from bpc.core.errors import Invalid
from bpc.core.events import Act
from bpc.core.signing import Seed, Signer, seed_of
from bpc.db.embedded.layout import Layout
from bpc.settings import Settings, further_seed, load, signing_seed


def settings_for(component: str) -> Settings:
    """The settings, with logs set up by them; what looks like a mistake in them is said."""
    settings = load(os.environ, cwd=Path.cwd())
    logs.configure(level=settings.log_level, json=settings.log_json, component=component, stream=sys.stderr)
    for warning in settings.warnings:
        logs.logger(__name__).warning(warning)
    return settings


def operator_act() -> Act:
    """Whoever sits at the command line has the server's own rights and no account in a tenant."""
    return Act(None, fresh.now())


def signing_key(settings: Settings) -> Seed:
    """The private key this installation signs with."""
    return seed_of(signing_seed(settings))


def signer_of(settings: Settings) -> Callable[[str], Signer | None]:
    """Private keys by name: the installation's own, and those in the folder of further keys, each read once."""
    known = {settings.signing_key_id: Signer(signing_key(settings))}

    def signer(key_id: str) -> Signer | None:
        if key_id not in known and (seed := further_seed(settings, key_id)) is not None:
            known[key_id] = Signer(seed_of(seed))
        return known.get(key_id)

    return signer


def stop_when_told() -> asyncio.Event:
    """Set by SIGTERM, which ends a command as Ctrl-C does: in order."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    return stop


def has_database(settings: Settings) -> bool:
    """Whether there is a database to look at, without making the embedded one to find out."""
    if settings.database_dsn is not None:
        return True
    return (Layout(settings.data_dir).known_cluster() / "PG_VERSION").exists()


def checked_text(name: str, text: str) -> str:
    """`text` as the database can keep it: an argument may hold bytes that are no characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Invalid(f"{name} is not UTF-8 text", fix="check the encoding of the terminal") from None
    return text
