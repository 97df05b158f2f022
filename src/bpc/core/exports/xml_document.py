"""XML, BPC-XML-1: a passport as an XML document of our own schema (bpc.core.exports.xml_schema).

Pure. Equal passports give equal bytes: UTF-8, line feeds, two spaces a level, attributes in a fixed order. Every text
is escaped. XML 1.0 cannot say every character that a text may hold; a text with such a one is written in base64 and
says so, so nothing is lost and nothing is guessed.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from bpc.core.digest import to_hex
from bpc.core.exports.disclosed import Disclosed, ShownField
from bpc.core.rules.types import BOOL, DATE, INT, Dec, List, Map, Opt, Qty, Record, Type
from bpc.core.signing import to_base64

VERSION: Final = "BPC-XML-1"
NAMESPACE: Final = "urn:bpc:passport:xml:1"

# XML 1.0 (fifth edition), production 2: everything else cannot be written, not even by its number.
_UNSAYABLE: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ESCAPES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\r": "&#13;"})
_IN_ATTRIBUTES: Final = str.maketrans({"\t": "&#9;", "\n": "&#10;"})


def xml_document(shown: Disclosed) -> bytes:
    """The passport as XML."""
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', *_passport(shown), ""]
    return "\n".join(lines).encode()


def _passport(shown: Disclosed) -> Iterator[str]:
    receipt = shown.receipt
    yield _open("passport", xmlns=NAMESPACE, version=VERSION, audience=shown.audience)
    yield f"  {_leaf('passport_id', receipt.passport_id)}"
    yield f"  {_leaf('passport_version_id', receipt.passport_version_id)}"
    yield f"  {_leaf('issued_at', shown.issued_at)}"
    yield f"  {_open('battery_product', id=str(receipt.battery_product_id))}"
    yield f"    {_text('sku', shown.product['sku'])}"
    yield f"    {_text('name', shown.product['name'])}"
    yield "  </battery_product>"
    yield f"  {_open('fields', hidden=str(shown.hidden))}"
    for field in shown.fields:
        yield from _field(field)
    yield "  </fields>"
    yield "  <compliance>"
    for entry in shown.compliance:
        yield f"    {_entry(entry)}"
    yield "  </compliance>"
    yield from _receipt(shown)
    yield "</passport>"


def _field(field: ShownField) -> Iterator[str]:
    yield f"    {_open('field', path=field.path, type=str(field.kind), access=' '.join(field.access))}"
    yield from (f"      {line}" for line in _value(field.kind, field.value))
    yield "    </field>"


def _entry(entry: Mapping[str, str]) -> str:
    parts = _text("code", entry["code"]), _text("message", entry["message"])
    return f"{_open('entry', status=entry['status'], field=entry['field'])}{''.join(parts)}</entry>"


def _receipt(shown: Disclosed) -> Iterator[str]:
    receipt = shown.receipt
    yield "  <receipt>"
    for name, value in {
        "payload_hash": to_hex(receipt.payload_hash),
        "proof_root_hash": to_hex(receipt.proof_root_hash),
        "receipt_hash": to_hex(receipt.hash()),
        "snapshot_id": receipt.snapshot_id,
        "snapshot_hash": to_hex(receipt.snapshot_hash),
        "rule_package_version_id": receipt.rule_package_version_id,
        "dsl_sha256": to_hex(receipt.dsl_sha256),
        "tests_sha256": to_hex(receipt.tests_sha256),
    }.items():
        yield f"    {_leaf(name, value)}"
    yield f"    {_text('compiler_build_id', receipt.compiler_build_id)}"
    yield f"    {_text('signing_key_id', receipt.signing_key_id)}"
    yield f"    {_leaf('signature_alg', 'ED25519')}"
    yield f"    {_leaf('signature', to_base64(receipt.signature or b''))}"
    yield f"    {_leaf('public_key', to_base64(shown.public_key))}"
    yield "  </receipt>"


def _value(kind: Type, value: Any) -> list[str]:  # noqa: PLR0911 (one form a case)
    """The lines of a value."""
    match kind:
        case Opt(item):
            return ["<none/>"] if value is None else _value(item, value)
        case List(item):
            return _inside("list", [line for part in value for line in _value(item, part)])
        case Map(item):
            return _inside("map", [line for key in value for line in _map_entry(key, item, value[key])])
        case Record(members):
            parts = [line for name, part in members for line in _member(name, part, value[name])]
            return _inside("record", parts)
        case Qty():
            return [f"{_open('quantity', unit=value['unit'])}{value['value']}</quantity>"]
        case Dec():
            return [_leaf("decimal", value)]
        case _ if kind == BOOL:
            return [_leaf("boolean", "true" if value else "false")]
        case _ if kind == INT:
            return [_leaf("integer", value)]
        case _ if kind == DATE:
            return [_leaf("date", value)]
        case _:
            return [_text("text", value)]


def _map_entry(key: str, kind: Type, value: Any) -> list[str]:
    return _inside("entry", [_text("key", key), *_value(kind, value)])  # a key may be what no attribute can say


def _member(name: str, kind: Type, value: Any) -> list[str]:
    return [_open("member", name=name), *(f"  {line}" for line in _value(kind, value)), "</member>"]


def _inside(element: str, lines: list[str]) -> list[str]:
    return [f"<{element}>", *(f"  {line}" for line in lines), f"</{element}>"] if lines else [f"<{element}/>"]


def _open(element: str, **attributes: str) -> str:
    written = "".join(
        f' {name}="{value.translate(_ESCAPES).translate(_IN_ATTRIBUTES)}"' for name, value in attributes.items()
    )
    return f"<{element}{written}>"


def _leaf(element: str, value: object) -> str:
    return f"<{element}>{value}</{element}>"


def _text(element: str, text: str) -> str:
    if _UNSAYABLE.search(text):
        return f'<{element} encoding="base64">{to_base64(text.encode())}</{element}>'
    return f"<{element}>{text.translate(_ESCAPES)}</{element}>"
