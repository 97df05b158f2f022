"""Sheet: a passport as a person reads it on paper. Texts in their order, no layout and no markup.

Pure. Paths become headings and labels, values become words: `performance.voltage.nominal` and `{"unit":"V",…}` become
"Performance", "Voltage · nominal" and "402 V". A number of more than six decimals, a text of more than 10,000 letters
and a table of more than 1,000 rows are cut, visibly. What is on the sheet is JSON of texts only; whoever prints it
(bpc.printing) shows texts as they are.

    Disclosed ── sheet ──► {"title", "sections": [{"title", "rows": [{"label", "value"}]}], …}
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from bpc.core.digest import to_hex
from bpc.core.exports.disclosed import AUDIENCES, TENANT, Disclosed, ShownField
from bpc.core.qr import qr_modules
from bpc.core.rules.types import BOOL, Dec, List, Map, Opt, Qty, Record, Type
from bpc.core.signing import to_base64

DECIMALS: Final = 6
ABSENT: Final = "–"
KEY_FIGURES: Final = 8
LONGEST_FIGURE: Final = 36
LONGEST_TEXT: Final = 10_000
MOST_ROWS: Final = 1_000
MOST_COLUMNS: Final = 6

# What a reader looks for first, by the last words of paths; the first field that fits is taken.
_LOOKED_FOR: Final = (
    ("category",),
    ("chemistry",),
    ("energy", "capacity_kwh", "energy_kwh"),
    ("rated_capacity",),
    ("nominal", "nominal_voltage"),
    ("mass", "mass_kg", "weight"),
    ("cycles", "expected_cycles"),
    ("warranty",),
    ("per_kwh", "pcf_gco2e_per_kwh", "carbon_footprint"),
    ("class",),
    ("manufacturer_name", "manufacturer"),
    ("model",),
)
# Groups that come before all others, which are in the order of their names.
_FIRST: Final = ("general", "identification", "product", "battery", "manufacturer")
_UNITS: Final[Mapping[str, str]] = {
    "pct": "%",
    "degC": "°C",
    "ohm": "Ω",
    "mohm": "mΩ",
    "gCO2e": "g CO₂e",
    "kgCO2e": "kg CO₂e",
    "tCO2e": "t CO₂e",
    "gCO2e_per_kWh": "g CO₂e/kWh",
    "kgCO2e_per_kWh": "kg CO₂e/kWh",
    "pct_per_month": "% per month",
    "per_h": "per h",
    "each": "",
    "cycle": "cycles",
    "month": "months",
    "year": "years",
}
_STATUSES: Final = {"PASS": "Pass", "WARN": "Warning", "FAIL": "Fail", "NOT_APPLICABLE": "Not applicable"}
# Paths are lower case; these are not.
_WORDS: Final[Mapping[str, str]] = {
    "qr": "QR",
    "uri": "URI",
    "url": "URL",
    "id": "ID",
    "sku": "SKU",
    "eu": "EU",
    "pcf": "PCF",
    "gco2e": "g CO₂e",
    "kgco2e": "kg CO₂e",
    "kwh": "kWh",
    "pct": "%",
    "cas": "CAS",
    "bms": "BMS",
    "degc": "°C",
}


def sheet(shown: Disclosed) -> Mapping[str, Any]:
    """Everything that is printed of a passport."""
    receipt = shown.receipt
    return {
        "title": shown.product["name"],
        "sku": shown.product["sku"],
        "issued_on": shown.issued_at[:10],
        "issued_at": f"{shown.issued_at[:10]} {shown.issued_at[11:19]} UTC",
        "passport_version_id": str(receipt.passport_version_id),
        "audience": _audience(shown),
        "restricted": shown.audience == TENANT,
        "figures": [{"label": _label(field.path), "value": _line(field)} for field in _key_figures(shown.fields)],
        "compliance": [_entry(entry) for entry in shown.compliance],
        "sections": list(_sections(shown.fields)),
        "ids": _ids(shown),
        "hashes": [
            {"label": "Payload", "value": to_hex(receipt.payload_hash)},
            {"label": "Proof root", "value": to_hex(receipt.proof_root_hash)},
            {"label": "Receipt", "value": to_hex(receipt.hash())},
            {"label": "Snapshot", "value": to_hex(receipt.snapshot_hash)},
            {"label": "Rules", "value": to_hex(receipt.dsl_sha256)},
            {"label": "Rule tests", "value": to_hex(receipt.tests_sha256)},
        ],
        "names": [
            {"label": "Key", "value": receipt.signing_key_id},
            {"label": "Compiler", "value": receipt.compiler_build_id},
        ],
        "signature": [
            {"label": "Public key", "value": to_base64(shown.public_key)},
            {"label": "Signature", "value": to_base64(receipt.signature or b"")},
        ],
        "qr_svg": qr_svg(shown.qr_text),
        "qr_text": shown.qr_text,
    }


def _audience(shown: Disclosed) -> str:
    total = len(shown.fields) + shown.hidden
    if shown.audience == TENANT:
        return f"Holds all {total} fields of the passport, restricted ones among them. Not for handing on."
    of = "all" if shown.hidden == 0 else str(len(shown.fields))
    return f"For {AUDIENCES[shown.audience]}: {of} of the passport's {total} fields."


def _ids(shown: Disclosed) -> list[Mapping[str, str]]:
    receipt = shown.receipt
    return [
        {"label": "Passport", "value": str(receipt.passport_id)},
        {"label": "Passport version", "value": str(receipt.passport_version_id)},
        {"label": "Battery product", "value": str(receipt.battery_product_id)},
        {"label": "Rules version", "value": str(receipt.rule_package_version_id)},
    ]


def _entry(entry: Mapping[str, str]) -> Mapping[str, str]:
    return {
        "status": entry["status"],
        "says": _STATUSES[entry["status"]],
        "code": entry["code"],
        "message": entry["message"],
        "field": _label(entry["field"]),
    }


def _key_figures(fields: Sequence[ShownField]) -> list[ShownField]:
    """The fields that a reader looks for first; where there are few of them, the first quantities."""
    plain = [field for field in fields if _is_figure(field)]
    found = [field for names in _LOOKED_FOR for field in _first_named(plain, names)]
    others = [field for field in plain if isinstance(_inner(field.kind), Qty | Dec)] if len(found) < 4 else []
    chosen: dict[str, ShownField] = {field.path: field for field in (*found, *others)}
    return list(chosen.values())[:KEY_FIGURES]


def _is_figure(field: ShownField) -> bool:
    kind = _inner(field.kind)
    return (
        field.value is not None
        and kind != BOOL
        and not isinstance(kind, _PARTED)
        and len(_line(field)) <= LONGEST_FIGURE
    )


def _first_named(fields: Sequence[ShownField], names: Sequence[str]) -> Sequence[ShownField]:
    fitting = [field for name in names for field in fields if field.path.rsplit(".", 1)[-1] == name]
    return fitting[:1]


def _sections(fields: Sequence[ShownField]) -> Iterator[Mapping[str, Any]]:
    groups = {name: list(group) for name, group in groupby(fields, lambda field: field.path.split(".", 1)[0])}
    for name in (*(name for name in _FIRST if name in groups), *(name for name in groups if name not in _FIRST)):
        yield {"title": _words(name), "rows": [_row(field) for field in groups[name]]}


def _row(field: ShownField) -> Mapping[str, Any]:
    rest = field.path.split(".", 1)[-1]
    note = "" if "public" in field.access else ", ".join(field.access) or "tenant only"
    kind = _inner(field.kind)
    if isinstance(kind, List) and isinstance(kind.item, Record) and isinstance(field.value, list) and field.value:
        members = kind.item.members
        if len(members) <= MOST_COLUMNS:
            columns = [_words(name) for name, _ in members]
            return {"label": _dotted(rest), "note": note, "columns": columns, "cells": _cells(members, field.value)}
    return {"label": _dotted(rest), "note": note, "value": _line(field)}


def _cells(members: Sequence[tuple[str, Type]], values: Sequence[Any]) -> list[list[str]]:
    rows = [[_cut(_shown(part, value[name])) for name, part in members] for value in values[:MOST_ROWS]]
    if len(values) > MOST_ROWS:
        rows.append([f"… and {len(values) - MOST_ROWS:,} more", *[""] * (len(members) - 1)])
    return rows


def _line(field: ShownField) -> str:
    return _cut(_shown(field.kind, field.value))


def _cut(text: str) -> str:
    over = len(text) - LONGEST_TEXT
    return text if over <= 0 else f"{text[:LONGEST_TEXT]}… (and {over:,} more characters)"


def _shown(kind: Type, value: Any) -> str:  # noqa: PLR0911 (one form a case)
    """A value in words."""
    match kind:
        case Opt(item):
            return ABSENT if value is None else _shown(item, value)
        case List(item):
            separator = ", " if not isinstance(item, _PARTED) else "; "
            return separator.join(_shown(item, part) for part in value) or ABSENT
        case Map(item):
            return ", ".join(f"{key}: {_shown(item, value[key])}" for key in value) or ABSENT
        case Record(members):
            return ", ".join(f"{_words(name)}: {_shown(part, value[name])}" for name, part in members)
        case Qty():
            return f"{_number(value['value'])} {_UNITS.get(value['unit'], value['unit'])}".rstrip()
        case Dec():
            return _number(value)
        case _ if kind == BOOL:
            return "Yes" if value else "No"
        case _:
            return str(value)


def _number(text: str) -> str:
    """A decimal number without zeros at its end; more decimals than anybody reads are cut, visibly."""
    whole, _, decimals = text.partition(".")
    decimals = decimals.rstrip("0")
    if len(decimals) > DECIMALS:
        return f"{whole}.{decimals[:DECIMALS]}…"
    return f"{whole}.{decimals}" if decimals else whole


def _inner(kind: Type) -> Type:
    return kind.item if isinstance(kind, Opt) else kind


def _label(path: str) -> str:
    return _dotted(path.split(".", 1)[-1]) if "." in path else _words(path)


def _dotted(path: str) -> str:
    first, *rest = path.split(".")
    return " · ".join([_words(first), *(_words(part, start=False) for part in rest)])


def _words(name: str, *, start: bool = True) -> str:
    """`capacity_kwh` as `Capacity kWh`."""
    text = " ".join(_WORDS.get(word, word) for word in name.split("_") if word)
    # ASCII only, because tables of capital letters differ between Pythons.
    return chr(ord(text[0]) - 32) + text[1:] if start and "a" <= text[:1] <= "z" and not _keeps(name) else text


def _keeps(name: str) -> bool:
    return name.split("_", 1)[0] in _WORDS


def qr_svg(text: str) -> str:
    """The QR code as one path, a module a unit, its quiet zone around it."""
    rows = qr_modules(text)
    drawn = "".join(f"M{start} {y}h{length}v1h-{length}z" for y, row in enumerate(rows) for start, length in _dark(row))
    size = len(rows)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size} {size}" width="{size}" height="{size}">'
        f'<path d="{drawn}" fill="#000000"/></svg>'
    )


def _dark(row: bytes) -> Iterator[tuple[int, int]]:
    """Where dark runs of a row begin, and how long they are."""
    start = 0
    for dark, run in groupby(row, lambda module: module == 0):
        length = len(list(run))
        if dark:
            yield start, length
        start += length


_PARTED: Final = (List, Map, Record)
