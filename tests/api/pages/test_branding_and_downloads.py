"""What a tenant decides about its public pages: their looks, their files, and how long words of requests are kept."""

import base64
import re
import struct
import zlib
from datetime import timedelta

import httpx2
import pytest

from bpc.api.http.request_context import Service
from bpc.api.pages import page_settings
from bpc.core.audit.events import Act
from bpc.core.branding import measure_picture
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.formats.ids import TenantId
from bpc.core.verify.bundle import verify_bundle, verify_view
from bpc.runtime import clock
from bpc.storage.database import Database
from bpc.tasks.retention import Cutoffs, RetentionOrder, remove_expired
from tests.api.conftest import Api
from tests.api.pages.access_scenario import ASKED, PINS, IssuedPassports, find_faults, open_grant, read_reads

VERDICT = re.compile(r'<section class="verdict".*?</section>', re.DOTALL)


@pytest.fixture
def visitor(admin: Api) -> httpx2.AsyncClient:
    """Somebody with a phone and without a key."""
    return admin.http


@pytest.fixture(autouse=True)
def _read_settings_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_settings, "KEPT_SECONDS", -1.0)


def make_png(width: int, height: int, *chunks: tuple[bytes, bytes]) -> bytes:
    """A blue picture, with more chunks before its pixels."""
    rows = (b"\0" + b"\x10\x30\xa0" * width) * height if width * height < 1_000_000 else b""

    def write_chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", header), *chunks, (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(write_chunk(kind, data) for kind, data in parts)


async def brand(admin: Api, **members: object) -> httpx2.Response:
    return await admin.send("PUT", "/v1/tenant/branding", members)


async def read_page(visitor: httpx2.AsyncClient, passport: str) -> str:
    return (await visitor.get(f"/p/{passport}", headers={"Accept": "text/html"})).text


async def test_a_tenant_has_a_name_a_palette_and_a_logo_on_its_pages_and_the_verdict_stays_as_it_is(
    admin: Api, plain: IssuedPassports, visitor: httpx2.AsyncClient, database: Database, tenant: TenantId
) -> None:
    before = await read_page(visitor, plain.model)
    sent = make_png(200, 80, (b"tEXt", b"Comment\0secret place"))

    answer = await brand(admin, name="Müller & Söhne", palette="ocean", logo=base64.b64encode(sent).decode())
    page = await read_page(visitor, plain.model)

    assert answer.status_code == 200, answer.text
    address = re.search(r'<img src="[^"]*(/p/[^"]+[.]png)" alt="Müller &amp; Söhne" height="36" class="logo">', page)
    assert address is not None
    assert '<body data-palette="ocean">' in page
    [old_verdict], [new_verdict] = VERDICT.findall(before), VERDICT.findall(page)
    assert old_verdict == new_verdict
    assert page.index("Müller") < page.index('<section class="verdict"'), "branding stands before the verdict"
    logo = await visitor.get(address[1])
    assert logo.headers["content-type"] == "image/png"
    assert measure_picture(logo.content) == ("png", 270, 108)
    assert b"secret" not in logo.content
    assert to_hex(sha256(logo.content)) == answer.json()["logo_sha256"]

    removed = await brand(admin, name="", logo="")
    assert (removed.json()["name"], removed.json()["palette"], removed.json()["logo_sha256"]) == (None, "ocean", None)
    assert (await visitor.get(address[1])).status_code == 404
    assert await find_faults(database, tenant) == []


async def test_what_is_no_small_picture_or_reads_as_a_verdict_is_refused(admin: Api) -> None:
    pictures = {
        "svg": b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
        "html": b"<!doctype html><p>Verified</p>",
        "gif": b"GIF89a\x01\0\x01\0",
        "too wide": make_png(20_000, 20_000),
        "no pixels": make_png(0, 10),
        "cut": make_png(100, 100)[:60],
        "jpeg without a frame": b"\xff\xd8\xff\xe0\0\x10JFIF" + bytes(20),
        "too many bytes": make_png(10, 10) + bytes(512_000),
    }
    for label, content in pictures.items():
        answer = await brand(admin, logo=base64.b64encode(content).decode())
        assert answer.status_code == 422, (label, answer.text)
    assert (await brand(admin, logo="no base64!")).status_code == 422
    for name in (
        "Verified by ACME",
        "✔ ACME",
        "<b>ACME</b>",
        "Echt gut",
        "Zweryfikowano",
        "In force",
        "ACME  AG",
        "x" * 61,
    ):
        assert (await brand(admin, name=name)).status_code == 422, name
    assert (await brand(admin, palette="#ff0000")).status_code == 422
    branding = await admin.get_json("/v1/tenant/branding")
    assert branding == {"name": None, "palette": "standard", "logo_sha256": None}


