"""Catalogues over HTTP: stored beside a package, replaced with an event, used for prints, outside every hash."""

import io
import json
from typing import Any

from pypdf import PdfReader
from service_jobs import Worker

from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act
from bpc.core.catalogue.po_file import PoEntry, build_header, format_po
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.formats.ids import TenantId
from bpc.storage.database import Database
from tests.api.conftest import Api
from tests.api.passport_fixtures import create_passport_inputs, issue_version
from tests.api.routes.test_rules import create_package, read_events


def make_catalogue(language: str = "de", checks: str = "Prüfliste") -> str:
    entries = [build_header(language, "own"), PoEntry(context="sheet", source="Battery passport", translation=checks)]
    return format_po(entries).decode()


async def test_a_catalogue_is_stored_listed_downloaded_and_replaced(admin: Api, superuser: Any) -> None:
    package = await create_package(admin)
    path = f"/v1/rule-packages/{package}/catalogues"

    first, text = make_catalogue(), make_catalogue(checks="Prüfungen")
    answers = [await admin.send("PUT", f"{path}/de", {"content": content}) for content in (first, first, text)]

    stored = answers[-1].json()

    listed = await admin.get_json(path)
    downloaded = await admin.get(f"{path}/de")
    assert (stored["language"], stored["texts"], stored["size"]) == ("de", 1, len(text.encode()))
    assert listed == {"catalogues": [stored]}
    assert downloaded.content == text.encode()
    assert downloaded.headers["etag"] == f'"{to_hex(sha256(text.encode()))}"' == f'"{stored["sha256"]}"'
    assert await read_events(superuser, package) == [
        "RULE_PACKAGE_CREATED",
        "RULE_CATALOGUE_STORED",
        "RULE_CATALOGUE_STORED",
    ], "the same text again is no change"


async def test_what_is_no_catalogue_or_for_another_language_is_refused(admin: Api) -> None:
    path = f"/v1/rule-packages/{await create_package(admin)}/catalogues"

    broken = await admin.send("PUT", f"{path}/de", {"content": "msgid oops\n"})
    french = await admin.send("PUT", f"{path}/fr", {"content": make_catalogue("de")})
    klingon = await admin.send("PUT", f"{path}/tl", {"content": make_catalogue("tl")})
    absent = await admin.get(f"{path}/de")

    assert [answer.status_code for answer in (broken, french, klingon, absent)] == [422, 422, 422, 404]
    assert "line 1 of the catalogue" in broken.text
    assert "is for `de`, not for `fr`" in french.text
    assert "not an official language" in klingon.text


async def test_a_print_is_in_its_language_with_the_words_of_its_rules(
    admin: Api, service: Service, database: Database, tenant: TenantId, act: Act, superuser: Any
) -> None:
    version = await issue_version(admin, service, await create_passport_inputs(admin, database, tenant, act))
    payload = (await admin.get(f"/v1/passport-versions/{version}/payload")).content
    package = await superuser.fetchval(
        """SELECT r.rule_package_id FROM passport_versions v
             JOIN rule_package_versions r USING (tenant_id, rule_package_version_id)
            WHERE v.passport_version_id = $1::text::uuid""",
        version,
    )
    await admin.send("PUT", f"/v1/rule-packages/{package}/catalogues/de", {"content": make_catalogue()})

    order = {"format": "PDF", "language": "de"}
    export = await admin.post_json(f"/v1/passport-versions/{version}/exports", order, status=202)
    await Worker(service.jobs).run_until_idle()

    known = await admin.get_json(f"/v1/exports/{export['export_id']}")
    document = (await admin.get(f"/v1/exports/{export['export_id']}/content")).content
    text = PdfReader(io.BytesIO(document)).pages[0].extract_text()
    assert (known["language"], known["file_name"]) == ("de", f"passport-{version}-public-de.pdf")
    assert "PRÜFLISTE" in text, "the word of the rules' own catalogue"
    assert "Getrennte Sammlung" in text, "the shipped ones answer for the rest"
    assert (await admin.get(f"/v1/passport-versions/{version}/payload")).content == payload
    event = await superuser.fetchval("SELECT payload FROM events WHERE event_type = 'EXPORT_CREATED'")
    assert json.loads(event)["language"] == "de"


async def test_only_a_print_is_in_a_language(
    admin: Api, service: Service, database: Database, tenant: TenantId, act: Act
) -> None:
    version = await issue_version(admin, service, await create_passport_inputs(admin, database, tenant, act))

    xml = await admin.post(f"/v1/passport-versions/{version}/exports", {"format": "XML", "language": "de"})
    unknown = await admin.post(f"/v1/passport-versions/{version}/exports", {"format": "PDF", "language": "xx"})

    assert (xml.status_code, unknown.status_code) == (422, 422)
    assert "only a PDF is in a language" in xml.text
    assert "not an official language" in unknown.text
