"""Sheet: a passport as a person reads it on paper, in one language. Texts in their order, no layout and no markup.

Pure. Fields have the labels, groups and units that the rules give them (`about`); a field without them has words made
of its path. What is on the sheet is JSON of texts only; the code that prints it (bpc.printing) shows texts as they are.

    DisclosedPassport, Wording ── build_sheet ──► {"title", "figures", "sections": [{"title", "rows": […]}], …}
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from bpc.core.audit.signing import to_base64
from bpc.core.catalogue.extraction import find_label_context, format_words
from bpc.core.catalogue.number_format import SOURCE_LANGUAGE
from bpc.core.catalogue.product_texts import (
    AUDIENCE_WORDS,
    GROUPS,
    SHEET_TEXTS,
    SHORT_AUDIENCE_WORDS,
    STATUS_WORDS,
    VERDICT_WORDS,
)
from bpc.core.catalogue.wording import Wording
from bpc.core.exports.data_points import POINTS, Category, DataPoint, get_category
from bpc.core.exports.disclosure import TENANT, DisclosedField, DisclosedPassport, may_see_export
from bpc.core.exports.sheet_values import (
    COMPOSITE_TYPES,
    ValueWriter,
    draw_qr_svg,
    find_link,
    format_path,
    is_blank,
    is_unsaid,
    join_texts,
    says_something,
)
from bpc.core.formats.hashes import to_hex
from bpc.core.formats.timestamps import format_time
from bpc.core.language.checking.abouts import MAX_ORDER
from bpc.core.language.checking.requirements import REQUIREMENTS_PATH
from bpc.core.language.types import BOOL, Dec, Qty, unwrap_option_type

KEY_FIGURES: Final = 8
LONGEST_FIGURE: Final = 36
# What a reader looks for first: the data point, or the last words of paths; the first field that fits is taken.
_KEY_FIGURES: Final = (
    (None, ("energy", "capacity_kwh", "energy_kwh")),
    (12, ("chemistry",)),
    (11, ("rated_capacity",)),
    (27, ("nominal", "nominal_voltage")),
    (10, ("mass", "mass_kg", "weight")),
    (29, ("original_w", "original_power")),
    (31, ("cycles", "expected_cycles")),
    (35, ("warranty", "warranty_months")),
    (36, ("initial_pct",)),
    (9, ("manufactured_on",)),
    (None, ("per_kwh", "pcf_gco2e_per_kwh", "carbon_footprint")),
    (None, ("class",)),
)
_CATEGORY: Final = (6, ("category",))
_MAKER: Final = (3, ("manufacturer_name", "manufacturer.name", "manufacturer", "trade_mark"))
_ADDRESS: Final = (1, ("passport_uri", "passport_url"))
_MODEL: Final = (7, ("model",))
# Groups that come before all others, where rules name no groups.
_FIRST_SECTIONS: Final = ("general", "identification", "product", "battery", "manufacturer")
_STATUS_ORDER: Final = ("FAIL", "WARN", "PASS", "NOT_APPLICABLE")
_SYMBOLS_POINT: Final = 41
_LAST_PUBLIC_POINT: Final = 44
# Above these shares of a battery's weight its symbols name the metal, Article 13(5).
_METALS: Final = (("Cd", "cadmium_says", "0.002"), ("Pb", "lead_says", "0.004"))
# Filled by the code that prints, which knows the pages.
_PAGE: Final = {"page": "{page}", "pages": "{pages}"}


def build_sheet(passport: DisclosedPassport, wording: Wording | None = None) -> Mapping[str, Any]:
    """Everything that is printed of a passport, in the language of `wording`; without one, in English."""
    return _SheetBuilder(passport, wording or Wording(SOURCE_LANGUAGE)).build()


class _SheetBuilder:
    def __init__(self, passport: DisclosedPassport, wording: Wording) -> None:
        self._passport = passport
        self._wording = wording
        self._writer = ValueWriter(wording)
        self._points = [field.about.point for field in passport.fields if field.about is not None]
        category = self._find_field(*_CATEGORY)
        self._category = None if category is None else _read_category(category.value)

    def build(self) -> Mapping[str, Any]:
        passport, receipt = self._passport, self._passport.receipt
        translate, version = self._writer.translate, str(receipt.passport_version_id)
        day = self._writer.format_day(passport.issued_at[:10])
        return {
            "language": self._wording.language,
            "words": {name: translate(name) for name, text in SHEET_TEXTS.items() if "{" not in text}
            | {"not_applicable": self._translate_status("NOT_APPLICABLE")},
            "footer": translate("issued_footer", version=version, day=day),
            "page": translate("page", **_PAGE),
            "title": passport.product["name"],
            "category": self._format_found(*_CATEGORY),
            "maker": self._format_found(*_MAKER),
            "model": self._format_found(*_MODEL),
            "passport_version_id": version,
            "head": [
                {"label": translate("sku"), "value": passport.product["sku"]},
                {"label": translate("issued"), "value": f"{day}, {passport.issued_at[11:16]} UTC"},
                {"label": translate("readers"), "value": self._describe_readers()},
            ],
            "restricted": passport.audience == TENANT,
            "codes": list(self._build_codes()),
            "figures": list(self._build_figures()),
            "state": self._build_state(),
            "symbols": self._build_symbols(),
            "sections": list(self._build_sections()),
            "checks": [self._build_entry(entry) for entry in self._sort_entries()],
            "waived": translate("waived", count=self._writer.format_count(passport.waived)) if passport.waived else "",
            "hidden": self._build_hidden(),
            "mark": self._build_mark(),
            "weakened": [
                {"label": f"{override.kind} {override.name}", "value": override.reason}
                for override in passport.weakened
            ],
            **self._build_identifiers(),
        }

    def _build_mark(self) -> str:
        """What stands on every page of a passport that is revoked."""
        revoked_at = self._passport.revoked_at
        if revoked_at is None:
            return ""
        return self._writer.translate("revoked", day=self._writer.format_day(format_time(revoked_at)[:10]))

    def _build_identifiers(self) -> Mapping[str, Any]:
        receipt, translate = self._passport.receipt, self._writer.translate
        hashes = {
            "payload": receipt.payload_hash,
            "proof": receipt.proof_root_hash,
            "receipt": receipt.hash(),
            "snapshot": receipt.snapshot_hash,
            "rules": receipt.dsl_sha256,
            "rule_tests": receipt.tests_sha256,
        }
        ids = {
            "passport": receipt.passport_id,
            "version": receipt.passport_version_id,
            "product": receipt.battery_product_id,
            "rules": receipt.rule_package_version_id,
        }
        keys = {
            "public_key": to_base64(self._passport.public_key),
            "signature": to_base64(receipt.signature or b""),
        }
        return {
            "hashes": [{"label": translate(name), "value": to_hex(digest)} for name, digest in hashes.items()],
            "ids": [{"label": translate(name), "value": str(value)} for name, value in ids.items()]
            + self._name_status(),
            "names": [
                {"label": translate("key"), "value": receipt.signing_key_id},
                {"label": translate("compiler"), "value": receipt.compiler_build_id},
            ],
            "signature": [{"label": translate(name), "value": text} for name, text in keys.items()],
        }

    def _name_status(self) -> list[Mapping[str, str]]:
        place = self._passport.place
        if place is None:
            return []
        return [{"label": self._writer.translate("status"), "value": f"{place.list_url}#{place.index}"}]

    # What stands on the first page

    def _describe_readers(self) -> str:
        passport, writer = self._passport, self._writer
        total = writer.format_count(len(passport.fields) + passport.hidden)
        if passport.audience == TENANT:
            return writer.translate("all_fields", total=total)
        readers = self._translate_audience(passport.audience)
        shown_count = writer.format_count(len(passport.fields))
        return f"{readers} ({writer.translate('share', shown=shown_count, total=total)})"

    def _build_codes(self) -> Iterator[Mapping[str, str]]:
        translate, qr_text = self._writer.translate, self._passport.qr_text
        address = self._find_field(*_ADDRESS)
        if address is not None and isinstance(address.value, str) and (link := find_link(address.value)):
            alt = translate("qr_alt", text=link)
            yield {"svg": draw_qr_svg(link), "alt": alt, "caption": translate("online"), "href": link}
        alt = translate("qr_alt", text=qr_text)
        yield {"svg": draw_qr_svg(qr_text), "alt": alt, "caption": translate("this_version"), "href": ""}

    def _build_figures(self) -> Iterator[Mapping[str, str]]:
        plain = [field for field in self._passport.fields if self._is_figure(field)]
        fields = [field for key in _KEY_FIGURES for field in self._find_all(key[0], key[1], plain)[:1]]
        if len(fields) < 4:  # half a row says little
            fields += [field for field in plain if isinstance(unwrap_option_type(field.kind), Qty | Dec)]
        by_path = {field.path: field for field in fields}
        for field in list(by_path.values())[:KEY_FIGURES]:
            yield {"label": self._format_label(field), "value": self._format_field(field)}

    def _is_figure(self, field: DisclosedField) -> bool:
        kind = unwrap_option_type(field.kind)
        is_single = kind != BOOL and not isinstance(kind, COMPOSITE_TYPES) and not is_blank(field.value)
        return is_single and len(self._format_field(field)) <= LONGEST_FIGURE

    def _build_state(self) -> Mapping[str, str]:
        """One line on the checks: a colour and words."""
        entries = self._passport.compliance
        if not entries:
            return {"status": "", "says": "", "counts": ""}
        counts = {status: sum(entry["status"] == status for entry in entries) for status in _STATUS_ORDER}
        names = zip(("failed", "warned", "passed", "skipped"), _STATUS_ORDER, strict=True)
        args = {name: self._writer.format_count(counts[status]) for name, status in names}
        total = self._writer.format_count(len(entries))
        has_failures = counts["FAIL"] > 0
        return {
            "status": "FAIL" if has_failures else "WARN" if counts["WARN"] else "PASS",
            "says": self._writer.translate("failures", failed=args["failed"])
            if has_failures
            else self._writer.translate("no_failures"),
            "counts": self._writer.translate("check_counts", total=total, **args),
        }

    def _build_symbols(self) -> Mapping[str, Any]:
        """The symbols of Article 13: that for separate collection, and the metals that the rules name below it."""
        symbol_lists = [field.value for field in self._passport.fields if self._find_point(field) == _SYMBOLS_POINT]
        names = [name for value in symbol_lists if isinstance(value, list) for name in value]
        metals = [metal for metal in _METALS if metal[0] in names]
        sentences = [
            self._writer.translate(sentence, limit=self._wording.write_argument("number", limit))
            for _, sentence, limit in metals
        ]
        return {"metals": [name for name, _, _ in metals], "says": sentences}

    # What stands on the others

    def _build_sections(self) -> Iterator[Mapping[str, Any]]:
        groups: dict[str, list[DisclosedField]] = {}
        for field in self._passport.fields:
            if field.path == REQUIREMENTS_PATH and self._passport.compliance:
                continue  # the checks say it, each by itself
            groups.setdefault(self._find_group(field), []).append(field)
        for name in sorted(groups, key=lambda name: self._rank_group(name, groups[name])):
            fields = [field for field in groups[name] if not self._is_not_due(field)]
            fields.sort(key=lambda field: (self._find_order(field), field.path))
            rows = [self._build_row(field) for field in fields if says_something(field)]
            empty = [field for field in fields if is_unsaid(field)]
            exempt = [field for field in empty if self._find_point(field) in self._passport.exempt_points]
            if rows or empty:
                yield {
                    "title": self._translate_group(name),
                    "rows": rows,
                    "empty": self._join_labels(field for field in empty if field not in exempt),
                    "exempt": self._join_labels(exempt),
                }

    def _join_labels(self, fields: Iterable[DisclosedField]) -> str:
        return join_texts(dict.fromkeys(map(self._format_label, fields)))

    def _translate_status(self, status: str) -> str:
        return self._wording.translate(f"status {status}", STATUS_WORDS[status])

    def _find_group(self, field: DisclosedField) -> str:
        about = field.about
        if about is not None and about.group is not None:
            return about.group
        point = self._find_point(field)
        if point is not None:
            return GROUPS[max(first for first in GROUPS if first <= point)]
        return field.path.split(".", 1)[0]

    def _translate_group(self, name: str) -> str:
        translation = self._wording.find("group", name)
        is_path = any(field.path.split(".", 1)[0] == name for field in self._passport.fields)
        return translation or (format_words(name) if is_path else name)

    def _rank_group(self, name: str, fields: Sequence[DisclosedField]) -> tuple[int, int, str]:
        """In the order of Annex XIII: by the point that stands in the middle of those a group has."""
        points = sorted(point for field in fields if (point := self._find_point(field)) is not None)
        if points:
            public = [point for point in points if point <= _LAST_PUBLIC_POINT] or points
            return 0, public[(len(public) - 1) // 2], name
        return 1, _FIRST_SECTIONS.index(name) if name in _FIRST_SECTIONS else len(_FIRST_SECTIONS), name

    def _is_not_due(self, field: DisclosedField) -> bool:
        """Whether a field that is empty belongs to a point that is not to be filled for this category."""
        point = self._find_point(field)
        if point is None or self._category is None or not is_blank(field.value):
            return False
        return POINTS[point - 1].get_status(self._category) in {"X", "P"}

    def _build_row(self, field: DisclosedField) -> Mapping[str, Any]:
        about = field.about
        row = {
            "path": field.path,
            "label": self._format_label(field),
            "cite": "" if about is None else self._wording.translate_citation(about.citation or ""),
            "note": self._describe_access(field.access),
        }
        if (table := self._writer.build_table(field)) is not None:
            columns, cells = table
            return {**row, "columns": columns, "cells": cells}
        return {**row, "values": self._writer.list_lines(field, about)}

    def _describe_access(self, access: Sequence[str]) -> str:
        if "public" in access:
            return ""
        words = ((name, SHORT_AUDIENCE_WORDS.get(name, name)) for name in access or (TENANT,))
        return ", ".join(self._wording.translate(f"access {name}", text) for name, text in words)

    def _translate_audience(self, name: str) -> str:
        return self._wording.translate(f"audience {name}", AUDIENCE_WORDS.get(name, name))

    def _sort_entries(self) -> list[Mapping[str, Any]]:
        return sorted(self._passport.compliance, key=lambda entry: _STATUS_ORDER.index(entry["status"]))

    def _build_entry(self, entry: Mapping[str, Any]) -> Mapping[str, str]:
        status, verdict = entry["status"], entry.get("verdict", "assessed")
        return {
            "status": status,
            "says": self._translate_status(status),
            "code": entry["code"],
            "message": self._wording.translate_finding(entry),
            "verdict": ""
            if verdict == "assessed"
            else self._wording.translate(f"verdict {verdict}", VERDICT_WORDS.get(verdict, verdict)),
            "cite": self._wording.translate_citation(self._passport.citations.get(entry["code"], "")),
        }

    def _build_hidden(self) -> Mapping[str, Any]:
        """What the law keeps from this audience: the data points, by who may read them. No value, and no field."""
        passport = self._passport
        if passport.hidden == 0 or passport.audience == TENANT or not self._points:
            return {"count": "", "groups": []}
        hidden_points = [point for point in POINTS if not may_see_export(point.access, passport.audience)]
        groups = [
            {
                "audience": "; ".join(self._translate_audience(name) for name in access),
                "points": join_texts(self._translate_point(point) for point in points if self._is_due(point)),
            }
            for access, points in groupby(hidden_points, lambda point: point.access)
        ]
        count = self._writer.translate("restricted_count", count=self._writer.format_count(passport.hidden))
        return {"count": count, "groups": groups}

    def _is_due(self, point: DataPoint) -> bool:
        return self._category is None or point.get_status(self._category) not in {"X", "P"}

    def _translate_point(self, point: DataPoint) -> str:
        return self._wording.translate_label(f"point {point.number}", point.name, is_only=False)

    # Fields by what they are

    def _find_point(self, field: DisclosedField) -> int | None:
        return None if field.about is None else field.about.point_number

    def _find_order(self, field: DisclosedField) -> int:
        return MAX_ORDER + 1 if field.about is None or field.about.order is None else field.about.order

    def _find_all(
        self, point: int | None, names: Sequence[str], fields: Sequence[DisclosedField]
    ) -> list[DisclosedField]:
        """The fields of a data point, in their order; else those with such a last word of their path."""
        of_point = [field for field in fields if point is not None and self._find_point(field) == point]
        if of_point:
            return sorted(of_point, key=self._find_order)
        return [field for name in names for field in fields if f".{field.path}".endswith(f".{name}")]

    def _find_field(self, point: int, names: Sequence[str]) -> DisclosedField | None:
        plain = [field for field in self._passport.fields if not is_blank(field.value)]
        fields = self._find_all(point, names, plain)
        by_name = [field for field in fields if field.path.rsplit(".", 1)[-1] in ("name", *names)]
        return next(iter(by_name or fields), None)

    def _format_found(self, point: int, names: Sequence[str]) -> str:
        field = self._find_field(point, names)
        if field is None:
            return ""
        text = self._format_field(field)
        return self._writer.translate_word(point, text)

    def _format_field(self, field: DisclosedField) -> str:
        return self._writer.format_field(field, field.about)

    def _format_label(self, field: DisclosedField) -> str:
        about = field.about
        if about is None:
            return format_path(field.path)
        context = find_label_context(about, field.path)
        translation = self._wording.find(context, about.label)
        own_label = about.get_label(self._wording.language)
        if translation is not None or own_label != about.label:
            return translation or own_label
        return self._wording.translate_label(context, about.label, is_only=self._points.count(about.point) == 1)


def _read_category(value: object) -> Category | None:
    """The category of the guidance, from the word of a fact (`ev`) or the member of an enumeration (`EV`)."""
    if not isinstance(value, str):
        return None
    return get_category(value.translate({code: code + 32 for code in range(ord("A"), ord("Z") + 1)}))