async def test_everybody_gets_a_print_and_the_bundle_only_where_the_tenant_opened_it(
    admin: Api, plain: IssuedPassports, visitor: httpx2.AsyncClient
) -> None:
    page = await read_page(visitor, plain.model)
    [link] = re.findall(r'href="[^"]*(/p/[^"]+/passport[.]pdf)[?]lang=en"', page)
    bundle_link = link.replace("passport.pdf", "bundle.zip")

    english, german = await visitor.get(link), await visitor.get(f"{link}?lang=de")

    assert english.content.startswith(b"%PDF-")
    assert english.content != german.content
    assert (await visitor.get(link)).headers["etag"] == english.headers["etag"]
    assert "bundle.zip" not in page
    assert (await visitor.get(bundle_link)).status_code == 404
    await admin.send("PUT", "/v1/tenant/settings", {"bundles_for": "EVERYBODY"})
    opened = await visitor.get(bundle_link)
    assert verify_bundle(opened.content, pins=PINS).ok
    assert bundle_link in await read_page(visitor, plain.model)
    await admin.send("PUT", "/v1/tenant/settings", {"bundles_for": "GRANTEES"})
    assert (await visitor.get(bundle_link)).status_code == 404


async def test_a_grantee_gets_prints_older_versions_and_bundles_that_are_open_to_it_each_on_record(
    admin: Api, plain: IssuedPassports
) -> None:
    grant_id, holder = await open_grant(admin, audience="interest")
    place = f"/v1/granted/passports/{plain.model}"
    [version] = re.findall(r"/v/([0-9a-f-]{36})/view[.]json", await read_page(admin.http, plain.model))[:1]

    printed = await holder.get(f"{place}/pdf?lang=fr")
    older = await holder.get(f"{place}/view?version={version}")
    closed = await holder.get(f"{place}/bundle")
    await admin.send("PUT", "/v1/tenant/settings", {"bundles_for": "AUTHORITIES"})
    for_authorities = await holder.get(f"{place}/bundle")
    await admin.send("PUT", "/v1/tenant/settings", {"bundles_for": "GRANTEES"})
    bundle = await holder.get(f"{place}/bundle")

    assert printed.content.startswith(b"%PDF-")
    assert printed.headers["cache-control"] == "private, no-store"
    assert verify_view(older.content, pins=PINS).ok
    assert (await holder.get(f"{place}/view?version={clock.new_id()}")).status_code == 404
    assert {closed.status_code, for_authorities.status_code} == {404}
    assert verify_bundle(bundle.content, pins=PINS).ok
    reads = {read["form"]: read["view_sha256"] for read in await read_reads(admin, grant_id)}
    assert reads == {
        form: to_hex(sha256(each.content)) for form, each in (("pdf", printed), ("view", older), ("bundle", bundle))
    }


async def test_the_words_of_decided_requests_are_removed_when_their_time_is_over(
    admin: Api,
    plain: IssuedPassports,
    visitor: httpx2.AsyncClient,
    service: Service,
    database: Database,
    tenant: TenantId,
) -> None:
    for _ in range(2):
        await visitor.post(f"/p/{plain.model}/access/requests", data=ASKED)
    decided, pending = (await admin.get_json("/v1/view-requests"))["items"]
    await admin.post_json(f"/v1/view-requests/{decided['view_request_id']}:reject", {"reason": "no"}, status=200)
    await admin.send("PUT", "/v1/tenant/settings", {"request_words_days": 30})

    async def sweep(days: int) -> dict[str, str | None]:
        at = clock.now() + timedelta(days=days)
        order = RetentionOrder(run_id=clock.new_id(), cutoffs=Cutoffs.from_settings(service.settings, clock.now()))
        async with database.system(tenant) as conn:
            await remove_expired(conn, tenant, order, act=Act(None, at))
        rows = (await admin.get_json("/v1/view-requests"))["items"]
        return {row["view_request_id"]: row["name"] for row in rows}

    assert set((await sweep(29)).values()) == {ASKED["name"]}
    assert await sweep(31) == {decided["view_request_id"]: None, pending["view_request_id"]: ASKED["name"]}
    assert await find_faults(database, tenant) == []
