"""What rules are evaluated in: the product, the day of issue, the facts. Pure values."""

from dataclasses import dataclass

from bpc.core.facts import FactTable


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Everything a rule can ask for. `issued_on` is the day of `issued_at`."""

    product_sku: str
    product_name: str
    issued_on: str
    facts: FactTable
