"""`bpc signer`: the process that holds private keys. `use_signer` starts one beside a command that needs it."""

import asyncio
import os
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Annotated, Final

import typer

from bpc.cli.support.arguments import ChannelOption
from bpc.cli.support.output import AsJson, print_result
from bpc.cli.support.session import load_settings_and_logs, stop_on_sigterm
from bpc.runtime.logs import get_logger
from bpc.runtime.settings import Settings
from bpc.runtime.signer_client import SignerClient, SignerUnavailable, locate_signer, open_signer_client
from bpc.runtime.supervision import build_child_command, open_parent_channel
from bpc.signer.serve import locate_record, run_signer, wait_for_record

READY_SECONDS: Final = 30.0
RESTART_SECONDS: Final = 0.5
STOP_SECONDS: Final = 5.0
log = get_logger(__name__)


def start_signer(
    wait: Annotated[
        bool, typer.Option("--wait", help="If another signer has the record, wait and take over when it ends.")
    ] = False,
    as_json: AsJson = False,
    channel_descriptor: ChannelOption = None,
) -> None:
    """Run the process that holds private keys until Ctrl-C.

    It signs whole receipts, checkpoints and status lists for the API and the workers, which hold no key. It checks
    form, tenant and key, and keeps a record of its own. `bpc up` starts one; in production, give it its own user.

    \b
    bpc signer
    """
    settings = load_settings_and_logs("signer", supervised=channel_descriptor is not None)
    asyncio.run(_serve(settings, channel_descriptor, wait=wait, as_json=as_json))


async def _serve(settings: Settings, descriptor: int | None, *, wait: bool, as_json: bool) -> None:
    stop = stop_on_sigterm()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.set)
    address = locate_signer(settings)

    def announce(says: str) -> None:
        print_result({"signer": str(address), "record": locate_record(settings)}, says, as_json=as_json)

    async with open_parent_channel(descriptor, {}):
        record = await wait_for_record(settings, stop, announce if wait else None)
        if record is None:
            return
        async with run_signer(settings, record) as desk:
            if not record.was_awaited:
                announce(f"the signer listens at {address}; press Ctrl-C to stop")
            stop_task, failure_task = asyncio.create_task(stop.wait()), asyncio.create_task(desk.is_broken.wait())
            await asyncio.wait({stop_task, failure_task}, return_when=asyncio.FIRST_COMPLETED)
            if failure_task.done():
                sys.exit(1)


@asynccontextmanager
async def use_signer(settings: Settings) -> AsyncIterator[SignerClient]:
    """A client of the signer. Unless the settings name its address, a signer runs beside this command.

    If there is one already, the new one waits and takes over when that one ends.
    """
    async with open_signer_client(settings) as client:
        if settings.signer_address is not None:
            yield client
            return
        keeper = asyncio.create_task(_keep_running())
        try:
            await _wait_until_answering(client, keeper)
            yield client
        finally:
            keeper.cancel()
            with suppress(asyncio.CancelledError):
                await keeper


async def _wait_until_answering(client: SignerClient, keeper: "asyncio.Task[None]") -> None:
    try:
        async with asyncio.timeout(READY_SECONDS):
            while not keeper.done():
                with suppress(SignerUnavailable):
                    await client.read_health()
                    return
                await asyncio.sleep(0.02)
    except TimeoutError:
        await client.read_health()  # says why
    await keeper


async def _keep_running() -> None:
    """Run a signer as a child, again and again. It ends when we do, however we end."""
    while True:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            command = build_child_command("signer", "--wait", "--line", str(theirs.fileno()))
            process = await asyncio.create_subprocess_exec(
                *command, pass_fds=[theirs.fileno()], stdout=PIPE, start_new_session=True
            )
            theirs.close()
            try:
                await process.communicate()
            except asyncio.CancelledError:
                await _stop(process)
                raise
        log.warning("the signer ended and is restarted", code=process.returncode)
        await asyncio.sleep(RESTART_SECONDS)


async def _stop(process: Process) -> None:
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
