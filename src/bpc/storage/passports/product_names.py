"""Names of products: those of some SKUs, and the SKUs that a part of a SKU or a name leads to."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, LiteralString

from bpc.core.errors import Invalid
from bpc.core.formats.ids import TenantId
from bpc.storage.connection import Connection

MAX_MATCHING_PRODUCTS: Final = 20  # whose facts or jobs are looked up one product after the other

SELECT_SKUS_BY_TEXT: Final[LiteralString] = """
    SELECT b.sku FROM find_products_by_text($2, $3) AS matching(battery_product_id)
      JOIN battery_products b ON b.tenant_id = $1 AND b.battery_product_id = matching.battery_product_id
     ORDER BY b.sku
"""
SELECT_NAMES: Final[LiteralString] = (
    "SELECT sku, name FROM battery_products WHERE tenant_id = $1 AND sku = ANY($2::text[])"
)


class TextTooCommon(Invalid):
    """A text occurs in too many products."""

    def __init__(self, text: str) -> None:
        super().__init__(
            f"the SKU or the name of more than {MAX_MATCHING_PRODUCTS} products contains `{text}`",
            fix="write more of it, or filter by `sku`",
        )


async def find_skus_by_text(conn: Connection, tenant: TenantId, text: str) -> Sequence[str]:
    """The SKUs of the products whose SKU or name contains a text. Raises `TextTooCommon`."""
    rows = await conn.fetch(SELECT_SKUS_BY_TEXT, tenant, text, MAX_MATCHING_PRODUCTS + 1)
    if len(rows) > MAX_MATCHING_PRODUCTS:
        raise TextTooCommon(text)
    return [row["sku"] for row in rows]


async def load_product_names(conn: Connection, tenant: TenantId, skus: Iterable[str | None]) -> Mapping[str, str]:
    """The names of products by their SKUs; a SKU that no product has is left out."""
    wanted_skus = {sku for sku in skus if sku is not None}
    rows = await conn.fetch(SELECT_NAMES, tenant, sorted(wanted_skus)) if wanted_skus else []
    return {row["sku"]: row["name"] for row in rows}
