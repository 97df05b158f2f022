"""The public page of a passport: what anyone with a phone is shown. Texts in their order, no markup.

Pure. Everything comes from the sheet of the public audience (bpc.core.exports.sheet), so a field that is not public
cannot be on it. Each shown field carries its path and its signed value, which the browser compares with the view.

    DisclosedPassport, Wording, PageState ─► build_page ─► {"title", "answers", "recycled", "sections", "evidence", …}
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from bpc.core.catalogue.product_texts import SHEET_TEXTS
from bpc.core.catalogue.wording import Wording
from bpc.core.exports.disclosure import DisclosedField, DisclosedPassport
from bpc.core.exports.page_pictures import (
    BAR_WIDTH,
    DIAL_LENGTH,
    draw_health_curve,
    find_health,
    list_recycled_shares,
    scale_share,
)
from bpc.core.exports.page_state import BatteryOnPage, PageState, VersionLine, VersionState
from bpc.core.exports.page_words import STEPS, PageWords
from bpc.core.exports.sheet import build_sheet
from bpc.core.exports.sheet_values import ABSENT, draw_qr_svg, join_texts
from bpc.core.formats import canonical_json

STATE_TEXTS: Final[Mapping[VersionState, str]] = {
    "in_force": "in_force",
    "issued": "issued",
    "superseded": "replaced",
    "revoked": "withdrawn",
    "ceased": "ended",
}
LONGEST_CHANGE: Final = 160
# The data points that answer what people ask, each by its number.
_MAKER_POINTS: Final = (3, 4, 5)
_MADE_POINTS: Final = (9, 8)
_HAZARD_POINTS: Final = (13,)
_FIRE_POINTS: Final = (14,)
_RETURN_POINTS: Final = (43, 40)
_CONTACT_POINTS: Final = (5, 2)
# Fields of packages that name no data points, by the beginning of their path.
_PATHS: Final[Mapping[tuple[int, ...], tuple[str, ...]]] = {
    _MAKER_POINTS: ("general.manufacturer.",),
    _MADE_POINTS: ("general.manufacturing.",),
    _HAZARD_POINTS: ("materials.hazardous_substances",),
    _FIRE_POINTS: ("circularity.extinguishing_agents",),
    _RETURN_POINTS: ("waste.",),
    _CONTACT_POINTS: ("general.manufacturer.email", "general.manufacturer.url"),
}


def build_page(passport: DisclosedPassport, wording: Wording, state: PageState) -> Mapping[str, Any]:
    """Everything that the page of a passport says, in the language of `wording`."""
    return _PageBuilder(passport, wording, state).build()


class _PageBuilder:
    def __init__(self, passport: DisclosedPassport, wording: Wording, state: PageState) -> None:
        self._passport = passport
        self._state = state
        self._own = None if state.battery is None else state.battery.own
        self._wording = wording
        self._words = PageWords(wording)
        self._sheet = build_sheet(passport, wording)
        self._fields = {field.path: field for field in passport.fields}
        self._rows = {row["path"]: row for section in self._sheet["sections"] for row in section["rows"]}

    def build(self) -> Mapping[str, Any]:
        sheet, state, words = self._sheet, self._state, self._words
        return {
            "language": sheet["language"],
            "sheet_words": sheet["words"],
            "words": words.list_plain(),
            "title": sheet["title"],
            "category": sheet["category"],
            "maker": sheet["maker"],
            "model": sheet["model"],
            "head": sheet["head"],
            "issuer": state.issuer,
            "state": state.state,
            "is_open": state.state in {"in_force", "issued"},
            "against": words.translate("against", host=state.host),
            "go_on": next((line.href for line in state.versions if line.state == "in_force"), ""),
            "exported": ""
            if state.exported_day is None
            else words.translate("exported", day=words.format_day(state.exported_day)),
            "figures": sheet["figures"],
            "answers": list(self._build_answers()),
            "recycled": list(self._build_recycled()),
            "health": self._build_health(),
            "completeness": self._build_completeness(),
            "changes": self._build_changes(),
            "sections": [
                {**section, "rows": [self._add_value(row) for row in section["rows"]]} for section in sheet["sections"]
            ],
            "symbols": sheet["symbols"],
            "checks": sheet["checks"],
            "compliance": sheet["state"],
            "waived": sheet["waived"],
            "hidden": sheet["hidden"],
            "has_hidden": self._passport.hidden > 0,
            "ask": self._build_ask(),
            "versions": [self._build_version(line) for line in state.versions],
            "codes": self._build_codes(),
            "hashes": sheet["hashes"],
            "ids": [*self._list_own_ids(), *sheet["ids"]],
            "evidence": self._build_evidence(),
            "has_view": state.has_view,
            "battery": "" if state.battery is None else words.translate("serial", number=state.battery.serial_number),
            "of_model": words.translate("of_model" if self._own is None else "own_passport"),
            "model_address": "" if state.battery is None else state.battery.model_address,
            "takes_days": state.exported_day is None,
            "has_log_proof": state.log_proof is not None,
            "has_bundle": state.has_bundle,
            "has_print": state.has_print,
            "brand": {"name": state.brand.name, "palette": state.brand.palette, "logo": state.brand.logo},
        }

    def _select_rows(self, points: tuple[int, ...]) -> list[Mapping[str, Any]]:
        """The rows of some data points, in the order of the points."""
        fields = [self._fields[path] for path in self._rows]
        by_point = [field for point in points for field in fields if _find_point(field) == point]
        by_path = [field for start in _PATHS[points] for field in fields if field.path.startswith(start)]
        return [self._rows[field.path] for field in by_point or by_path]

    def _build_answers(self) -> Iterator[Mapping[str, Any]]:
        for name, points in (
            ("made_by", _MAKER_POINTS),
            ("made_when", _MADE_POINTS),
            ("hazardous", _HAZARD_POINTS),
            ("fire", _FIRE_POINTS),
            ("return", _RETURN_POINTS),
        ):
            rows = self._select_rows(points)
            if name != "hazardous":  # the others are short: what has columns is among all data
                rows = [row for row in rows if "columns" not in row]
            if rows:
                yield {"name": name, "title": self._words.translate(name), "rows": rows}

    def _build_recycled(self) -> Iterator[Mapping[str, Any]]:
        for share in list_recycled_shares(self._list_shown()):
            row = self._rows[share.field.path]
            yield {
                "symbol": share.metal.symbol,
                "label": row["label"],
                "value": row["values"][0]["text"],
                "width": share.width,
                "marks": [self._build_mark(least, day) for day, least in share.metal.shares],
            }

    def _build_mark(self, least: int, day: str) -> Mapping[str, Any]:
        words = self._words
        says = words.translate("minimum", share=words.format_number(str(least)), day=words.format_day(day))
        return {"at": scale_share(str(least), BAR_WIDTH), "says": says}

    def _list_shown(self) -> list[DisclosedField]:
        return [self._fields[path] for path in self._rows]

    def _build_health(self) -> Mapping[str, Any] | None:
        """The state of health as a dial and a curve, where a public field has it."""
        fields = self._list_shown()
        field, curve, words = find_health(fields), draw_health_curve(fields), self._words
        if field is None and curve is None:
            return None
        dial = None
        if field is not None:
            row, number = self._rows[field.path], field.value
            share = number["value"] if isinstance(number, Mapping) else number
            text = row["values"][0]["text"]
            dial = {"label": row["label"], "value": text, "part": scale_share(str(share), DIAL_LENGTH)}
        says = ""
        if curve is not None:
            (first_day, first), (last_day, last) = curve.first, curve.last
            says = words.translate(
                "health_says",
                first=words.format_number(first),
                first_day=words.format_day(first_day),
                last=words.format_number(last),
                last_day=words.format_day(last_day),
            )
        return {"dial": dial, "line": "" if curve is None else curve.line, "says": says}

    def _build_completeness(self) -> Mapping[str, Any] | None:
        completeness, words = self._state.completeness, self._words
        if completeness is None or not completeness.points:
            return None
        groups = [
            {
                "label": words.translate_group(group.name),
                "says": words.translate("share_filled", filled=str(group.full), total=str(group.total)),
                "width": group.full * BAR_WIDTH // group.total,
            }
            for group in completeness.groups
        ]
        count, total = len(completeness.full_points.intersection(completeness.points)), len(completeness.points)
        category = self._sheet["category"]
        return {
            "says": words.translate("completeness_says", filled=str(count), total=str(total), category=category),
            "groups": groups,
        }

    def _build_changes(self) -> Mapping[str, Any] | None:
        """What differs from the version before, field by field; None if there is none to compare with."""
        if self._state.before is None:
            return None
        sheet = build_sheet(self._state.before, self._wording)
        old_rows = {row["path"]: row for section in sheet["sections"] for row in section["rows"]}
        old_values = {field.path: field.value for field in self._state.before.fields}
        paths = [*self._rows, *(path for path in old_rows if path not in self._rows)]
        rows = [
            {
                "label": (self._rows.get(path) or old_rows[path])["label"],
                "before": _summarize_row(old_rows.get(path)),
                "after": _summarize_row(self._rows.get(path)),
            }
            for path in paths
            if path not in self._fields or old_values.get(path) != self._fields[path].value
        ]
        day = self._words.format_day(self._state.before.issued_at[:10])
        return {"rows": rows, "title": self._words.translate("changes", day=day)}

    def _describe_origin(self, path: str) -> str:
        """Where a value comes from, in words; "" where nothing is known of it."""
        origin = self._state.origins.get(path)
        if origin is None:
            return ""
        parts = join_texts(self._rows[part]["label"] for part in origin.parts if part in self._rows)
        return self._words.translate(f"origin_{origin.kind}", **({"parts": parts} if origin.kind == "computed" else {}))

    def _add_value(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        text = canonical_json.encode_typed(self._fields[row["path"]].value).decode()
        return {**row, "signed": text, "origin": self._describe_origin(row["path"])}

    def _build_ask(self) -> Mapping[str, str]:
        if not self._sheet["hidden"]["groups"]:
            return {"says": "", "href": ""}
        texts = [value for row in self._select_rows(_CONTACT_POINTS) for value in row.get("values", ())]
        contact = next((text for text in texts if text["href"].startswith("mailto:")), None)
        contact = contact or next((text for text in texts if text["href"]), None)
        name = self._state.issuer if contact is None else contact["text"]
        return {
            "says": self._words.translate("ask_says", contact=name),
            "href": "" if contact is None else contact["href"],
        }

    def _build_version(self, line: VersionLine) -> Mapping[str, Any]:
        return {
            "id": line.passport_version_id,
            "href": line.href,
            "state": line.state,
            "says": self._words.translate(STATE_TEXTS[line.state]),
            "since": self._words.translate("since", day=self._words.format_day(line.day)),
            "span": self._describe_span(line),
            "is_shown": line.passport_version_id == self._find_shown_version(),
        }

    def _describe_span(self, line: VersionLine) -> str:
        """From when to when a version was in force, where it no longer is."""
        if line.start is None or line.state in {"in_force", "issued"}:
            return ""
        words = self._words
        return words.translate("was_in_force", start=words.format_day(line.start), end=words.format_day(line.day))

    def _find_shown_version(self) -> str:
        return str(self._sheet["passport_version_id"]) if self._own is None else self._own.passport_version_id

    def _list_own_ids(self) -> list[Mapping[str, str]]:
        """What names the passport of a battery, before what names that of its model."""
        if self._own is None:
            return []
        label = self._words.translate("own_passport_id")
        return [
            {"label": label, "value": self._own.passport_version_id},
            {"label": f"{label}, SHA-256", "value": self._own.receipt_hash},
        ]

    def _build_codes(self) -> list[Mapping[str, str]]:
        """The code with the page's address, and BPC-QR-1, which pins this version."""
        second = self._sheet["codes"][-1]
        words = self._sheet["words"]
        address = self._state.address
        page_code = {"svg": draw_qr_svg(address), "alt": address, "caption": words["online"], "href": address}
        return [page_code] if self._own is not None else [page_code, second]

    def _build_evidence(self) -> canonical_json.Json:
        """What the browser checks with; it fetches the view itself."""
        words = self._words
        return {
            "keys": self._state.keys,
            "log_proof": self._state.log_proof,
            "policy": self._state.policy,
            "state": self._state.state,
            "has_view": self._state.has_view,
            "status": {"list": self._state.status_list, "statements": list(self._state.statements)},
            "address": self._state.address,
            "words": self._list_script_words(),
            "steps": {name: words.translate(f"step_{name}") for name in STEPS},
        }

    def _list_script_words(self) -> dict[str, canonical_json.Json]:
        texts = self._words.list_for_script()
        if self._own is not None and self._own.is_newest:  # the list speaks of its model
            texts["superseded"] = self._words.translate("model_superseded")
        return texts


