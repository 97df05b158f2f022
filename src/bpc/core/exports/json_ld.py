"""JSON-LD, BPC-JSON-LD-1: a passport as linked data. Expands to absolute IRIs and typed values, without any network.

Pure. The context is part of every export, so nothing has to be fetched; the API serves the same one. The names of
fields are the rules' own, so a field is the property `urn:bpc:field:<path>` and its value carries its type itself:

    "field:battery.capacity_kwh": {"@type": "xsd:decimal", "@value": "75.500000"}

A quantity is a node of number and unit, a list keeps its order, a record is a node of its members, a map a list of
entries. What is absent is not there. Names of this form are ours and nobody else's: docs/decisions/0035-exports.md.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bpc.core.exports.disclosure import DisclosedPassport, list_receipt_members
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.timestamps import format_time
from bpc.core.language.types import BOOL, DATE, INT, Dec, List, Map, Opt, Qty, Record, Type
from bpc.core.passport.receipt import HASH, NAME, RECEIPT_FORMAT

VERSION: Final = "BPC-JSON-LD-1"
XSD: Final = "http://www.w3.org/2001/XMLSchema#"
VOCABULARY: Final = "urn:bpc:passport:"
_HASHES: Final = (*(name for name, form in RECEIPT_FORMAT.items() if form is HASH), "receipt_hash")
_NAMES: Final = tuple(name for name, form in RECEIPT_FORMAT.items() if form is NAME)
_RECEIPT_MEMBERS: Final = (*_HASHES, *_NAMES, "signature_alg", "signature", "public_key")
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
            *_NAMES, "audience", "code", "export_version", "key", "message", "name", "of_field", "sku",
            "signature_alg", "status", "unit",
        )
    },
    **{
        name: {"@id": f"{VOCABULARY}{name}", **_HEX}
        for name in _HASHES
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
    "waived_entries": {"@id": f"{VOCABULARY}waived_entries", "@type": "xsd:integer"},
}  # fmt: skip


def encode_context_document() -> bytes:
    """The context as a document of its own."""
    return b'{"@context":' + _encode_context() + b"}"


def export_json_ld(passport: DisclosedPassport) -> bytes:
    """The passport as JSON-LD, its context in it; equal passports give equal bytes."""
    body = canonical_json.encode(_build_passport(passport))
    return b'{"@context":' + _encode_context() + b"," + body[1:]


def _encode_context() -> bytes:
    # JSON-LD wants `@version` to be the number 1.1, and canonical JSON has no such numbers.
    return canonical_json.encode(CONTEXT).replace(b'"@version":"1.1"', b'"@version":1.1', 1)


def _build_passport(passport: DisclosedPassport) -> Mapping[str, Json]:
    receipt = passport.receipt
    fields = {
        f"field:{field.path}": _build_value(field.kind, field.value)
        for field in passport.fields
        if field.value is not None
    }
    return {
        "@id": _format_urn(receipt.passport_version_id),
        "@type": "Passport",
        "audience": passport.audience,
        "battery_product": {
            "@id": _format_urn(receipt.battery_product_id),
            "@type": "BatteryProduct",
            "name": passport.product["name"],
            "sku": passport.product["sku"],
        },
        "compliance": [_build_entry(entry) for entry in passport.compliance],
        "export_version": VERSION,
        "hidden_fields": str(passport.hidden),
        "issued_at": passport.issued_at,
        "passport": _format_urn(receipt.passport_id),
        "receipt": _build_receipt(passport),
        **({} if passport.waived is None else {"waived_entries": str(passport.waived)}),
        **_build_status(passport),
        **fields,
    }


def _build_status(passport: DisclosedPassport) -> Mapping[str, Json]:
    """Where the status is, and that it is revoked. By their prefix, so that the context stays as it is."""
    revoked_at = passport.revoked_at
    revocation: Mapping[str, Json] = (
        {} if revoked_at is None else {"bpc:revoked_at": _build_typed_value("dateTime", format_time(revoked_at))}
    )
    if passport.place is None:
        return revocation
    place = passport.place
    return {"bpc:status_list": {"@id": place.list_url}, "bpc:status_index": str(place.index), **revocation}


def _build_receipt(passport: DisclosedPassport) -> Json:
    """What the passport is checked against: all hashes, and the signature over the receipt's."""
    members = list_receipt_members(passport)
    return {
        "@type": "Receipt",
        **{name: members[name] for name in _RECEIPT_MEMBERS},
        "rule_package_version": _format_urn(members["rule_package_version_id"]),
        "snapshot": _format_urn(members["snapshot_id"]),
    }


def _build_entry(entry: Mapping[str, Any]) -> Json:
    details = {"code": entry["code"], "message": entry["message"], "status": entry["status"]}
    # Only entries of rules of level 2 have them. By their prefix, so that the context stays as it is.
    if "verdict" in entry:
        details["bpc:verdict"] = entry["verdict"]
        details["bpc:args"] = {"@type": "@json", "@value": dict(entry["args"])}
    return {"@type": "ComplianceEntry", "of_field": entry["field"], **details}


def _format_urn(identifier: object) -> str:
    return f"urn:uuid:{identifier}"


def _build_value(kind: Type, value: Any) -> Json:  # noqa: PLR0911 (one form a case)
    match kind:
        case Opt(item):
            return None if value is None else _build_value(item, value)
        case List(item):
            return {"@list": _build_values(item, value)}
        case Map(item):
            entries = [{"@type": "Entry", "key": key, "value": _build_value(item, value[key])} for key in value]
            return {"@list": entries}
        case Record(members):
            parts = {
                f"member:{name}": _build_value(part, value[name]) for name, part in members if value[name] is not None
            }
            return {"@type": "Record", **parts}
        case Qty():
            return {"@type": "Quantity", "unit": value["unit"], "value": _build_typed_value("decimal", value["value"])}
        case Dec():
            return _build_typed_value("decimal", value)
        case _ if kind == BOOL:
            return _build_typed_value("boolean", "true" if value else "false")
        case _ if kind == INT:
            return _build_typed_value("integer", str(value))
        case _ if kind == DATE:
            return _build_typed_value("date", value)
        case _:
            return _build_typed_value("string", value)


def _build_values(item: Type, values: Sequence[Any]) -> list[Json]:
    """The elements of a list. JSON-LD drops a null, so one that is absent is an empty node, and places stay."""
    return [{"@type": "bpc:Absent"} if value is None else _build_value(item, value) for value in values]


def _build_typed_value(name: str, text: str) -> Json:
    return {"@type": f"xsd:{name}", "@value": text}
