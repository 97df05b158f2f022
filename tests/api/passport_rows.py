"""Rows of a filled tenant: its rules, products, passports and exports."""

from datetime import timedelta
from typing import Final
from uuid import UUID

from bpc.core.audit.signing import Signer
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import (
    BatteryProductId,
    PassportId,
    PassportVersionId,
    RulePackageVersionId,
    SnapshotId,
)
from bpc.core.language.package import read_program
from bpc.core.passport.bundle import format_receipt_qr_text
from bpc.core.passport.compile import compile_passport
from bpc.core.passport.compile_input import CompileInput, Product
from bpc.core.passport.payload import make_blinding_fact
from bpc.core.passport.qr import draw_qr_png
from bpc.core.passport.receipt import read_receipt, sign_receipt
from bpc.runtime import clock
from bpc.storage.connection import Connection
from tests.api.conftest import KEY_ID, SEED
from tests.api.evidence_rows import insert_fact, insert_snapshot, make_attachment_fact
from tests.api.rule_texts import RULES, TESTS
from tests.api.tenant_data import FilledTenant, add_id, get_id
from tests.storage.statements import insert_row

COMPILED_NUMBER: Final = 3  # of the version that passports are compiled with
FILES_RULE: Final = b"""
field papers.declaration @public: List(Text) =
  map(getFactsByPrefix("Attachment", concat("attachment:", productSku(), ":42:")),
      fn(a) => requireSome(recordGet(a, "sha256"), "F1", "no hash"));
"""


async def insert_rules(conn: Connection, tenant_data: FilledTenant) -> None:
    for name in ("rule_package_id", "idle_rule_package_id"):
        await insert_row(
            conn,
            "rule_packages",
            tenant_id=tenant_data.tenant,
            rule_package_id=add_id(tenant_data, name),
            name=f"{tenant_data.mark} {name}",
            description=f"{tenant_data.mark} description",
        )
    await insert_row(
        conn,
        "rule_catalogues",
        tenant_id=tenant_data.tenant,
        rule_package_id=get_id(tenant_data, "rule_package_id"),
        language="de",
        content=f"# {tenant_data.mark}\n".encode(),
        sha256=sha256(f"# {tenant_data.mark}\n".encode()),
        texts=0,
        stored_at=clock.now(),
    )
    for number, (name, steps) in enumerate(
        [
            ("rule_package_version_id", []),
            ("validated_version_id", ["VALIDATED"]),
            ("published_version_id", ["VALIDATED", "PUBLISHED"]),
            ("deprecated_version_id", ["VALIDATED", "PUBLISHED"]),
            ("retired_version_id", ["VALIDATED", "PUBLISHED"]),
        ],
        start=1,
    ):
        await _insert_rule_version(conn, tenant_data, add_id(tenant_data, name), number, steps)


def make_rule_text(tenant_data: FilledTenant, number: int) -> bytes:
    # Below a product whose rules are of level 2, batteries can have passports of their own.
    level = "language 2;\n" if number == COMPILED_NUMBER else ""
    return f"{level}-- {tenant_data.mark} {number}\n".encode() + RULES + FILES_RULE


async def _insert_rule_version(
    conn: Connection, tenant_data: FilledTenant, version: UUID, number: int, steps: list[str]
) -> None:
    source = make_rule_text(tenant_data, number)
    await insert_row(
        conn,
        "rule_package_versions",
        tenant_id=tenant_data.tenant,
        rule_package_version_id=version,
        rule_package_id=get_id(tenant_data, "rule_package_id"),
        version=number,
        status="DRAFT",
        compiler_min_build="1",
        dsl_source=source,
        dsl_sha256=sha256(source),
        tests_source=TESTS,
        tests_sha256=sha256(TESTS),
    )
    for declared in read_program(source, TESTS).fields:
        await insert_row(
            conn,
            "rule_fields",
            tenant_id=tenant_data.tenant,
            rule_field_id=clock.new_id(),
            rule_package_version_id=version,
            field_path=declared.path,
            field_type="Text",
            audiences=["public"],
        )
    await insert_row(
        conn,
        "rule_tests_runs",
        tenant_id=tenant_data.tenant,
        run_id=add_id(tenant_data, "run_id" if number == 1 else f"run_{number}_id"),
        rule_package_version_id=version,
        seed=1,
        cases=502,
        passed=502,
        failed=0,
        discarded=0,
        status="PASSED",
        coverage=_COVERAGE,
    )
    for step in steps:
        await conn.execute(
            """UPDATE rule_package_versions SET status = $2::rule_pkg_status,
                      published_at = CASE WHEN $2 = 'PUBLISHED' THEN $3 ELSE published_at END
                WHERE rule_package_version_id = $1""",
            version,
            step,
            clock.now(),
        )


async def insert_passports(conn: Connection, tenant_data: FilledTenant) -> None:
    await _insert_product(conn, tenant_data, add_id(tenant_data, "bare_product_id"), f"SKU-{tenant_data.mark}-bare")
    for number, name in enumerate(["passport_version_id", "activated_version_id", "revoked_version_id"]):
        await _insert_passport_version(conn, tenant_data, number, PassportVersionId(add_id(tenant_data, name)))
    for number, name in enumerate(["unsigned_version_id", "stuck_version_id"], start=3):
        version = PassportVersionId(add_id(tenant_data, name))
        await _insert_passport_version(conn, tenant_data, number, version, is_signed=False)
    await _insert_public_version(conn, tenant_data)
    await _insert_export(conn, tenant_data)


