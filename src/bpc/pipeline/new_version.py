"""Storing what was compiled: as a version that is signed and has its QR code, or as one that a job will sign.

Both ways leave the same row and the same events behind. Done at once, it is one statement: the row is inserted as
SIGNED, and nobody ever sees it as COMPILING.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

from bpc.core.audit.events import EMPTY_CHAIN, Act, AuditEvent, ChainHead, EventStream
from bpc.core.errors import Conflict
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.formats.ids import AggregateId, TenantId
from bpc.core.formats.timestamps import format_time
from bpc.core.passport.compile import CompiledPassport
from bpc.core.passport.qr import draw_qr_png, format_qr_text
from bpc.pipeline.compile_order import CompileOrder
from bpc.pipeline.qr import describe_qr_code
from bpc.pipeline.quick_signing import SignedReceipt
from bpc.pipeline.sign import describe_signature
from bpc.runtime import clock
from bpc.storage.audit import events
from bpc.storage.connection import Connection
from bpc.storage.passports import passport_versions
from bpc.storage.passports.issued_versions import IssuedVersion, insert_issued_version
from bpc.storage.passports.passports import PassportSubject


async def store_issued_version(
    conn: Connection,
    tenant: TenantId,
    order: CompileOrder,
    output: CompiledPassport,
    signed_receipt: SignedReceipt,
    subject: PassportSubject,
) -> str | None:
    """Insert and record a version that is signed; return the text of its QR code. None if there is one with this id."""
    qr_text = format_qr_text(
        order.passport_version_id, output.payload_hash, output.proof_root_hash, output.receipt_hash
    )
    qr_png = draw_qr_png(qr_text)
    stream = EventStream(tenant, "PassportVersion", AggregateId(order.passport_version_id))
    act, chain = Act(order.actor_id, clock.now()), list[AuditEvent]()
    signature_payload = describe_signature(
        order.signing_key_id, output.receipt_hash, signed_receipt.encoded, signed_receipt.signature, subject
    )
    _chain_event(chain, stream, act, "PASSPORT_COMPILED", _describe_compile(order, output))
    _chain_event(chain, stream, act, "PASSPORT_SIGNED", signature_payload)
    _chain_event(chain, stream, act, "QR_GENERATED", describe_qr_code(qr_text, qr_png, subject))
    version = IssuedVersion(
        passport_version_id=order.passport_version_id,
        passport_id=order.passport_id,
        snapshot_id=order.snapshot_id,
        rule_package_version_id=order.rule_package_version_id,
        compiler_build_id=order.compiler_build_id,
        issued_at=order.issued_at,
        output=output,
        receipt=signed_receipt.encoded,
        signature=signed_receipt.signature,
        signing_key_id=order.signing_key_id,
        qr_text=qr_text,
        qr_png=qr_png,
        events=chain,
    )
    return qr_text if await insert_issued_version(conn, tenant, version) else None


async def store_unsigned_version(
    conn: Connection, tenant: TenantId, order: CompileOrder, output: CompiledPassport
) -> None:
    """Insert and record the version. If an earlier execution stored it, only compare the hashes."""
    version = order.passport_version_id
    is_new = await passport_versions.insert_version(
        conn,
        tenant,
        version,
        output,
        passport=order.passport_id,
        snapshot=order.snapshot_id,
        rules=order.rule_package_version_id,
        compiler_build_id=order.compiler_build_id,
        at=order.issued_at,
    )
    if not is_new:
        version_row = await passport_versions.get_version(conn, tenant, version)
        hashes = output.payload_hash, output.proof_root_hash, output.receipt_hash
        if (version_row.payload_hash, version_row.proof_root_hash, version_row.receipt_hash) != hashes:
            raise Conflict(
                f"passport version `{version}` already exists, with other hashes",
                fix="request the compile again: the new version gets an id of its own",
            )
        return
    act, payload = Act(order.actor_id, clock.now()), _describe_compile(order, output)
    await events.append_act(
        conn, act, tenant, "PassportVersion", version, "PASSPORT_COMPILED", payload, head=EMPTY_CHAIN
    )


def _describe_compile(order: CompileOrder, output: CompiledPassport) -> dict[str, object]:
    """What the event of a compile says."""
    return {
        "passport_id": str(order.passport_id),
        "snapshot_id": str(order.snapshot_id),
        "rule_package_version_id": str(order.rule_package_version_id),
        "compiler_build_id": order.compiler_build_id,
        "payload_hash": to_hex(output.payload_hash),
        "proof_root_hash": to_hex(output.proof_root_hash),
        "receipt_hash": to_hex(output.receipt_hash),
        "proof_sha256": to_hex(sha256(output.proof)),
        "receipt_sha256": to_hex(sha256(output.receipt)),
        "fail_count": output.compliance.fail,
        "warn_count": output.compliance.warn,
        "issued_at": format_time(order.issued_at),
    }


def _chain_event(
    chain: list[AuditEvent], stream: EventStream, act: Act, event_type: str, payload: Mapping[str, object]
) -> None:
    """Add an event to the first ones of a chain, a microsecond after the one before: lists are in order of time."""
    head = ChainHead(chain[-1].version, chain[-1].event_hash) if chain else EMPTY_CHAIN
    act = replace(act, at=act.at + len(chain) * timedelta(microseconds=1))
    chain.append(AuditEvent.chain_after(head, stream, act.new_event(event_type, payload)))
