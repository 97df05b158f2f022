"""Files behind data points over HTTP: attached, withdrawn, sealed with a snapshot, served to whom they are for."""

import io
import zipfile
from base64 import b64encode
from typing import Any

import orjson
import pytest

from bpc.core.audit.signing import derive_public_key
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.verify.bundle import verify_bundle
from bpc.storage.passports import exports
from tests.api.conftest import SEED, Api
from tests.api.routes.test_statements import load_known
from tests.api.test_journey import compile_version, publish_rules, wait_for_job
from tools import reference_input

pytestmark = pytest.mark.usefixtures("worker")

DECLARATION = reference_input.make_pdf("Declaration of conformity")
REPORT = reference_input.make_pdf("Test report")
LABEL = reference_input.make_png()
MEMBERS = "title: Opt(Text), file_name: Opt(Text), sha256: Text"
RULES = "".join(
    f"""
field {path} {audiences}: List(Record({MEMBERS})) =
  map(getFactsByPrefix("Attachment", concat("attachment:", productSku(), ":{point}:")),
      fn(a) => {{title: recordGet(a, "title"), file_name: recordGet(a, "file_name"),
                sha256: requireSome(recordGet(a, "sha256"), "F1", "no hash")}});
"""
    for path, audiences, point in (
        ("conformity.declaration", "@public", 42),
        ("conformity.reports", "@authority", 50),
        ("labels.collection", "", 40),
    )
)
TESTS = """
example a_file: { fact a("Attachment", "attachment:SKU-1:42:01") = {"sha256": "01"}; } =>
  expect(conformity.declaration, == [{title: none, file_name: none, sha256: "01"}]);
  expect(conformity.reports, == []);
  expect(labels.collection, == []);
;
property files: cases(500) seed(1) given {
  fact a("Attachment", "attachment:SKU-1:42:01") = {"sha256": "01"};
} => forall x: Int . implies(true, count(field("conformity.declaration")) == 1); ;
"""


async def upload_file(api: Api, content: bytes, mime_type: str, *, ref: str | None = None, kind: str = "OTHER") -> Any:
    """The answer to an upload of a file to a document of its own."""
    document = await api.post_json("/v1/documents", {"kind": kind, "external_ref": ref})
    return await upload_version(api, document["document_id"], content, mime_type)


async def upload_version(api: Api, document: str, content: bytes, mime_type: str) -> Any:
    body = {"mime_type": mime_type, "content_base64": b64encode(content).decode()}
    uploaded = await api.post_json(f"/v1/documents/{document}/versions", body)
    return {**uploaded, "document_id": document}


async def attach(api: Api, version: str, point: int, *, status: int = 201, **members: Any) -> Any:
    body = {"sku": "A-1", "data_point": point, "document_version_id": version, **members}
    return await api.post_json("/v1/attachments", body, status=status)


async def describe_battery(api: Api) -> None:
    content = orjson.dumps({"battery": {"sku": "A-1", "capacity_kwh": 75.5}})
    uploaded = await upload_file(api, content, "application/json", kind="BOM")
    await wait_for_job(api, uploaded["job_id"])


async def load_states(api: Api, sku: str) -> list[tuple[int, bool]]:
    """The data point of each attachment, and whether it counts."""
    items = (await api.get_json("/v1/attachments", params={"sku": sku}))["items"]
    return sorted((item["data_point"], item["counts"]) for item in items)


async def test_a_file_is_attached_once_and_says_its_type_by_its_bytes(admin: Api) -> None:
    uploaded = await upload_file(admin, DECLARATION, "application/octet-stream")

    first = await attach(admin, uploaded["document_version_id"], 42, title="Declaration")
    again = await attach(admin, uploaded["document_version_id"], 42, title="Declaration", status=200)
    elsewhere = await attach(admin, uploaded["document_version_id"], 43)

    assert first == again
    assert first["attachment_id"] != elsewhere["attachment_id"]
    assert (first["mime_type"], first["size"], first["counts"]) == ("application/pdf", len(DECLARATION), True)
    assert first["sha256"] == to_hex(sha256(DECLARATION))
    assert await admin.get_json(f"/v1/attachments/{first['attachment_id']}") == first
    other_title = {"sku": "A-1", "data_point": 42, "document_version_id": uploaded["document_version_id"], "title": "X"}
    refused = await admin.post("/v1/attachments", other_title)
    assert (refused.status_code, "withdraw" in refused.json()["error"]["message"]) == (409, True)


