"""`bpc batteries transfer`: a battery that is waste is offered to another tenant, which takes it for another life."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final, Literal
from uuid import UUID

import typer
from bpc_client.models import Transfer

from bpc.cli.offline.trusted_keys import read_trusted_keys
from bpc.cli.online.api_client import collect, open_api
from bpc.cli.online.batteries.battery_names import BatteryArgument, find_battery
from bpc.cli.support.arguments import LimitOption, UrlOption, command_group
from bpc.cli.support.output import (
    REFUSED,
    AsJson,
    format_optional_time,
    print_json,
    print_line,
    print_refusal,
    print_table,
    read_bytes,
    replace_file,
)
from bpc.core.audit.signing import PinnedKey
from bpc.core.batteries.transfers import find_pair_faults
from bpc.core.errors import Invalid
from bpc.core.formats import canonical_json
from bpc.core.formats.ids import parse_uuid
from bpc.core.formats.timestamps import parse_sent_time

LONGEST_WAIT_SECONDS: Final = 60.0
PAUSE_SECONDS: Final = 0.25

transfer_app = command_group(
    "Offer a battery that is waste to another tenant, or take one for another life.\n\n"
    "Both sides are signed for. Then the battery has a new record with who takes it, linked with the old one."
)

Life = Literal["re-used", "repurposed", "remanufactured"]
TransferArgument = Annotated[
    str, typer.Argument(metavar="TRANSFER", help="The id of the transfer.", show_default=False)
]
OperatorOption = Annotated[
    str,
    typer.Option(
        "--by", metavar="WHO", help="Who answers for it on your side: GLN, EORI, VAT or LEI.", show_default=False
    ),
]
ReasonOption = Annotated[str, typer.Option("--reason", help="Why; both tenants see it.", show_default=False)]


@transfer_app.command("offer")
async def offer(
    battery: BatteryArgument,
    to: Annotated[str, typer.Option("--to", metavar="TENANT", help="The id of the other tenant.", show_default=False)],
    by: OperatorOption,
    life: Annotated[Life | None, typer.Option("--life", help="Only for this life.")] = None,
    remark: Annotated[str | None, typer.Option("--remark", help="Something for who takes it.")] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="When it expires; after 30 days.")
    ] = None,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Offer a battery that is waste to another tenant.

    \b
    bpc batteries transfer offer A1 --to 0b9e1c5e-… --by GLN:9521234000006

    The other tenant sees its address, serial number and dates, and nothing else of yours.
    """
    expires_at: datetime | None = None if until is None else parse_sent_time(until)
    async with open_api(url, as_json=as_json) as bpc:
        battery_id = (await find_battery(bpc, battery)).battery_id
        transfer = await bpc.offer_battery(
            battery_id=battery_id,
            to_tenant_id=_parse_id(to),
            operator=by,
            life=life,
            remark=remark,
            expires_at=expires_at,
        )
    _print_transfer(transfer, as_json=as_json)


@transfer_app.command("list")
async def list_all(limit: LimitOption = 1000, url: UrlOption = None, as_json: AsJson = False) -> None:
    """List open offers to you, and transfers that you offered or answered; newest first."""
    async with open_api(url, as_json=as_json) as bpc:
        tenant = (await bpc.get_tenant()).tenant_id
        incoming = await collect(bpc.list_all(bpc.list_incoming_transfers), limit)
        own = await collect(bpc.list_all(bpc.list_transfers), limit)
    if as_json:
        print_json(
            {
                "tenant_id": str(tenant),
                "incoming": [each.model_dump(mode="json") for each in incoming],
                "own": [each.model_dump(mode="json") for each in own],
            }
        )
        return
    print_line(f"your tenant id is {tenant}: who offers you a battery needs it")
    _print_list([*incoming, *own])


