"""What products lack, asked of the service: for a template that asks suppliers for nothing else."""

from collections.abc import Sequence

from bpc.cli.online.api_client import open_api
from bpc.cli.online.readiness import iterate_reports
from bpc.core.documents.forms.missing import MissingProduct, read_missing_list
from bpc.core.errors import Invalid


async def ask_missing_products(skus: Sequence[str], url: str | None) -> list[MissingProduct]:
    """What is missing for each of these products, by the only rules that are published."""
    products: list[MissingProduct] = []
    async with open_api(url, as_json=False) as bpc:
        async for report in iterate_reports(bpc, skus, None, None):
            if report.refused:
                raise Invalid(f"`{report.refused[0].sku}` cannot be checked: {report.refused[0].message}")
            products += read_missing_list(report.model_dump(mode="json")) or []
    return products