async def test_an_attached_file_says_the_name_of_its_product(admin: Api) -> None:
    uploaded = await upload_file(admin, DECLARATION, "application/pdf")
    before = await attach(admin, uploaded["document_version_id"], 42)

    await admin.post_json("/v1/battery-products", {"sku": "A-1", "name": "Traction battery"})

    [after] = (await admin.get_json("/v1/attachments", params={"sku": "A-1"}))["items"]
    assert (before["product_name"], after["product_name"]) == (None, "Traction battery")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"<!doctype html><script>alert(1)</script>", "text/html"),
        (b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>', "application/xml"),
        (b"sku,mass\nA-1,5\n", "text/csv"),
        (b"\x00\x01\x02", "application/octet-stream"),
    ],
)
async def test_a_file_that_could_run_or_that_nobody_can_show_is_refused(admin: Api, content: bytes, said: str) -> None:
    uploaded = await upload_file(admin, content, said)
    body = {"sku": "A-1", "data_point": 42, "document_version_id": uploaded["document_version_id"]}

    refused = await admin.post("/v1/attachments", body)

    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "VALIDATION_ERROR")
    assert "PDF, PNG or JPEG" in refused.json()["error"]["message"]


async def test_what_is_named_wrongly_is_refused_with_what_to_do(admin: Api) -> None:
    uploaded = await upload_file(admin, DECLARATION, "application/pdf")
    version = uploaded["document_version_id"]

    both = await admin.post(
        "/v1/attachments", {"sku": "A-1", "data_point": 42, "document_version_id": version, "external_ref": "R"}
    )
    neither = await admin.post("/v1/attachments", {"sku": "A-1", "data_point": 42})
    no_file = await admin.post("/v1/attachments", {"sku": "A-1", "data_point": 10, "document_version_id": version})
    unknown = await admin.post("/v1/attachments", {"sku": "A-1", "data_point": 42, "external_ref": "nobody"})

    assert [answer.status_code for answer in (both, neither, no_file, unknown)] == [422, 422, 422, 404]


async def test_the_version_that_a_document_says_now_is_attached_by_its_reference(admin: Api) -> None:
    uploaded = await upload_file(admin, DECLARATION, "application/pdf", ref="DOC-1")
    newer = await upload_version(admin, uploaded["document_id"], REPORT, "application/pdf")

    attached = await admin.post_json("/v1/attachments", {"sku": "A-1", "data_point": 42, "external_ref": "DOC-1"})

    assert attached["document_version_id"] == newer["document_version_id"]
    old = {"sku": "A-1", "data_point": 42, "document_version_id": uploaded["document_version_id"]}
    refused = await admin.post("/v1/attachments", old)
    assert (refused.status_code, "not the current one" in refused.json()["error"]["message"]) == (409, True)


async def test_only_files_that_count_are_in_the_snapshot_of_a_product(admin: Api) -> None:
    await describe_battery(admin)
    declaration = await upload_file(admin, DECLARATION, "application/pdf")
    report = await upload_file(admin, REPORT, "application/pdf")
    label = await upload_file(admin, LABEL, "image/png")
    first = await attach(admin, declaration["document_version_id"], 42)
    await attach(admin, report["document_version_id"], 50)
    await attach(admin, label["document_version_id"], 40)

    why = {"reason": "It is of another model."}
    withdrawn = await admin.post_json(f"/v1/attachments/{first['attachment_id']}:withdraw", why, status=200)
    await admin.post_json(f"/v1/documents/{report['document_id']}:withdraw", why, status=200)

    assert (withdrawn["counts"], withdrawn["reason"]) == (False, why["reason"])
    assert await load_states(admin, "A-1") == [(40, True), (42, False), (50, False)]
    twice = await admin.post(f"/v1/attachments/{first['attachment_id']}:withdraw", why)
    assert (twice.status_code, "already withdrawn" in twice.json()["error"]["message"]) == (409, True)
    known = await load_known(admin, "A-1")
    assert sorted(known) == [f"attachment:A-1:40:{to_hex(sha256(LABEL))[:16]}", "battery:A-1"]
    events = await admin.get_json(
        "/v1/audit/events", params={"aggregate_type": "Document", "aggregate_id": declaration["document_id"]}
    )
    assert [event["event_type"] for event in events["items"]][:2] == ["ATTACHMENT_WITHDRAWN", "ATTACHMENT_ADDED"]
    await attach(admin, declaration["document_version_id"], 42)
    assert await load_states(admin, "A-1") == [(40, True), (42, False), (42, True), (50, False)]


