"""Templates over HTTP: for everybody, the same bytes as the command line writes."""

import httpx2
import pytest

from bpc.core.documents.forms.template_plan import build_template
from bpc.core.exports.data_points import CATEGORIES, Category
from bpc.core.formats.file_types import XLSX
from bpc.printing.template_workbook import write_template_workbook


@pytest.mark.parametrize("category", CATEGORIES)
async def test_the_template_of_a_category_needs_no_key(http: httpx2.AsyncClient, category: Category) -> None:
    answer = await http.get(f"/v1/templates/{category}", params={"language": "de"})

    assert (answer.status_code, answer.headers["content-type"]) == (200, XLSX)
    assert answer.headers["content-disposition"] == f'attachment; filename="{category}-de.xlsx"'
    assert answer.content == write_template_workbook(build_template(category, "de"))
    again = await http.get(
        f"/v1/templates/{category}", params={"language": "de"}, headers={"If-None-Match": answer.headers["etag"]}
    )
    assert again.status_code == 304


async def test_the_language_is_english_unless_another_is_asked_for(http: httpx2.AsyncClient) -> None:
    answer = await http.get("/v1/templates/lmt")

    assert answer.content == write_template_workbook(build_template("lmt", "en"))


@pytest.mark.parametrize("path", ["/v1/templates/car", "/v1/templates/ev?language=fr"])
async def test_an_unknown_category_or_language_is_refused(http: httpx2.AsyncClient, path: str) -> None:
    answer = await http.get(path)

    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "VALIDATION_ERROR")
