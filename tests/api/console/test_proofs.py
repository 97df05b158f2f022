"""Proofs in the console: a field's steps, its picture, and the bytes that the browser computes with."""

import json
from typing import TYPE_CHECKING

import pytest

from tests.api.console.test_every_page import open_browser

if TYPE_CHECKING:
    from tests.api.filled_tenants import TwoTenantApp

pytestmark = [pytest.mark.asyncio(loop_scope="module")]

FIELD = "papers.declaration"


async def test_a_field_is_explained_and_drawn_and_its_proof_is_the_stored_one(two_tenants: "TwoTenantApp") -> None:
    tenant = two_tenants.own
    browser = await open_browser(two_tenants, tenant, "Auditor")
    version = tenant.ids["passport_version_id"]
    page = f"/console/passports/versions/{version}"

    field_page = await browser.show(f"{page}/proof?field={FIELD}")
    picture = await browser.get(f"{page}/proof.svg?field={FIELD}")
    proof = await browser.get(f"{page}/proof.json")
    bundle = await browser.get(f"{page}/bundle.zip")
    wrong_page = await browser.get(f"{page}/proof?field=papers.declaratoin")

    proof_document = (await tenant.clients["Auditor"].get(f"/v1/passport-versions/{version}/proof")).json()
    assert proof_document["root_hash"] in field_page
    assert proof_document["nodes"][proof_document["field_index"][FIELD]]["hash"] in field_page
    assert '<details class="step" open>' in field_page
    assert "rules.bpc:" in field_page
    assert picture.headers["content-type"].startswith("image/svg+xml")
    assert picture.text.startswith("<svg")
    assert json.loads(proof.content) == proof_document
    assert bundle.content.startswith(b"PK")
    assert wrong_page.status_code == 404
    assert FIELD in wrong_page.text  # did you mean it?


async def test_who_may_not_read_a_source_is_not_told_of_it(two_tenants: "TwoTenantApp") -> None:
    browser = await open_browser(two_tenants, two_tenants.own, "Auditor")
    foreign = two_tenants.foreign.ids["passport_version_id"]

    answer = await browser.get(f"/console/passports/versions/{foreign}/proof?field={FIELD}")

    assert answer.status_code == 404
    assert two_tenants.foreign.mark not in answer.text
