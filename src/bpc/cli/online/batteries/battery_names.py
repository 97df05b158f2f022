"""How a command names a battery: by its id, its address, the text of its code, or its serial number."""

from typing import Annotated
from uuid import UUID

import typer
from bpc_client import Client
from bpc_client.models import Battery

from bpc.cli.support.arguments import require_utf8
from bpc.core.errors import Invalid, NotFound
from bpc.core.formats.ids import NotAnId, parse_uuid

BatteryArgument = Annotated[
    str, typer.Argument(metavar="BATTERY", help="Its id, address, code or serial number.", show_default=False)
]


async def find_battery(bpc: Client, text: str) -> Battery:
    """The battery with this id, address, code or serial number."""
    label = require_utf8("the battery", text)
    try:
        return await bpc.get_battery(UUID(str(parse_uuid(label))))
    except NotAnId:
        matches = (await bpc.look_up_battery(text=label)).items
    if not matches:
        raise NotFound(f"there is no battery `{label}`", fix="`bpc batteries list` lists them")
    if len(matches) > 1:
        addresses = ", ".join(match.address for match in matches)
        raise Invalid(
            f"several batteries have the serial number `{label}`", fix=f"name one by its address: {addresses}"
        )
    return matches[0]
