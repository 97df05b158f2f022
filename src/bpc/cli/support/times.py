"""Options that take a time: how long ago, a day, or any time of RFC 3339."""

import re
from datetime import datetime, timedelta
from typing import Annotated, Final

import typer

from bpc.cli.support.arguments import require_utf8
from bpc.core.errors import Invalid
from bpc.core.formats.timestamps import format_time, parse_sent_time_or_day
from bpc.runtime import clock

AGE: Final = re.compile(r"(?P<count>[0-9]{1,6})(?P<unit>[smhd])")
SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
FORMS: Final = "30m, 2h or 7d ago, a day, or a time like 2027-02-18T12:00:00Z."

SinceOption = Annotated[str | None, typer.Option("--since", metavar="WHEN", help=f"From this time on: {FORMS}")]
UntilOption = Annotated[str | None, typer.Option("--until", metavar="WHEN", help=f"Before this time: {FORMS}")]


def parse_when(text: str) -> datetime:
    """`30m` means 30 minutes ago; a day means its first moment in UTC."""
    if age := AGE.fullmatch(text):
        return clock.now() - timedelta(seconds=int(age["count"]) * SECONDS[age["unit"]])
    try:
        return parse_sent_time_or_day(require_utf8("the time", text))
    except Invalid as wrong:
        raise Invalid(wrong.says, fix=f"{wrong.fix}; or write how long ago, like 30m, 2h or 7d") from None


def format_when(text: str | None) -> str | None:
    """What the API is sent for an option."""
    return None if text is None else format_time(parse_when(text))
