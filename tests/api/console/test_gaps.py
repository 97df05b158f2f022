"""Gaps in the console as a spreadsheet: the same as the matrix, and nothing in it is a formula."""

from io import BytesIO

import openpyxl  # type: ignore[import-untyped]

from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.storage.database import Database
from tests.api.conftest import Api
from tests.api.console.conftest import Browser
from tests.api.item_fixtures import issue_model


async def test_the_matrix_comes_as_a_spreadsheet_without_formulas(
    browsers: dict[str, Browser], admin: Api, service: Service, database: Database, tenant: TenantId, act: Act
) -> None:
    await issue_model(admin, service, database, tenant, act)  # it brings rules that are published
    await admin.post_json("/v1/battery-products", {"sku": "=1+1", "name": "Pack"})

    answer = await browsers["ComplianceOfficer"].get("/console/gaps/export.xlsx")
    refused = await browsers["Auditor"].get("/console/gaps/export.xlsx")

    assert answer.status_code == 200, answer.text
    book = openpyxl.load_workbook(BytesIO(answer.content))
    assert book.sheetnames == ["Data points", "To do"]
    cells = [cell for sheet in book for row in sheet.iter_rows() for cell in row]
    assert "f" not in {cell.data_type for cell in cells}
    assert book["Data points"].max_column == 74
    assert refused.status_code == 403
