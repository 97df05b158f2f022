"""What is kept of one battery, BPC-ITEM-CONTENT-1: the least from which all artifacts come out again, byte for byte.

Pure. Salts and hashes follow from the formulas of the formats, and the payload from the proof; they are not kept. No
rule is evaluated to read it. The signature is kept apart, because signing comes later.

    encode_content ──► lines: header, row, facts, an empty line, values of the fields, an empty line, steps
    restore_item   ──► ItemArtifacts(payload, proof, receipt, snapshot, facts)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from bpc.core.errors import Invalid
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.facts.snapshot import order_facts, read_facts
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import NotCanonical
from bpc.core.formats.hashes import Digest, from_hex
from bpc.core.formats.ids import (
    BatteryId,
    BatteryProductId,
    PassportVersionId,
    RulePackageVersionId,
    SnapshotId,
    TenantId,
    parse_uuid,
)
from bpc.core.formats.timestamps import parse_time
from bpc.core.items.compile_order import ItemRow, LowerLayer
from bpc.core.items.frame import ItemFrame, ItemHeader, RowIds, encode_row
from bpc.core.items.layer_pins import LayerPin
from bpc.core.items.layer_proof import FieldForm, encode_layer_proof
from bpc.core.items.receipt import read_item_receipt
from bpc.core.passport.compile_input import Product
from bpc.core.passport.payload import BLINDING_FACT_TYPE, find_blinding_key

_NO_ENTRY_MEMBERS = frozenset({"at", "index"})


class BadContent(Invalid):
    """The bytes are not what is kept of a battery."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the stored battery {reason}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemArtifacts:
    """All artifacts of one battery or batch, as bytes. `facts` is facts.jsonl."""

    layer: LowerLayer
    payload: bytes
    proof: bytes
    receipt: bytes
    receipt_hash: Digest
    snapshot: bytes
    facts: bytes


def encode_content(
    header_line: bytes, row: RowIds, verdict: str, facts: bytes, values: Sequence[str], steps: Sequence[str]
) -> bytes:
    """The content; `header_line` ends with LF, `facts` is facts.jsonl."""
    texts = "\n".join(["", *values, "", *steps, ""])
    return b"%b%b\n%b%b" % (header_line, encode_row(row, verdict), facts, texts.encode())


def restore_item(content: bytes, signature: bytes | None = None) -> ItemArtifacts:
    """All artifacts, the receipt with a signature if there is one. Compare `receipt_hash` with the hash on record."""
    header_line, _, rest = content.partition(b"\n")
    row_line, _, rest = rest.partition(b"\n")
    facts, _, rest = rest.partition(b"\n\n")
    texts = rest.decode().split("\n")
    frame = _open_frame(header_line)
    count = len(frame.header.fields)
    if len(texts) < count + 2 or texts[count] or texts[-1]:
        raise BadContent("does not have the parts that its header names")
    values, steps = texts[:count], texts[count + 1 : -1]
    row, verdict = _read_row_line(row_line)
    snapshot_facts = read_facts(facts + b"\n")
    key = find_blinding_key(snapshot_facts, row.snapshot_id)
    if key is None:
        raise BadContent("has no secret among its facts")
    assembled_item = frame.assemble(
        row,
        order_facts(snapshot_facts),
        key,
        values=values,
        steps=steps,
        entries=_list_entries(steps),
        verdict=verdict,
    )
    receipt = assembled_item.receipt
    if signature is not None:
        receipt = replace(read_item_receipt(receipt), signature=signature).encode()
    return ItemArtifacts(
        layer=frame.header.layer,
        payload=assembled_item.payload,
        proof=encode_layer_proof(frame.header.layer, assembled_item.proof),
        receipt=receipt,
        receipt_hash=assembled_item.receipt_hash,
        snapshot=assembled_item.snapshot,
        facts=facts + b"\n",
    )


def read_content_facts(content: bytes) -> list[SnapshotFact]:
    """The facts of a content, without its secret. Nothing is compared: the caller knows that the content is whole."""
    _, _, rest = content.partition(b"\n")
    _, _, rest = rest.partition(b"\n")
    facts, _, _ = rest.partition(b"\n\n")
    return [fact for fact in read_facts(facts + b"\n") if not _is_secret(fact)]


