"""XML, BPC-XML-1: a passport as an XML document. The schema is `passport.xsd` in this folder.

Pure. Equal passports give equal bytes: UTF-8, line feeds, two spaces a level, attributes in a fixed order. Every text
is escaped. XML 1.0 cannot write every character; a text that contains one of those is written in base64 and has the
attribute `encoding="base64"`.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from bpc.core.audit.signing import to_base64
from bpc.core.exports.disclosure import DisclosedField, DisclosedPassport, list_receipt_members
from bpc.core.formats.timestamps import format_time
from bpc.core.language.types import BOOL, DATE, INT, Dec, List, Map, Opt, Qty, Record, Type

VERSION: Final = "BPC-XML-1"
NAMESPACE: Final = "urn:bpc:passport:xml:1"

# In the order of the schema. Ids that the passport itself shows are not repeated.
_RECEIPT_ELEMENTS: Final = (
    "payload_hash",
    "proof_root_hash",
    "receipt_hash",
    "snapshot_id",
    "snapshot_hash",
    "rule_package_version_id",
    "dsl_sha256",
    "tests_sha256",
    "compiler_build_id",
    "signing_key_id",
    "signature_alg",
    "signature",
    "public_key",
)

# XML 1.0 (fifth edition), production 2: everything else cannot be written, not even by its number.
_NOT_IN_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ESCAPES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\r": "&#13;"})
_ATTRIBUTE_ESCAPES: Final = str.maketrans({"\t": "&#9;", "\n": "&#10;"})


def export_xml(passport: DisclosedPassport) -> bytes:
    """The passport as XML."""
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', *_write_passport(passport), ""]
    return "\n".join(lines).encode()


def _write_passport(passport: DisclosedPassport) -> Iterator[str]:
    receipt = passport.receipt
    yield _format_open_tag("passport", xmlns=NAMESPACE, version=VERSION, audience=passport.audience)
    yield f"  {_format_leaf('passport_id', receipt.passport_id)}"
    yield f"  {_format_leaf('passport_version_id', receipt.passport_version_id)}"
    yield f"  {_format_leaf('issued_at', passport.issued_at)}"
    yield f"  {_format_open_tag('battery_product', id=str(receipt.battery_product_id))}"
    yield f"    {_format_text('sku', passport.product['sku'])}"
    yield f"    {_format_text('name', passport.product['name'])}"
    yield "  </battery_product>"
    yield f"  {_format_open_tag('fields', hidden=str(passport.hidden))}"
    for field in passport.fields:
        yield from _write_field(field)
    yield "  </fields>"
    attributes = {} if passport.waived is None else {"waived": str(passport.waived)}
    yield f"  {_format_open_tag('compliance', **attributes)}"
    for entry in passport.compliance:
        yield f"    {_format_entry(entry)}"
    yield "  </compliance>"
    yield from _write_receipt(passport)
    yield from _write_status(passport)
    yield "</passport>"


def _write_status(passport: DisclosedPassport) -> Iterator[str]:
    place, revoked_at = passport.place, passport.revoked_at
    if place is None and revoked_at is None:
        return
    attributes = {} if place is None else {"list": place.list_url, "index": str(place.index)}
    attributes |= {} if revoked_at is None else {"revoked_at": format_time(revoked_at)}
    yield f"  {_format_open_tag('status', **attributes)}</status>"


def _write_field(field: DisclosedField) -> Iterator[str]:
    yield f"    {_format_open_tag('field', path=field.path, type=str(field.kind), access=' '.join(field.access))}"
    yield from (f"      {line}" for line in _format_value(field.kind, field.value))
    yield "    </field>"


def _format_entry(entry: Mapping[str, Any]) -> str:
    parts = [_format_text("code", entry["code"]), _format_text("message", entry["message"])]
    for name, value in sorted(entry.get("args", {}).items()):
        parts += ["<arg>", _format_text("name", name), _format_text("text", value), "</arg>"]
    attributes = {name: entry[name] for name in ("status", "verdict", "field") if name in entry}
    return f"{_format_open_tag('entry', **attributes)}{''.join(parts)}</entry>"


def _write_receipt(passport: DisclosedPassport) -> Iterator[str]:
    members = list_receipt_members(passport)
    yield "  <receipt>"
    yield from (f"    {_format_text(name, members[name])}" for name in _RECEIPT_ELEMENTS)
    yield "  </receipt>"


def _format_value(kind: Type, value: Any) -> list[str]:  # noqa: PLR0911 (one form a case)
    """The lines of a value."""
    match kind:
        case Opt(item):
            return ["<none/>"] if value is None else _format_value(item, value)
        case List(item):
            return _wrap_lines("list", [line for part in value for line in _format_value(item, part)])
        case Map(item):
            return _wrap_lines("map", [line for key in value for line in _format_map_entry(key, item, value[key])])
        case Record(members):
            parts = [line for name, part in members for line in _format_member(name, part, value[name])]
            return _wrap_lines("record", parts)
        case Qty():
            return [f"{_format_open_tag('quantity', unit=value['unit'])}{value['value']}</quantity>"]
        case Dec():
            return [_format_leaf("decimal", value)]
        case _ if kind == BOOL:
            return [_format_leaf("boolean", "true" if value else "false")]
        case _ if kind == INT:
            return [_format_leaf("integer", value)]
        case _ if kind == DATE:
            return [_format_leaf("date", value)]
        case _:
            return [_format_text("text", value)]


def _format_map_entry(key: str, kind: Type, value: Any) -> list[str]:
    return _wrap_lines(
        "entry", [_format_text("key", key), *_format_value(kind, value)]
    )  # a key may be what no attribute can say


def _format_member(name: str, kind: Type, value: Any) -> list[str]:
    return [_format_open_tag("member", name=name), *(f"  {line}" for line in _format_value(kind, value)), "</member>"]


def _wrap_lines(element: str, lines: list[str]) -> list[str]:
    return [f"<{element}>", *(f"  {line}" for line in lines), f"</{element}>"] if lines else [f"<{element}/>"]


def _format_open_tag(element: str, **attributes: str) -> str:
    attribute_text = "".join(
        f' {name}="{value.translate(_ESCAPES).translate(_ATTRIBUTE_ESCAPES)}"' for name, value in attributes.items()
    )
    return f"<{element}{attribute_text}>"


def _format_leaf(element: str, value: object) -> str:
    return f"<{element}>{value}</{element}>"


def _format_text(element: str, text: str) -> str:
    if _NOT_IN_XML.search(text):
        return f'<{element} encoding="base64">{to_base64(text.encode())}</{element}>'
    return f"<{element}>{text.translate(_ESCAPES)}</{element}>"
