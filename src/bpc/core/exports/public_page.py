"""The public page of a passport: what anyone with a phone is shown. Texts in their order, no markup.

Pure. Everything comes from the sheet of the public audience (bpc.core.exports.sheet), so a field that is not public
cannot be on it. Each shown field carries its path and its signed value, which the browser compares with the view.

    DisclosedPassport, Wording, PageState ─► build_page ─► {"title", "answers", "recycled", "sections", "evidence", …}
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from bpc.core.catalogue.number_format import format_day, format_number
from bpc.core.catalogue.product_texts import PAGE_TEXTS, SHEET_TEXTS
from bpc.core.catalogue.wording import Wording
from bpc.core.exports.disclosure import DisclosedField, DisclosedPassport
from bpc.core.exports.sheet import build_sheet
from bpc.core.exports.sheet_values import draw_qr_svg
from bpc.core.formats import canonical_json

VersionState: TypeAlias = Literal["in_force", "issued", "superseded", "revoked", "ceased"]
STATE_TEXTS: Final[Mapping[VersionState, str]] = {
    "in_force": "in_force",
    "issued": "issued",
    "superseded": "replaced",
    "revoked": "withdrawn",
    "ceased": "ended",
}
BAR_WIDTH: Final = 300
STEPS: Final = (
    "canonical",
    "receipt_hash",
    "signature",
    "root",
    "completeness",
    "fields",
    "product",
    "key_window",
    "log",
    "status",
    "shown",
)
SCRIPT_WORDS: Final = (
    "verified",
    "unknown",
    "altered",
    "revoked",
    "superseded",
    "ceased",
    "unsupported",
    "no_view",
    "signature_valid",
    "go_on",
)
# What the script puts into texts itself, by the names of their arguments.
SCRIPT_ARGUMENTS: Final[Mapping[str, str]] = {"since": "day", "because": "reason"}
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


class MetalMinimum(NamedTuple):
    """Article 8(2) and (3): the shares of a metal that must be recovered from waste, by the day they begin."""

    symbol: str
    name: str
    point: int
    shares: tuple[tuple[str, int], ...]


_FIRST_DAY: Final = "2031-08-18"
_SECOND_DAY: Final = "2036-08-18"
MINIMUMS: Final = (
    MetalMinimum("Co", "cobalt", 20, ((_FIRST_DAY, 16), (_SECOND_DAY, 26))),
    MetalMinimum("Li", "lithium", 21, ((_FIRST_DAY, 6), (_SECOND_DAY, 12))),
    MetalMinimum("Ni", "nickel", 22, ((_FIRST_DAY, 6), (_SECOND_DAY, 15))),
    MetalMinimum("Pb", "lead", 23, ((_FIRST_DAY, 85),)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionLine:
    """One version in the list of versions."""

    passport_version_id: str
    state: VersionState
    day: str
    href: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatteryOnPage:
    """A single battery whose address was asked for: it ended, lives on elsewhere, or has the passport of its model."""

    serial_number: str
    address: str
    ceased_day: str | None = None
    successor: str | None = None
    model_address: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageState:
    """What a page shows that is not part of the signed passport.

    `statements` are what the issuer signed about its status, `status_list` where the browser finds the list they name.
    A state that is `issued` is one of which this page knows no more.
    """

    state: VersionState
    issuer: str
    host: str
    address: str
    versions: Sequence[VersionLine]
    keys: canonical_json.Json
    log_proof: str | None = None
    policy: str | None = None
    statements: Sequence[str] = ()
    status_list: str | None = None
    has_view: bool = True
    exported_day: str | None = None
    battery: BatteryOnPage | None = None


def build_page(passport: DisclosedPassport, wording: Wording, state: PageState) -> Mapping[str, Any]:
    """Everything that the page of a passport says, in the language of `wording`."""
    return _PageBuilder(passport, wording, state).build()


class PageWords:
    """The texts of pages in one language."""

    def __init__(self, wording: Wording) -> None:
        self._wording = wording

    def translate(self, name: str, **args: str) -> str:
        return self._wording.translate("page", PAGE_TEXTS[name], **args)

    def list_plain(self) -> dict[str, str]:
        """The texts without arguments, by name."""
        return {name: self.translate(name) for name, text in PAGE_TEXTS.items() if "{" not in text}

    def list_for_script(self) -> dict[str, canonical_json.Json]:
        """The texts that the script shows; where it puts something in, the name stands in braces."""
        texts: dict[str, canonical_json.Json] = {name: self.translate(name) for name in SCRIPT_WORDS}
        for name, argument in SCRIPT_ARGUMENTS.items():
            texts[name] = self.translate(name, **{argument: f"{{{argument}}}"})
        return texts

    def format_day(self, day: str) -> str:
        return format_day(self._wording.language, day)

    def format_number(self, number: str) -> str:
        return format_number(self._wording.language, number, decimals=2)


class _PageBuilder:
    def __init__(self, passport: DisclosedPassport, wording: Wording, state: PageState) -> None:
        self._passport = passport
        self._state = state
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
            "sections": [
                {**section, "rows": [self._add_value(row) for row in section["rows"]]} for section in sheet["sections"]
            ],
            "symbols": sheet["symbols"],
            "checks": sheet["checks"],
            "compliance": sheet["state"],
            "waived": sheet["waived"],
            "hidden": sheet["hidden"],
            "ask": self._build_ask(),
            "versions": [self._build_version(line) for line in state.versions],
            "codes": self._build_codes(),
            "hashes": sheet["hashes"],
            "ids": sheet["ids"],
            "evidence": self._build_evidence(),
            "has_view": state.has_view,
            "battery": "" if state.battery is None else words.translate("serial", number=state.battery.serial_number),
            "has_log_proof": state.log_proof is not None,
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
        for metal in MINIMUMS:
            field = self._find_share(metal)
            if field is None:
                continue
            share = field.value["value"] if isinstance(field.value, Mapping) else field.value
            yield {
                "symbol": metal.symbol,
                "label": self._rows[field.path]["label"],
                "value": self._rows[field.path]["values"][0]["text"],
                "width": _scale_share(str(share)),
                "marks": [
                    {
                        "at": _scale_share(str(least)),
                        "says": self._words.translate(
                            "minimum", share=self._words.format_number(str(least)), day=self._words.format_day(day)
                        ),
                    }
                    for day, least in metal.shares
                ],
            }

    def _find_share(self, metal: MetalMinimum) -> DisclosedField | None:
        """The field with the whole share of a metal; one that says nothing is not shown."""
        names = (f"recycled.{metal.name}_pct", f"recycled.{metal.name}.total", f"recycled.{metal.name}")
        fields = [self._fields[path] for path in self._rows if path.endswith(names)]
        return next((field for field in fields if _find_point(field) in {metal.point, None}), None)

    def _add_value(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**row, "signed": canonical_json.encode_typed(self._fields[row["path"]].value).decode()}

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
            "is_shown": line.passport_version_id == self._sheet["passport_version_id"],
        }

    def _build_codes(self) -> list[Mapping[str, str]]:
        """The code with the page's address, and BPC-QR-1, which pins this version."""
        second = self._sheet["codes"][-1]
        words = self._sheet["words"]
        address = self._state.address
        return [{"svg": draw_qr_svg(address), "alt": address, "caption": words["online"], "href": address}, second]

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
            "words": words.list_for_script(),
            "steps": {name: words.translate(f"step_{name}") for name in STEPS},
        }


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


def _scale_share(share: str) -> int:
    """A share in percent as a length on a bar, rounded down; shares are exact texts, such as `8.08`."""
    whole, _, fraction = str(share).partition(".")
    hundredths = int(whole) * 100 + int(f"{fraction}00"[:2])
    return min(BAR_WIDTH, max(0, hundredths * BAR_WIDTH // 10_000))
