"""The 71 data points of the Commission's guidance on battery passports (version 1.0 of 28 July 2026). A table.

Pure data. Names are shortened. `statuses` are those for electric vehicles, light means of transport and industrial
batteries, in this order: M mandatory, C conditional, O optional, X not to be filled because others say it, P pending
(not to be filled as of February 2027, because its format is not adopted). `access` follows Article 77(2) of Regulation
(EU) 2023/1542: Annex XIII point 1 is for everybody, point 2 for persons with a legitimate interest and authorities,
point 3 for authorities, point 4 for persons with a legitimate interest. The names are those of audiences in rules.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from bpc.core.facts.fact_table import SnapshotFact

Category: TypeAlias = Literal["ev", "lmt", "industrial"]
Status: TypeAlias = Literal["M", "C", "O", "X", "P"]

CATEGORIES: Final[tuple[Category, ...]] = ("ev", "lmt", "industrial")
STATUSES: Final[Mapping[Status, str]] = {
    "M": "mandatory",
    "C": "conditional",
    "O": "optional",
    "X": "not to be filled",
    "P": "not to be filled as of February 2027",
}
VERSION: Final = "BPC-DATA-POINTS-1"
GUIDANCE: Final = "European Commission, guidance on battery passport data points by category, 1.0, 28 July 2026"


_POINT_CODE: Final = re.compile("DP([0-9]{2})")


class DataPoint(NamedTuple):
    """A data point: its number, name and legal source, its status by category, who may see it, whether it changes."""

    number: int
    name: str
    source: str
    statuses: str
    access: tuple[str, ...]
    dynamic: bool = False

    def get_status(self, category: Category) -> Status:
        status: Status = self.statuses[CATEGORIES.index(category)]  # type: ignore[assignment]
        return status


_PUBLIC: Final = ("public",)
_BOTH: Final = ("authority", "interest")
_AUTHORITY: Final = ("authority",)
_INTEREST: Final = ("interest",)
POINTS: Final = (
    DataPoint(1, "Unique identifier", "Art. 77(3)", "MMM", _PUBLIC),
    DataPoint(2, "Responsible operator", "Art. 77(3)", "MMM", _PUBLIC),
    DataPoint(3, "Manufacturer's name or trade mark", "Annex VI A(1)", "MMM", _PUBLIC),
    DataPoint(4, "Manufacturer's postal address", "Annex VI A(1)", "MMM", _PUBLIC),
    DataPoint(5, "Manufacturer's web and e-mail address", "Annex VI A(1)", "OOO", _PUBLIC),
    DataPoint(6, "Battery category", "Annex VI A(2)", "MMM", _PUBLIC),
    DataPoint(7, "Model, batch, serial or product number", "Annex VI A(2)", "MMM", _PUBLIC),
    DataPoint(8, "Place of manufacture", "Annex VI A(3)", "MMM", _PUBLIC),
    DataPoint(9, "Date of manufacture", "Annex VI A(4)", "MMM", _PUBLIC),
    DataPoint(10, "Weight", "Annex VI A(5)", "MMM", _PUBLIC),
    DataPoint(11, "Capacity", "Annex VI A(6)", "MMM", _PUBLIC),
    DataPoint(12, "Chemistry", "Annex VI A(7)", "MMM", _PUBLIC),
    DataPoint(13, "Hazardous substances other than Hg, Cd, Pb", "Annex VI A(8)", "MMM", _PUBLIC),
    DataPoint(14, "Usable extinguishing agent", "Annex VI A(9)", "MMM", _PUBLIC),
    DataPoint(15, "Critical raw materials above 0.1 %", "Annex VI A(10)", "MMM", _PUBLIC),
    DataPoint(16, "Material composition (12, 13 and 15 together)", "Annex XIII 1(b)", "XXX", _PUBLIC),
    DataPoint(17, "Carbon footprint declaration", "Annex XIII 1(c)", "PPP", _PUBLIC),
    DataPoint(18, "Carbon footprint label", "Annex XIII 1(c)", "PPP", _PUBLIC),
    DataPoint(19, "Responsible sourcing", "Annex XIII 1(d)", "PPP", _PUBLIC),
    DataPoint(20, "Recycled cobalt", "Annex XIII 1(e)", "MMM", _PUBLIC),
    DataPoint(21, "Recycled lithium", "Annex XIII 1(e)", "MMM", _PUBLIC),
    DataPoint(22, "Recycled nickel", "Annex XIII 1(e)", "MMM", _PUBLIC),
    DataPoint(23, "Recycled lead", "Annex XIII 1(e)", "MMM", _PUBLIC),
    DataPoint(24, "Renewable content", "Annex XIII 1(f)", "MMM", _PUBLIC),
    DataPoint(25, "Rated capacity", "Annex XIII 1(g)", "XXX", _PUBLIC),
    DataPoint(26, "Minimum voltage", "Annex XIII 1(h)", "MMM", _PUBLIC),
    DataPoint(27, "Nominal voltage", "Annex XIII 1(h)", "MMM", _PUBLIC),
    DataPoint(28, "Maximum voltage", "Annex XIII 1(h)", "MMM", _PUBLIC),
    DataPoint(29, "Original power capability", "Annex XIII 1(i)", "MMM", _PUBLIC),
    DataPoint(30, "Power limits", "Annex XIII 1(i)", "MMM", _PUBLIC),
    DataPoint(31, "Expected lifetime in cycles", "Annex XIII 1(j)", "MMC", _PUBLIC),
    DataPoint(32, "Reference test of the lifetime in cycles", "Annex XIII 1(j)", "MMC", _PUBLIC),
    DataPoint(33, "Capacity threshold for exhaustion", "Annex XIII 1(k)", "MXX", _PUBLIC),
    DataPoint(34, "Temperatures withstood when not in use", "Annex XIII 1(l)", "MMM", _PUBLIC),
    DataPoint(35, "Commercial warranty for the calendar life", "Annex XIII 1(m)", "CCC", _PUBLIC),
    DataPoint(36, "Initial round trip efficiency", "Annex XIII 1(n)", "MMC", _PUBLIC),
    DataPoint(37, "Round trip efficiency at half of the cycle life", "Annex XIII 1(n)", "MMC", _PUBLIC),
    DataPoint(38, "Internal resistance of cell and pack", "Annex XIII 1(o)", "MMM", _PUBLIC),
    DataPoint(39, "C-rate of the cycle-life test", "Annex XIII 1(p)", "MMC", _PUBLIC),
    DataPoint(40, "Marking of Art. 13(4): separate collection", "Annex XIII 1(q)", "MMM", _PUBLIC),
    DataPoint(41, "Marking of Art. 13(5): cadmium and lead", "Annex XIII 1(q)", "CCC", _PUBLIC),
    DataPoint(42, "EU declaration of conformity", "Annex XIII 1(r)", "MMM", _PUBLIC),
    DataPoint(43, "Waste prevention and management", "Annex XIII 1(s)", "MMM", _PUBLIC),
    DataPoint(44, "Instructions for use", "Annex XIII 1(t)", "PPP", _PUBLIC),
    DataPoint(45, "Detailed composition", "Annex XIII 2(a)", "MMM", _BOTH),
    DataPoint(46, "Part numbers", "Annex XIII 2(b)", "MMM", _BOTH),
    DataPoint(47, "Sources of replacement parts", "Annex XIII 2(b)", "MMM", _BOTH),
    DataPoint(48, "Dismantling information", "Annex XIII 2(c)", "MMM", _BOTH),
    DataPoint(49, "Safety measures", "Annex XIII 2(d)", "MMM", _BOTH),
    DataPoint(50, "Test reports", "Annex XIII 3", "MMM", _AUTHORITY),
    DataPoint(51, "Rated capacity (state)", "Annex XIII 4(a)", "MMC", _INTEREST, dynamic=True),
    DataPoint(52, "Capacity fade", "Annex XIII 4(a)", "MMC", _INTEREST, dynamic=True),
    DataPoint(53, "Power", "Annex XIII 4(a)", "MMC", _INTEREST, dynamic=True),
    DataPoint(54, "Power fade", "Annex XIII 4(a)", "MMC", _INTEREST, dynamic=True),
    DataPoint(55, "Internal resistance", "Annex XIII 4(a)", "MMC", _INTEREST, dynamic=True),
    DataPoint(56, "Internal resistance increase", "Annex XIII 4(a)", "MMC", _INTEREST, dynamic=True),
    DataPoint(57, "Round trip efficiency", "Annex XIII 4(a)", "CCC", _INTEREST, dynamic=True),
    DataPoint(58, "Round trip efficiency fade", "Annex XIII 4(a)", "CCC", _INTEREST, dynamic=True),
    DataPoint(59, "Expected lifetime in cycles (state)", "Annex XIII 4(a)", "MMC", _INTEREST, dynamic=True),
    DataPoint(60, "Expected lifetime in years", "Annex XIII 4(a)", "MMC", _INTEREST, dynamic=True),
    DataPoint(61, "State of certified energy", "Annex XIII 4(b)", "MXX", _INTEREST, dynamic=True),
    DataPoint(62, "Remaining capacity", "Annex XIII 4(b)", "XMC", _INTEREST, dynamic=True),
    DataPoint(63, "Remaining power capability", "Annex XIII 4(b)", "XMC", _INTEREST, dynamic=True),
    DataPoint(64, "Remaining round trip efficiency", "Annex XIII 4(b)", "XMC", _INTEREST, dynamic=True),
    DataPoint(65, "Evolution of self-discharge", "Annex XIII 4(b)", "XMC", _INTEREST, dynamic=True),
    DataPoint(66, "Ohmic resistance", "Annex XIII 4(b)", "XMC", _INTEREST, dynamic=True),
    DataPoint(67, "Battery status", "Annex XIII 4(c)", "MMM", _INTEREST, dynamic=True),
    DataPoint(68, "Charging and discharging cycles", "Annex XIII 4(d)", "CCC", _INTEREST, dynamic=True),
    DataPoint(69, "Negative events", "Annex XIII 4(d)", "CCC", _INTEREST, dynamic=True),
    DataPoint(70, "Recorded temperatures", "Annex XIII 4(d)", "CCC", _INTEREST, dynamic=True),
    DataPoint(71, "Recorded state of charge", "Annex XIII 4(d)", "CCC", _INTEREST, dynamic=True),
)


def get_category(value: object) -> Category | None:
    """The category of the guidance that a battery of this kind has: stationary batteries are industrial ones."""
    return next((name for name in CATEGORIES if value == name), "industrial" if value == "stationary" else None)


def find_category(sku: str, facts: Iterable[SnapshotFact]) -> Category | None:
    """The category that the facts of a product name."""
    payloads = (fact.payload for fact in facts if (fact.fact_type, fact.fact_key) == ("Battery", f"battery:{sku}"))
    return next((category for each in payloads if (category := get_category(each.get("category")))), None)


def read_point_code(code: str) -> int | None:
    """The number of the data point that a code such as `DP12` names."""
    match = _POINT_CODE.fullmatch(code)
    return int(match[1]) if match and 1 <= int(match[1]) <= len(POINTS) else None


def find_coded_points(codes: Iterable[str]) -> set[int]:
    """The numbers of the points that codes name."""
    return {number for code in codes if (number := read_point_code(code)) is not None}


def find_exempt_points(entries: Iterable[Mapping[str, Any]]) -> set[int]:
    """The points that a requirement does not ask of this battery, such as the cobalt of one that has none."""
    return find_coded_points(
        entry["code"] for entry in entries if entry["status"] == "NOT_APPLICABLE" and "verdict" in entry
    )