def build_battery_page(battery: BatteryOnPage, wording: Wording) -> Mapping[str, Any]:
    """What the address of a battery says that has no passport to show: that it ended, and the way on."""
    words = PageWords(wording)
    if battery.ceased_day is not None:
        state, name, way_on = "ceased", "item_ceased", (battery.model_address, "to_model")
    elif battery.successor is not None:
        state, name, way_on = "superseded", "item_moved", (battery.successor, "to_successor")
    else:
        state, name, way_on = "no-view", "item_pending", (battery.model_address, "to_model")
    return {
        "language": wording.language,
        "words": words.list_plain(),
        "sheet_words": {"passport": wording.translate("sheet", SHEET_TEXTS["passport"])},
        "state": state,
        "sentence": words.translate(name),
        "since": ""
        if battery.ceased_day is None
        else words.translate("since", day=words.format_day(battery.ceased_day)),
        "serial": words.translate("serial", number=battery.serial_number),
        "way_on": way_on[0],
        "way_on_says": words.translate(way_on[1]),
    }


def _find_point(field: DisclosedField) -> int | None:
    return None if field.about is None else field.about.point_number


def _summarize_row(row: Mapping[str, Any] | None) -> str:
    """A row in one line: the values, or the cells of a table; long ones are cut."""
    if row is None:
        return ABSENT
    lines = row.get("cells") or [row["values"]]
    text = "; ".join(", ".join(value["text"] for value in line) for line in lines)
    return text if len(text) <= LONGEST_CHANGE else f"{text[:LONGEST_CHANGE]}…"
