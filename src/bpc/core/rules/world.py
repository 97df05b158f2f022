"""What rules are evaluated in: the product, the day of issue, the facts. Pure values."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from bpc.core.facts import FactTable, SnapshotFact
from bpc.core.rules.types import Fact
from bpc.core.timestamps import format_time


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Everything a rule can ask for. `issued_on` is the day of `issued_at`."""

    product_sku: str
    product_name: str
    issued_on: str
    facts: FactTable


def world_of(
    facts: Iterable[SnapshotFact], named: Iterable[Fact], *, sku: str, name: str, issued_at: datetime
) -> World:
    """The world of a passport: the facts of the types its rules name, and the day of `issued_at` in UTC."""
    day = format_time(issued_at)[: len("2027-02-18")]
    return World(product_sku=sku, product_name=name, issued_on=day, facts=FactTable.of(facts, named))