def read_row(artifacts: ItemArtifacts) -> ItemRow:
    """What a battery or batch was compiled from."""
    receipt = read_item_receipt(artifacts.receipt)
    facts = read_facts(artifacts.facts)
    key = find_blinding_key(facts, receipt.snapshot_id)
    if key is None:
        raise BadContent("has no secret among its facts")
    return ItemRow(
        subject_id=receipt.subject_id,
        passport_version_id=receipt.passport_version_id,
        snapshot_id=receipt.snapshot_id,
        issued_at=receipt.issued_at,
        blinding_key=key,
        facts=tuple(fact for fact in facts if not _is_secret(fact)),
    )


def _is_secret(fact: SnapshotFact) -> bool:
    return fact.fact_type == BLINDING_FACT_TYPE


def _list_entries(steps: Sequence[str]) -> list[str]:
    """The entries of the payload: those of requirements and `emitCompliance` say their place; fields that are missing
    fill the places between, in the order of their steps."""
    entries_by_index: dict[int, str] = {}
    missing: list[str] = []
    for text in steps:
        if '"type":"COMPLIANCE_EMIT"' in text:
            data = _decode(text.encode())["data"]
            entry = {name: value for name, value in data.items() if name not in _NO_ENTRY_MEMBERS}
            entries_by_index[data["index"]] = canonical_json.encode_typed(entry).decode()
        elif '"missing":' in text and '"op":"derivation"' in text:
            data = _decode(text.encode())["data"]
            if data.get("op") == "derivation" and "missing" in data:
                missing.append(_encode_missing(data))
    pending = iter(missing)
    return [
        entries_by_index[at] if at in entries_by_index else next(pending)
        for at in range(len(entries_by_index) + len(missing))
    ]


def _encode_missing(data: Mapping[str, Any]) -> str:
    entry = {
        "args": {},
        "code": data["missing"]["code"],
        "field": data["path"],
        "message": data["missing"]["message"],
        "status": "FAIL",
        "verdict": "assessed",
    }
    return canonical_json.encode_typed(entry).decode()


@lru_cache(maxsize=64)
def _open_frame(header_line: bytes) -> ItemFrame:
    header = _decode(header_line)
    product = header["battery_product"]
    return ItemFrame(
        ItemHeader(
            layer=header["layer"],
            pins=tuple(read_pin(pin) for pin in header["above"]),
            product=Product(
                battery_product_id=BatteryProductId(parse_uuid(product["battery_product_id"])),
                sku=product["sku"],
                name=product["name"],
            ),
            fields=tuple(FieldForm(each["path"], each["access"], each["type"]) for each in header["fields"]),
            tenant_id=TenantId(parse_uuid(header["tenant_id"])),
            rule_package_version_id=RulePackageVersionId(parse_uuid(header["rule_package_version_id"])),
            dsl_sha256=from_hex(header["dsl_sha256"]),
            tests_sha256=from_hex(header["tests_sha256"]),
            compiler_build_id=header["compiler_build_id"],
            signing_key_id=header["signing_key_id"],
        )
    )


def read_pin(members: Mapping[str, Any]) -> LayerPin:
    """A pin from its JSON."""
    return LayerPin(
        members["layer"],
        PassportVersionId(parse_uuid(members["passport_version_id"])),
        from_hex(members["receipt_hash"]),
        from_hex(members["proof_root_hash"]),
    )


def _read_row_line(line: bytes) -> tuple[RowIds, str]:
    row = _decode(line)
    parse_time(row["issued_at"])
    ids = RowIds(
        BatteryId(parse_uuid(row["subject_id"])),
        PassportVersionId(parse_uuid(row["passport_version_id"])),
        SnapshotId(parse_uuid(row["snapshot_id"])),
        row["issued_at"],
    )
    return ids, row["verdict"]


def _decode(line: bytes) -> Any:
    try:
        return canonical_json.decode(line)
    except NotCanonical as wrong:
        raise BadContent(f"is not canonical: {wrong.says}") from None