async def _insert_public_version(conn: Connection, tenant_data: FilledTenant) -> None:
    """A version in force, which nobody calls for anything else than to read it."""
    version = add_id(tenant_data, "public_version_id")
    await _insert_passport_version(conn, tenant_data, 5, PassportVersionId(version))
    passport = await conn.fetchval(
        """UPDATE passport_versions SET status = 'ACTIVE', activated_at = $2 WHERE passport_version_id = $1
            RETURNING passport_id""",
        version,
        clock.now(),
    )
    await conn.execute(
        "UPDATE passports SET current_passport_version_id = $2 WHERE passport_id = $1", passport, version
    )
    tenant_data.ids["public_passport_id"] = str(passport)
    tenant_data.ids["model_sku"] = f"SKU-{tenant_data.mark}-5"


async def insert_status_documents(conn: Connection, tenant_data: FilledTenant) -> None:
    """A status list, and what was said of a version that is not kept any more: both are served as they are."""
    version, list_id = add_id(tenant_data, "stated_version_id"), add_id(tenant_data, "list_id")
    document, now = canonical_json.encode({"list": f"{tenant_data.mark} list"}), clock.now()
    of_list = {"tenant_id": tenant_data.tenant, "list_id": list_id}
    signed = {"document": document, "signed_at": now}
    await insert_row(conn, "status_lists", **of_list, **signed, valid_until=now + timedelta(hours=1))
    await insert_row(conn, "status_entries", **of_list, passport_version_id=version, list_index=7)
    await insert_row(
        conn, "status_statements", tenant_id=tenant_data.tenant, passport_version_id=version, state=0, **signed
    )


async def _insert_export(conn: Connection, tenant_data: FilledTenant) -> None:
    """An export that is ready."""
    content = f"{tenant_data.mark} export".encode()
    await insert_row(
        conn,
        "passport_exports",
        tenant_id=tenant_data.tenant,
        export_id=add_id(tenant_data, "export_id"),
        passport_version_id=get_id(tenant_data, "passport_version_id"),
        format="XML",
        audience="tenant",
        status="READY",
        mime_type="application/xml",
        file_name="passport.xml",
        content=content,
        sha256=sha256(content),
        job_id=clock.new_id(),
        finished_at=clock.now(),
    )


async def _insert_product(conn: Connection, tenant_data: FilledTenant, product: UUID, sku: str) -> None:
    await insert_row(
        conn,
        "battery_products",
        tenant_id=tenant_data.tenant,
        battery_product_id=product,
        sku=sku,
        name=f"{tenant_data.mark} battery",
    )


async def _insert_passport_version(
    conn: Connection, tenant_data: FilledTenant, number: int, version: PassportVersionId, *, is_signed: bool = True
) -> None:
    """A passport of its own with one version, compiled and, unless it is stuck, signed and with its QR code."""
    sku = f"SKU-{tenant_data.mark}-{number}"
    product, passport, snapshot = clock.new_id(), clock.new_id(), SnapshotId(clock.new_id())
    if number == 0:
        names = ("battery_product_id", "passport_id", "compiled_snapshot_id")
        tenant_data.ids.update(zip(names, map(str, (product, passport, snapshot)), strict=True))
    await _insert_product(conn, tenant_data, product, sku)
    await insert_row(conn, "passports", tenant_id=tenant_data.tenant, passport_id=passport, battery_product_id=product)
    facts = (
        SnapshotFact(
            fact_type="Battery",
            fact_key=f"battery:{sku}",
            schema_version=1,
            payload={"sku": sku, "capacity_kwh": "75.500000"},
        ),
        make_attachment_fact(tenant_data, sku),
        make_blinding_fact(snapshot, sha256(tenant_data.mark.encode() + bytes([number]))),
    )
    await insert_snapshot(
        conn, tenant_data, snapshot, "SEALED", [await insert_fact(conn, tenant_data, fact) for fact in facts]
    )
    rules = get_id(tenant_data, "published_version_id")
    compile_input = CompileInput(
        tenant_id=tenant_data.tenant,
        passport_id=PassportId(passport),
        passport_version_id=version,
        product=Product(battery_product_id=BatteryProductId(product), sku=sku, name=f"{tenant_data.mark} battery"),
        snapshot_id=snapshot,
        rule_package_version_id=RulePackageVersionId(rules),
        issued_at=clock.now(),
        compiler_build_id="bpc-test",
        signing_key_id=KEY_ID,
        facts=facts,
        rules=make_rule_text(tenant_data, COMPILED_NUMBER),
        tests=TESTS,
    )
    compiled = compile_passport(compile_input)
    receipt = sign_receipt(compiled.receipt, SEED)
    text = format_receipt_qr_text(read_receipt(receipt))
    await insert_row(
        conn,
        "passport_versions",
        tenant_id=tenant_data.tenant,
        passport_version_id=version,
        passport_id=passport,
        status="SIGNED" if is_signed else "COMPILING",
        snapshot_id=snapshot,
        rule_package_version_id=rules,
        compiler_build_id="bpc-test",
        payload_canonical=compiled.payload,
        payload_hash=compiled.payload_hash,
        proof_canonical=compiled.proof,
        proof_root_hash=compiled.proof_root_hash,
        receipt_canonical=receipt if is_signed else compiled.receipt,
        receipt_hash=compiled.receipt_hash,
        signature_alg="ED25519",
        signature=Signer(SEED).sign(compiled.receipt_hash) if is_signed else None,
        signing_key_id=KEY_ID if is_signed else None,
        qr_png=draw_qr_png(text) if is_signed else None,
        qr_payload=text if is_signed else None,
    )


_COVERAGE = (
    '{"fields":{"total":1,"reached":1,"percent":100},"branches":{"total":0,"reached":0,"percent":100},'
    '"assertions":{"total":0,"reached":0,"percent":100},"unreached":[]}'
)
