"""PDFs of public passports: made when somebody asks for one, and kept while they are asked for.

One is made at a time, of a tenant and in all, as pages are: who prints must not take the processor of those who look.
"""

import asyncio
from collections import OrderedDict
from dataclasses import replace
from datetime import datetime
from typing import Final, NamedTuple

from bpc.api.access.tenant_limits import HeavyRequestSlots
from bpc.core.catalogue.number_format import Language
from bpc.core.exports.disclosure import DisclosedPassport
from bpc.core.exports.sheet import build_sheet
from bpc.core.formats.ids import PassportVersionId
from bpc.core.formats.timestamps import parse_time
from bpc.printing import print_pdf
from bpc.printing.catalogues import load_wording

MOST_KEPT: Final = 32  # some 100 kB each


class PrintKey(NamedTuple):
    """What a print depends on: a version, and what became of it."""

    version: PassportVersionId
    language: Language
    waived: int | None
    revoked_at: datetime | None


class PrintedPassports:
    """The prints that were asked for lately. Those that were not asked for the longest time make room."""

    def __init__(self) -> None:
        self._kept: OrderedDict[PrintKey, bytes] = OrderedDict()
        self.slots = HeavyRequestSlots(1, label="prints and bundles")

    async def print(self, key: PrintKey, passport: DisclosedPassport, catalogue: bytes | None) -> bytes:
        """The passport as a PDF for the public."""
        content = self._kept.get(key)
        if content is None:
            async with self.slots.take(passport.receipt.tenant_id):
                content = await asyncio.to_thread(print_passport, passport, key.language, catalogue, key.revoked_at)
        self._kept[key] = content
        self._kept.move_to_end(key)
        if len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return content


def print_passport(
    passport: DisclosedPassport, language: Language, catalogue: bytes | None, revoked_at: datetime | None
) -> bytes:
    """A passport as a PDF, as its audience sees it."""
    wording = load_wording(language, () if catalogue is None else (catalogue,))
    sheet = build_sheet(replace(passport, revoked_at=revoked_at), wording)
    return print_pdf(sheet, at=parse_time(passport.issued_at))
