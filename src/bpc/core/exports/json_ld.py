"""JSON-LD, BPC-JSON-LD-1: a passport as linked data. Expands to absolute IRIs and typed values, without any network.

Pure. The context is part of every export, so nothing has to be fetched; the API serves the same one. The names of
fields are the rules' own, so a field is the property `urn:bpc:field:<path>` and its value carries its type itself:

    "field:battery.capacity_kwh": {"@type": "xsd:decimal", "@value": "75.500000"}

A quantity is a node of number and unit, a list keeps its order, a record is a node of its members, a map a list of
entries. What is absent is not there. Names of this form are ours and nobody else's: docs/decisions/0035-exports.md.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bpc.core import canon
from bpc.core.canon import Json
from bpc.core.digest import to_hex
from bpc.core.exports.disclosed import Disclosed, ShownField
from bpc.core.rules.types import BOOL, DATE, INT, Dec, List, Map, Opt, Qty, Record, Type
from bpc.core.signing import to_base64

VERSION: Final = "BPC-JSON-LD-1"
XSD: Final = "http://www.w3.org/2001/XMLSchema#"
VOCABULARY: Final = "urn:bpc:passport:"
_HEX: Final = {"@type": "xsd:hexBinary"}
_TEXT: Final = {"@type": "xsd:string"}

CONTEXT: Final[Mapping[str, Json]] = {
    "@version": "1.1",  # a number in JSON-LD, put in below
    "bpc": {"@id": VOCABULARY, "@prefix": True},
    "field": {"@id": "urn:bpc:field:", "@prefix": True},
    "member": {"@id": "urn:bpc:member:", "@prefix": True},
    "xsd": {"@id": XSD, "@prefix": True},
    **{
        name: f"{VOCABULARY}{name}"
        for name in ("BatteryProduct", "ComplianceEntry", "Entry", "Passport", "Quantity", "Receipt", "Record")
    },
    **{name: {"@id": f"{VOCABULARY}{name}"} for name in ("battery_product", "receipt", "value")},
    **{
        name: {"@id": f"{VOCABULARY}{name}", **_TEXT}
        for name in (
            "audience", "code", "compiler_build_id", "export_version", "key", "message", "name", "of_field", "sku",
            "signature_alg", "signing_key_id", "status", "unit",
        )
    },
    **{
        name: {"@id": f"{VOCABULARY}{name}", **_HEX}
        for name in (
            "dsl_sha256", "payload_hash", "proof_root_hash", "receipt_hash", "snapshot_hash", "tests_sha256",
        )
    },
    **{
        name: {"@id": f"{VOCABULARY}{name}", "@type": "@id"}
        for name in ("passport", "rule_package_version", "snapshot")
    },
    "compliance": {"@id": f"{VOCABULARY}compliance", "@container": "@list"},
    "hidden_fields": {"@id": f"{VOCABULARY}hidden_fields", "@type": "xsd:integer"},
    "issued_at": {"@id": f"{VOCABULARY}issued_at", "@type": "xsd:dateTime"},
    "public_key": {"@id": f"{VOCABULARY}public_key", "@type": "xsd:base64Binary"},
    "signature": {"@id": f"{VOCABULARY}signature", "@type": "xsd:base64Binary"},
}  # fmt: skip


def context_document() -> bytes:
    """The context as a document of its own."""
    return b'{"@context":' + _context() + b"}"


def json_ld(shown: Disclosed) -> bytes:
    """The passport as JSON-LD, its context in it; equal passports give equal bytes."""
    body = canon.encode(_passport(shown))
    return b'{"@context":' + _context() + b"," + body[1:]


def _context() -> bytes:
    # JSON-LD wants `@version` to be the number 1.1, and canonical JSON has no such numbers.
    return canon.encode(CONTEXT).replace(b'"@version":"1.1"', b'"@version":1.1', 1)


def _passport(shown: Disclosed) -> Mapping[str, Json]:
    receipt = shown.receipt
    fields = {f"field:{field.path}": _value(field.kind, field.value) for field in shown.fields if _is_there(field)}
    return {
        "@id": _urn(receipt.passport_version_id),
        "@type": "Passport",
        "audience": shown.audience,
        "battery_product": {
            "@id": _urn(receipt.battery_product_id),
            "@type": "BatteryProduct",
            "name": shown.product["name"],
            "sku": shown.product["sku"],
        },
        "compliance": [_entry(entry) for entry in shown.compliance],
        "export_version": VERSION,
        "hidden_fields": str(shown.hidden),
        "issued_at": shown.issued_at,
        "passport": _urn(receipt.passport_id),
        "receipt": _receipt(shown),
        **fields,
    }


def _receipt(shown: Disclosed) -> Json:
    """What the passport is checked against: all hashes, and the signature over the receipt's."""
    receipt = shown.receipt
    return {
        "@type": "Receipt",
        "compiler_build_id": receipt.compiler_build_id,
        "dsl_sha256": to_hex(receipt.dsl_sha256),
        "payload_hash": to_hex(receipt.payload_hash),
        "proof_root_hash": to_hex(receipt.proof_root_hash),
        "public_key": to_base64(shown.public_key),
        "receipt_hash": to_hex(receipt.hash()),
        "rule_package_version": _urn(receipt.rule_package_version_id),
        "signature": to_base64(receipt.signature or b""),
        "signature_alg": "ED25519",
        "signing_key_id": receipt.signing_key_id,
        "snapshot": _urn(receipt.snapshot_id),
        "snapshot_hash": to_hex(receipt.snapshot_hash),
        "tests_sha256": to_hex(receipt.tests_sha256),
    }


def _entry(entry: Mapping[str, str]) -> Json:
    said = {"code": entry["code"], "message": entry["message"], "status": entry["status"]}
    return {"@type": "ComplianceEntry", "of_field": entry["field"], **said}


def _is_there(field: ShownField) -> bool:
    return field.value is not None


def _urn(identifier: object) -> str:
    return f"urn:uuid:{identifier}"


def _value(kind: Type, value: Any) -> Json:  # noqa: PLR0911 (one form a case)
    match kind:
        case Opt(item):
            return None if value is None else _value(item, value)
        case List(item):
            return {"@list": _values(item, value)}
        case Map(item):
            entries = [{"@type": "Entry", "key": key, "value": _value(item, value[key])} for key in value]
            return {"@list": entries}
        case Record(members):
            parts = {f"member:{name}": _value(part, value[name]) for name, part in members if value[name] is not None}
            return {"@type": "Record", **parts}
        case Qty():
            return {"@type": "Quantity", "unit": value["unit"], "value": _typed("decimal", value["value"])}
        case Dec():
            return _typed("decimal", value)
        case _ if kind == BOOL:
            return _typed("boolean", "true" if value else "false")
        case _ if kind == INT:
            return _typed("integer", str(value))
        case _ if kind == DATE:
            return _typed("date", value)
        case _:
            return _typed("string", value)


def _values(item: Type, values: Sequence[Any]) -> list[Json]:
    """The elements of a list. JSON-LD drops a null, so one that is absent is an empty node, and places stay."""
    return [{"@type": "bpc:Absent"} if value is None else _value(item, value) for value in values]


def _typed(name: str, text: str) -> Json:
    return {"@type": f"xsd:{name}", "@value": text}
