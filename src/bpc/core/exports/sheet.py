"""Sheet: a passport as a person reads it on paper. Texts in their order, no layout and no markup.

Pure. What a field is for people is what its rule says of it (`about`): label, group, order, unit, data point, citation.
Where it says nothing, its path becomes a heading and a label. Values become words: `performance.voltage.nominal` and
`{"unit":"V",…}` become "Performance", "Voltage · nominal" and "402 V". A number of more than six decimals, a text of
more than 10,000 letters and a table of more than 1,000 rows are cut, visibly. What is on the sheet is JSON of texts
only; the code that prints it (bpc.printing) shows texts as they are.

    DisclosedPassport ── build_sheet ──► {"title", "sections": [{"title", "rows": [{"label", "value"}]}], …}
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from bpc.core.audit.signing import to_base64
from bpc.core.exports.disclosure import AUDIENCE_DESCRIPTIONS, TENANT, DisclosedField, DisclosedPassport
from bpc.core.formats.hashes import to_hex
from bpc.core.language.checking.abouts import MAX_ORDER
from bpc.core.language.checking.requirements import REQUIREMENTS_PATH
from bpc.core.language.typed import FieldAbout
from bpc.core.language.types import BOOL, INT, Dec, List, Map, Opt, Qty, Record, Type, unwrap_option_type
from bpc.core.passport.qr import encode_qr_modules

DECIMALS: Final = 6
ABSENT: Final = "–"
KEY_FIGURES: Final = 8
LONGEST_FIGURE: Final = 36
LONGEST_TEXT: Final = 10_000
MOST_ROWS: Final = 1_000
MOST_COLUMNS: Final = 6

# What a reader looks for first, by the last words of paths; the first field that fits is taken.
_KEY_FIGURE_NAMES: Final = (
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
_FIRST_SECTIONS: Final = ("general", "identification", "product", "battery", "manufacturer")
_UNIT_SYMBOLS: Final[Mapping[str, str]] = {
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
_STATUS_WORDS: Final = {"PASS": "Pass", "WARN": "Warning", "FAIL": "Fail", "NOT_APPLICABLE": "Not applicable"}
# Paths are lower case; these are not.
_SPELLINGS: Final[Mapping[str, str]] = {
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


def build_sheet(passport: DisclosedPassport) -> Mapping[str, Any]:
    """Everything that is printed of a passport."""
    receipt = passport.receipt
    return {
        "title": passport.product["name"],
        "sku": passport.product["sku"],
        "issued_on": passport.issued_at[:10],
        "issued_at": f"{passport.issued_at[:10]} {passport.issued_at[11:19]} UTC",
        "passport_version_id": str(receipt.passport_version_id),
        "audience": _describe_audience(passport),
        "restricted": passport.audience == TENANT,
        "figures": [
            {"label": _get_label(field), "value": _format_field(field)}
            for field in _select_key_figures(passport.fields)
        ],
        "compliance": _build_entries(passport),
        "waived": _describe_waived(passport.waived),
        "sections": list(_build_sections(passport.fields)),
        "ids": [
            {"label": "Passport", "value": str(receipt.passport_id)},
            {"label": "Passport version", "value": str(receipt.passport_version_id)},
            {"label": "Battery product", "value": str(receipt.battery_product_id)},
            {"label": "Rules version", "value": str(receipt.rule_package_version_id)},
        ],
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
        "weakened": [
            {"label": f"{override.kind} {override.name}", "value": override.reason} for override in passport.weakened
        ],
        "signature": [
            {"label": "Public key", "value": to_base64(passport.public_key)},
            {"label": "Signature", "value": to_base64(receipt.signature or b"")},
        ],
        "qr_svg": draw_qr_svg(passport.qr_text),
        "qr_text": passport.qr_text,
    }


def _describe_audience(passport: DisclosedPassport) -> str:
    total = len(passport.fields) + passport.hidden
    if passport.audience == TENANT:
        return f"Holds all {total} fields of the passport, restricted ones among them. Not for handing on."
    share = "all" if passport.hidden == 0 else str(len(passport.fields))
    return f"For {AUDIENCE_DESCRIPTIONS[passport.audience]}: {share} of the passport's {total} fields."


def _describe_waived(waived_count: int | None) -> str:
    if not waived_count:
        return ""
    entries = "1 compliance entry" if waived_count == 1 else f"{waived_count:,} compliance entries"
    return f"The issuer waived {entries} of this passport, with a reason on record."


def _build_entries(passport: DisclosedPassport) -> list[Mapping[str, str]]:
    """The entries, each with the label of its field, or what its requirement cites."""
    labels = {field.path: _get_label(field) for field in passport.fields}
    labels[REQUIREMENTS_PATH] = "Requirement"
    return [
        {
            "status": entry["status"],
            "says": _STATUS_WORDS[entry["status"]],
            "code": entry["code"],
            "message": entry["message"],
            "field": passport.citations.get(entry["code"])
            or labels.get(entry["field"])
            or _format_label(entry["field"]),
        }
        for entry in passport.compliance
    ]


def _select_key_figures(fields: Sequence[DisclosedField]) -> list[DisclosedField]:
    """The fields that a reader looks for first; where there are few of them, the first quantities."""
    plain = [field for field in fields if _is_figure(field)]
    key_figures = [field for names in _KEY_FIGURE_NAMES for field in _find_first_named(plain, names)]
    others = (
        [field for field in plain if isinstance(unwrap_option_type(field.kind), Qty | Dec)]
        if len(key_figures) < 4
        else []
    )
    fields_by_path: dict[str, DisclosedField] = {field.path: field for field in (*key_figures, *others)}
    return list(fields_by_path.values())[:KEY_FIGURES]


def _is_figure(field: DisclosedField) -> bool:
    kind = unwrap_option_type(field.kind)
    return (
        field.value is not None
        and kind != BOOL
        and not isinstance(kind, _COMPOSITE_TYPES)
        and len(_format_field(field)) <= LONGEST_FIGURE
    )


def _find_first_named(fields: Sequence[DisclosedField], names: Sequence[str]) -> Sequence[DisclosedField]:
    matches = [field for name in names for field in fields if field.path.rsplit(".", 1)[-1] == name]
    return matches[:1]


def _build_sections(fields: Sequence[DisclosedField]) -> Iterator[Mapping[str, Any]]:
    """Groups that rules name, in the order of their first fields; then the others, by the first names of paths."""
    named_groups: dict[str, list[DisclosedField]] = {}
    for field in sorted(fields, key=_get_order):
        if field.about is not None and field.about.group is not None:
            named_groups.setdefault(field.about.group, []).append(field)
    for title, members in named_groups.items():
        yield {"title": title, "rows": [_build_row(field) for field in members]}
    others = [field for field in fields if field.about is None or field.about.group is None]
    groups = {name: list(group) for name, group in groupby(others, lambda field: field.path.split(".", 1)[0])}
    for name in (
        *(name for name in _FIRST_SECTIONS if name in groups),
        *(name for name in groups if name not in _FIRST_SECTIONS),
    ):
        yield {
            "title": _format_words(name),
            "rows": [_build_row(field) for field in sorted(groups[name], key=_get_order)],
        }


def _get_order(field: DisclosedField) -> int:
    """Where a field stands; those that do not say it stand behind the others, by path."""
    order = None if field.about is None else field.about.order
    return MAX_ORDER + 1 if order is None else order


def _get_label(field: DisclosedField) -> str:
    return _format_label(field.path) if field.about is None else field.about.label


def _build_row(field: DisclosedField) -> Mapping[str, Any]:
    note = "" if "public" in field.access else ", ".join(field.access) or "tenant only"
    head = {"label": _get_label(field), "note": note, **_build_source(field.about)}
    kind = unwrap_option_type(field.kind)
    if isinstance(kind, List) and isinstance(kind.item, Record) and isinstance(field.value, list) and field.value:
        members = kind.item.members
        if len(members) <= MOST_COLUMNS:
            columns = [_format_words(name) for name, _ in members]
            return {**head, "columns": columns, "cells": _build_cells(members, field.value)}
    return {**head, "value": _format_field(field)}


def _build_source(about: FieldAbout | None) -> Mapping[str, str]:
    """The data point and the citation of a field, "" where its rule does not say them."""
    point, citation = (None, None) if about is None else (about.point, about.citation)
    return {"point": point or "", "citation": citation or ""}


def _build_cells(members: Sequence[tuple[str, Type]], values: Sequence[Any]) -> list[list[str]]:
    rows = [[_truncate(_format_value(part, value[name])) for name, part in members] for value in values[:MOST_ROWS]]
    if len(values) > MOST_ROWS:
        rows.append([f"… and {len(values) - MOST_ROWS:,} more", *[""] * (len(members) - 1)])
    return rows


def _format_field(field: DisclosedField) -> str:
    text = _format_value(field.kind, field.value)
    unit = None if field.about is None else field.about.unit
    if unit is not None and text != ABSENT and _is_plain_number(field.kind):
        text = f"{text} {unit}"
    return _truncate(text)


def _is_plain_number(kind: Type) -> bool:
    """Whether values of this type are numbers without a unit, or lists of them."""
    kind = unwrap_option_type(kind)
    return kind == INT or isinstance(kind, Dec) or (isinstance(kind, List) and _is_plain_number(kind.item))


def _truncate(text: str) -> str:
    over = len(text) - LONGEST_TEXT
    return text if over <= 0 else f"{text[:LONGEST_TEXT]}… (and {over:,} more characters)"


def _format_value(kind: Type, value: Any) -> str:  # noqa: PLR0911 (one form a case)
    """A value in words."""
    match kind:
        case Opt(item):
            return ABSENT if value is None else _format_value(item, value)
        case List(item):
            separator = ", " if not isinstance(item, _COMPOSITE_TYPES) else "; "
            return separator.join(_format_value(item, part) for part in value) or ABSENT
        case Map(item):
            return ", ".join(f"{key}: {_format_value(item, value[key])}" for key in value) or ABSENT
        case Record(members):
            return ", ".join(f"{_format_words(name)}: {_format_value(part, value[name])}" for name, part in members)
        case Qty():
            return f"{_format_number(value['value'])} {_UNIT_SYMBOLS.get(value['unit'], value['unit'])}".rstrip()
        case Dec():
            return _format_number(value)
        case _ if kind == BOOL:
            return "Yes" if value else "No"
        case _:
            return str(value)


def _format_number(text: str) -> str:
    """A decimal number without zeros at its end; more decimals than anybody reads are cut, visibly."""
    integer_part, _, decimals = text.partition(".")
    decimals = decimals.rstrip("0")
    if len(decimals) > DECIMALS:
        return f"{integer_part}.{decimals[:DECIMALS]}…"
    return f"{integer_part}.{decimals}" if decimals else integer_part


def _format_label(path: str) -> str:
    return _format_dotted(path.split(".", 1)[-1]) if "." in path else _format_words(path)


def _format_dotted(path: str) -> str:
    first, *others = path.split(".")
    return " · ".join([_format_words(first), *(_format_words(part, start=False) for part in others)])


def _format_words(name: str, *, start: bool = True) -> str:
    """`capacity_kwh` as `Capacity kWh`."""
    text = " ".join(_SPELLINGS.get(word, word) for word in name.split("_") if word)
    # ASCII only, because tables of capital letters differ between Pythons.
    return (
        chr(ord(text[0]) - 32) + text[1:]
        if start and "a" <= text[:1] <= "z" and name.split("_", 1)[0] not in _SPELLINGS
        else text
    )


def draw_qr_svg(text: str) -> str:
    """The QR code as one path, a module a unit, its quiet zone around it."""
    rows = encode_qr_modules(text)
    path_data = "".join(
        f"M{start} {y}h{length}v1h-{length}z" for y, row in enumerate(rows) for start, length in _find_dark_runs(row)
    )
    size = len(rows)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size} {size}" width="{size}" height="{size}">'
        f'<path d="{path_data}" fill="#000000"/></svg>'
    )


def _find_dark_runs(row: bytes) -> Iterator[tuple[int, int]]:
    """Where dark runs of a row begin, and how long they are."""
    start = 0
    for dark, run in groupby(row, lambda module: module == 0):
        length = len(list(run))
        if dark:
            yield start, length
        start += length


_COMPOSITE_TYPES: Final = (List, Map, Record)