@transfer_app.command("show")
async def show(
    transfer: TransferArgument,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="FILE", help="Write both signed statements into this file.")
    ] = None,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Show a transfer; with --save, keep what both sides signed."""
    transfer_id = _parse_id(transfer)
    async with open_api(url, as_json=as_json) as bpc:
        row = await bpc.get_transfer(transfer_id)
        statements = None if save is None else await bpc.get_transfer_statements(transfer_id)
    if save is not None and statements is not None:
        replace_file(save, canonical_json.encode(statements.model_dump(mode="json")))
    _print_transfer(row, as_json=as_json)


@transfer_app.command("accept")
async def accept(
    transfer: TransferArgument,
    life: Annotated[Life, typer.Option("--life", help="What it was prepared for.", show_default=False)],
    on: Annotated[str, typer.Option("--on", metavar="DAY", help="When the new life begins.", show_default=False)],
    by: OperatorOption,
    sku: Annotated[str, typer.Option("--sku", help="The product of yours that it is now.", show_default=False)],
    serial: Annotated[str, typer.Option("--serial", help="Its serial number there.", show_default=False)],
    address: Annotated[str | None, typer.Option("--address", help="Its link, if the product uses IEC 61406.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until both sides are signed for.")] = False,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Accept a battery that is offered to you. Both sides are signed for in a moment."""
    async with open_api(url, as_json=as_json) as bpc:
        row = await bpc.accept_transfer(
            _parse_id(transfer),
            life=life,
            effective_on=on,
            operator=by,
            sku=sku,
            serial_number=serial,
            address=address,
        )
        deadline = time.monotonic() + LONGEST_WAIT_SECONDS
        while wait and row.state == "ACCEPTED" and time.monotonic() < deadline:
            await asyncio.sleep(PAUSE_SECONDS)
            row = await bpc.get_transfer(row.transfer_id)
    _print_transfer(row, as_json=as_json)


@transfer_app.command("decline")
async def decline(
    transfer: TransferArgument, reason: ReasonOption, url: UrlOption = None, as_json: AsJson = False
) -> None:
    """Decline an offer, or take an acceptance back while it is not completed."""
    async with open_api(url, as_json=as_json) as bpc:
        row = await bpc.decline_transfer(_parse_id(transfer), reason=reason)
    _print_transfer(row, as_json=as_json)


@transfer_app.command("withdraw")
async def withdraw(
    transfer: TransferArgument, reason: ReasonOption, url: UrlOption = None, as_json: AsJson = False
) -> None:
    """Withdraw an offer of yours while it is not completed."""
    async with open_api(url, as_json=as_json) as bpc:
        row = await bpc.withdraw_transfer(_parse_id(transfer), reason=reason)
    _print_transfer(row, as_json=as_json)


@transfer_app.command("check")
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `show --save` wrote.", show_default=False)],
    keys: Annotated[Path, typer.Option("--keys", metavar="FILE", help="Public keys you trust.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Check what both sides signed, without a service.

    \b
    bpc batteries transfer check transfer.json --keys bpc-keys.json
    """
    gives, takes = _read_statements(read_bytes(str(file)))
    pins = [pin if isinstance(pin, PinnedKey) else PinnedKey(pin, None) for pin in read_trusted_keys([], keys)]
    faults = list(find_pair_faults(gives, takes, pins))
    if faults:
        print_refusal("SIGNATURE_INVALID", faults[0], "ask both sides", {"faults": faults}, as_json=as_json)
        raise typer.Exit(REFUSED)
    if as_json:
        print_json({"ok": True})
    else:
        print_line("both sides signed the same terms, with keys that you trust")


def _read_statements(data: bytes) -> tuple[bytes, bytes]:
    members = canonical_json.read_json(data)
    if not isinstance(members, Mapping) or members.keys() != {"gives", "takes"}:
        raise Invalid("the file does not hold two statements", fix="give the file that `show --save` wrote")
    return canonical_json.encode(members["gives"]), canonical_json.encode(members["takes"])


def _parse_id(text: str) -> UUID:
    return UUID(str(parse_uuid(text)))


def _print_list(rows: Sequence[Transfer]) -> None:
    print_table(
        ("transfer", "side", "state", "serial", "address", "until"),
        [
            (
                str(each.transfer_id),
                each.side,
                each.state,
                each.offered.serial_number,
                each.offered.address,
                format_optional_time(each.expires_at),
            )
            for each in rows
        ],
    )


def _print_transfer(transfer: Transfer, *, as_json: bool) -> None:
    if as_json:
        print_json(transfer.model_dump(mode="json"))
        return
    print_line(f"transfer  {transfer.transfer_id}")
    print_line(f"state     {transfer.state.lower()}")
    print_line(f"side      you {'give' if transfer.side == 'GIVES' else 'take'} it")
    print_line(f"serial    {transfer.offered.serial_number}")
    print_line(f"address   {transfer.offered.address}")
    print_line(f"given by  {transfer.offered.operator}")
    if transfer.accepted is not None:
        print_line(
            f"taken by  {transfer.accepted.operator}, {transfer.accepted.life} on {transfer.accepted.effective_on}"
        )
    if transfer.reason is not None:
        print_line(f"reason    {transfer.reason}")
