"""The fact `Batch` of a batch: what is on record of it, and what is stated beside it when its passport is requested.

Pure. What is on record counts; stating something else is refused, so that two places cannot say two things.

    number, plant, day, statements ── build_batch_members ──► the payload of the fact `Batch`
"""

from collections.abc import Mapping
from datetime import date
from typing import Final

from bpc.core.errors import Invalid
from bpc.core.facts.item_schemas import BATCH
from bpc.core.formats.canonical_json import Json

# What is on record of a batch, by the member of the fact that it gives.
BATCH_NUMBER: Final = "batch_number"
PLANT: Final = "facility_id"
DAY: Final = "manufactured_on"
STATED_MEMBERS: Final = tuple(name for name in BATCH if name != BATCH_NUMBER)


class OtherBatchValue(Invalid):
    """A statement contradicts what is on record of the batch."""

    def __init__(self, name: str, value: str, recorded_value: str) -> None:
        super().__init__(
            f"`{name}` of this batch is `{recorded_value}`, and `{value[:80]}` is stated",
            fix=f"leave `{name}` out, or state what is on record",
            details={"member": name},
        )


def build_batch_members(
    batch_number: str, plant: str | None, manufactured_on: date | None, statements: Mapping[str, str]
) -> dict[str, Json]:
    """The members of the fact. Raises `OtherBatchValue`."""
    record = {
        BATCH_NUMBER: batch_number,
        PLANT: plant,
        DAY: None if manufactured_on is None else manufactured_on.isoformat(),
    }
    for name, value in statements.items():
        recorded_value = record.get(name)
        if recorded_value is not None and recorded_value != value:
            raise OtherBatchValue(name, value, recorded_value)
    return {**statements, **{name: value for name, value in record.items() if value is not None}}