async def test_a_product_has_a_hundred_attachments_at_most_at_the_same_time(admin: Api) -> None:
    files = [reference_input.make_pdf(f"Report {number}") for number in range(13)]
    versions = [(await upload_file(admin, file, "application/pdf"))["document_version_id"] for file in files]
    bindings = [(version, point) for version in versions for point in (40, 41, 42, 43, 47, 48, 49, 50)]
    added = [await attach(admin, *binding) for binding in bindings[:100]]

    refused = await attach(admin, *bindings[100], status=409)
    why = {"reason": "It no longer matters."}
    await admin.post_json(f"/v1/attachments/{added[0]['attachment_id']}:withdraw", why, status=200)

    assert refused["error"]["message"].startswith("`A-1` has 100 attachments")
    await attach(admin, *bindings[100])
    await attach(admin, *bindings[101], status=409)
    await attach(admin, *bindings[101], sku="A-2")


async def test_a_file_is_served_to_the_audiences_of_the_field_that_names_it_and_to_no_other(
    admin: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await describe_battery(admin)
    files = {42: DECLARATION, 50: REPORT, 40: LABEL}
    for point, content in files.items():
        uploaded = await upload_file(admin, content, "application/octet-stream")
        await attach(admin, uploaded["document_version_id"], point)
    elsewhere = await upload_file(admin, reference_input.make_pdf("Not attached"), "application/pdf")
    snapshot = (await admin.post_json("/v1/snapshots", {"sku": "A-1"}))["snapshot_id"]
    rules = await publish_rules(admin, RULES, TESTS)
    product = (await admin.post_json("/v1/battery-products", {"sku": "A-1", "name": "A"}))["battery_product_id"]
    passport = (await admin.post_json("/v1/passports", {"battery_product_id": product}))["passport_id"]
    version = await compile_version(admin, passport, snapshot, rules)

    async def load_statuses(digest: str) -> dict[str, int]:
        path = f"/v1/passport-versions/{version}/attachments/{digest}"
        audiences = ("public", "interest", "authority", "tenant")
        return {name: (await admin.get(path, params={"audience": name})).status_code for name in audiences}

    nobody = dict.fromkeys(("public", "interest", "authority", "tenant"), 404)
    hashes = {point: to_hex(sha256(content)) for point, content in files.items()}
    assert await load_statuses(hashes[42]) == dict.fromkeys(nobody, 200)
    assert await load_statuses(hashes[50]) == {**nobody, "authority": 200, "tenant": 200}
    assert await load_statuses(hashes[40]) == {**nobody, "tenant": 200}
    assert await load_statuses(elsewhere["sha256"]) == nobody
    served = await admin.get(f"/v1/passport-versions/{version}/attachments/{hashes[42]}", params={"audience": "public"})
    assert (served.content, served.headers["content-type"]) == (DECLARATION, "application/pdf")
    assert served.headers["content-disposition"] == "attachment"
    assert "sandbox" in served.headers["content-security-policy"]

    # With the files a bundle holds them and still verifies; without them its bytes are what they were.
    plain = (await admin.get(f"/v1/passport-versions/{version}/bundle")).content
    full = (await admin.get(f"/v1/passport-versions/{version}/bundle", params={"attachments": "true"})).content
    names = set(zipfile.ZipFile(io.BytesIO(full)).namelist()) - set(zipfile.ZipFile(io.BytesIO(plain)).namelist())
    assert names == {f"attachments/{digest}" for digest in hashes.values()}
    for bundle in (plain, full):
        report = verify_bundle(bundle, pins=[derive_public_key(SEED)])
        assert [step for step in report.steps if not step.ok] == []
    assert (
        await admin.get(f"/v1/passport-versions/{version}/bundle", params={"attachments": "false"})
    ).content == plain
    # A bundle that would be too large is refused before its files are loaded.
    monkeypatch.setattr(exports, "MAX_ARCHIVE_BYTES", len(full))
    path = f"/v1/passport-versions/{version}/bundle"
    assert (await admin.get(path, params={"attachments": "true"})).content == full
    monkeypatch.setattr(exports, "MAX_ARCHIVE_BYTES", len(full) - 1)
    refused = await admin.get(path, params={"attachments": "true"})
    assert (refused.status_code, refused.json()["error"]["details"]["bytes"]) == (409, len(full))
    assert (await admin.get(path)).content == plain
    # A binding that ends later changes nothing about a passport that names the file.
    [declaration] = [
        item
        for item in (await admin.get_json("/v1/attachments", params={"sku": "A-1"}))["items"]
        if item["data_point"] == 42
    ]
    why = {"reason": "There is a newer one."}
    await admin.post_json(f"/v1/attachments/{declaration['attachment_id']}:withdraw", why, status=200)
    assert await load_statuses(hashes[42]) == dict.fromkeys(nobody, 200)
