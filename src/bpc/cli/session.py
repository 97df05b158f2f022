"""What every command that needs a database does first: settings and logs."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from bpc import fresh, logs
from bpc.core.events import Act
from bpc.core.signing import Seed, Signer, seed_of
from bpc.db.embedded.layout import Layout
from bpc.settings import ConfigMissing, Settings, further_seed, load, signing_seed


def settings_for(component: str, *, supervised: bool = False) -> Settings:
    """The settings, with logs set up by them; what looks like a mistake in them is said once."""
    settings = load(os.environ, cwd=Path.cwd())
    # Several workers may log to one place: each line says whose it is, as a lease does.
    always = {"worker": f"{settings.worker_id}:{os.getpid()}"} if component == "worker" else None
    logs.configure(
        level=settings.log_level, json=settings.log_json, component=component, stream=sys.stderr, always=always
    )
    for warning in () if supervised else settings.warnings:
        logs.logger(__name__).warning(warning)
    return settings


def operator_act() -> Act:
    """Whoever sits at the command line has the server's own rights and no account in a tenant."""
    return Act(None, fresh.now())


def signing_key(settings: Settings) -> Seed:
    """The private key this installation signs with."""
    return seed_of(signing_seed(settings))


def signer_of(settings: Settings) -> Callable[[str], Signer | None]:
    """Private keys by name: the installation's own, and those that have a file.

    Files are looked at each time: who puts one there, or the right one, need not start anything anew.
    """
    own = Signer(signing_key(settings))

    def signer(key_id: str) -> Signer | None:
        if key_id == settings.signing_key_id:
            return own
        try:
            seed = further_seed(settings, key_id)
        except ConfigMissing as refused:
            logs.logger(__name__).warning("a signing key cannot be used", key_id=key_id, reason=refused.says)
            return None
        return None if seed is None else Signer(seed_of(seed))

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
