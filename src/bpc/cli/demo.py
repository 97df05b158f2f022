"""`bpc demo`: one battery from its suppliers' documents to a passport that anybody can check, printed as it goes.

Everything happens in the tenant `demo` of the configured database: documents go in over the API, a worker runs the
jobs, and what comes out is written to files and checked as a stranger would.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from bpc.api.serve import listening, serving
from bpc.cli.address import url_of
from bpc.cli.demo_checks import check
from bpc.cli.demo_steps import Told, issue
from bpc.cli.output import say
from bpc.cli.peppers import peppers_of
from bpc.cli.seed import plant, tenant_called
from bpc.cli.session import operator_act, settings_for, signer_of, signing_key
from bpc.client import ApiError, Client, JobFailed, StillWaiting
from bpc.core.errors import Conflict, Invalid
from bpc.core.ids import TenantId
from bpc.core.signing import public_key_of
from bpc.db import actors, apikeys
from bpc.db.database import Database
from bpc.db.opening import opened
from bpc.settings import ConfigMissing, Settings, pepper
from bpc.sockets import LOCAL
from bpc.worker.run import working

app = typer.Typer(add_completion=False, rich_markup_mode=None)

Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the bundle, the QR code and the PDF.")]


@app.command()
def demo(out: Out = Path("bpc-demo")) -> None:
    """Show what bpc does, printed as it goes.

    Takes an example battery through all eight steps: upload, facts, snapshot, compile, sign, QR, activate, replay.
    Starts the database, the API and a worker itself and works in a tenant `demo` of its own: it can be run any
    number of times, and touches nothing else. It does not run in prod.
    """
    settings = settings_for("demo")
    if settings.env == "prod":
        raise ConfigMissing.of("BPC_ENV", "the demo does not run in prod", fix="set BPC_ENV=dev")
    logging.getLogger("bpc").setLevel(logging.WARNING)  # what happens is what the demo prints
    started = time.monotonic()
    asyncio.run(_demo(settings, _folder(out)))
    say(f"\nAll of it in {time.monotonic() - started:.1f} s.", colour="green", bold=True)
    say(f"Look at {out / 'passport.pdf'}, or check it again: bpc verify {out / 'bundle.zip'}")
    say("Next: `bpc up` (or `make up`) keeps it running and prints an API key; `bpc --help` lists the commands.")


async def _demo(settings: Settings, out: Path) -> None:
    say("Battery Passport Compiler: one battery, from its suppliers' documents to its passport\n")
    told = Printed()
    async with AsyncExitStack() as kept_open:
        with told.step("start the database, the API and a worker"):
            database = await kept_open.enter_async_context(opened(settings, migrate_first=True))
            await plant(database, settings)
            tenant = (await tenant_called(database, "demo", name="Demo Manufacturing")).tenant_id
            url = await kept_open.enter_async_context(_running(settings, database))
            api_key = await kept_open.enter_async_context(_key(settings, database, tenant))
        told.more(f"{url}, on {database.address}")
        client = await kept_open.enter_async_context(Client(url, api_key))
        try:
            issued = await issue(client, told, out)
        except (ApiError, JobFailed, StillWaiting) as stopped:
            raise Conflict(str(stopped), fix="`bpc jobs list --tenant demo --status FAILED` may say why") from stopped
    public = public_key_of(signing_key(settings))
    if not check(issued.bundle, public, told):
        raise Conflict("verification did not find what is there to be found", fix="report it: this is a bug of bpc")


@asynccontextmanager
async def _running(settings: Settings, database: Database) -> AsyncIterator[str]:
    """The API, and a worker beside it."""
    signer = signer_of(settings)
    async with (
        serving(settings, database, peppers=peppers_of(settings), signer=signer) as service,
        working(settings, database, signer=signer, metrics=service.jobs.metrics),
        listening(service, LOCAL, 0) as port,
    ):
        yield url_of(LOCAL, port)


@asynccontextmanager
async def _key(settings: Settings, database: Database, tenant: TenantId) -> AsyncIterator[str]:
    """An API key for as long as the demo runs."""
    secret = pepper(settings)
    async with database.tenant(tenant) as conn:
        act = operator_act()
        actor = await actors.create(conn, tenant, kind="API_CLIENT", display_name="Demo", roles=["Admin"], act=act)
        issued = await apikeys.create(conn, tenant, actor, pepper=secret, act=act, label="bpc demo")
    try:
        yield issued.api_key.text
    finally:
        async with database.tenant(tenant) as conn:
            await apikeys.revoke(conn, tenant, issued.api_key.prefix, act=operator_act())


def _folder(out: Path) -> Path:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as failed:
        raise Invalid(f"`{out}` cannot be made: {failed.strerror}", fix="choose another folder with --out") from failed
    return out


class Printed(Told):
    """Tells it on the terminal."""

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        say("✓", colour="green", end=" ")
        say(f"{what}  ({(time.monotonic() - started) * 1000:.0f} ms)")

    def more(self, what: str) -> None:
        say(f"    {what}", dim=True)
